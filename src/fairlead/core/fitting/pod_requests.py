"""The requirements that a pod has for its node: resources, affinity, tolerations, volumes and GPU shares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.core.fitting.pod_resources import count_amounts, read_ports
from fairlead.model.nodes import Amounts, HostPort, Labels, Term
from fairlead.model.plans import Manifest
from fairlead.model.quantities import NANOS, Quantity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Suffixes of GPU resources that only the scheduler accounts for, by scheduler. Nodes do not list them as allocatable.
UNLISTED: Mapping[str | None, tuple[str, ...]] = {"hami-scheduler": ("mem", "mem-percentage", "cores")}
CLAIM = "PersistentVolumeClaim"
CONTAINER_PREFIX, REQUEST, LIMIT = "nvidia.com/container.", ".gpu-memory.request", ".gpu-memory.limit"
MEBIBYTE = 2**20


@dataclass(frozen=True)
class GpuShare:
    """A fraction of one GPU's memory, in MiB or percent. `provider` is `kai` or `hami`."""

    provider: str
    memory: int = 0
    percent: int = 0


@dataclass(frozen=True)
class PodRequest:
    """The requirements that one pod has for its node."""

    amounts: Amounts
    node_selector: Labels = field(default_factory=dict)
    node_terms: tuple[Term, ...] | None = None  # one of them must match; None: every node matches
    tolerations: tuple[Term, ...] = ()
    node_name: str = ""
    ports: tuple[HostPort, ...] = ()
    namespace: str = ""
    labels: Labels = field(default_factory=dict)
    pod_affinity: tuple[Term, ...] = ()
    pod_anti_affinity: tuple[Term, ...] = ()
    topology_spread: tuple[Term, ...] = ()
    claims: tuple[str, ...] = ()
    gpu_share: GpuShare | None = None
    count: int = 1  # number of identical pods in the run


def read_pod_request(manifests: Sequence[Manifest]) -> PodRequest:
    """The request of each pod in a run's main object, without claims that the run itself creates."""
    main = manifests[0]
    template, spec = main["spec"]["template"], main["spec"]
    meta = {**template.get("metadata", {}), "namespace": main["metadata"].get("namespace", "")}
    count = spec.get("replicas", spec.get("parallelism", 1))
    # Claims that the run creates do not exist before it starts, so a check would report them as missing.
    own = {manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == CLAIM}
    return read_pod(template["spec"], meta, count=count, own_claims=own)


def read_pod(
    spec: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    *,
    count: int = 1,
    own_claims: set[str] | frozenset[str] = frozenset(),
) -> PodRequest:
    """The request of a pod."""
    meta = metadata or {}
    counted, scheduler = count_amounts(spec), spec.get("schedulerName")
    affinity = spec.get("affinity") or {}
    terms = ((affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}).get("nodeSelectorTerms")
    return PodRequest(
        amounts=without_unlisted(counted, scheduler),
        node_selector=spec.get("nodeSelector") or {},
        node_terms=None if terms is None else tuple(terms),
        tolerations=tuple(spec.get("tolerations") or ()),
        node_name=spec.get("nodeName") or "",
        ports=read_ports(spec),
        namespace=meta.get("namespace") or "",
        labels=meta.get("labels") or {},
        pod_affinity=read_terms(affinity, "podAffinity"),
        pod_anti_affinity=read_terms(affinity, "podAntiAffinity"),
        # Only hard constraints are read. Like preferred affinity, ScheduleAnyway does not exclude any node.
        topology_spread=tuple(
            constraint
            for constraint in spec.get("topologySpreadConstraints") or ()
            if constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        ),
        claims=tuple(name for name in read_claims(spec, meta) if name not in own_claims),
        gpu_share=_read_gpu_share(counted, meta.get("annotations") or {}, scheduler),
        count=count,
    )


def without_unlisted(counted: Amounts, scheduler: str | None) -> Amounts:
    """Amounts without those that only the pod's scheduler accounts for."""
    unlisted = {f"{name}{suffix}" for name in counted for suffix in UNLISTED.get(scheduler, ())}
    return {name: amount for name, amount in counted.items() if name not in unlisted} if unlisted else counted


def read_terms(affinity: Mapping[str, Any], part: str) -> tuple[Term, ...]:
    """The required terms of pod affinity or anti-affinity."""
    return tuple((affinity.get(part) or {}).get(REQUIRED) or ())


def read_claims(spec: Mapping[str, Any], meta: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the PersistentVolumeClaims that a pod mounts, including generic ephemeral volumes."""
    names = []
    for volume in spec.get("volumes") or ():
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            names.append(claim["claimName"])
        elif "ephemeral" in volume and meta.get("name"):
            # Kubernetes names the claim after the pod. Pods in a plan have no names yet, and neither do their claims.
            names.append(f"{meta['name']}-{volume['name']}")
    return tuple(names)


def read_kai_share(annotations: Labels) -> tuple[int, int]:
    """The GPU share a pod requests from KAI, in MiB and percent. Container annotations override pod annotations."""
    for suffix in (REQUEST, LIMIT):
        for key, text in annotations.items():
            if key.startswith(CONTAINER_PREFIX) and key.endswith(suffix):
                return Quantity.parse(text).nanos // NANOS // MEBIBYTE, 0
    if text := annotations.get("gpu-fraction", ""):
        fraction = float(text)
        # Rounds up to a whole percent. Uses millionths, because as a float 0.28 * 100 is slightly more than 28.
        return 0, -(-round(fraction * 10**6) // 10**4) if 0 < fraction < 1 else 0
    return max(int(annotations.get("gpu-memory") or 0), 0), 0


def _read_gpu_share(counted: Amounts, annotations: Labels, scheduler: str | None) -> GpuShare | None:
    if scheduler == "hami-scheduler":
        # HAMi: the share is the amount of a separate resource, in addition to the GPU resource itself.
        listed = without_unlisted(counted, scheduler)
        unlisted = {name: amount // NANOS for name, amount in counted.items() if name not in listed}
        memory = next((amount for name, amount in unlisted.items() if name.endswith("mem")), 0)
        percent = next((amount for name, amount in unlisted.items() if name.endswith("mem-percentage")), 0)
        return GpuShare("hami", memory, percent) if memory or percent else None
    try:
        memory, percent = read_kai_share(annotations)
    except ValueError:  # KAI cannot parse these annotations either
        return None
    return GpuShare("kai", memory, percent) if memory or percent else None
