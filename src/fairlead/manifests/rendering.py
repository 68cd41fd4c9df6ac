"""All manifests of a run: the main object first, then its claims, secrets and code, which are deleted with it."""

import base64
from collections.abc import Iterator
from typing import Any

from fairlead.manifests import pods
from fairlead.manifests.pods import RUN_TOKEN
from fairlead.model import names
from fairlead.model.names import RUN_LABEL
from fairlead.model.plans import Manifest
from fairlead.resolution.drafts import Draft

PULL_KEY = ".dockerconfigjson"  # the key that Kubernetes requires for type kubernetes.io/dockerconfigjson
MAX_CONFIG_MAP_BYTES = 1_000_000  # Kubernetes allows 1 MiB of data
DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


def render_manifests(draft: Draft) -> tuple[Manifest, ...]:
    """The manifests of a draft without violations."""
    serves = draft.request.action != "job"
    return (
        _render_deployment(draft) if serves else _render_job(draft),
        *_render_claims(draft),
        *_render_secret(draft),
        *_render_pull_secrets(draft),
        *_render_code(draft),
        *([_render_service(draft)] if serves and draft.port is not None else []),
    )


def _render_job(draft: Draft) -> Manifest:
    """The Job that executes a batch run."""
    replicas = draft.values["replicas"]
    spec: dict[str, Any] = {
        # Fairlead handles retries itself, because logs are lost when Kubernetes replaces a pod.
        "backoffLimit": 0,
        # A pod that was evicted by the cluster did not fail: it is created again and waits for a node.
        "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [DISRUPTED]}]},
        # The Job is resumed once all other objects exist, so that an interrupted start leaves nothing running.
        "suspend": True,
        "parallelism": replicas,
        "completions": replicas,
    }
    if replicas > 1:
        # Each pod gets its own index, so that a program can divide the work among its pods.
        spec["completionMode"] = "Indexed"
    # A podFailurePolicy requires Never.
    spec["template"] = pods.render_pod_template(draft, "Never")
    if (deadline := draft.values.get("deadline")) is not None:
        # Set on the pod, so that time counts only once it is on a node. A Job's deadline would include queue time.
        spec["template"]["spec"]["activeDeadlineSeconds"] = int(deadline)
    # The queue label is added when the Job is released. From then on Kueue decides when it runs.
    annotations = {"queue": draft.cluster.kueue_queue} if draft.cluster.queueing == "kueue" else {}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _render_metadata(draft, **annotations), "spec": spec}


def _render_deployment(draft: Draft) -> Manifest:
    """The Deployment that keeps a served model or a workspace running."""
    spec: dict[str, Any] = {
        "replicas": draft.values["replicas"],
        "selector": {"matchLabels": _selector(draft)},
    }
    if draft.request.action == "workspace":
        # Two pods of one workspace would write to the same claim.
        spec["strategy"] = {"type": "Recreate"}
    # The only policy that Kubernetes allows for a Deployment.
    spec["template"] = pods.render_pod_template(draft, "Always")
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _render_metadata(draft), "spec": spec}


def _render_service(draft: Draft) -> Manifest:
    """The Service of a served model or a workspace."""
    port = {"name": "http", "port": draft.port, "targetPort": "http"}
    spec = {"type": "ClusterIP", "selector": _selector(draft), "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _render_metadata(draft), "spec": spec}


def _selector(draft: Draft) -> dict[str, str]:
    return {RUN_LABEL: draft.labels[RUN_LABEL]}


def _render_metadata(draft: Draft, suffix: str = "", **annotated: str) -> dict[str, Any]:
    """Name, namespace, labels and annotations of an object."""
    annotations = draft.name_annotations | {f"{names.PREFIX}/{name}": text for name, text in annotated.items()}
    metadata: dict[str, Any] = {
        "name": draft.object_name(suffix),
        "namespace": names.namespace_of(draft.snapshot.project, draft.cluster.namespace),
        "labels": dict(draft.labels),
    }
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _render_claims(draft: Draft) -> Iterator[Manifest]:
    """The claims that are created for this run and deleted with it."""
    for name, parts in draft.volumes.items():
        if parts["volume_type"] == "persistent_volume_claim":
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": _render_metadata(draft, name),
                "spec": pods.render_claim(parts),
            }


def _render_code(draft: Draft) -> Iterator[Manifest]:
    """The ConfigMap of a Python function, with the bootstrap, the call and the code."""
    code = draft.snapshot.code
    if draft.function.kind != "python":
        return
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _render_metadata(draft, "code"),
        "data": draft.program,
    }
    # Larger code is downloaded from the server. A check rejects the plan if that is not possible.
    if code and code.archive and measure_code(draft) <= MAX_CONFIG_MAP_BYTES:
        manifest["binaryData"] = {"code.tar.gz": base64.b64encode(code.archive).decode()}
    yield manifest


def measure_code(draft: Draft) -> int:
    """The size of the bootstrap, the call and the code of a Python function, in bytes."""
    code = draft.snapshot.code
    # Kubernetes counts binaryData before base64 encoding.
    return sum(map(len, draft.program.values())) + (len(code.archive) if code else 0)


def available_bytes(program: Manifest) -> int:
    """How many bytes are available for code in a run's ConfigMap."""
    return MAX_CONFIG_MAP_BYTES - sum(len(text.encode()) for text in program["data"].values())


def _render_secret(draft: Draft) -> Iterator[Manifest]:
    """The Secret with the requested secrets. Values are not part of a plan; they are set when the run starts."""
    secrets = [*([RUN_TOKEN] if draft.calls_back else []), *draft.secrets]
    if secrets:
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": _render_metadata(draft, "secrets"),
            "type": "Opaque",
            "data": dict.fromkeys(secrets, ""),
        }


def _render_pull_secrets(draft: Draft) -> Iterator[Manifest]:
    """One Secret for each image pull secret. An annotation contains the secret's name in the project."""
    for suffix, name in pods.pull_secrets(draft).items():
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": _render_metadata(draft, suffix, secret=name),
            "type": "kubernetes.io/dockerconfigjson",
            "data": {PULL_KEY: ""},
        }
