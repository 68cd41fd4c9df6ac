"""What a run asks of a node, read off its pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.core.fitting.pod_resources import count_amounts, read_ports
from fairlead.model.nodes import Amounts, Labels, Port, Term
from fairlead.model.plans import Manifest
from fairlead.model.quantities import NANOS, Quantity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# By scheduler, the endings of a GPU's resource that only the scheduler deals out: no node says that it has them.
UNLISTED: Mapping[str | None, tuple[str, ...]] = {"hami-scheduler": ("mem", "mem-percentage", "cores")}
CLAIM = "PersistentVolumeClaim"
OF_CONTAINER, REQUEST, LIMIT = "nvidia.com/container.", ".gpu-memory.request", ".gpu-memory.limit"
MEBIBYTE = 2**20


@dataclass(frozen=True)
class GpuShare:
    """A part of one GPU's memory: in MiB, or in percent. Who deals it out: `kai` or `hami`."""

    by: str
    memory: int = 0
    percent: int = 0


@dataclass(frozen=True)
class PodRequest:
    """What one pod needs: amounts, which nodes it may be on, and what must be near it or far from it."""

    amounts: Amounts
    node_selector: Labels = field(default_factory=dict)
    node_terms: tuple[Term, ...] | None = None  # of which one must hold; None: any node will do
    tolerations: tuple[Term, ...] = ()
    node_name: str = ""
    ports: tuple[Port, ...] = ()
    namespace: str = ""
    labels: Labels = field(default_factory=dict)
    pod_affinity: tuple[Term, ...] = ()
    pod_anti_affinity: tuple[Term, ...] = ()
    topology_spread: tuple[Term, ...] = ()
    claims: tuple[str, ...] = ()
    gpu_share: GpuShare | None = None
    count: int = 1  # the pods of the run, all of them like this one


def read_pod_request(manifests: Sequence[Manifest]) -> PodRequest:
    """What the pods of a run's main object ask for, each. Claims that the run makes itself wait for no other volume."""
    main = manifests[0]
    template, spec = main["spec"]["template"], main["spec"]
    meta = {**template.get("metadata", {}), "namespace": main["metadata"].get("namespace", "")}
    count = spec.get("replicas", spec.get("parallelism", 1))
    own = {manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == CLAIM}
    return read_pod(template["spec"], meta, count=count, own_claims=own)


def read_pod(
    spec: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    *,
    count: int = 1,
    own_claims: set[str] | frozenset[str] = frozenset(),
) -> PodRequest:
    """What a pod asks for."""
    meta = metadata or {}
    counted, scheduler = count_amounts(spec), spec.get("schedulerName")
    affinity = spec.get("affinity") or {}
    terms = ((affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}).get("nodeSelectorTerms")
    return PodRequest(
        amounts=leave_out_dealt(counted, scheduler),
        node_selector=spec.get("nodeSelector") or {},
        node_terms=None if terms is None else tuple(terms),
        tolerations=tuple(spec.get("tolerations") or ()),
        node_name=spec.get("nodeName") or "",
        ports=read_ports(spec),
        namespace=meta.get("namespace") or "",
        labels=meta.get("labels") or {},
        pod_affinity=read_terms(affinity, "podAffinity"),
        pod_anti_affinity=read_terms(affinity, "podAntiAffinity"),
        topology_spread=tuple(
            said
            for said in spec.get("topologySpreadConstraints") or ()
            if said.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        ),
        claims=tuple(name for name in read_claims(spec, meta) if name not in own_claims),
        gpu_share=_read_gpu_share(counted, meta.get("annotations") or {}, scheduler),
        count=count,
    )


def leave_out_dealt(counted: Amounts, scheduler: str | None) -> Amounts:
    """Amounts without those that only the pod's scheduler deals out."""
    dealt = {f"{name}{ending}" for name in counted for ending in UNLISTED.get(scheduler, ())}
    return {name: amount for name, amount in counted.items() if name not in dealt} if dealt else counted


def read_terms(affinity: Mapping[str, Any], part: str) -> tuple[Term, ...]:
    """The terms about other pods that must hold."""
    return tuple((affinity.get(part) or {}).get(REQUIRED) or ())


def read_claims(spec: Mapping[str, Any], meta: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the claims that a pod mounts."""
    found = []
    for volume in spec.get("volumes") or ():
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            found.append(claim["claimName"])
        elif "ephemeral" in volume and meta.get("name"):
            found.append(f"{meta['name']}-{volume['name']}")
    return tuple(found)


def read_part(annotations: Labels) -> tuple[int, int]:
    """The MiB, or else the percent, that a pod asked KAI for. A container's own memory goes before the pod's."""
    for ending in (REQUEST, LIMIT):
        for key, text in annotations.items():
            if key.startswith(OF_CONTAINER) and key.endswith(ending):
                return Quantity.parse(text).nanos // NANOS // MEBIBYTE, 0
    if text := annotations.get("gpu-fraction", ""):
        fraction = float(text)
        # By millionths, since 0.28 * 100 is a little over 28; what is left of a percent counts as one.
        return 0, -(-round(fraction * 10**6) // 10**4) if 0 < fraction < 1 else 0
    return max(int(annotations.get("gpu-memory") or 0), 0), 0


def _read_gpu_share(counted: Amounts, annotations: Labels, scheduler: str | None) -> GpuShare | None:
    """A part of a GPU, as each of the schedulers that deal them out is asked for one."""
    if scheduler == "hami-scheduler":
        listed = leave_out_dealt(counted, scheduler)
        dealt = {name: amount // NANOS for name, amount in counted.items() if name not in listed}
        memory = next((amount for name, amount in dealt.items() if name.endswith("mem")), 0)
        percent = next((amount for name, amount in dealt.items() if name.endswith("mem-percentage")), 0)
        return GpuShare("hami", memory, percent) if memory or percent else None
    try:
        memory, percent = read_part(annotations)
    except ValueError:  # what KAI could not read either
        return None
    return GpuShare("kai", memory, percent) if memory or percent else None
