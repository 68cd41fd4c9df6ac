"""Checks requests for combinations that cannot work, in general, for an action or on a cluster. Not policies."""

import difflib
import marshal
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from fairlead.lifecycle import cron_times
from fairlead.lifecycle.lifecycle import MIN_IDLE_TIMEOUT
from fairlead.manifests import rendering
from fairlead.manifests.rendering import MAX_CONFIG_MAP_BYTES
from fairlead.model.names import BOOTSTRAP, HOME, SHARED_MEMORY
from fairlead.model.parsing import suggest_names
from fairlead.model.plans import Layer, Manifest, Setting, Source, Violation
from fairlead.model.quantities import MAXIMUM, Quantity
from fairlead.model.requests import WORKLOAD_TYPES
from fairlead.model.resources import SIZED
from fairlead.model.scopes import Cluster
from fairlead.planning import executor_checks
from fairlead.resolution import layers
from fairlead.resolution.drafts import Draft
from fairlead.resolution.layers import AMOUNTS

RESERVED = "FAIRLEAD_"  # the prefix of the platform's variables
MAX_OBJECT_BYTES = 1_200_000  # etcd stores at most 1.5 MB
MAX_AMOUNT = Quantity.of(MAXIMUM)
GPU_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu", "gpu.intel.com/", "habana.ai/gaudi")

# Programs need the files in these folders. Volumes may be mounted inside them, for example at /etc/config.
SYSTEM_FOLDERS = frozenset(
    (
        *("/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/run", "/sbin", "/usr", "/var", "/var/run"),
        *("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/libx32", "/usr/sbin"),
        *("/usr/local", "/usr/local/bin", "/usr/local/lib"),
    )
)
KERNEL_FOLDERS = ("/dev", "/sys")  # also everything inside them, except in these folders:
MEMORY_FOLDERS = (SHARED_MEMORY, "/dev/hugepages")

Check = Callable[[Draft], Iterator[Violation]]


def check_gpu_sharing(draft: Draft) -> Iterator[Violation]:
    """Requests for part of a GPU need a cluster with GPU sharing or MIG."""
    memory, limit, cluster = draft.gpu_memory, draft.gpu_memory_limit, draft.cluster
    others = [name for name in draft.snapshot.sharing_clusters if name != cluster.name]
    hint = "request a whole GPU"
    if others:
        hint = f"use cluster {' or '.join(others)}, or {hint}"
    elif cluster.executor == "kubernetes":
        hint = f"set the cluster's gpu_sharing to kai or hami, or {hint}"
    if memory is not None and cluster.gpu_sharing == "none":
        message = f"{memory} of a GPU requested; cluster {cluster.name} has only whole GPUs (gpu_sharing: none)"
        yield Violation("resources.gpu.memory", "gpu_sharing", message, hint)
    elif limit is not None and limit != memory and cluster.gpu_sharing == "hami":
        # The limit is rejected, not ignored: the program would fail as soon as it uses more than its request.
        message = (
            f"limit {limit} exceeds the request {memory}; "
            f"cluster {cluster.name} (hami) enforces the request as the limit"
        )
        yield Violation("resources.gpu.memory.limit", "gpu_sharing", message, f"set the limit to {memory}")
    if draft.mig is not None and not cluster.gpu_resource.startswith("nvidia.com/"):
        message = f"MIG profile {draft.mig} requested; cluster {cluster.name} has {cluster.gpu_resource}"
        yield Violation("resources.gpu.mig", "gpu_sharing", message, "request a whole GPU; MIG needs NVIDIA GPUs")


def check_storage_classes(draft: Draft) -> Iterator[Violation]:
    """A claim's storage class must be allowed in the cluster. A claim without one gets the cluster default."""
    allowed = draft.cluster.storage_classes
    for name, parts in draft.volumes.items():
        requested = parts.get("spec.storage_class")
        if allowed is not None and requested is not None and parts["volume_type"] in SIZED and requested not in allowed:
            path = f"volumes.{name}.spec.storage_class"
            setting = draft.settings.get(f"volumes.{name}.spec.storage_class")
            yield _reject_class(draft, path, "storage_classes", requested, allowed, setting.source if setting else None)


def check_runtime_class(draft: Draft) -> Iterator[Violation]:
    """The runtime class must be allowed in the cluster."""
    allowed, setting = draft.cluster.runtime_classes, draft.settings.get("runtime_class")
    if allowed is not None and setting is not None and setting.value is not None and setting.value not in allowed:
        yield _reject_class(draft, "runtime_class", "runtime_classes", setting.value, allowed, setting.source)


def _reject_class(
    draft: Draft, path: str, rule: str, requested: str, allowed: Sequence[str], source: Source | None
) -> Violation:
    """The violation for a class that the cluster does not allow. It lists the allowed classes, most similar first."""
    noun = rule.removesuffix("es").replace("_", " ")
    known = sorted(allowed, key=lambda name: (-difflib.SequenceMatcher(None, name, requested).ratio(), name))
    message = f"{noun} {requested} requested; cluster {draft.cluster.name} allows {', '.join(known) or 'none'}"
    return Violation(path, rule, message, f"set it to {known[0]}" if known else "remove it", source)


def check_action(draft: Draft) -> Iterator[Violation]:
    """Check fields that only some actions support."""
    action, replicas = draft.request.action, draft.values["replicas"]
    if action == "workspace" and replicas > 1:
        yield Violation(
            "replicas", "workspace", f"a workspace has only one pod, found {replicas} replicas", "remove replicas"
        )
    if action != "job" and draft.request.deadline is not None:
        message = f"only jobs can have a deadline, found {draft.request.deadline} for action {action}"
        yield Violation("deadline", "action", message, "remove it")
    if action != "workspace" and draft.request.idle_timeout is not None:
        message = f"only workspaces can have an idle timeout, found {draft.request.idle_timeout} for action {action}"
        yield Violation("idle_timeout", "action", message, "remove it, or submit a workspace")
    idle = draft.values.get("idle_timeout")
    if action == "workspace" and idle is not None and idle < MIN_IDLE_TIMEOUT:
        message = f"must be at least {MIN_IDLE_TIMEOUT}, found {idle}"
        yield Violation("idle_timeout", "minimum", message, f"use {MIN_IDLE_TIMEOUT} or more")


def check_schedule(draft: Draft) -> Iterator[Violation]:
    """A request's schedule must be valid."""
    if draft.request.schedule is not None:
        yield from cron_times.find_violations(draft.request.schedule)


def check_serving(draft: Draft) -> Iterator[Violation]:
    """A served run needs a port or a handler."""
    function = draft.function
    if draft.request.action == "job":
        return
    # Python functions have a default port, and local functions listen on a Unix socket.
    if draft.port is None and function.kind == "container":
        message = f"action {draft.request.action} needs a container port, found none for {function.name}"
        yield Violation("function.port", "required", message, "set port, for example 8080")
    if draft.request.action == "serve" and function.source and not (function.handler or function.command):
        message = f"a served Python function needs a handler, found none for {function.source}"
        yield Violation("function.handler", "required", message, "set handler to the function that handles requests")


def check_inputs(draft: Draft) -> Iterator[Violation]:
    """Inputs are passed to a handler as arguments, so runs without a handler cannot have them."""
    function, action = draft.function, draft.request.action
    if not draft.request.inputs:
        return
    kind = None
    if function.kind == "container":
        kind = "a container"
    elif action == "workspace":
        kind = "a workspace"
    elif function.command or (function.source and not function.handler):
        kind = "a program without a handler"
    # Nothing would read the inputs, so accepting them would hide a mistake.
    if kind is not None:
        message = f"{kind} cannot have inputs, found {', '.join(map(str, draft.request.inputs))}"
        yield Violation("inputs", "contradiction", message, "use args or envs, or a Python function with a handler")


def check_code_size(draft: Draft) -> Iterator[Violation]:
    """Code and inputs must fit in a ConfigMap, unless pods can download larger code from the server."""
    code = draft.snapshot.code
    if draft.function.kind != "python":
        return
    # Code that pods download does not have to fit. The bootstrap script and the inputs must always fit.
    size = rendering.measure_code(draft) - (len(code.archive) if code and draft.calls_back else 0)
    if size > MAX_CONFIG_MAP_BYTES:
        message = f"code and inputs take up {size} bytes; at most {MAX_CONFIG_MAP_BYTES} are allowed"
        yield Violation("function.source", "size", message, "move data from the code to a volume")


def check_stored_code(manifests: Sequence[Manifest], cluster: Cluster, size: int) -> Iterator[Violation]:
    """Stored code must fit in a run's ConfigMap, unless pods can download it from the server."""
    program = next((manifest for manifest in manifests if manifest["kind"] == "ConfigMap"), None)
    if program is None or cluster.executor == "local" or cluster.server_url is not None:
        return
    available = rendering.available_bytes(program)
    if size > available:
        message = f"the code takes up {size} bytes; at most {available} are allowed on cluster/{cluster.name}"
        hint = "move data from the code to a volume, or ask an administrator to set the cluster's server_url"
        yield Violation("function.source", "size", message, hint)


def check_request(draft: Draft) -> tuple[Violation, ...]:
    """All violations in a draft except those of policies."""
    return tuple(chain.from_iterable(check(draft) for check in CHECKS))


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
        named = draft.settings.get(field)
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
    """Mount paths must be unique, and must not be folders of the platform or of the system."""
    taken: dict[str, str] = {}
    if draft.values.get("resources.shm"):
        # The platform mounts a volume there only if shared memory is requested.
        taken[SHARED_MEMORY] = f"shared memory ({_source_of(draft.settings.get('resources.shm'))})"
    for name, parts in draft.volumes.items():
        path, setting_path = parts["mount_path"], f"volumes.{name}.mount_path"
        for folder in (HOME, BOOTSTRAP):
            # A volume there could replace the bootstrap program or hide the run's result.
            if _is_inside(path, (folder,)):
                hint = "use another path, for example /data"
                yield Violation(setting_path, "reserved", f"{path} is reserved for the platform", hint)
        if path in SYSTEM_FOLDERS:
            message = f"a volume at {path} would hide system files that programs need"
            yield Violation(
                setting_path, "system_path", message, f"use another path, for example /data or {path}/{name}"
            )
        elif _is_inside(path, KERNEL_FOLDERS) and not _is_inside(path, MEMORY_FOLDERS):
            message = f"volumes cannot be mounted at {path}, where the kernel provides devices or settings"
            yield Violation(setting_path, "system_path", message, "use another path, for example /data")
        mine = f"volume {name} ({_source_of(draft.settings[f'volumes.{name}.mount_path'])})"
        other = taken.setdefault(path, mine)
        if other != mine:
            message = f"{other} and {mine} are both mounted at {path}"
            yield Violation(setting_path, "mount_path", message, "mount one of them at another path")


def check_variables(draft: Draft) -> Iterator[Violation]:
    """A variable cannot be both an env and a secret."""
    secrets = draft.groups.get("secrets", ())
    for name in [name for name in draft.groups.get("envs", ()) if name in secrets]:
        env, secret = draft.settings.get(f"envs.{name}"), draft.settings.get(f"secrets.{name}")
        message = f"{name} is set both as an env ({_source_of(env)}) and as a secret ({_source_of(secret)})"
        yield Violation(f"envs.{name}", "env_and_secret", message, "remove or rename one of them")


def check_reserved(draft: Draft) -> Iterator[Violation]:
    """Variables with the reserved prefix control the run's bootstrap."""
    for section in ("envs", "secrets"):
        for name in [name for name in draft.groups.get(section, ()) if name.startswith(RESERVED)]:
            setting = draft.settings.get(f"{section}.{name}")
            if setting is not None and setting.source.layer is not Layer.ENFORCED:
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
    for name, parts in draft.volumes.items():
        claim = parts.get("spec.claim_name")
        if known is not None and claim is not None and claim not in known:
            message = f"project {draft.snapshot.project} has no volume {claim}"
            yield Violation(f"volumes.{name}.spec.claim_name", "unknown_volume", message, suggest_names(claim, known))


def check_claims(draft: Draft) -> Iterator[Violation]:
    """A ReadWriteOnce claim cannot be used by more than one replica."""
    replicas = draft.values["replicas"]
    for name, parts in draft.volumes.items():
        if parts["volume_type"] == "persistent_volume_claim" and replicas > 1:
            message = f"volume {name} can be mounted on only one node (ReadWriteOnce), found {replicas} replicas"
            hint = "set replicas to 1, or use volume type ephemeral (one per pod) or shared_volume"
            yield Violation(f"volumes.{name}.volume_type", "replicas", message, hint)


def check_workload_type(draft: Draft) -> Iterator[Violation]:
    """A compute resource may allow only some workload types."""
    resource = draft.snapshot.compute_resources.get(draft.values.get("profile", ""))
    kind = WORKLOAD_TYPES[draft.request.action]
    if resource is not None and resource.workload_types is not None and kind not in resource.workload_types:
        allowed = ", ".join(resource.workload_types)
        message = f"compute resource {resource.name} allows {allowed}; action {draft.request.action} is of type {kind}"
        source = draft.settings.get("profile")
        hint = f"choose a compute resource for {kind}"
        yield Violation("profile", "workload_types", message, hint, source.source if source else None)


def check_extended(draft: Draft) -> Iterator[Violation]:
    """GPUs must be requested with resources.gpu, which rules and quotas check."""
    for name in draft.groups.get("resources", ()):
        resource = name.removeprefix("extended.")
        if name != resource and (resource == draft.cluster.gpu_resource or resource.startswith(GPU_RESOURCES)):
            message = f"{resource} is a GPU resource, but policies and quotas check resources.gpu"
            yield Violation(f"resources.{name}", "gpu_as_extended", message, "use resources.gpu")


def check_placement(draft: Draft) -> Iterator[Violation]:
    """Node selector, node affinity and GPU type must not contradict each other."""
    required = draft.settings.get(f"affinity.{layers.REQUIRED_NODES}")
    # The terms are counted from the layers, because `combine_terms` stops multiplying them at the maximum.
    count = math.prod(len(layer.value) for layer in required.combined) if required else 0
    path = f"affinity.{layers.REQUIRED_NODES}"
    if count > layers.MAX_TERMS:
        message = f"the layers together have {count} terms; at most {layers.MAX_TERMS} are allowed"
        yield Violation(path, "length", message, "use fewer alternatives")
    elif layers.is_impossible_placement(draft.section("node_selector"), draft.required_nodes):
        sources = dict.fromkeys(str(term.source) for term in (required.combined or (required,) if required else ()))
        other = f"node affinity (from {', '.join(sources)})" if sources else "GPU type"
        message = f"node selector and {other} contradict each other, so no node can match"
        violating_path = path if sources else "resources.gpu.type"
        yield Violation(violating_path, "contradiction", message, "remove or change one of them")


def check_amounts(draft: Draft) -> Iterator[Violation]:
    """A limit computed with a factor may exceed the largest possible amount."""
    for name in AMOUNTS:
        limit = draft.values.get(f"resources.{name}.limits")
        if isinstance(limit, Quantity) and limit > MAX_AMOUNT:
            setting = draft.settings.get(f"resources.{name}.limits")
            message = f"must be at most {MAX_AMOUNT}, found {limit}"
            source = setting.source if setting else None
            yield Violation(f"resources.{name}.limits", "range", message, "request less", source)


def _is_inside(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is one of the folders or inside one of them."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _source_of(setting: Setting | None) -> str:
    return str(setting.source) if setting else ""


CHECKS: tuple[Check, ...] = (
    check_names,
    check_plan_token,
    check_action,
    check_serving,
    check_schedule,
    executor_checks.check_executor,
    check_mounts,
    check_variables,
    check_reserved,
    check_secrets,
    check_shared_volumes,
    check_claims,
    check_workload_type,
    check_gpu_sharing,
    check_storage_classes,
    check_runtime_class,
    check_extended,
    check_placement,
    check_inputs,
    check_amounts,
    check_code_size,
)
