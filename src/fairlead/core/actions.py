"""What each action needs of a function: where it listens, what it is called with, how its code travels."""

from collections.abc import Iterator, Sequence

from fairlead.core.drafts import Draft
from fairlead.core.idle_culling import LEAST_IDLE
from fairlead.core.manifests import functions
from fairlead.core.manifests.functions import LARGEST_CONFIG_MAP
from fairlead.model.plans import Manifest, Violation
from fairlead.model.scopes import Cluster


def check_action(draft: Draft) -> Iterator[Violation]:
    """What each action needs: a workspace is one pod, a deadline is for a job."""
    action, replicas = draft.request.action, draft.resolution.value("replicas")
    if action == "workspace" and replicas > 1:
        yield Violation("replicas", "workspace", f"a workspace is one pod, found {replicas} replicas", "leave it out")
    if action != "job" and draft.request.deadline is not None:
        message = f"a deadline ends a job, found {draft.request.deadline}; {action} runs until it is stopped"
        yield Violation("deadline", "action", message, "leave it out")
    if action != "workspace" and draft.request.idle_timeout is not None:
        message = f"idle_timeout stops a workspace that nobody uses, found {draft.request.idle_timeout} for {action}"
        yield Violation("idle_timeout", "action", message, "leave it out, or submit a workspace")
    idle = draft.resolution.value("idle_timeout")
    if action == "workspace" and idle is not None and idle < LEAST_IDLE:
        message = f"use is noted to the minute, so a workspace is idle after {LEAST_IDLE} at the soonest, found {idle}"
        yield Violation("idle_timeout", "minimum", message, f"say {LEAST_IDLE} or more")


def check_serving(draft: Draft) -> Iterator[Violation]:
    """What answers requests, and where it listens."""
    function = draft.function
    if draft.request.action == "job":
        return
    if draft.port is None and function.kind == "container":
        message = f"{draft.request.action} of a container needs the port it listens on, found none for {function.name}"
        yield Violation("function.port", "required", message, "say port, such as 8080")
    if draft.request.action == "serve" and function.source and not (function.handler or function.command):
        message = f"a served Python function needs a handler, found none for {function.source}"
        yield Violation("function.handler", "required", message, "say the function that answers a request")


def check_inputs(draft: Draft) -> Iterator[Violation]:
    """Inputs are a handler's arguments: whatever has none would never see them."""
    function, action = draft.function, draft.request.action
    if not draft.request.inputs:
        return
    who = None
    if function.kind == "container":
        who = "a container"
    elif action == "workspace":
        who = "a workspace"
    elif function.command or (function.source and not function.handler):
        who = "a program without a handler"
    if who is not None:
        message = f"{who} is not called with inputs, found {', '.join(map(str, draft.request.inputs))}"
        yield Violation("inputs", "contradiction", message, "use args or envs, or a Python function with a handler")


def check_code_size(draft: Draft) -> Iterator[Violation]:
    """Code and inputs travel in a ConfigMap, which holds a megabyte. Pods that know the server fetch larger code."""
    code = draft.snapshot.code
    if draft.function.kind != "python":
        return
    size = functions.measure_code(draft) - (len(code.archive) if code and draft.calls_back else 0)
    if size > LARGEST_CONFIG_MAP:
        message = f"code and inputs take {size} bytes; at most {LARGEST_CONFIG_MAP} reach a run"
        yield Violation("function.source", "size", message, "keep data out of the code: use a volume")


def check_kept_code(manifests: Sequence[Manifest], cluster: Cluster, size: int) -> Iterator[Violation]:
    """Code that is kept on the server reaches a pod with its ConfigMap, or is fetched by those that know the server."""
    program = next((manifest for manifest in manifests if manifest["kind"] == "ConfigMap"), None)
    if program is None or cluster.executor == "local" or cluster.server_url is not None:
        return
    room = functions.find_room(program)
    if size > room:
        message = f"the code has {size} bytes, and {room} travel with a run on cluster/{cluster.name}"
        hint = "keep data out of it: use a volume; or ask an administrator to set server_url of the cluster"
        yield Violation("function.source", "size", message, hint)
