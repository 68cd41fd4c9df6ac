"""Creates objects for the cluster tests, and waits until they reach a state."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.clients import Client, Object, until


def make_pod(namespace: str, name: str, image: str, command: Sequence[str] = (), **spec: Any) -> Object:
    """A pod with one container. Keyword arguments that start with `main_` apply to the container."""
    container = {key.removeprefix("main_"): spec.pop(key) for key in list(spec) if key.startswith("main_")}
    container = {"name": "main", "image": image, **({"command": list(command)} if command else {}), **container}
    pod_spec = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": pod_spec}


def make_job(pod: Object, **spec: Any) -> Object:
    """A Job with a pod spec as its template."""
    job_spec = {"backoffLimit": 0, "template": {"spec": pod["spec"]}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": pod["metadata"], "spec": job_spec}


def make_claim(namespace: str, name: str, storage_class: str | None = None) -> Object:
    """A claim for a small volume."""
    class_field = {} if storage_class is None else {"storageClassName": storage_class}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **class_field}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def make_map(namespace: str, name: str, data: Mapping[str, str]) -> Object:
    """A ConfigMap."""
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}


def wait_for_phase(admin: Client, namespace: str, name: str, *phases: str) -> Object:
    """Wait until a pod is in one of the given phases, and return it."""

    def find() -> Object | None:
        pod = admin.find(f"/api/v1/namespaces/{namespace}/pods/{name}")
        return pod if pod and pod["status"].get("phase") in phases else None

    return until(find)


def state_of(pod: Object) -> Any:
    """The state of a pod's first container."""
    return pod["status"].get("containerStatuses", [{"state": {}}])[0]["state"]


def wait_for_reason(admin: Client, namespace: str, name: str, reason: str) -> Any:
    """Wait until a pod's container is waiting for the given reason, and return its waiting state."""

    def find() -> Any:
        waiting = state_of(admin.get(f"/api/v1/namespaces/{namespace}/pods/{name}")).get("waiting", {})
        return waiting if waiting.get("reason") == reason else None

    return until(find)
