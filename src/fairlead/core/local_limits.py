"""Checks and warnings for the local executor, which cannot do everything that Kubernetes can."""

from collections.abc import Iterator

from fairlead.model.plans import PlanWarning, Violation
from fairlead.resolution.drafts import Draft

USE_KUBERNETES = "run it on a Kubernetes cluster"
PORT = "PORT"  # the environment variable with the port to listen on


def check_local(draft: Draft) -> Iterator[Violation]:
    """A local cluster executes Python functions, each as a single process."""
    if draft.cluster.executor != "local":
        return
    function, action, replicas = draft.function, draft.request.action, draft.resolution.value("replicas")
    cluster = f"cluster/{draft.cluster.name}"
    if function.kind == "container":
        message = f"{cluster} cannot run containers, found image {function.image}"
        yield Violation(
            "function.kind", "local", message, f"set kind to python, which can run any command, or {USE_KUBERNETES}"
        )
    if replicas > 1:
        message = f"{cluster} runs a single process per run, found {replicas} replicas"
        yield Violation("replicas", "local", message, f"submit {replicas} runs, or {USE_KUBERNETES}")
    # Python handlers listen on a Unix socket, so only commands need a port.
    if action != "job" and function.command and draft.port is None:
        yield from _check_port(draft, cluster)
    if action != "workspace" and function.kind == "python" and function.source is None and not function.command:
        message = f"function {function.name} has neither source nor command, so there is nothing to run"
        yield Violation("function.source", "required", message, "set function.source, for example train.py")


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
    for path, value in _pull_settings(draft):
        message = f"{value} has no effect on cluster/{draft.cluster.name}, which does not pull images"
        yield PlanWarning(path, "no_effect", message, "remove it")
    for field in ("runtime_class", "priority_class"):
        if (value := draft.resolution.value(field)) is not None:
            message = f"{value} has no effect on cluster/{draft.cluster.name}, which is a single machine"
            yield PlanWarning(field, "no_effect", message, "remove it")
    for part in ("podAffinity", "podAntiAffinity"):
        if any(path.startswith(part) for path in draft.resolution.values("affinity")):
            message = f"{part} has no effect on cluster/{draft.cluster.name}, which is a single machine"
            yield PlanWarning("affinity", "no_effect", message, "remove it")


def _check_port(draft: Draft, cluster: str) -> Iterator[Violation]:
    """Without function.port, the executor picks a free port and sets PORT, so users cannot set it."""
    for field in ("envs", "secrets"):
        if draft.resolution.value(field, PORT) is not None:
            message = f"{cluster} sets {PORT} to a free port"
            yield Violation(f"{field}.{PORT}", "local", message, "remove it, or set function.port instead")


def _pull_settings(draft: Draft) -> Iterator[tuple[str, str]]:
    """The settings for pulling images, with their paths."""
    if (policy := draft.resolution.value("function", "pull_policy")) is not None:
        yield "function.pull_policy", policy
    for name, path in draft.pull_secrets.items():
        yield path, name
