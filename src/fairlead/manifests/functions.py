"""Manifests for a run's function: metadata, command, environment, code and secrets."""

import base64
import json
from collections.abc import Iterator
from typing import Any

from fairlead.model import names
from fairlead.model.names import BOOTSTRAP
from fairlead.model.plans import Manifest
from fairlead.resolution.drafts import Draft

# -u: output is unbuffered, so it appears in the log immediately and is not lost when the process is killed.
COMMAND = ("python3", "-u", f"{BOOTSTRAP}/bootstrap.py")
# Authenticates the pod to the server. It is created when the run starts, so it is not a project secret.
RUN_TOKEN = "FAIRLEAD_RUN_TOKEN"
PULL_KEY = ".dockerconfigjson"  # the key that Kubernetes requires for type kubernetes.io/dockerconfigjson
MAX_CONFIG_MAP_BYTES = 1_000_000  # Kubernetes allows 1 MiB of data


def object_name(draft: Draft, suffix: str = "") -> str:
    """The name of a run's main object, or with a suffix, the name of another object."""
    return f"{draft.object_name}-{suffix}" if suffix else draft.object_name


def render_metadata(draft: Draft, suffix: str = "", **annotated: str) -> dict[str, Any]:
    """Name, namespace, labels and annotations of an object."""
    annotations = draft.name_annotations | {f"{names.PREFIX}/{name}": text for name, text in annotated.items()}
    metadata: dict[str, Any] = {
        "name": object_name(draft, suffix),
        "namespace": names.namespace_of(draft.snapshot.project, draft.cluster.namespace),
        "labels": dict(draft.labels),
    }
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def render_image(draft: Draft) -> dict[str, Any]:
    """The image and its pull policy."""
    image, policy = draft.values.get("function.image"), draft.values.get("function.pull_policy")
    has_policy = policy is not None and draft.cluster.executor == "kubernetes"
    return {**({} if image is None else {"image": image}), **({"imagePullPolicy": policy} if has_policy else {})}


def render_command(draft: Draft) -> dict[str, Any]:
    """The command and arguments of the container, unless the image defines them."""
    function = draft.function
    # An empty list in the request removes the function's arguments.
    args = function.args if draft.request.args is None else draft.request.args
    parts = {"command": COMMAND if function.kind == "python" else function.command, "args": args}
    return {name: [escape_references(word) for word in words] for name, words in parts.items() if words}


def render_envs(draft: Draft) -> list[dict[str, Any]]:
    """Environment variables. Secrets are references to the run's Secret."""
    envs = draft.section("envs")
    secrets = sorted(draft.groups.get("secrets", ()))
    source = object_name(draft, "secrets")
    # The token is a reference, like the secrets: plans are shown and stored, so they must not contain it.
    secret_names = [*([RUN_TOKEN] if draft.calls_back else []), *secrets]
    return [
        *({"name": name, "value": escape_references(value)} for name, value in envs.items()),
        *({"name": name, "valueFrom": {"secretKeyRef": {"name": source, "key": name}}} for name in secret_names),
    ]


def render_code(draft: Draft) -> Iterator[Manifest]:
    """The ConfigMap of a Python function, with the bootstrap, the call and the code."""
    code = draft.snapshot.code
    if draft.function.kind != "python":
        return
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": render_metadata(draft, "code"),
        "data": _render_program(draft),
    }
    # Larger code is downloaded from the server. A check rejects the plan if that is not possible.
    if code and code.archive and measure_code(draft) <= MAX_CONFIG_MAP_BYTES:
        manifest["binaryData"] = {"code.tar.gz": base64.b64encode(code.archive).decode()}
    yield manifest


def measure_code(draft: Draft) -> int:
    """The size of the bootstrap, the call and the code of a Python function, in bytes."""
    code = draft.snapshot.code
    # Kubernetes counts binaryData before base64 encoding.
    return sum(map(len, _render_program(draft).values())) + (len(code.archive) if code else 0)


def available_bytes(program: Manifest) -> int:
    """How many bytes are available for code in a run's ConfigMap."""
    return MAX_CONFIG_MAP_BYTES - sum(len(text.encode()) for text in program["data"].values())


def render_secret(draft: Draft) -> Iterator[Manifest]:
    """The Secret with the requested secrets. Values are not part of a plan; they are set when the run starts."""
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
    """One Secret for each image pull secret. An annotation contains the secret's name in the project."""
    if draft.cluster.executor != "kubernetes":
        return
    for number, name in enumerate(draft.pull_secrets, start=1):
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            # Numbered, because secret names may contain characters that are not allowed in object names, such as _.
            "metadata": render_metadata(draft, f"pull-{number}", secret=name),
            "type": "kubernetes.io/dockerconfigjson",
            "data": {PULL_KEY: ""},
        }


def render_pull_references(draft: Draft) -> list[dict[str, str]]:
    """The `imagePullSecrets` of a pod."""
    return [{"name": manifest["metadata"]["name"]} for manifest in render_pull_secrets(draft)]


def escape_references(text: str) -> str:
    """Escape text so that Kubernetes does not expand $(NAME) in it."""
    # Other text stays unchanged, so that manifests are readable: `$HOME` has no special meaning in Kubernetes.
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def _render_program(draft: Draft) -> dict[str, str]:
    code = draft.snapshot.code
    program = {"bootstrap.py": code.bootstrap if code else "", "call.json": json.dumps(vars(draft.call))}
    if code and code.sidecar and draft.cluster.executor == "kubernetes":
        program["sidecar.py"] = code.sidecar
    # Included only if the run needs it, because all programs count toward the ConfigMap's size.
    if code and code.function_server and draft.request.action == "serve" and not draft.function.command:
        program["function_server.py"] = code.function_server
    return program
