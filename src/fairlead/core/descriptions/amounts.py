"""Cores, memory, disk and other amounts: what is set aside for a pod, how far it may go, and what ends it there."""

from collections.abc import Iterator
from decimal import Decimal

from fairlead.core.descriptions.facts import Facts, describe_source, is_set
from fairlead.model.plans import Layer, Sentence, Setting
from fairlead.model.quantities import BINARY_SUFFIXES, MILLICORE, NANOS, Quantity

EXTENDED = "resources.extended"


def describe_cpu(facts: Facts) -> Iterator[Sentence]:
    """Cores: who wants more than the limit is slowed down, and never killed."""
    path = "resources.cpu"
    reserved, limit = _amount(facts, "cpu")
    if f"{path}.requests" not in facts.settings:
        yield from describe_open(facts, path, "CPU cores are", "no cores are set aside")
        return
    if limit is not None and facts.is_local and limit.nanos % NANOS:
        limit = limit.rounded_up()
        yield Sentence(f"{path}.limits", "note", "The cluster gives whole cores: a part of one counts as one.")
    aside = f"At least {_cores(reserved)} set aside for each pod" if reserved else "No cores are set aside for a pod"
    if limit is None:
        yield Sentence(path, "gets", f"{aside}; it may use every core that is free on its node (no limit).")
    elif limit == reserved:
        yield Sentence(path, "gets", f"Exactly {_cores(limit)} set aside for each pod; it gets no more.")
    else:
        yield Sentence(path, "gets", f"{aside}; it may use up to {_number(limit)} while its node has them free.")
    if reserved is None:
        yield Sentence(path, "note", "While others on its node need the cores, it gets next to nothing.")
    elif limit is not None:
        yield Sentence(f"{path}.limits", "note", "A pod that wants more than its limit is slowed down, not killed.")
    yield from _sources(facts, "cpu")


def describe_memory(facts: Facts) -> Iterator[Sentence]:
    """Memory: over the limit a pod is killed, and over its request it may be."""
    path = "resources.mem"
    reserved, limit = _amount(facts, "mem")
    if f"{path}.requests" not in facts.settings:
        yield from describe_open(facts, path, "Memory is", "no memory is set aside")
        return
    told = _describe_bytes(reserved, limit, ("memory", "memory"), "free on its node", "its node has that free")
    yield Sentence(path, "gets", told)
    if limit is not None:
        yield Sentence(f"{path}.limits", "risk", f"Over {size(limit)} the pod is killed (out of memory).")
    if limit is None or limit != reserved:
        yield Sentence(path, "risk", _describe_pressure(reserved, limit))
    yield from _sources(facts, "mem")


def describe_disk(facts: Facts) -> Iterator[Sentence]:
    """Disk of the node, for what the program writes outside of volumes."""
    path = "resources.disk"
    reserved, limit = _amount(facts, "disk")
    if f"{path}.requests" not in facts.settings:
        return
    told = _describe_bytes(reserved, limit, ("disk", "its node's disk"), "free there", "there is room")
    yield Sentence(path, "gets", told)
    if limit is not None:
        yield Sentence(f"{path}.limits", "risk", f"A pod that writes more than {size(limit)} is evicted: its run ends.")
    if (limit is None or limit != reserved) and not facts.is_local:
        over = f"Over {size(reserved)} it" if reserved else "It"
        yield Sentence(path, "risk", f"{over} may be evicted when the disk of its node is nearly full.")
    yield from _sources(facts, "disk")


def describe_shared_memory(facts: Facts) -> Iterator[Sentence]:
    """What /dev/shm may take, which counts as memory."""
    path = "resources.shm"
    shm, (_, limit) = facts.value(path), _amount(facts, "mem")
    if shm is None:
        return
    if shm is False:
        yield Sentence(path, "note", "/dev/shm keeps its default size.")
    else:
        bound = size(shm) if isinstance(shm, Quantity) else "the memory of its node"
        if shm is True and limit is not None:
            bound = f"the memory limit, {size(limit)}"
        yield Sentence(path, "gets", f"/dev/shm may grow up to {bound}; what is in it counts as memory of the pod.")
    yield from describe_source(facts, path, facts.settings.get(path))


def describe_extended(facts: Facts) -> Iterator[Sentence]:
    """Other resources of nodes, by name."""
    for name, setting in facts.below(EXTENDED).items():
        number = str(setting.value) if setting.value.nanos else "none"
        yield Sentence(setting.path, "gets", f"Each pod gets {number} of {name}.")
        yield from describe_source(facts, setting.path, setting)


def describe_open(facts: Facts, path: str, subject: str, otherwise: str) -> Iterator[Sentence]:
    """What nobody says anything about."""
    locked = facts.locked_by("resources", path, f"{path}.requests", f"{path}.devices")
    if locked is None:
        yield Sentence(path, "note", f"{subject} left to whoever submits the run.")
    else:
        yield Sentence(path, "note", f"Nothing is said here, and the {locked} lets no run say it: {otherwise}.")


def size(amount: Quantity) -> str:
    """An amount of bytes as people read it: what has no suffix, roughly in the largest that fits."""
    text = str(amount)
    if not text.isdigit():
        return text
    units, suffix = amount.whole, ""
    for name, power in BINARY_SUFFIXES.items():
        if amount.whole >= 1024**power:
            units, suffix = amount.whole * 10 // 1024**power, name
    if not suffix:
        return f"{units} byte{'' if units == 1 else 's'}"
    return f"about {units // 10}.{units % 10}{suffix}"


def _amount(facts: Facts, name: str) -> tuple[Quantity | None, Quantity | None]:
    """What is set aside of a resource, None where nothing is; and its limit, None where there is none."""
    reserved, limit = facts.value(f"resources.{name}.requests"), facts.value(f"resources.{name}.limits")
    bounded = limit if isinstance(limit, Quantity) else None
    return (reserved if reserved is not None and reserved.nanos else None), bounded


def _describe_bytes(
    reserved: Quantity | None, limit: Quantity | None, names: tuple[str, str], free: str, room: str
) -> str:
    """What is set aside, and how far beyond that a pod may go; `names` are those of none of it and of some of it."""
    none, some = names
    if limit is not None and limit == reserved:
        return f"Exactly {size(limit)} of {some} is set aside for each pod."
    aside = f"At least {size(reserved)} of {some}" if reserved else f"No {none}"
    most = f"all that is {free} (no limit)" if limit is None else f"up to {size(limit)} while {room}"
    return f"{aside} is set aside for {'each' if reserved else 'a'} pod; it may use {most}."


def _describe_pressure(reserved: Quantity | None, limit: Quantity | None) -> str:
    when = "it may be killed when its node runs out of memory"
    if reserved is None:
        return "It is among the first to be killed when its node runs out of memory."
    if limit is None:
        return f"Over {size(reserved)} {when}; the further over, the likelier."
    return f"Between {size(reserved)} and {size(limit)} {when}; the further over {size(reserved)}, the likelier."


def _sources(facts: Facts, name: str) -> Iterator[Sentence]:
    """Who set request and limit, and how one followed from the other."""
    path = f"resources.{name}"
    requests, limits = facts.settings[f"{path}.requests"], facts.settings[f"{path}.limits"]
    yield from describe_source(facts, path, requests)
    for setting in (requests, limits):
        if setting.reason is not None:
            whose = f" ({setting.source})" if _is_computed_by_policy(setting, requests) else ""
            yield Sentence(setting.path, "note", f"{setting.reason[:1].upper()}{setting.reason[1:]}{whose}.")


def _is_computed_by_policy(setting: Setting, requests: Setting) -> bool:
    return setting.source.layer is Layer.POLICY and setting is not requests and is_set(setting)


def _number(cores: Quantity) -> str:
    return f"{Decimal(cores.nanos // MILLICORE) / 1000:f}"


def _cores(amount: Quantity) -> str:
    return f"{_number(amount)} {'core is' if amount.nanos == NANOS else 'cores are'}"
