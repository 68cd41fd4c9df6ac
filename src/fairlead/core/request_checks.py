"""Checks requests for combinations that cannot work, regardless of policies."""

import marshal
import math
from collections.abc import Callable, Iterator

from fairlead.core import actions, cluster_checks, cron_times, local_limits
from fairlead.core.policies import switches
from fairlead.model.names import BOOTSTRAP, HOME, SHARED_MEMORY
from fairlead.model.parsing import suggest_names
from fairlead.model.plans import Layer, Manifest, Setting, Violation
from fairlead.model.quantities import MAXIMUM, Quantity
from fairlead.model.requests import WORKLOAD_TYPES
from fairlead.resolution import layers
from fairlead.resolution.drafts import Draft
from fairlead.resolution.layers import AMOUNTS

RESERVED = "FAIRLEAD_"  # the prefix of the platform's variables
MAX_OBJECT_BYTES = 1_200_000  # etcd stores at most 1.5 MB
MAX_AMOUNT = Quantity.of(MAXIMUM)
GPU_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu", "gpu.intel.com/", "habana.ai/gaudi")

Check = Callable[[Draft], Iterator[Violation]]


def check(draft: Draft) -> tuple[Violation, ...]:
    """All violations in a draft except those of policy rules."""
    return tuple(violation for rule in CHECKS for violation in rule(draft))


def check_size(manifest: Manifest) -> Iterator[Violation]:
    """The main object must fit in etcd. A run's other objects are smaller, or are checked separately."""
    # marshal is much faster than JSON, and its output is only slightly smaller because it has no quotes and commas.
    size = len(marshal.dumps(manifest, 2))
    if size > MAX_OBJECT_BYTES:
        message = f"the {manifest['kind']} takes up {size:,} bytes; at most {MAX_OBJECT_BYTES:,} can be stored"
        yield Violation("", "size", message, "shorten envs, args or affinity")


def check_names(draft: Draft) -> Iterator[Violation]:
    """The compute resource and the template must exist. A missing one is not replaced by a default."""
    snapshot = draft.snapshot
    for field, noun, known in (
        ("profile", "compute resource", snapshot.compute_resources),
        ("template", "template", snapshot.templates),
    ):
        named = draft.resolution.setting(field)
        if named is not None and named.value not in known:
            # It is archived without a successor. If it had one, planning would already have replaced the name.
            if (field, named.value) in snapshot.archived:
                message, hint = (
                    f"{noun} {named.value!r} is archived",
                    suggest_names(named.value, known, "choose one: {known}"),
                )
                yield Violation(field, "archived", message, hint, named.source)
                continue
            message = f"{noun} {named.value!r} does not exist"
            hint = (
                suggest_names(named.value, known, "choose one: {known}") if known else "remove it; there are none yet"
            )
            yield Violation(field, f"unknown_{field}", message, hint, named.source)


def check_plan_token(draft: Draft) -> Iterator[Violation]:
    """Submitting removes the token before planning, so a token here was sent to a preview."""
    if draft.request.plan_token is not None:
        yield Violation("plan_token", "plan_token", "can only be used to submit a run", "remove it")


def check_mounts(draft: Draft) -> Iterator[Violation]:
    """Mount paths must be unique and must not be platform folders."""
    taken: dict[str, str] = {}
    if draft.resolution.value("resources", "shm"):
        # The platform mounts a volume there only if shared memory is requested.
        taken[SHARED_MEMORY] = f"shared memory ({_source(draft.resolution.setting('resources', 'shm'))})"
    for name, parts in draft.resolution.named("volumes").items():
        path, setting_path = parts["mount_path"], f"volumes.{name}.mount_path"
        for folder in (HOME, BOOTSTRAP):
            # A volume there could replace the bootstrap program or hide the run's result.
            if path == folder or path.startswith(folder + "/"):
                hint = "use another path, for example /data"
                yield Violation(setting_path, "reserved", f"{path} is reserved for the platform", hint)
        mine = f"volume {name} ({_source(draft.resolution.setting('volumes', name, 'mount_path'))})"
        other = taken.setdefault(path, mine)
        if other != mine:
            message = f"{other} and {mine} are both mounted at {path}"
            yield Violation(setting_path, "mount_path", message, "mount one of them at another path")


def check_variables(draft: Draft) -> Iterator[Violation]:
    """A variable cannot be both an env and a secret."""
    for name in sorted(draft.resolution.named("envs").keys() & draft.resolution.named("secrets").keys()):
        env, secret = draft.resolution.setting("envs", name), draft.resolution.setting("secrets", name)
        message = f"{name} is set both as an env ({_source(env)}) and as a secret ({_source(secret)})"
        yield Violation(f"envs.{name}", "env_and_secret", message, "remove or rename one of them")


def check_reserved(draft: Draft) -> Iterator[Violation]:
    """Variables with the reserved prefix control the run's bootstrap."""
    for section in ("envs", "secrets"):
        for name in draft.resolution.named(section):
            setting = draft.resolution.setting(section, name)
            if name.startswith(RESERVED) and setting is not None and setting.source.layer is not Layer.ENFORCED:
                message = f"{name} starts with {RESERVED}, which is reserved for the platform"
                yield Violation(f"{section}.{name}", "reserved", message, "rename it", setting.source)
    # All of a run's secrets are keys in one Secret, which also contains the run's token.
    for name, path in draft.secrets.items():
        if name.startswith(RESERVED) and path.startswith("volumes."):
            message = f"{name} starts with {RESERVED}, which is reserved for the platform"
            yield Violation(path, "reserved", message, "rename it")


def check_secrets(draft: Draft) -> Iterator[Violation]:
    """Secrets must exist in the project."""
    known = draft.snapshot.secrets
    # Commands that run without a server do not know a project's secrets.
    if known is None:
        return
    for name, path in (*draft.secrets.items(), *draft.pull_secrets.items()):
        if name not in known:
            message = f"project {draft.snapshot.project} has no secret {name}"
            hint = suggest_names(name, known, "add it first, or use one of {known}") if known else "add it first"
            yield Violation(path, "unknown_secret", message, hint)


def check_shared_volumes(draft: Draft) -> Iterator[Violation]:
    """Shared volumes must exist in the project."""
    known = draft.snapshot.volumes
    for name, parts in draft.resolution.named("volumes").items():
        claim = parts.get("spec.claim_name")
        if known is not None and claim is not None and claim not in known:
            message = f"project {draft.snapshot.project} has no volume {claim}"
            yield Violation(f"volumes.{name}.spec.claim_name", "unknown_volume", message, suggest_names(claim, known))


def check_claims(draft: Draft) -> Iterator[Violation]:
    """A ReadWriteOnce claim cannot be used by more than one replica."""
    replicas = draft.resolution.value("replicas")
    for name, parts in draft.resolution.named("volumes").items():
        if parts["volume_type"] == "persistent_volume_claim" and replicas > 1:
            message = f"volume {name} can be mounted on only one node (ReadWriteOnce), found {replicas} replicas"
            hint = "set replicas to 1, or use volume type ephemeral (one per pod) or shared_volume"
            yield Violation(f"volumes.{name}.volume_type", "replicas", message, hint)


def check_workload_type(draft: Draft) -> Iterator[Violation]:
    """A compute resource may allow only some workload types."""
    resource, kind = draft.compute_resource, WORKLOAD_TYPES[draft.request.action]
    if resource is not None and resource.workload_types is not None and kind not in resource.workload_types:
        allowed = ", ".join(resource.workload_types)
        message = f"compute resource {resource.name} allows {allowed}; action {draft.request.action} is of type {kind}"
        source = draft.resolution.setting("profile")
        hint = f"choose a compute resource for {kind}"
        yield Violation("profile", "workload_types", message, hint, source.source if source else None)


def check_extended(draft: Draft) -> Iterator[Violation]:
    """GPUs must be requested with resources.gpu, which rules and quotas check."""
    for name in draft.resolution.named("resources"):
        resource = name.removeprefix("extended.")
        if name != resource and (resource == draft.cluster.gpu_resource or resource.startswith(GPU_RESOURCES)):
            message = f"{resource} is a GPU resource, but policies and quotas check resources.gpu"
            yield Violation(f"resources.{name}", "gpu_as_extended", message, "use resources.gpu")


def check_placement(draft: Draft) -> Iterator[Violation]:
    """Node selector, node affinity and GPU type must not contradict each other."""
    required = draft.resolution.setting("affinity", layers.REQUIRED_NODES)
    # The terms are counted from the layers, because `combine` stops multiplying them at the maximum.
    count = math.prod(len(layer.value) for layer in required.combined) if required else 0
    path = f"affinity.{layers.REQUIRED_NODES}"
    if count > layers.MAX_TERMS:
        message = f"the layers together have {count} terms; at most {layers.MAX_TERMS} are allowed"
        yield Violation(path, "length", message, "use fewer alternatives")
    elif layers.is_impossible(draft.resolution.values("node_selector"), draft.required_nodes):
        sources = dict.fromkeys(str(term.source) for term in (required.combined or (required,) if required else ()))
        other = f"node affinity (from {', '.join(sources)})" if sources else "GPU type"
        message = f"node selector and {other} contradict each other, so no node can match"
        violating_path = path if sources else "resources.gpu.type"
        yield Violation(violating_path, "contradiction", message, "remove or change one of them")


def check_amounts(draft: Draft) -> Iterator[Violation]:
    """A limit computed with a factor may exceed the largest possible amount."""
    for name in AMOUNTS:
        limit = draft.amount(name, "limits")
        if isinstance(limit, Quantity) and limit > MAX_AMOUNT:
            setting = draft.resolution.setting("resources", name, "limits")
            message = f"must be at most {MAX_AMOUNT}, found {limit}"
            source = setting.source if setting else None
            yield Violation(f"resources.{name}.limits", "range", message, "request less", source)


def _source(setting: Setting | None) -> str:
    return str(setting.source) if setting else ""


CHECKS: tuple[Check, ...] = (
    check_names,
    check_plan_token,
    actions.check_action,
    actions.check_serving,
    cron_times.check_schedule,
    local_limits.check_local,
    check_mounts,
    check_variables,
    check_reserved,
    check_secrets,
    check_shared_volumes,
    check_claims,
    check_workload_type,
    cluster_checks.check_gpu_sharing,
    cluster_checks.check_storage_classes,
    cluster_checks.check_runtime_class,
    check_extended,
    check_placement,
    actions.check_inputs,
    check_amounts,
    actions.check_code_size,
    switches.check_existing_volumes,
    switches.check_storage_classes,
    switches.check_registries,
    switches.check_compute_resource,
    switches.check_root,
    switches.check_gpu_memory_limits,
)
