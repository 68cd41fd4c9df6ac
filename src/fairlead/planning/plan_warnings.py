"""Warnings about plans: overridden values, and settings with surprising effects."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import chain

from fairlead.model.plans import Layer, PlanWarning, Setting, SourcedValue, format_value
from fairlead.model.quantities import NANOS, Quantity, QuantityFormat
from fairlead.planning import executor_checks
from fairlead.resolution import policy_merging
from fairlead.resolution.drafts import Draft, Snapshot
from fairlead.resolution.layers import Settings
from fairlead.resolution.policy_merging import EffectiveRule

MEBIBYTE = 2**20 * NANOS
MAX_PATH = "on_oom.max"
MEMORY = ("resources.mem.requests", "resources.mem.limits")
# Locking a section also locks the memory settings in it.
LOCKS = ("resources", "resources.mem", *MEMORY)

REQUESTING_LAYERS = (Layer.USER, Layer.TEMPLATE)  # overridden defaults produce no warning
MIN_PLAUSIBLE = Quantity.of(2**20)
NOUNS = {"gpu": "GPUs", "cpu": "CPUs", "mem": "of memory", "runs": "run"}


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
    if draft.settings.get("on_oom.grow") is None:
        return
    action = draft.request.action
    request, most = draft.settings.get("resources.mem.requests"), draft.settings.get("on_oom.max")
    memory = _memory_of(draft.groups)
    message, hint = "", "remove it"
    if action != "job":
        message = f"runs with action {action} restart with the same memory"
    elif request is None or memory is None:
        message, hint = "no memory is requested", "set resources.mem"
    elif _is_owned(draft.groups):
        message = f"the memory is set by the {request.source}"
    elif most is not None and most.value <= memory[1]:
        message = f"the run starts with {memory[1]} of memory, and at most {most.value} is allowed"
        hint = "remove it, or request less memory"
    if message:
        yield PlanWarning("on_oom", "no_effect", f"on_oom has no effect: {message}", hint)


def warn_of_no_retries(draft: Draft) -> Iterator[PlanWarning]:
    """Kubernetes restarts served runs and workspaces forever, so they never fail and are never retried."""
    retries = draft.values.get("retries")
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


def warn(draft: Draft) -> tuple[PlanWarning, ...]:
    """All warnings about a plan except overridden values."""
    return tuple(chain.from_iterable(check(draft) for check in CHECKS))


def warn_overridden(draft: Draft) -> tuple[PlanWarning, ...]:
    """A warning for each user or template value that was overridden."""
    return tuple(
        _describe_overridden(setting, overridden)
        for setting in draft.settings.values()
        for overridden in setting.overridden
        if overridden.source.layer in REQUESTING_LAYERS
        and overridden.value != setting.value
        # An archived name and its successor have the same source: warn_of_archived reports it.
        and overridden.source != setting.source
    )


def warn_of_unenforced_memory(draft: Draft) -> Iterator[PlanWarning]:
    """KAI schedules by GPU memory but does not enforce it."""
    memory, limit = draft.gpu_memory, draft.gpu_memory_limit
    if memory is not None and draft.cluster.gpu_sharing == "kai":
        message = f"cluster {draft.cluster.name} reserves {memory} of the GPU memory but does not enforce it"
        if limit is not None and limit != memory:
            message += f"; the limit {limit} is only a pod annotation"
        hint = "limit GPU memory in the program, or request a whole GPU"
        yield PlanWarning("resources.gpu.memory", "not_enforced", message, hint)


def warn_of_unlisted_type(draft: Draft) -> Iterator[PlanWarning]:
    """A GPU type that is not configured in the cluster must equal the product label of a node."""
    kind, cluster = draft.gpu_type, draft.cluster
    if kind is not None and kind not in cluster.gpu_types:
        label = f"{cluster.gpu_product_label}={kind}"
        message = f"cluster {cluster.name} has no products of type {kind}; only nodes with label {label} match"
        yield PlanWarning("resources.gpu.type", "unlisted_gpu_type", message, "use the exact value of the label")


def warn_of_tiny_memory(draft: Draft) -> Iterator[PlanWarning]:
    """An amount without a suffix is in bytes, which is almost always a mistake."""
    for name in ("mem", "disk"):
        amount = draft.values.get(f"resources.{name}.requests")
        if amount is not None and Quantity(0) < amount < MIN_PLAUSIBLE:
            message = f"{amount.units} bytes is very little"
            hint = f"add a suffix, for example {amount.units}Mi or {amount.units}Gi"
            yield PlanWarning(f"resources.{name}.requests", "tiny", message, hint)


def warn_of_shared_memory(draft: Draft) -> Iterator[PlanWarning]:
    """Shared memory counts as memory, so more than the memory limit leads to an out-of-memory kill."""
    shm, limit = draft.values.get("resources.shm"), draft.values.get("resources.mem.limits")
    if isinstance(shm, Quantity) and isinstance(limit, Quantity) and shm > limit:
        message = f"{shm} of shared memory exceeds the memory limit of {limit}"
        hint = f"set it to {limit} or less, or raise resources.mem.limits"
        yield PlanWarning("resources.shm", "over_limit", message, hint)


def warn_of_quota(draft: Draft) -> Iterator[PlanWarning]:
    """A run that alone exceeds a quota waits forever."""
    if not draft.snapshot.quotas:
        return
    replicas = draft.values["replicas"]
    cpu, mem = draft.values.get("resources.cpu.requests"), draft.values.get("resources.mem.requests")
    needs = {
        "gpu": ("resources.gpu.devices", draft.devices * replicas),
        "cpu": ("resources.cpu.requests", cpu and cpu.times(replicas)),
        "mem": ("resources.mem.requests", mem and mem.times(replicas)),
        "runs": ("", 1),
    }
    for scope, name, quota in draft.snapshot.quotas:
        path, need = needs[name]
        if need is not None and need > quota:
            total = f"needs {need} {NOUNS[name]} in total"
            message = f"{total}; the {scope} quota is {quota}, so the run would stay queued"
            # No smaller request fits a quota of 0.
            less = "" if str(quota) == "0" else "request less, or "
            yield PlanWarning(path, "quota", message, f"{less}ask an administrator for a larger quota")


def warn_of_missing_code(draft: Draft) -> Iterator[PlanWarning]:
    """A Python function without source code cannot run."""
    function = draft.function
    runs_itself = function.command or function.source or draft.request.action == "workspace"
    if function.kind == "python" and not runs_itself:
        message = f"function {function.name} has no source, so the manifests do not contain its code"
        yield PlanWarning("function.source", "missing", message, "set function.source, for example train.py")
    code = draft.snapshot.code
    if function.kind == "python" and function.source and not function.code and code is not None and not code.archive:
        message = f"the code of {function.source} is not available, so the manifests do not contain it"
        yield PlanWarning(
            "function.source", "missing", message, "run fairlead preview FILE in the folder that contains the code"
        )


def warn_of_archived(draft: Draft) -> Iterator[PlanWarning]:
    """An archived name still works through its successor, but only for a limited time."""
    for field, noun in (("profile", "compute resource"), ("template", "template")):
        named = draft.settings.get(field)
        for overridden in named.overridden if named is not None else ():
            if (field, overridden.value) in draft.snapshot.archived and named is not None:
                message = f"{noun} {overridden.value} is archived; its successor {named.value} is used"
                yield PlanWarning(field, "archived", message, f"use {named.value}", overridden.source)


def _describe_overridden(setting: Setting, overridden: SourcedValue) -> PlanWarning:
    overriding_source, layer, requested = setting.source, setting.source.layer, overridden.source
    value = "removes it" if setting.value is None else f"sets {format_value(setting.value)}"
    outcome = f"the {overriding_source} overrides it and {value}"
    if layer.precedence < requested.layer.precedence:  # a default limit, computed from the overriding request
        outcome = f"the layer that overrides it has no limit, and the {overriding_source} {value}"
    hint = "remove it"
    if layer is Layer.USER:
        hint = f"remove it from the request to use the value of the {requested}"
    elif layer is Layer.COMPUTE_RESOURCE and setting.value is not None:
        hint = f"request {format_value(setting.value)}, or remove it"
    if setting.path == MAX_PATH:
        outcome = f"the {overriding_source} allows at most {format_value(setting.value)}"
        hint = f"request {format_value(setting.value)}, or remove it"
    message = f"the {requested} sets {format_value(overridden.value)}; {outcome}"
    return PlanWarning(setting.path, "overridden", message, hint, overriding_source, requested=overridden)


CHECKS = (
    warn_of_missing_code,
    warn_of_archived,
    warn_of_unenforced_memory,
    warn_of_unlisted_type,
    warn_of_tiny_memory,
    warn_of_shared_memory,
    warn_of_quota,
    executor_checks.warn_of_no_effect,
    executor_checks.warn_of_no_enforcement,
    warn_of_no_growth,
    warn_of_no_retries,
)
