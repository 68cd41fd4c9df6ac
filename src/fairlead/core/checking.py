"""The rules of the language itself: what no policy needs to say, because it could not work."""

from collections.abc import Callable, Iterator

from fairlead.core import placement
from fairlead.core.drafts import Draft
from fairlead.core.folders import BOOTSTRAP, HOME, SHARED_MEMORY
from fairlead.core.policies import switches
from fairlead.model.parsing import nearest
from fairlead.model.plans import Setting, Violation
from fairlead.model.requests import WORKLOAD_TYPES

LARGEST_CONFIG_MAP = 1_000_000
SHARING = ("kai", "hami")

Check = Callable[[Draft], Iterator[Violation]]


def check(draft: Draft) -> tuple[Violation, ...]:
    """Everything that keeps the draft from running, apart from the rules of policies."""
    return tuple(violation for rule in CHECKS for violation in rule(draft))


def check_mounts(draft: Draft) -> Iterator[Violation]:
    """Two volumes cannot share a mount path, nor take the platform's own folders."""
    taken: dict[str, str] = {}
    if draft.resolution.value("resources", "shm"):
        taken[SHARED_MEMORY] = f"shared memory ({_source(draft.resolution.setting('resources', 'shm'))})"
    for name, parts in sorted(draft.resolution.named("volumes").items()):
        path, where = parts["mount_path"], f"volumes.{name}.mount_path"
        for folder in (HOME, BOOTSTRAP):
            if path == folder or path.startswith(folder + "/"):
                yield Violation(
                    where, "reserved", f"{path} belongs to the platform", "mount it elsewhere, such as /data"
                )
        mine = f"volume {name} ({_source(draft.resolution.setting('volumes', name, 'mount_path'))})"
        other = taken.setdefault(path, mine)
        if other != mine:
            message = f"{other} and {mine} are both mounted at {path}"
            yield Violation(where, "mount_path", message, "mount one of them elsewhere")


def check_variables(draft: Draft) -> Iterator[Violation]:
    """An env and a secret of one name would hide each other."""
    for name in sorted(draft.resolution.named("envs").keys() & draft.resolution.named("secrets").keys()):
        env, secret = draft.resolution.setting("envs", name), draft.resolution.setting("secrets", name)
        message = f"{name} is an env ({_source(env)}) and a secret ({_source(secret)})"
        yield Violation(f"envs.{name}", "env_and_secret", message, "keep the secret, or rename the env")


def check_secrets(draft: Draft) -> Iterator[Violation]:
    """Only secrets that are stored in the project can be given to a run."""
    known = draft.snapshot.secrets
    if known is None:
        return
    asked = {name: f"secrets.{name}" for name in draft.resolution.named("secrets")}
    for volume, parts in draft.resolution.named("volumes").items():
        if parts["volume_type"] == "secret":
            asked.setdefault(parts.get("spec.name", volume), f"volumes.{volume}.spec.name")
    for name, path in sorted(asked.items()):
        if name not in known:
            message = f"project {draft.snapshot.project} has no secret {name}"
            hint = nearest(name, known, "its secrets: {known}")
            yield Violation(path, "unknown_secret", message, f"{hint}; secrets are stored with the platform, by name")


def check_shared_volumes(draft: Draft) -> Iterator[Violation]:
    """A shared volume is one of the project's."""
    known = draft.snapshot.volumes
    for name, parts in sorted(draft.resolution.named("volumes").items()):
        claim = parts.get("spec.claim_name", name)
        if known is not None and parts["volume_type"] == "shared_volume" and claim not in known:
            message = f"project {draft.snapshot.project} has no volume {claim}"
            yield Violation(f"volumes.{name}.spec.claim_name", "unknown_volume", message, nearest(claim, known))


def check_claims(draft: Draft) -> Iterator[Violation]:
    """A claim that one node mounts cannot serve several pods."""
    replicas = draft.resolution.value("replicas")
    for name, parts in sorted(draft.resolution.named("volumes").items()):
        if parts["volume_type"] == "persistent_volume_claim" and replicas > 1:
            message = f"volume {name} can be mounted by one node only (ReadWriteOnce), found {replicas} replicas"
            hint = "set replicas to 1, or use ephemeral (one for each pod) or shared_volume"
            yield Violation(f"volumes.{name}.volume_type", "replicas", message, hint)


def check_workload_type(draft: Draft) -> Iterator[Violation]:
    """A compute resource may be for certain kinds of runs only."""
    resource, kind = draft.compute_resource, WORKLOAD_TYPES[draft.request.action]
    if resource is not None and resource.workload_types is not None and kind not in resource.workload_types:
        allowed = ", ".join(resource.workload_types)
        message = f"compute resource {resource.name} is for {allowed}; action {draft.request.action} is {kind}"
        source = draft.resolution.setting("profile")
        hint = f"choose a compute resource for {kind}"
        yield Violation("profile", "workload_types", message, hint, source.source if source else None)


def check_gpu_sharing(draft: Draft) -> Iterator[Violation]:
    """A cluster can only deal out the parts of GPUs that it knows how to schedule."""
    memory = draft.resolution.value("resources", "gpu", "memory.request")
    limit = draft.resolution.value("resources", "gpu", "memory.limit")
    mig, cluster = draft.resolution.value("resources", "gpu", "mig"), draft.cluster
    elsewhere = [name for name in draft.snapshot.sharing_clusters if name != cluster.name]
    other = f"run it on cluster {' or '.join(elsewhere)}" if elsewhere else "ask for a whole device: gpu: 1"
    if memory is not None and cluster.gpu_sharing not in SHARING:
        message = f"asks for {memory} of a GPU's memory; cluster {cluster.name} has only whole GPUs (gpu_sharing: none)"
        yield Violation("resources.gpu.memory", "gpu_sharing", message, other)
    elif limit is not None and limit != memory and cluster.gpu_sharing == "hami":
        message = f"limit {limit} is over the request {memory}; cluster {cluster.name} (hami) gives exactly the request"
        yield Violation("resources.gpu.memory.limit", "gpu_sharing", message, f"set it to {memory}")
    if mig is not None and not cluster.gpu_resource.startswith("nvidia.com/"):
        message = f"asks for MIG slice {mig}; cluster {cluster.name} has {cluster.gpu_resource}"
        yield Violation("resources.gpu.mig", "gpu_sharing", message, "MIG is for NVIDIA GPUs: ask for a whole device")


def check_extended(draft: Draft) -> Iterator[Violation]:
    """GPUs are asked for by their own name, where rules and quotas see them."""
    for name in sorted(draft.resolution.named("resources")):
        resource = name.removeprefix("extended.")
        if name != resource and (resource == draft.cluster.gpu_resource or resource.startswith(GPU_RESOURCES)):
            message = f"{resource} is a GPU resource; policies and quotas look at resources.gpu"
            yield Violation(f"resources.{name}", "gpu_as_extended", message, "ask with resources.gpu")


def check_placement(draft: Draft) -> Iterator[Violation]:
    """A selector and an affinity that exclude each other fit no node, now or later."""
    selector = {key: parts[""] for key, parts in draft.resolution.named("node_selector").items()}
    required = draft.resolution.setting("affinity", placement.REQUIRED_NODES)
    if required is not None and placement.is_impossible(selector, required.value):
        sources = ", ".join(dict.fromkeys(str(said.source) for said in required.combined or (required,)))
        message = f"node selector and required node affinity (of {sources}) exclude each other: no node can suit them"
        yield Violation(required.path, "contradiction", message, "drop or change one of the conditions")


def check_action(draft: Draft) -> Iterator[Violation]:
    """What each action needs: a served container its port, a workspace one pod, a deadline a job."""
    request, action = draft.request, draft.request.action
    if action == "serve" and draft.port is None:
        message = "a served container needs the port it listens on"
        yield Violation("function.port", "required", message, "say port, such as 8080")
    if action == "workspace" and draft.resolution.value("replicas") > 1:
        message = f"a workspace is one pod, found {request.replicas} replicas"
        yield Violation("replicas", "workspace", message, "leave replicas out")
    if action != "job" and request.deadline is not None:
        message = f"a deadline ends a job; action {action} runs until it is stopped"
        yield Violation("deadline", "action", message, "leave it out")


def check_code_size(draft: Draft) -> Iterator[Violation]:
    """Code and inputs travel in a ConfigMap, which holds a megabyte."""
    code = draft.snapshot.code
    size = len(str(draft.request.inputs)) * 2 + (len(code.bootstrap) + len(code.archive) * 4 // 3 if code else 0)
    if draft.function.kind == "python" and size > LARGEST_CONFIG_MAP:
        message = f"code and inputs take {size} bytes; at most {LARGEST_CONFIG_MAP} reach a run"
        yield Violation("function.source", "size", message, "keep data out of the code: use a volume")


def _source(setting: Setting | None) -> str:
    return str(setting.source) if setting else ""


GPU_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu", "gpu.intel.com/", "habana.ai/gaudi")

CHECKS: tuple[Check, ...] = (
    check_action,
    check_mounts,
    check_variables,
    check_secrets,
    check_shared_volumes,
    check_claims,
    check_workload_type,
    check_gpu_sharing,
    check_extended,
    check_placement,
    check_code_size,
    switches.check_existing_volumes,
    switches.check_storage_classes,
    switches.check_registries,
    switches.check_compute_resource,
    switches.check_root,
    switches.check_gpu_memory_limits,
)
