"""All manifests of a run: the main object first, then the objects that are deleted with it."""

from typing import Any

from fairlead.manifests import functions, pods, volumes
from fairlead.manifests.functions import render_metadata
from fairlead.model.names import RUN_LABEL
from fairlead.model.plans import Manifest
from fairlead.resolution.drafts import Draft

DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


def render_manifests(draft: Draft) -> tuple[Manifest, ...]:
    """The manifests of a draft without violations."""
    serves = draft.request.action != "job"
    return (
        render_deployment(draft) if serves else render_job(draft),
        *volumes.render_claims(draft),
        *functions.render_secret(draft),
        *functions.render_pull_secrets(draft),
        *functions.render_code(draft),
        *([render_service(draft)] if serves and draft.port is not None else []),
    )


def render_job(draft: Draft) -> Manifest:
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
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": render_metadata(draft, **annotations), "spec": spec}


def render_deployment(draft: Draft) -> Manifest:
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
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": render_metadata(draft), "spec": spec}


def render_service(draft: Draft) -> Manifest:
    """The Service of a served model or a workspace."""
    port = {"name": "http", "port": draft.port, "targetPort": "http"}
    spec = {"type": "ClusterIP", "selector": _selector(draft), "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": render_metadata(draft), "spec": spec}


def _selector(draft: Draft) -> dict[str, str]:
    return {RUN_LABEL: draft.labels[RUN_LABEL]}
