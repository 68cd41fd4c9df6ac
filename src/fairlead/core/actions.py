"""Checks for each action: replicas, timeouts, ports, inputs and code size."""

from collections.abc import Iterator, Sequence

from fairlead.core.idle_culling import MIN_IDLE_TIMEOUT
from fairlead.core.manifests import functions
from fairlead.core.manifests.functions import MAX_CONFIG_MAP_BYTES
from fairlead.model.plans import Manifest, Violation
from fairlead.model.scopes import Cluster
from fairlead.resolution.drafts import Draft


def check_action(draft: Draft) -> Iterator[Violation]:
    """Check fields that only some actions support."""
    action, replicas = draft.request.action, draft.resolution.value("replicas")
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
    idle = draft.resolution.value("idle_timeout")
    if action == "workspace" and idle is not None and idle < MIN_IDLE_TIMEOUT:
        message = f"must be at least {MIN_IDLE_TIMEOUT}, found {idle}"
        yield Violation("idle_timeout", "minimum", message, f"use {MIN_IDLE_TIMEOUT} or more")


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
    size = functions.measure_code(draft) - (len(code.archive) if code and draft.calls_back else 0)
    if size > MAX_CONFIG_MAP_BYTES:
        message = f"code and inputs take up {size} bytes; at most {MAX_CONFIG_MAP_BYTES} are allowed"
        yield Violation("function.source", "size", message, "move data from the code to a volume")


def check_stored_code(manifests: Sequence[Manifest], cluster: Cluster, size: int) -> Iterator[Violation]:
    """Stored code must fit in a run's ConfigMap, unless pods can download it from the server."""
    program = next((manifest for manifest in manifests if manifest["kind"] == "ConfigMap"), None)
    if program is None or cluster.executor == "local" or cluster.server_url is not None:
        return
    available = functions.available_bytes(program)
    if size > available:
        message = f"the code takes up {size} bytes; at most {available} are allowed on cluster/{cluster.name}"
        hint = "move data from the code to a volume, or ask an administrator to set the cluster's server_url"
        yield Violation("function.source", "size", message, hint)
