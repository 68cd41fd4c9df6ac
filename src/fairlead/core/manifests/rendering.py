"""All manifests of a run: the main object first, then what belongs to it and is removed with it."""

from typing import Any

from fairlead.core.drafts import Draft
from fairlead.core.manifests import functions, pods, volumes
from fairlead.core.manifests.metadata import render_metadata
from fairlead.core.manifests.names import RUN_LABEL
from fairlead.model.plans import Manifest

DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


def render_manifests(draft: Draft) -> tuple[Manifest, ...]:
    """The objects that execute a draft that has no violations."""
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
    replicas = draft.resolution.value("replicas")
    spec: dict[str, Any] = {
        # Retries are ours, not the Job's: a pod that Kubernetes replaces takes its logs with it.
        "backoffLimit": 0,
        # What the cluster itself took away did not fail: the pod is made again, and waits for a place.
        "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [DISRUPTED]}]},
        # Released when everything it needs is there, so that an interrupted start leaves nothing running.
        "suspend": True,
        "parallelism": replicas,
        "completions": replicas,
    }
    if replicas > 1:
        spec["completionMode"] = "Indexed"
    spec["template"] = pods.render_pod_template(draft, "Never")
    if (deadline := draft.resolution.value("deadline")) is not None:
        # Of the pod, whose time begins with a place on a node; that of a Job goes by while it waits for one.
        spec["template"]["spec"]["activeDeadlineSeconds"] = int(deadline)
    # Its label is added when the Job is released: from then on Kueue says when it goes on.
    noted = {"queue": draft.cluster.kueue_queue} if draft.cluster.queueing == "kueue" else {}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": render_metadata(draft, **noted), "spec": spec}


def render_deployment(draft: Draft) -> Manifest:
    """The Deployment that keeps a served model or a workspace running."""
    spec: dict[str, Any] = {
        "replicas": draft.resolution.value("replicas"),
        "selector": {"matchLabels": _selector(draft)},
    }
    if draft.request.action == "workspace":
        # Two pods of one workspace would write to the same claim.
        spec["strategy"] = {"type": "Recreate"}
    spec["template"] = pods.render_pod_template(draft, "Always")
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": render_metadata(draft), "spec": spec}


def render_service(draft: Draft) -> Manifest:
    """The address inside the cluster of a served model or a workspace."""
    port = {"name": "http", "port": draft.port, "targetPort": "http"}
    spec = {"type": "ClusterIP", "selector": _selector(draft), "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": render_metadata(draft), "spec": spec}


def _selector(draft: Draft) -> dict[str, str]:
    return {RUN_LABEL: draft.resolution.value("labels", RUN_LABEL)}
