"""What a container executes: an image's own program, or Python code that a bootstrap unpacks and calls."""

import base64
import json
from collections.abc import Iterator
from typing import Any

from fairlead.core.drafts import Draft
from fairlead.core.folders import BOOTSTRAP
from fairlead.core.manifests.metadata import name_of, render_metadata
from fairlead.model.plans import Manifest

COMMAND = ("python3", "-u", f"{BOOTSTRAP}/bootstrap.py")


def render_command(draft: Draft) -> dict[str, Any]:
    """The command and arguments of the container; none where the image knows its own."""
    function = draft.function
    args = function.args if draft.request.args is None else draft.request.args
    parts = {"command": COMMAND if function.kind == "python" else function.command, "args": args}
    return {name: [escape(word) for word in words] for name, words in parts.items() if words}


def render_envs(draft: Draft) -> list[dict[str, Any]]:
    """Variables, and the secrets among them by reference."""
    envs = draft.resolution.values("envs")
    secrets = draft.resolution.named("secrets")
    source = name_of(draft, "secrets")
    return [
        *({"name": name, "value": escape(value)} for name, value in envs.items()),
        *({"name": name, "valueFrom": {"secretKeyRef": {"name": source, "key": name}}} for name in secrets),
    ]


def render_code(draft: Draft) -> Iterator[Manifest]:
    """The ConfigMap with a Python function's bootstrap, what to call, and the code."""
    code = draft.snapshot.code
    if draft.function.kind != "python":
        return
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": render_metadata(draft, "code"),
        "data": {"bootstrap.py": code.bootstrap if code else "", "call.json": render_call(draft)},
    }
    if code and code.archive:
        manifest["binaryData"] = {"code.tar.gz": base64.b64encode(code.archive).decode()}
    yield manifest


def render_call(draft: Draft) -> str:
    """What the bootstrap is to call, as JSON."""
    function, code = draft.function, draft.snapshot.code
    call = {
        "action": draft.request.action,
        "source": function.source,
        "handler": function.handler,
        "command": function.command,
        "inputs": draft.request.inputs,
        "port": draft.port,
        "digest": function.code or (code.digest if code else ""),
    }
    return json.dumps(call)


def render_secret(draft: Draft) -> Iterator[Manifest]:
    """The Secret with exactly the secrets that were named. Values are no part of a plan: the start puts them in."""
    if draft.secrets:
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": render_metadata(draft, "secrets"),
            "type": "Opaque",
            "data": dict.fromkeys(draft.secrets, ""),
        }


def escape(text: str) -> str:
    """Text that Kubernetes hands over as it is, without expanding $(NAME) in it."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text
