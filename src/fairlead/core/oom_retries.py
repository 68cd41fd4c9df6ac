"""The maximum memory for retries after an out-of-memory kill, limited by rules and quotas."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from fairlead.model.plans import Layer, PlanWarning, Setting, SourcedValue
from fairlead.model.quantities import NANOS, Quantity, QuantityFormat
from fairlead.resolution import policy_merging
from fairlead.resolution.drafts import Draft, Snapshot
from fairlead.resolution.layers import Settings
from fairlead.resolution.policy_merging import EffectiveRule

MEBIBYTE = 2**20 * NANOS
MAX_PATH = "on_oom.max"
MEMORY = ("resources.mem.requests", "resources.mem.limits")
# Locking a section also locks the memory settings in it.
LOCKS = ("resources", "resources.mem", *MEMORY)


def bound_growth(settings: Settings, snapshot: Snapshot) -> None:
    """Lower `on_oom.max` to what is currently allowed. Retries use only this value."""
    on_oom, memory = settings.get("on_oom", {}), _memory_of(settings)
    if "grow" not in on_oom or memory is None or _is_owned(settings):
        return
    requested = on_oom["max"][""] if "max" in on_oom else None
    bounds = list(_find_bounds(settings, snapshot, *memory))
    # A requested maximum that exceeds a rule on `on_oom.max` is a violation, so it is not lowered here.
    if requested is None:
        bounds += _maxima(snapshot.rules, MAX_PATH)
    if not bounds:
        return
    least = min(bounds, key=lambda bound: bound.value)
    if requested is None or least.value < requested.value:
        overridden = (
            () if requested is None else (SourcedValue(requested.value, requested.source), *requested.overridden)
        )
        reason = f"limited by the {least.source}"
        on_oom["max"] = {"": Setting(MAX_PATH, least.value, least.source, overridden, reason=reason)}


def warn_of_no_growth(draft: Draft) -> Iterator[PlanWarning]:
    """Warn if `on_oom` can never take effect."""
    if draft.resolution.setting("on_oom", "grow") is None:
        return
    resolution, action = draft.resolution, draft.request.action
    request, most = resolution.setting("resources", "mem", "requests"), resolution.setting("on_oom", "max")
    memory = _memory_of(resolution.settings)
    message, hint = "", "remove it"
    if action != "job":
        message = f"runs with action {action} restart with the same memory"
    elif request is None or memory is None:
        message, hint = "no memory is requested", "set resources.mem"
    elif _is_owned(resolution.settings):
        message = f"the memory is set by the {request.source}"
    elif most is not None and most.value <= memory[1]:
        message = f"the run starts with {memory[1]} of memory, and at most {most.value} is allowed"
        hint = "remove it, or request less memory"
    if message:
        yield PlanWarning("on_oom", "no_effect", f"on_oom has no effect: {message}", hint)


def warn_of_no_retries(draft: Draft) -> Iterator[PlanWarning]:
    """Kubernetes restarts served runs and workspaces forever, so they never fail and are never retried."""
    retries = draft.resolution.value("retries")
    if retries and draft.request.action != "job" and draft.cluster.executor == "kubernetes":
        message = f"retries has no effect: cluster/{draft.cluster.name} restarts the run automatically"
        yield PlanWarning("retries", "no_effect", message, "remove it")


def _memory_of(settings: Settings) -> tuple[Quantity, Quantity] | None:
    """The memory request of a pod, and its limit (or the request if it has none)."""
    parts: Mapping[str, Setting] = settings.get("resources", {}).get("mem", {})
    request, limit = (parts[part].value if part in parts else None for part in ("requests", "limits"))
    if not isinstance(request, Quantity) or not request.nanos:
        return None
    return request, limit if isinstance(limit, Quantity) else request


def _is_owned(settings: Settings) -> bool:
    """Whether a compute resource sets the memory."""
    return settings["resources"]["mem"]["requests"].source.layer is Layer.COMPUTE_RESOURCE


def _find_bounds(settings: Settings, snapshot: Snapshot, request: Quantity, usable: Quantity) -> Iterator[SourcedValue]:
    """The maximum memory according to each rule and quota."""
    rules, ratio = snapshot.rules, Fraction(usable.nanos, request.nanos)
    for path in LOCKS:
        if (rule := rules.get(path)) is not None and rule.locked is not None:
            # A locked amount must not change, so the memory that the run starts with is the maximum.
            yield SourcedValue(usable, rule.locked)
    # If only certain amounts are allowed, an increased amount would rarely be one of them.
    for path in MEMORY:
        yield from (SourcedValue(usable, options.source) for options in rules.get(path, EffectiveRule()).options)
    # Bounds on requests are converted, because `on_oom.max` applies to the limit.
    yield from (SourcedValue(_scale(bound.value, ratio), bound.source) for bound in _maxima(rules, MEMORY[0]))
    yield from _maxima(rules, MEMORY[1])
    shared = settings["resources"].get("shm", {}).get("")
    if shared is not None and (shared.value is True or shared.value == usable):  # shared memory grows with the limit
        yield from _maxima(rules, "resources.shm")
    pods = settings["replicas"][""][""].value
    for policy in snapshot.policies:
        if policy.quota.mem is not None:
            yield SourcedValue(_scale(policy.quota.mem, ratio / pods), policy_merging.source_of(policy))


def _maxima(rules: Mapping[str, EffectiveRule], path: str) -> list[SourcedValue]:
    return list(rules.get(path, EffectiveRule()).max.values())


def _scale(amount: Quantity, ratio: Fraction) -> Quantity:
    """The product, rounded down to whole mebibytes unless it is less than one mebibyte."""
    nanos = amount.nanos * ratio.numerator // ratio.denominator
    # Rounded down, because rounding up would exceed the rule.
    step = MEBIBYTE if nanos >= MEBIBYTE else NANOS
    return Quantity(nanos // step * step, QuantityFormat.BINARY)
