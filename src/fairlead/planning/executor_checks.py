"""Checks and warnings that depend on the cluster's executor: what it cannot do, has no effect, or is not enforced."""

from collections.abc import Iterator

from fairlead.model.names import SHARED_MEMORY
from fairlead.model.nodes import KUBERNETES, ProtectionName
from fairlead.model.plans import Layer, PlanWarning, Violation
from fairlead.model.quantities import NANOS, Quantity
from fairlead.resolution.drafts import Draft

USE_KUBERNETES = "run it on a Kubernetes cluster"
ALLOW_NAMESPACES = "allow user namespaces on the machine"
PORT = "PORT"  # the environment variable with the port to listen on
LIMITED: dict[str, ProtectionName] = {"mem": "memory", "cpu": "cpu", "disk": "disk"}


def check_executor(draft: Draft) -> Iterator[Violation]:
    """The cluster's executor must support all settings."""
    for check in (_check_local, _check_mounts, _check_user, _check_network):
        yield from check(draft)


def _check_local(draft: Draft) -> Iterator[Violation]:
    """A local cluster executes Python functions, each as a single process."""
    if draft.cluster.executor != "local":
        return
    function, action, replicas = draft.function, draft.request.action, draft.values["replicas"]
    cluster = f"cluster/{draft.cluster.name}"
    if function.kind == "container":
        message = f"{cluster} cannot run containers, found image {function.image}"
        yield Violation(
            "function.kind", "local", message, f"set kind to python, which can run any command, or {USE_KUBERNETES}"
        )
    if replicas > 1:
        message = f"{cluster} runs a single process per run, found {replicas} replicas"
        yield Violation("replicas", "local", message, f"submit {replicas} runs, or {USE_KUBERNETES}")
    for name, parts in draft.volumes.items():
        if parts["volume_type"] == "config_map":
            message = f"{cluster} has no config maps, found {parts['spec.name']}"
            hint = f"use a secret or a shared volume, or {USE_KUBERNETES}"
            yield Violation(f"volumes.{name}.volume_type", "local", message, hint)
    # Python handlers listen on a Unix socket, so only commands need a port.
    if action != "job" and function.command and draft.port is None:
        yield from _check_port(draft, cluster)
    if action != "workspace" and function.kind == "python" and function.source is None and not function.command:
        message = f"function {function.name} has neither source nor command, so there is nothing to run"
        yield Violation("function.source", "required", message, "set function.source, for example train.py")


def _check_mounts(draft: Draft) -> Iterator[Violation]:
    """Volumes need an executor that can mount them."""
    capabilities = draft.snapshot.capabilities
    if capabilities is None or capabilities.mount_error is None:
        return
    for name in draft.volumes:
        message = f"cluster/{draft.cluster.name} cannot mount volumes: {capabilities.mount_error}"
        yield Violation(f"volumes.{name}", "mounts", message, f"{ALLOW_NAMESPACES}, or {USE_KUBERNETES}")


def _check_user(draft: Draft) -> Iterator[Violation]:
    """A run must get the user and group that it requests."""
    capabilities = draft.snapshot.capabilities
    if capabilities is None or capabilities.user_ids:
        return
    for field in ("run_as_user", "run_as_group"):
        setting = draft.settings.get(field)
        if setting is not None and setting.value is not None and setting.source.layer is not Layer.ENFORCED:
            message = f"cluster/{draft.cluster.name} cannot run as {setting.value}: {capabilities.mount_error}"
            yield Violation(field, "user_ids", message, f"remove it, or {ALLOW_NAMESPACES}", setting.source)


def _check_network(draft: Draft) -> Iterator[Violation]:
    """A policy can require runs without a network, which not every executor supports."""
    setting = draft.settings.get("network")
    if setting is None:
        return
    cluster, source = f"cluster/{draft.cluster.name}", setting.source
    capabilities = KUBERNETES if draft.cluster.executor == "kubernetes" else draft.snapshot.capabilities
    if capabilities is not None and setting.value not in capabilities.networks:
        message = f"the {source} sets network to {setting.value}; {cluster} supports {', '.join(capabilities.networks)}"
        hint = f"ask an administrator of {source.scope} to change the switch, or use another cluster"
        yield Violation("network", "network", message, hint, source)
    # The proxy reaches handlers through a Unix socket, and commands through a port.
    elif setting.value == "none" and draft.request.action != "job" and draft.function.command:
        message = f"the {source} sets network to none, so the port of the command cannot be reached"
        yield Violation("function.command", "network", message, "serve a handler instead", source)


def warn_of_no_enforcement(draft: Draft) -> Iterator[PlanWarning]:
    """Limits and settings that the machine of a local cluster does not enforce."""
    capabilities, cluster = draft.snapshot.capabilities, f"cluster/{draft.cluster.name}"
    if capabilities is None:
        return
    for name, protection_name in LIMITED.items():
        limit, protection = draft.values.get(f"resources.{name}.limits"), capabilities.protections.get(protection_name)
        if not isinstance(limit, Quantity) or protection is None:
            continue
        path = f"resources.{name}.limits"
        if not protection.is_enforced:
            message = f"{cluster} does not enforce the limit of {limit}: {protection.gap or 'it has no mechanism'}"
            yield PlanWarning(path, "not_enforced", message, "remove the limit, or start the server as root")
        elif protection.mechanism == "affinity" and limit.nanos % NANOS:
            message = f"{cluster} can only limit runs to whole cores, so {limit} becomes {-(-limit.nanos // NANOS)}"
            yield PlanWarning(path, "not_enforced", message, "use a whole number, or start the server as root")
    if capabilities.mount_error is not None and draft.values.get("resources.shm"):
        message = f"{SHARED_MEMORY} of {cluster} is shared with other programs and has no limit for this run"
        yield PlanWarning("resources.shm", "not_enforced", message, f"remove resources.shm, or {ALLOW_NAMESPACES}")
    group = draft.settings.get("fs_group")
    if group is None or group.source.layer is Layer.ENFORCED or capabilities.more_groups:
        return
    if group.value != draft.values.get("run_as_group"):
        message = f"{group.value} has no effect on {cluster}, whose server does not run as root"
        yield PlanWarning("fs_group", "no_effect", message, "remove it; volumes are writable for the run")


def warn_of_no_effect(draft: Draft) -> Iterator[PlanWarning]:
    """Settings that have no effect on a local cluster."""
    if draft.cluster.executor != "local":
        return
    if draft.function.kind == "python" and draft.function.image is not None:
        message = (
            f"image {draft.function.image} has no effect on cluster/{draft.cluster.name}, which does not use containers"
        )
        yield PlanWarning("function.image", "no_effect", message, "remove it; the server's Python is used")
    if draft.function.kind == "python" and draft.port is not None and not draft.function.command:
        message = f"port {draft.port} has no effect on cluster/{draft.cluster.name}: only commands use a port there"
        yield PlanWarning("function.port", "no_effect", message, "remove it; use the run's URL")
    for path, pulled in _pull_settings(draft):
        message = f"{pulled} has no effect on cluster/{draft.cluster.name}, which does not pull images"
        yield PlanWarning(path, "no_effect", message, "remove it")
    for field in ("runtime_class", "priority_class"):
        if (value := draft.values.get(field)) is not None:
            message = f"{value} has no effect on cluster/{draft.cluster.name}, which is a single machine"
            yield PlanWarning(field, "no_effect", message, "remove it")
    for part in ("podAffinity", "podAntiAffinity"):
        if any(path.startswith(part) for path in draft.groups.get("affinity", ())):
            message = f"{part} has no effect on cluster/{draft.cluster.name}, which is a single machine"
            yield PlanWarning("affinity", "no_effect", message, "remove it")


def _check_port(draft: Draft, cluster: str) -> Iterator[Violation]:
    """Without function.port, the executor picks a free port and sets PORT, so users cannot set it."""
    for field in ("envs", "secrets"):
        if draft.values.get(f"{field}.{PORT}") is not None:
            message = f"{cluster} sets {PORT} to a free port"
            yield Violation(f"{field}.{PORT}", "local", message, "remove it, or set function.port instead")


def _pull_settings(draft: Draft) -> Iterator[tuple[str, str]]:
    """The settings for pulling images, with their paths."""
    if (policy := draft.values.get("function.pull_policy")) is not None:
        yield "function.pull_policy", policy
    for name, path in draft.pull_secrets.items():
        yield path, name
