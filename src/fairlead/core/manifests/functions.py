"""What a container executes: an image's own program, or Python code that a bootstrap unpacks and calls."""

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

from fairlead.core.container_folders import BOOTSTRAP
from fairlead.core.drafts import Draft
from fairlead.core.manifests.metadata import name_of, render_metadata
from fairlead.core.manifests.names import SECRET_NAME
from fairlead.model.plans import Manifest

COMMAND = ("python3", "-u", f"{BOOTSTRAP}/bootstrap.py")
RUN_TOKEN = "FAIRLEAD_RUN_TOKEN"  # by which a pod is known to the server; made at the start, and no project's secret
PULL_KEY = ".dockerconfigjson"
LARGEST_CONFIG_MAP = 1_000_000


def render_image(draft: Draft) -> dict[str, Any]:
    """The image and when it is pulled."""
    image, policy = draft.resolution.value("function", "image"), draft.resolution.value("function", "pull_policy")
    pulled = policy is not None and draft.cluster.executor == "kubernetes"
    return {**({} if image is None else {"image": image}), **({"imagePullPolicy": policy} if pulled else {})}


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
    referred = [*([RUN_TOKEN] if draft.calls_back else []), *secrets]
    return [
        *({"name": name, "value": escape(value)} for name, value in envs.items()),
        *({"name": name, "valueFrom": {"secretKeyRef": {"name": source, "key": name}}} for name in referred),
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
        "data": _render_program(draft),
    }
    # What is too large for it is fetched from the server; where it cannot be, the plan is refused.
    if code and code.archive and measure_code(draft) <= LARGEST_CONFIG_MAP:
        manifest["binaryData"] = {"code.tar.gz": base64.b64encode(code.archive).decode()}
    yield manifest


def measure_code(draft: Draft) -> int:
    """The bytes that the program of a Python function takes, with what it is called with and the code."""
    code = draft.snapshot.code
    return sum(map(len, _render_program(draft).values())) + (len(code.archive) if code else 0)


def read_names(manifests: Sequence[Manifest]) -> set[str]:
    """The secrets of the project that the program of a run is given; not those that its image is pulled with."""
    given = [manifest for manifest in manifests if manifest["kind"] == "Secret"]
    own = [said["data"] for said in given if SECRET_NAME not in said["metadata"].get("annotations", {})]
    return {name for data in own for name in data} - {RUN_TOKEN}


def find_room(program: Manifest) -> int:
    """The bytes that a ConfigMap with a program has left for the code."""
    return LARGEST_CONFIG_MAP - sum(len(text.encode()) for text in program["data"].values())


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
    names = [*([RUN_TOKEN] if draft.calls_back else []), *draft.secrets]
    if names:
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": render_metadata(draft, "secrets"),
            "type": "Opaque",
            "data": dict.fromkeys(names, ""),
        }


def render_pull_secrets(draft: Draft) -> Iterator[Manifest]:
    """A Secret for each of the project's that an image is pulled with, which an annotation names."""
    if draft.cluster.executor != "kubernetes":
        return
    for number, name in enumerate(draft.pull_secrets, start=1):
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": render_metadata(draft, f"pull-{number}", secret=name),
            "type": "kubernetes.io/dockerconfigjson",
            "data": {PULL_KEY: ""},
        }


def render_pull_references(draft: Draft) -> list[dict[str, str]]:
    """How a pod names them."""
    return [{"name": manifest["metadata"]["name"]} for manifest in render_pull_secrets(draft)]


def _render_program(draft: Draft) -> dict[str, str]:
    """What a Python function is called by, and with."""
    code = draft.snapshot.code
    program = {"bootstrap.py": code.bootstrap if code else "", "call.json": render_call(draft)}
    if code and code.sidecar and draft.cluster.executor == "kubernetes":
        program["sidecar.py"] = code.sidecar
    if code and code.function_server and draft.request.action == "serve" and not draft.function.command:
        program["function_server.py"] = code.function_server
    return program


def escape(text: str) -> str:
    """Text that Kubernetes hands over as it is, without expanding $(NAME) in it."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text
