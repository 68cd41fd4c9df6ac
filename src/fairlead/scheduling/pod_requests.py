"""Reads from Kubernetes JSON what a pod requires from its node: resources, affinity, volumes and GPU shares."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead.model.nodes import Amounts, GpuShare, HostPort, Labels, PodRequest, Term
from fairlead.model.plans import Manifest
from fairlead.model.quantities import MILLICORE, NANOS, Quantity

PODS = "pods"
POD_LEVEL = ("cpu", "memory")  # allowed in the pod's own `resources`, in addition to huge pages
STEPS = {"cpu": MILLICORE}  # smallest unit that is counted; whole units for every other resource
INFEASIBLE = "Infeasible"  # the kubelet rejected a resize because the node is too small

JSON = Mapping[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Suffixes of GPU resources that only the scheduler accounts for, by scheduler. Nodes do not list them as allocatable.
UNLISTED: Mapping[str | None, tuple[str, ...]] = {"hami-scheduler": ("mem", "mem-percentage", "cores")}
CLAIM = "PersistentVolumeClaim"
CONTAINER_PREFIX, REQUEST, LIMIT = "nvidia.com/container.", ".gpu-memory.request", ".gpu-memory.limit"
MEBIBYTE = 2**20


def count_amounts(spec: JSON, status: JSON | None = None) -> Amounts:
    """The effective request of a pod: the sum over its containers, or the largest init step if that is larger.

    If a status is given, resources that containers still have during an in-place resize also count.
    """
    allocated = _read_allocated(status or {})
    infeasible = any(
        condition["type"] == "PodResizePending" and condition.get("reason") == INFEASIBLE
        for condition in (status or {}).get("conditions") or ()
    )
    total = _add(_read_container(container, allocated, infeasible) for container in spec["containers"])
    # Init containers run one after another, so only the largest counts, plus any sidecars that started before it.
    sidecars: dict[str, int] = {}
    largest_init: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":  # a sidecar keeps running alongside the containers
            own = _read_container(container, allocated, infeasible)
            total, sidecars = _add((total, own)), _add((sidecars, own))
            largest_init = _max((largest_init, sidecars))
        else:
            # Kubernetes cannot resize init containers in place, so the status does not matter.
            largest_init = _max((largest_init, _add((sidecars, _read_container(container, {}, infeasible)))))
    total = _max((total, largest_init))
    pod_level = spec.get("resources") or {}
    # The API server uses a pod-level limit as the request only if no container requests the resource.
    limits_only = {name: text for name, text in (pod_level.get("limits") or {}).items() if name not in total}
    for name, text in (limits_only | dict(pod_level.get("requests") or {})).items():
        if name in POD_LEVEL or name.startswith("hugepages-"):
            total[name] = _parse(text)
    # A runtime class may add overhead, for example for a sandbox's virtual machine.
    counted = _add((total, read_amounts(spec.get("overhead") or {})))
    # The kubelet limits the number of pods, so the pod itself counts as a resource.
    return {**round_up(counted), PODS: NANOS}


def read_amounts(texts: Mapping[str, Any]) -> dict[str, int]:
    """Parse a Kubernetes resource list."""
    return {name: _parse(text) for name, text in texts.items()}


def round_up(amounts: Amounts) -> dict[str, int]:
    """Round amounts up to the smallest units that are counted."""
    return {name: -(-amount // (step := STEPS.get(name, NANOS))) * step for name, amount in amounts.items()}


def read_ports(spec: JSON) -> tuple[HostPort, ...]:
    """The host ports of a pod. If it uses the host network, they include every container port.

    Init containers other than sidecars do not count.
    """
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    field = "containerPort" if spec.get("hostNetwork") else "hostPort"
    return tuple(
        HostPort(port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", number)
        for container in (*spec["containers"], *sidecars)
        for port in container.get("ports") or ()
        if (number := port.get("hostPort") or port.get(field))
    )


def _read_allocated(status: JSON) -> dict[str, list[Amounts]]:
    """The actuated requests and the allocated resources of each container."""
    statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return {
        container["name"]: [
            read_amounts((container["resources"] or {}).get("requests") or {}),
            read_amounts(container.get("allocatedResources") or {}),
        ]
        for container in statuses
        if container.get("resources") is not None
    }


def _read_container(container: JSON, allocated: Mapping[str, list[Amounts]], infeasible: bool) -> dict[str, int]:
    resources = container.get("resources") or {}
    # The API server sets a missing request to the limit.
    requested = read_amounts(dict(resources.get("limits") or {}) | dict(resources.get("requests") or {}))
    current = allocated.get(container.get("name", ""))
    if current is None:
        return requested
    # An infeasible resize never happens, so the new request does not count.
    return _max(current if infeasible else (requested, *current))


def _add(parts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _max(parts: Sequence[Amounts]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            largest[name] = max(largest.get(name, amount), amount)
    return largest


def _parse(text: Any) -> int:
    # The API server rounds every quantity up to a multiple of 0.001.
    return -(-Quantity.parse(str(text)).nanos // MILLICORE) * MILLICORE


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
