"""Descriptions of CPU, memory, disk and other amounts: the reservation, the limit, and what happens above it."""

import re
from collections.abc import Iterator
from decimal import Decimal

from fairlead.core.descriptions.facts import Facts, describe_source, is_set
from fairlead.model.plans import Layer, Sentence, Setting
from fairlead.model.quantities import BINARY_SUFFIXES, MILLICORE, NANOS, Quantity

EXTENDED = "resources.extended"


def describe_cpu(facts: Facts) -> Iterator[Sentence]:
    """CPU: a pod is throttled above its limit, but not killed."""
    path = "resources.cpu"
    reserved, limit = _amount(facts, "cpu")
    if f"{path}.requests" not in facts.settings:
        yield from describe_unset(facts, path, "CPU is", "no cores are reserved")
        return
    # The local executor enforces CPU limits by pinning a process to whole cores (sched_setaffinity).
    if limit is not None and facts.is_local and limit.nanos % NANOS:
        limit = limit.rounded_up()
        yield Sentence(f"{path}.limits", "note", "The cluster rounds CPU limits up to whole cores.")
    amount = f"{_cores(reserved)} reserved per pod" if reserved else "No cores reserved"
    if limit is None:
        yield Sentence(path, "gets", f"{amount}, more if free on its node (no limit).")
    elif limit == reserved:
        yield Sentence(path, "gets", f"Exactly {_cores(limit)} per pod.")
    else:
        yield Sentence(path, "gets", f"{amount}, up to {_number(limit)} if free on its node.")
    if reserved is None:
        # The kernel divides CPU time in proportion to requests, and a pod without a request gets the smallest share.
        yield Sentence(path, "note", "May get almost no CPU while other pods on its node need it.")
    elif limit is not None:
        yield Sentence(f"{path}.limits", "note", f"Throttled above {_cores(limit)}, not killed.")
    yield from _describe_sources(facts, "cpu")


def describe_memory(facts: Facts) -> Iterator[Sentence]:
    """Memory: a pod is killed above its limit, and may be killed above its request."""
    path = "resources.mem"
    reserved, limit = _amount(facts, "mem")
    if f"{path}.requests" not in facts.settings:
        yield from describe_unset(facts, path, "Memory is", "no memory is reserved")
        return
    yield Sentence(path, "gets", _describe_bytes(reserved, limit, "memory"))
    if limit is not None:
        yield Sentence(f"{path}.limits", "risk", f"Killed above {format_size(limit)} (out of memory).")
    # If a node runs out of memory, pods that cannot exceed their requests are among the last to be killed.
    if limit is None or limit != reserved:
        yield Sentence(path, "risk", _describe_memory_pressure(reserved))
    yield from _describe_sources(facts, "mem")


def describe_disk(facts: Facts) -> Iterator[Sentence]:
    """The node's ephemeral disk, for files outside volumes."""
    path = "resources.disk"
    reserved, limit = _amount(facts, "disk")
    if f"{path}.requests" not in facts.settings:
        return
    yield Sentence(path, "gets", _describe_bytes(reserved, limit, "disk"))
    if limit is not None:
        yield Sentence(f"{path}.limits", "risk", f"Evicted above {format_size(limit)} of disk, which ends the run.")
    # The kubelet evicts pods when a node's disk fills up. The local executor only enforces limits.
    if (limit is None or limit != reserved) and not facts.is_local:
        grows = f"; the risk grows with usage above {format_size(reserved)}" if reserved else ""
        yield Sentence(path, "risk", f"May be evicted if its node's disk is nearly full{grows}.")
    yield from _describe_sources(facts, "disk")


def describe_shared_memory(facts: Facts) -> Iterator[Sentence]:
    """The size of /dev/shm, which counts as memory."""
    path = "resources.shm"
    shm, (_, limit) = facts.value(path), _amount(facts, "mem")
    if shm is None:
        return
    if shm is False:
        yield Sentence(path, "note", "/dev/shm has its default size.")
    else:
        maximum = format_size(shm) if isinstance(shm, Quantity) else "the memory of its node"
        if shm is True and limit is not None:
            maximum = f"the memory limit of {format_size(limit)}"
        yield Sentence(path, "gets", f"/dev/shm can use up to {maximum}; it counts toward the pod's memory.")
    yield from describe_source(facts, path, facts.settings.get(path))


def describe_extended(facts: Facts) -> Iterator[Sentence]:
    """Extended resources by name."""
    for name, setting in facts.section(EXTENDED).items():
        amount = f"{setting.value} {name} per pod" if setting.value.nanos else f"No {name}"
        yield Sentence(setting.path, "gets", f"{amount}.")
        yield from describe_source(facts, setting.path, setting)


def describe_unset(facts: Facts, path: str, subject: str, consequence: str) -> Iterator[Sentence]:
    """A resource without a value: users set it in their requests, unless a policy locks it."""
    locked = facts.locked_by("resources", path, f"{path}.requests", f"{path}.devices")
    if locked is None:
        yield Sentence(path, "note", f"{subject} set in the request.")
    else:
        yield Sentence(path, "note", f"{subject} locked by the {locked}: {consequence}.")


def format_size(amount: Quantity) -> str:
    """Format a number of bytes for a sentence, such as 3 GiB. Amounts without a suffix are rounded."""
    # A size with a suffix is exact, so it needs no rounding: 1500Mi is 1500 MiB.
    if match := re.fullmatch(r"([0-9]+)([A-Za-z]i?)B?", str(amount)):
        return f"{match[1]} {match[2]}B"
    units, suffix = amount.units, ""
    for name, power in BINARY_SUFFIXES.items():
        if amount.units >= 1024**power:
            units, suffix = amount.units * 10 // 1024**power, name
    if not suffix:
        return f"{units} byte{'' if units == 1 else 's'}"
    return f"about {units // 10}.{units % 10} {suffix}B"


def _amount(facts: Facts, name: str) -> tuple[Quantity | None, Quantity | None]:
    """The reserved amount and the limit of a resource, each None if there is none."""
    reserved, limit = facts.value(f"resources.{name}.requests"), facts.value(f"resources.{name}.limits")
    # `unlimited` and a missing limit mean the same for the pod. A request of 0 reserves nothing.
    finite = limit if isinstance(limit, Quantity) else None
    return (reserved if reserved is not None and reserved.nanos else None), finite


def _describe_bytes(reserved: Quantity | None, limit: Quantity | None, noun: str) -> str:
    if limit is not None and limit == reserved:
        return f"Exactly {format_size(limit)} of {noun} per pod."
    amount = f"{_capitalize(format_size(reserved))} of {noun} reserved per pod" if reserved else f"No {noun} reserved"
    if limit is None:
        return f"{amount}, more if free on its node (no limit)."
    return f"{amount}, up to {format_size(limit)} if free on its node."


def _describe_memory_pressure(reserved: Quantity | None) -> str:
    if reserved is None:
        # The kubelet derives oom_score_adj from the share of the node's memory that a pod requests. Without a request,
        # it is close to the maximum of 1000.
        return "Among the first to be killed if its node runs out of memory."
    grows = f"the risk grows with usage above {format_size(reserved)}"
    return f"May be killed if its node runs out of memory; {grows}."


def _describe_sources(facts: Facts, name: str) -> Iterator[Sentence]:
    """Notes on where the request and the limit come from, and how a default was computed."""
    path = f"resources.{name}"
    requests, limits = facts.settings[f"{path}.requests"], facts.settings[f"{path}.limits"]
    yield from describe_source(facts, path, requests)
    for setting in (requests, limits):
        if setting.reason is not None:
            source = f" ({setting.source})" if _is_computed_by_policy(setting, requests) else ""
            yield Sentence(setting.path, "note", f"{_capitalize(setting.reason)}{source}.")


def _is_computed_by_policy(setting: Setting, requests: Setting) -> bool:
    return setting.source.layer is Layer.POLICY and setting is not requests and is_set(setting)


def _capitalize(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _number(cores: Quantity) -> str:
    return f"{Decimal(cores.nanos // MILLICORE) / 1000:f}"


def _cores(amount: Quantity) -> str:
    return f"{_number(amount)} {'core' if amount.nanos == NANOS else 'cores'}"
