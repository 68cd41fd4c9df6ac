"""What a container executes: an image's own program, or Python code that a bootstrap unpacks and calls."""

import base64
import json
from collections.abc import Iterator
from typing import Any

from fairlead.core.drafts import Draft
from fairlead.core.folders import BOOTSTRAP
from fairlead.core.manifests.metadata import name_of, render_metadata
from fairlead.model.plans import Manifest

JUPYTER = ("python3", "-m", "jupyterlab", "--no-browser", "--ip=0.0.0.0")


def render_command(draft: Draft) -> dict[str, Any]:
    """The command and arguments of the container; none where the image knows its own."""
    function = draft.function
    args = function.args if draft.request.args is None else draft.request.args
    command = function.command
    if function.kind == "python" and not command:
        command = (*JUPYTER, f"--port={draft.port}") if draft.request.action == "workspace" else _BOOTSTRAP
    parts = {"command": command, "args": args}
    return {name: [escape(word) for word in words] for name, words in parts.items() if words}


def render_envs(draft: Draft) -> list[dict[str, Any]]:
    """Variables, and the secrets among them by reference."""
    envs = draft.resolution.named("envs")
    secrets = draft.resolution.named("secrets")
    source = name_of(draft, "secrets")
    return [
        *({"name": name, "value": escape(parts[""])} for name, parts in sorted(envs.items())),
        *({"name": name, "valueFrom": {"secretKeyRef": {"name": source, "key": name}}} for name in sorted(secrets)),
    ]


def render_code(draft: Draft) -> Iterator[Manifest]:
    """The ConfigMap with a Python function's bootstrap, what to call, and the code."""
    code, function = draft.snapshot.code, draft.function
    if function.kind != "python":
        return
    call = {
        "action": draft.request.action,
        "source": function.source,
        "handler": function.handler,
        "inputs": draft.request.inputs,
        "port": draft.port,
        "digest": code.digest if code else "",
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": render_metadata(draft, "code"),
        "data": {"bootstrap.py": code.bootstrap if code else "", "call.json": json.dumps(call, indent=1)},
    }
    if code and code.archive:
        manifest["binaryData"] = {"code.tar.gz": base64.b64encode(code.archive).decode()}
    yield manifest


def render_secret(draft: Draft) -> Iterator[Manifest]:
    """The Secret with exactly the secrets that were named. Values are no part of a plan: the start puts them in."""
    names = set(draft.resolution.named("secrets"))
    for volume, parts in draft.resolution.named("volumes").items():
        if parts["volume_type"] == "secret":
            names.add(parts.get("spec.name", volume))
    if names:
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": render_metadata(draft, "secrets"),
            "type": "Opaque",
            "data": dict.fromkeys(sorted(names), ""),
        }


def escape(text: str) -> str:
    """Text that Kubernetes hands over as it is, without expanding $(NAME) in it."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


_BOOTSTRAP = ("python3", "-u", f"{BOOTSTRAP}/bootstrap.py")
