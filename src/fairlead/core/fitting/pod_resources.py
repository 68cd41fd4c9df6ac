"""What a pod takes of its node, counted as kube-scheduler counts it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead.model.nodes import Amounts, Port
from fairlead.model.quantities import MILLICORE, NANOS, Quantity

PODS = "pods"
OF_PODS = ("cpu", "memory")  # what a pod can ask for as a whole, beside huge pages
STEPS = {"cpu": MILLICORE}  # the smallest part that is counted; of everything else it is one
INFEASIBLE = "Infeasible"

JSON = Mapping[str, Any]


def count_amounts(spec: JSON, status: JSON | None = None) -> Amounts:
    """What a pod takes: its containers together, or those that run before them where that is more.

    With a status, what its containers have, where that is more than they asked for since.
    """
    had = _find_had(status or {})
    given_up = any(
        said["type"] == "PodResizePending" and said.get("reason") == INFEASIBLE
        for said in (status or {}).get("conditions") or ()
    )
    together = _add(_read_container(container, had, given_up) for container in spec["containers"])
    beside: dict[str, int] = {}
    before: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":  # it goes on beside them
            own = _read_container(container, had, given_up)
            together, beside = _add((together, own)), _add((beside, own))
            before = _most((before, beside))
        else:
            before = _most((before, _add((beside, _read_container(container, {}, given_up)))))
    together = _most((together, before))
    whole = spec.get("resources") or {}
    unasked = {name: text for name, text in (whole.get("limits") or {}).items() if name not in together}
    for name, text in (unasked | dict(whole.get("requests") or {})).items():
        if name in OF_PODS or name.startswith("hugepages-"):
            together[name] = _parse(text)
    counted = _add((together, read_amounts(spec.get("overhead") or {})))
    return {**round_up(counted), PODS: NANOS}


def read_amounts(texts: Mapping[str, Any]) -> dict[str, int]:
    """Amounts as Kubernetes writes them."""
    return {name: _parse(text) for name, text in texts.items()}


def round_up(amounts: Amounts) -> dict[str, int]:
    """Amounts in the smallest parts that are counted."""
    return {name: -(-amount // (step := STEPS.get(name, NANOS))) * step for name, amount in amounts.items()}


def read_ports(spec: JSON) -> tuple[Port, ...]:
    """The ports of its node that a pod asks for; those of a container that ends before the others are none.

    One that is in the network of its node has all of its ports there.
    """
    beside = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    meant = "containerPort" if spec.get("hostNetwork") else "hostPort"
    return tuple(
        Port(port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", number)
        for container in (*spec["containers"], *beside)
        for port in container.get("ports") or ()
        if (number := port.get("hostPort") or port.get(meant))
    )


def _find_had(status: JSON) -> dict[str, list[Amounts]]:
    """By container, what it was given and what it has."""
    statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return {
        said["name"]: [
            read_amounts((said["resources"] or {}).get("requests") or {}),
            read_amounts(said.get("allocatedResources") or {}),
        ]
        for said in statuses
        if said.get("resources") is not None
    }


def _read_container(container: JSON, had: Mapping[str, list[Amounts]], given_up: bool) -> dict[str, int]:
    """Who says a limit and asks for nothing has asked for the limit: the server fills that in."""
    resources = container.get("resources") or {}
    asked = read_amounts(dict(resources.get("limits") or {}) | dict(resources.get("requests") or {}))
    has = had.get(container.get("name", ""))
    if has is None:
        return asked
    return _most(has if given_up else (asked, *has))


def _add(parts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _most(parts: Sequence[Amounts]) -> dict[str, int]:
    most: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            most[name] = max(most.get(name, amount), amount)
    return most


def _parse(text: Any) -> int:
    """The server keeps nothing finer than a thousandth, and rounds each amount up to that."""
    return -(-Quantity.parse(str(text)).nanos // MILLICORE) * MILLICORE
