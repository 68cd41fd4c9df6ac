"""A pod's resource requests and host ports, counted as in kube-scheduler."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead.model.nodes import Amounts, HostPort
from fairlead.model.quantities import MILLICORE, NANOS, Quantity

PODS = "pods"
POD_LEVEL = ("cpu", "memory")  # allowed in the pod's own `resources`, in addition to huge pages
STEPS = {"cpu": MILLICORE}  # smallest unit that is counted; whole units for every other resource
INFEASIBLE = "Infeasible"  # the kubelet rejected a resize because the node is too small

JSON = Mapping[str, Any]


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
