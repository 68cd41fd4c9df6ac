"""What this machine cannot do that a cluster can: told before a run is kept, not when it fails."""

from collections.abc import Iterator

from fairlead.core.drafts import Draft
from fairlead.model.plans import PlanWarning, Violation

ELSEWHERE = "run it on a Kubernetes cluster"
PORT = "PORT"  # the variable that says where to listen


def check_local(draft: Draft) -> Iterator[Violation]:
    """A local cluster executes Python functions, each as one process."""
    if draft.cluster.executor != "local":
        return
    function, action, replicas = draft.function, draft.request.action, draft.resolution.value("replicas")
    where = f"cluster/{draft.cluster.name}"
    if function.kind == "container":
        message = f"{where} is one machine without containers, found image {function.image}"
        yield Violation("function.kind", "local", message, f"use kind: python, which runs any command, or {ELSEWHERE}")
    if replicas > 1:
        message = f"{where} is one machine and executes a run as one process, found {replicas} replicas"
        yield Violation("replicas", "local", message, f"submit {replicas} runs, or {ELSEWHERE}")
    if action != "job" and function.command and draft.port is None:
        yield from _check_port(draft, where)
    if action != "workspace" and function.kind == "python" and function.source is None and not function.command:
        message = f"function {function.name} has neither a source nor a command: there is nothing to run"
        yield Violation("function.source", "required", message, "say function: {name: ..., source: train.py}")


def warn_of_no_effect(draft: Draft) -> Iterator[PlanWarning]:
    """What is understood, and means nothing on one machine."""
    if draft.cluster.executor != "local":
        return
    if draft.function.kind == "python" and draft.function.image is not None:
        message = f"image {draft.function.image} has no effect on cluster/{draft.cluster.name}, which has no containers"
        yield PlanWarning("function.image", "no_effect", message, "leave it out: the Python of the server is used")
    if draft.function.kind == "python" and draft.port is not None and not draft.function.command:
        message = (
            f"port {draft.port} has no effect on cluster/{draft.cluster.name}: only commands listen on ports there"
        )
        yield PlanWarning("function.port", "no_effect", message, "leave it out: it is reached by its URL")
    for path, value in _pulls(draft):
        message = f"{value} has no effect on cluster/{draft.cluster.name}, which pulls no images"
        yield PlanWarning(path, "no_effect", message, "leave it out")
    for field in ("runtime_class", "priority_class"):
        if (value := draft.resolution.value(field)) is not None:
            message = f"{value} has no effect on cluster/{draft.cluster.name}, which is one machine"
            yield PlanWarning(field, "no_effect", message, "leave it out")
    for part in ("podAffinity", "podAntiAffinity"):
        if any(path.startswith(part) for path in draft.resolution.values("affinity")):
            message = f"{part} has no effect on cluster/{draft.cluster.name}, which is one machine"
            yield PlanWarning("affinity", "no_effect", message, "leave it out")


def _check_port(draft: Draft, where: str) -> Iterator[Violation]:
    """What listens on a port that nobody says is given a free one: a variable cannot say another."""
    for field in ("envs", "secrets"):
        if draft.resolution.value(field, PORT) is not None:
            message = f"{PORT} is where the run is to listen, and {where} chooses it where function.port says nothing"
            yield Violation(f"{field}.{PORT}", "local", message, "leave it out, or say function.port in its place")


def _pulls(draft: Draft) -> Iterator[tuple[str, str]]:
    """What is said of how images are pulled."""
    if (policy := draft.resolution.value("function", "pull_policy")) is not None:
        yield "function.pull_policy", policy
    for name, path in draft.pull_secrets.items():
        yield path, name
