"""How far the memory of a run may grow after it ran out of it: as was asked for, and as rules and quotas allow."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from fairlead.core.drafts import Draft, Snapshot
from fairlead.core.policies import merging
from fairlead.core.policies.merging import EffectiveRule
from fairlead.core.resolution import Settings
from fairlead.model.plans import Layer, PlanWarning, Setting, SourcedValue
from fairlead.model.quantities import NANOS, Quantity, QuantityFormat

MEBIBYTE = 2**20 * NANOS
MOST = "on_oom.max"
MEMORY = ("resources.mem.requests", "resources.mem.limits")
LOCKS = ("resources", "resources.mem", *MEMORY)


def bound_growth(settings: Settings, snapshot: Snapshot) -> None:
    """Lower `on_oom.max` to what is allowed now: who tries the run again later goes by that alone."""
    asked, memory = settings.get("on_oom", {}), _memory_of(settings)
    if "grow" not in asked or memory is None or _is_owned(settings):
        return
    said = asked["max"][""] if "max" in asked else None
    bounds = list(_find_bounds(settings, snapshot, *memory))
    if said is None:
        bounds += _most(snapshot.rules, MOST)
    if not bounds:
        return
    least = min(bounds, key=lambda bound: bound.value)
    if said is None or least.value < said.value:
        overridden = () if said is None else (SourcedValue(said.value, said.source), *said.overridden)
        reason = f"the {least.source} allows no more memory"
        asked["max"] = {"": Setting(MOST, least.value, least.source, overridden, reason=reason)}


def warn_of_no_growth(draft: Draft) -> Iterator[PlanWarning]:
    """What was asked for in case that memory runs out, where it can never come to that."""
    if draft.resolution.setting("on_oom", "grow") is None:
        return
    resolution, action = draft.resolution, draft.request.action
    request, most = resolution.setting("resources", "mem", "requests"), resolution.setting("on_oom", "max")
    memory = _memory_of(resolution.settings)
    told, hint = "", "leave it out"
    if action != "job":
        told = f"{action} is started anew where its memory runs out, with as much as before"
    elif request is None or memory is None:
        told, hint = "no memory is asked for that could grow", "ask for some: resources.mem"
    elif _is_owned(resolution.settings):
        told = f"the {request.source} owns the memory, which stays as it is"
    elif most is not None and most.value <= memory[1]:
        told = f"the run has {memory[1]} of memory from the start, and no more than {most.value} is allowed"
        hint = "leave it out, or ask for less memory at first"
    if told:
        yield PlanWarning("on_oom", "no_effect", f"on_oom has no effect: {told}", hint)


def warn_of_no_retries(draft: Draft) -> Iterator[PlanWarning]:
    """Whatever a cluster serves is started anew by it, for ever: that never fails, so it is never tried again."""
    retries = draft.resolution.value("retries")
    if retries and draft.request.action != "job" and draft.cluster.executor == "kubernetes":
        message = f"retries has no effect: cluster/{draft.cluster.name} starts {draft.request.action} anew by itself"
        yield PlanWarning("retries", "no_effect", message, "leave it out")


def _memory_of(settings: Settings) -> tuple[Quantity, Quantity] | None:
    """What a pod requests, and what it may use: its limit, or its request where it has none."""
    parts: Mapping[str, Setting] = settings.get("resources", {}).get("mem", {})
    request, limit = (parts[part].value if part in parts else None for part in ("requests", "limits"))
    if not isinstance(request, Quantity) or not request.nanos:
        return None
    return request, limit if isinstance(limit, Quantity) else request


def _is_owned(settings: Settings) -> bool:
    """Whether a compute resource says how much memory there is."""
    return settings["resources"]["mem"]["requests"].source.layer is Layer.COMPUTE_RESOURCE


def _find_bounds(settings: Settings, snapshot: Snapshot, request: Quantity, usable: Quantity) -> Iterator[SourcedValue]:
    """What memory may grow to, as each rule and quota has it."""
    rules, ratio = snapshot.rules, Fraction(usable.nanos, request.nanos)
    for path in LOCKS:
        if (rule := rules.get(path)) is not None and rule.locked is not None:
            yield SourcedValue(usable, rule.locked)
    for path in MEMORY:
        yield from (SourcedValue(usable, options.source) for options in rules.get(path, EffectiveRule()).options)
    yield from (SourcedValue(_scale(bound.value, ratio), bound.source) for bound in _most(rules, MEMORY[0]))
    yield from _most(rules, MEMORY[1])
    shared = settings["resources"].get("shm", {}).get("")
    if shared is not None and (shared.value is True or shared.value == usable):  # which grows with the limit
        yield from _most(rules, "resources.shm")
    pods = settings["replicas"][""][""].value
    for policy in snapshot.policies:
        if policy.quota.mem is not None:
            yield SourcedValue(_scale(policy.quota.mem, ratio / pods), merging.source_of(policy))


def _most(rules: Mapping[str, EffectiveRule], path: str) -> list[SourcedValue]:
    return list(rules.get(path, EffectiveRule()).max.values())


def _scale(amount: Quantity, ratio: Fraction) -> Quantity:
    """An amount as much larger, in whole mebibytes where it is not very small."""
    nanos = amount.nanos * ratio.numerator // ratio.denominator
    step = MEBIBYTE if nanos >= MEBIBYTE else NANOS
    return Quantity(nanos // step * step, QuantityFormat.BINARY)
