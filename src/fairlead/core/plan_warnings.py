"""Warnings about plans: overridden values, and settings with surprising effects."""

from collections.abc import Iterator

from fairlead.core import local_limits, oom_retries
from fairlead.model.plans import Layer, PlanWarning, Setting, SourcedValue, format_value
from fairlead.model.quantities import Quantity
from fairlead.resolution.drafts import Draft
from fairlead.resolution.layers import Resolution

REQUESTING_LAYERS = (Layer.USER, Layer.TEMPLATE)  # overridden defaults produce no warning
MIN_PLAUSIBLE = Quantity.of(2**20)
NOUNS = {"gpu": "GPUs", "cpu": "CPUs", "mem": "of memory", "runs": "run"}


def warn(draft: Draft) -> tuple[PlanWarning, ...]:
    """All warnings about a plan except overridden values."""
    return tuple(warning for check in CHECKS for warning in check(draft))


def warn_overridden(resolution: Resolution) -> tuple[PlanWarning, ...]:
    """A warning for each user or template value that was overridden."""
    return tuple(
        _describe_overridden(setting, overridden)
        for setting in resolution.flat
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
        amount = draft.amount(name, "requests")
        if amount is not None and Quantity(0) < amount < MIN_PLAUSIBLE:
            message = f"{amount.units} bytes is very little"
            hint = f"add a suffix, for example {amount.units}Mi or {amount.units}Gi"
            yield PlanWarning(f"resources.{name}.requests", "tiny", message, hint)


def warn_of_shared_memory(draft: Draft) -> Iterator[PlanWarning]:
    """Shared memory counts as memory, so more than the memory limit leads to an out-of-memory kill."""
    shm, limit = draft.resolution.value("resources", "shm"), draft.amount("mem", "limits")
    if isinstance(shm, Quantity) and isinstance(limit, Quantity) and shm > limit:
        message = f"{shm} of shared memory exceeds the memory limit of {limit}"
        hint = f"set it to {limit} or less, or raise resources.mem.limits"
        yield PlanWarning("resources.shm", "over_limit", message, hint)


def warn_of_quota(draft: Draft) -> Iterator[PlanWarning]:
    """A run that alone exceeds a quota waits forever."""
    replicas = draft.resolution.value("replicas")
    cpu, mem = draft.amount("cpu", "requests"), draft.amount("mem", "requests")
    needs = {
        "gpu": ("resources.gpu.devices", draft.devices * replicas),
        "cpu": ("resources.cpu.requests", cpu and cpu.times(replicas)),
        "mem": ("resources.mem.requests", mem and mem.times(replicas)),
        "runs": ("", 1),
    }
    for policy in draft.snapshot.policies:
        for name, (path, need) in needs.items():
            quota = getattr(policy.quota, name)
            if quota is not None and need is not None and need > quota:
                total = f"needs {need} {NOUNS[name]} in total"
                message = f"{total}; the {policy.scope} quota is {quota}, so the run would stay queued"
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
        named = draft.resolution.setting(field)
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
    if setting.path == oom_retries.MAX_PATH:
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
    local_limits.warn_of_no_effect,
    oom_retries.warn_of_no_growth,
    oom_retries.warn_of_no_retries,
)
