"""Short factories for Kubernetes objects, as the API server returns them."""

import itertools
from typing import Any

from fairlead.adapters.kubernetes import objects
from fairlead.adapters.kubernetes.objects import MainObject, ObservedNode, ObservedPod, WarningEvent

JSON = dict[str, Any]
PLATFORM, RUN, NAMESPACE = "home", "r1", "forest"
LABELS = {
    "fairlead.dev/run": RUN,
    "fairlead.dev/platform": PLATFORM,
    "fairlead.dev/project": "forest",
    "fairlead.dev/project-id": "id-forest",
}
TIMESTAMP = "2026-11-15T08:30:00Z"
_versions = itertools.count(100)


def make_main(
    kind: str = "Job", *conditions: JSON, released: bool = True, deadline: int | None = None, **spec: Any
) -> JSON:
    """The run's Job or Deployment."""
    defaults: JSON = {"completions": 1, "suspend": False} if kind == "Job" else {"replicas": 1, "selector": {}}
    ports = {} if kind == "Job" else {"ports": [{"name": "http", "containerPort": 8080}]}
    limit = {} if deadline is None else {"activeDeadlineSeconds": deadline}
    defaults["template"] = {"spec": {"containers": [{"name": "main", **ports}], **limit}}
    status = {"conditions": list(conditions), "startTime": TIMESTAMP}
    meta = make_meta("train-1", LABELS, {"fairlead.dev/released": "true"} if released else {})
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": {**defaults, **spec}, "status": status}


def make_pod(
    name: str = "train-1-a",
    *conditions: JSON,
    phase: str = "Running",
    node: str = "box",
    index: int = 0,
    labels: JSON | None = None,
    last: JSON | None = None,
    limits: JSON | None = None,
    volumes: tuple[JSON, ...] = (),
    status_fields: JSON | None = None,
    **state: Any,
) -> JSON:
    """A pod of the run. Other keywords are its container's state: `waiting={"reason": "x"}`."""
    meta = make_meta(name, LABELS if labels is None else labels, {objects.INDEX: str(index)})
    meta["ownerReferences"] = [OWNER]
    container = {"name": "main", "resources": {"limits": limits or {}, "requests": limits or {}}}
    spec = {"containers": [container], "volumes": list(volumes), **({"nodeName": node} if node else {})}
    container_statuses = [
        {"state": state, "lastState": {"terminated": last} if last else {}, "restartCount": 2 if last else 0}
    ]
    status = {
        "phase": phase,
        "conditions": list(conditions),
        "containerStatuses": container_statuses if node else [],
        **(status_fields or {}),
    }
    return {"metadata": meta, "spec": spec, "status": status}


def make_node(name: str = "box", *, ready: str = "True", allocatable: JSON | None = None, **spec: Any) -> JSON:
    """A node with eight cores."""
    status = {
        "conditions": [condition("Ready", ready)],
        "allocatable": {"cpu": "8", "pods": "110", **(allocatable or {})},
    }
    return {"metadata": make_meta(name, {"zone": "a"}), "spec": spec, "status": status}


def make_warning(about: JSON, reason: str, message: str, at: str = TIMESTAMP) -> JSON:
    """A warning about an object."""
    meta = about["metadata"]
    reference = {"uid": meta["uid"], "name": meta["name"], "namespace": meta["namespace"]}
    return {
        "metadata": make_meta("w"),
        "involvedObject": reference,
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


def make_meta(name: str, labels: JSON | None = None, annotations: JSON | None = None) -> JSON:
    """The metadata of an object, with increasing timestamps."""
    fields = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "creationTimestamp": TIMESTAMP}
    return {**fields, "resourceVersion": str(next(_versions)), "labels": labels or {}, "annotations": annotations or {}}


OWNER = {"kind": "Job", "name": "train-1", "uid": "uid-train-1", "controller": True}


def condition(name: str, status: str = "True", reason: str = "", message: str = "", at: str = TIMESTAMP) -> JSON:
    """A condition of an object."""
    return {"type": name, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def terminated(code: int, reason: str = "Error", message: str = "", at: str = TIMESTAMP) -> JSON:
    """How a container ended."""
    return {"exitCode": code, "reason": reason, "message": message, "startedAt": TIMESTAMP, "finishedAt": at}


def read_main(raw: JSON) -> MainObject:
    """A parsed Job or Deployment."""
    main = objects.read_main(PLATFORM, raw)
    assert main is not None
    return main


def read_pod(raw: JSON) -> ObservedPod:
    """A parsed pod."""
    pod = objects.read_pod(PLATFORM, raw)
    assert pod is not None
    return pod


def read_node(raw: JSON) -> ObservedNode:
    """A parsed node."""
    return objects.read_node(raw)


def read_warning(raw: JSON) -> WarningEvent:
    """A parsed warning event."""
    return objects.read_warning(raw)
