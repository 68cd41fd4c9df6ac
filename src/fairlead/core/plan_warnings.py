"""What a reader should know of a plan that can run: what was lost, and what is not as it looks."""

from collections.abc import Iterator

from fairlead.core import local_limits, oom_retries
from fairlead.core.drafts import Draft
from fairlead.core.resolution import Resolution
from fairlead.model.plans import Layer, PlanWarning, Setting, SourcedValue, format_value
from fairlead.model.quantities import Quantity

ASKING = (Layer.USER, Layer.TEMPLATE)
SMALLEST_SENSIBLE = Quantity.of(2**20)
NOUNS = {"gpu": "GPUs", "cpu": "CPUs", "mem": "of memory", "runs": "run"}


def warn(draft: Draft) -> tuple[PlanWarning, ...]:
    """Everything about a plan that may surprise, apart from what was overridden."""
    return tuple(found for look in LOOKS for found in look(draft))


def warn_overridden(resolution: Resolution) -> tuple[PlanWarning, ...]:
    """What a user or a template asked for and did not get."""
    return tuple(
        _lost(setting, lost)
        for setting in resolution.flat
        for lost in setting.overridden
        if lost.source.layer in ASKING and lost.value != setting.value and lost.source != setting.source
    )


def warn_of_unenforced_memory(draft: Draft) -> Iterator[PlanWarning]:
    """KAI places shares of a GPU and leaves it to the program to keep to them."""
    memory, limit = draft.gpu_memory, draft.gpu_memory_limit
    if memory is not None and draft.cluster.gpu_sharing == "kai":
        message = f"cluster {draft.cluster.name} places the run by {memory} of a GPU's memory and does not enforce it"
        if limit is not None and limit != memory:
            message += f"; the limit {limit} is only noted on the pod"
        hint = "keep to it in the program, or ask for a whole device"
        yield PlanWarning("resources.gpu.memory", "not_enforced", message, hint)


def warn_of_unlisted_type(draft: Draft) -> Iterator[PlanWarning]:
    """A GPU type that the cluster does not list is taken as a node's label, to the letter."""
    kind, cluster = draft.gpu_type, draft.cluster
    if kind is not None and kind not in cluster.gpu_types:
        label = f"{cluster.gpu_product_label}={kind}"
        message = f"cluster {cluster.name} lists no products of type {kind}: only nodes labeled {label} suit"
        yield PlanWarning("resources.gpu.type", "unlisted_gpu_type", message, "write the product as the label has it")


def warn_of_tiny_memory(draft: Draft) -> Iterator[PlanWarning]:
    """An amount without a suffix is in bytes, which hardly anybody means."""
    for name in ("mem", "disk"):
        amount = draft.amount(name, "requests")
        if amount is not None and Quantity(0) < amount < SMALLEST_SENSIBLE:
            message = f"asks for {amount.whole} bytes, which is next to nothing"
            hint = f"write a suffix: {amount.whole}Mi, {amount.whole}Gi"
            yield PlanWarning(f"resources.{name}.requests", "tiny", message, hint)


def warn_of_shared_memory(draft: Draft) -> Iterator[PlanWarning]:
    """Shared memory counts as memory: more of it than the limit only ends in an OOM."""
    shm, limit = draft.resolution.value("resources", "shm"), draft.amount("mem", "limits")
    if isinstance(shm, Quantity) and isinstance(limit, Quantity) and shm > limit:
        message = f"shared memory of {shm} counts as memory, whose limit is {limit}"
        hint = f"set it to {limit} or less, or raise resources.mem.limits"
        yield PlanWarning("resources.shm", "over_limit", message, hint)


def warn_of_quota(draft: Draft) -> Iterator[PlanWarning]:
    """A run that alone exceeds its scope's quota waits for ever."""
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
                need_all = f"needs {need} {NOUNS[name]} in all"
                message = f"{need_all}; the quota of {policy.scope} is {quota}: it would stay queued"
                less = "" if str(quota) == "0" else "ask for less, or "
                yield PlanWarning(path, "quota", message, f"{less}ask an administrator for a larger quota")


def warn_of_missing_code(draft: Draft) -> Iterator[PlanWarning]:
    """A Python function of which only the name is known cannot run as it is."""
    function = draft.function
    runs_itself = function.command or function.source or draft.request.action == "workspace"
    if function.kind == "python" and not runs_itself:
        message = f"function {function.name} says no source: the manifests are without its code"
        yield PlanWarning("function.source", "missing", message, "say function: {name: ..., source: train.py}")
    code = draft.snapshot.code
    if function.kind == "python" and function.source and not function.code and code is not None and not code.archive:
        message = f"the code of {function.source} is not here: the manifests are without it"
        yield PlanWarning("function.source", "missing", message, "preview it where the code is: fairlead preview FILE")


def warn_of_archived(draft: Draft) -> Iterator[PlanWarning]:
    """A name that leads to a successor does not do so for ever."""
    for field, noun in (("profile", "compute resource"), ("template", "template")):
        named = draft.resolution.setting(field)
        for said in named.overridden if named is not None else ():
            if (field, said.value) in draft.snapshot.archived and named is not None:
                message = f"{noun} {said.value} is archived; its successor {named.value} is used"
                yield PlanWarning(field, "archived", message, f"ask for {named.value}", said.source)


def _lost(setting: Setting, lost: SourcedValue) -> PlanWarning:
    winner, layer = setting.source, setting.source.layer
    got = "leaves it out" if setting.value is None else f"sets {format_value(setting.value)}"
    outcome = f"the {winner} wins and {got}"
    if layer.precedence < lost.source.layer.precedence:
        outcome = f"its owner says no limit, and the {winner} {got}"
    hint = "leave it out"
    if layer is Layer.USER:
        hint = f"leave it out of the request to get what the {lost.source} says"
    elif layer is Layer.COMPUTE_RESOURCE and setting.value is not None:
        hint = f"ask for {format_value(setting.value)}, or leave it out"
    if setting.path == oom_retries.MOST:
        outcome = f"the {winner} allows at most {format_value(setting.value)}"
        hint = f"ask for {format_value(setting.value)}, or leave it out"
    message = f"the {lost.source} asks for {format_value(lost.value)}; {outcome}"
    return PlanWarning(setting.path, "overridden", message, hint, winner, requested=lost)


LOOKS = (
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
