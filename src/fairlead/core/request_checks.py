"""The rules of the language itself: what no policy needs to say, because it could not work."""

import marshal
import math
from collections.abc import Callable, Iterator

from fairlead.core import actions, cluster_checks, cron_times, local_limits, placement
from fairlead.core.container_folders import BOOTSTRAP, HOME, SHARED_MEMORY
from fairlead.core.drafts import Draft
from fairlead.core.policies import switches
from fairlead.core.resolution import AMOUNTS
from fairlead.model.parsing import suggest_names
from fairlead.model.plans import Layer, Manifest, Setting, Violation
from fairlead.model.quantities import MAXIMUM, Quantity
from fairlead.model.requests import WORKLOAD_TYPES

RESERVED = "FAIRLEAD_"
LARGEST_OBJECT = 1_200_000
LARGEST = Quantity.of(MAXIMUM)
GPU_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu", "gpu.intel.com/", "habana.ai/gaudi")

Check = Callable[[Draft], Iterator[Violation]]


def check(draft: Draft) -> tuple[Violation, ...]:
    """Everything that keeps the draft from running, apart from the rules of policies."""
    return tuple(violation for rule in CHECKS for violation in rule(draft))


def check_size(manifest: Manifest) -> Iterator[Violation]:
    """The main object must fit what a cluster stores; the others of a run are smaller, or bounded on their own."""
    # Much faster than JSON, and never smaller by more than the quotes and commas.
    size = len(marshal.dumps(manifest, 2))
    if size > LARGEST_OBJECT:
        message = f"the {manifest['kind']} takes {size:,} bytes, at most {LARGEST_OBJECT:,} can be stored"
        yield Violation("", "size", message, "ask for less in envs, args and affinity")


def check_names(draft: Draft) -> Iterator[Violation]:
    """A compute resource or a template that is named must be there: nothing falls back."""
    snapshot = draft.snapshot
    for field, noun, known in (
        ("profile", "compute resource", snapshot.compute_resources),
        ("template", "template", snapshot.templates),
    ):
        named = draft.resolution.setting(field)
        if named is not None and named.value not in known:
            if (field, named.value) in snapshot.archived:
                message, hint = (
                    f"{noun} {named.value!r} is archived",
                    suggest_names(named.value, known, "choose one: {known}"),
                )
                yield Violation(field, "archived", message, hint, named.source)
                continue
            message = f"there is no {noun} {named.value!r}"
            hint = (
                suggest_names(named.value, known, "choose one: {known}") if known else "there is none yet: leave it out"
            )
            yield Violation(field, f"unknown_{field}", message, hint, named.source)


def check_plan_token(draft: Draft) -> Iterator[Violation]:
    """Whoever submits with a token takes it off first: here it would mean nothing."""
    if draft.request.plan_token is not None:
        yield Violation("plan_token", "plan_token", "is for submitting, not for a preview", "leave it out")


def check_mounts(draft: Draft) -> Iterator[Violation]:
    """Two volumes cannot share a mount path, nor take the platform's own folders."""
    taken: dict[str, str] = {}
    if draft.resolution.value("resources", "shm"):
        taken[SHARED_MEMORY] = f"shared memory ({_source(draft.resolution.setting('resources', 'shm'))})"
    for name, parts in draft.resolution.named("volumes").items():
        path, where = parts["mount_path"], f"volumes.{name}.mount_path"
        for folder in (HOME, BOOTSTRAP):
            if path == folder or path.startswith(folder + "/"):
                hint = "mount it elsewhere, such as /data"
                yield Violation(where, "reserved", f"{path} belongs to the platform", hint)
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


def check_reserved(draft: Draft) -> Iterator[Violation]:
    """Variables with the platform's prefix steer the program that starts the run."""
    for section in ("envs", "secrets"):
        for name in draft.resolution.named(section):
            said = draft.resolution.setting(section, name)
            if name.startswith(RESERVED) and said is not None and said.source.layer is not Layer.ENFORCED:
                message = f"names with {RESERVED} are the platform's, found {name}"
                yield Violation(f"{section}.{name}", "reserved", message, "rename it", said.source)
    for name, path in draft.secrets.items():
        if name.startswith(RESERVED) and path.startswith("volumes."):
            yield Violation(path, "reserved", f"names with {RESERVED} are the platform's, found {name}", "rename it")


def check_secrets(draft: Draft) -> Iterator[Violation]:
    """Only secrets that are stored in the project can be given to a run."""
    known = draft.snapshot.secrets
    if known is None:
        return
    for name, path in (*draft.secrets.items(), *draft.pull_secrets.items()):
        if name not in known:
            message = f"project {draft.snapshot.project} has no secret {name}"
            hint = suggest_names(name, known, "store it first, or use one of {known}") if known else "store it first"
            yield Violation(path, "unknown_secret", message, hint)


def check_shared_volumes(draft: Draft) -> Iterator[Violation]:
    """A shared volume is one of the project's."""
    known = draft.snapshot.volumes
    for name, parts in draft.resolution.named("volumes").items():
        claim = parts.get("spec.claim_name")
        if known is not None and claim is not None and claim not in known:
            message = f"project {draft.snapshot.project} has no volume {claim}"
            yield Violation(f"volumes.{name}.spec.claim_name", "unknown_volume", message, suggest_names(claim, known))


def check_claims(draft: Draft) -> Iterator[Violation]:
    """A claim that one node mounts cannot serve several pods."""
    replicas = draft.resolution.value("replicas")
    for name, parts in draft.resolution.named("volumes").items():
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


def check_extended(draft: Draft) -> Iterator[Violation]:
    """GPUs are asked for by their own name, where rules and quotas see them."""
    for name in draft.resolution.named("resources"):
        resource = name.removeprefix("extended.")
        if name != resource and (resource == draft.cluster.gpu_resource or resource.startswith(GPU_RESOURCES)):
            message = f"{resource} is a GPU resource; policies and quotas look at resources.gpu"
            yield Violation(f"resources.{name}", "gpu_as_extended", message, "ask with resources.gpu")


def check_placement(draft: Draft) -> Iterator[Violation]:
    """A selector, an affinity and a type of GPU that exclude each other fit no node, now or later."""
    required = draft.resolution.setting("affinity", placement.REQUIRED_NODES)
    crossed = math.prod(len(said.value) for said in required.combined) if required else 0
    path = f"affinity.{placement.REQUIRED_NODES}"
    if crossed > placement.MOST_CROSSED:
        message = f"the terms of all layers make {crossed} together, at most {placement.MOST_CROSSED} are allowed"
        yield Violation(path, "length", message, "ask for fewer alternatives")
    elif placement.is_impossible(draft.resolution.values("node_selector"), draft.required_nodes):
        said = dict.fromkeys(str(said.source) for said in (required.combined or (required,) if required else ()))
        who = f"required node affinity (of {', '.join(said)})" if said else "the type of GPU"
        message = f"node selector and {who} exclude each other: no node can suit them"
        yield Violation(path if said else "resources.gpu.type", "contradiction", message, "drop or change one of them")


def check_amounts(draft: Draft) -> Iterator[Violation]:
    """A limit that a factor made of a request may be more than there can be."""
    for name in AMOUNTS:
        limit = draft.amount(name, "limits")
        if isinstance(limit, Quantity) and limit > LARGEST:
            setting = draft.resolution.setting("resources", name, "limits")
            message = f"is {limit}, more than the largest amount, {LARGEST}"
            source = setting.source if setting else None
            yield Violation(f"resources.{name}.limits", "range", message, "ask for less", source)


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
