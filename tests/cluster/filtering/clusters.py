"""Test cases on a real API server: create the objects, read them back with defaults, and delete them.

No controllers run, so objects do not change.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from tests.cluster.clients import Client, Object, path_of
from tests.cluster.filtering.affinities import NAMESPACES
from tests.cluster.filtering.storage import SELECTED_NODE

JSON = dict[str, Any]

LISTS = {
    "nodes": ("/api/v1/nodes", "Node"),
    "pods": ("/api/v1/pods", "Pod"),
    "namespaces": ("/api/v1/namespaces", "Namespace"),
    "claims": ("/api/v1/persistentvolumeclaims", "PersistentVolumeClaim"),
    "volumes": ("/api/v1/persistentvolumes", "PersistentVolume"),
    "classes": ("/apis/storage.k8s.io/v1/storageclasses", "StorageClass"),
}
DELETION_GRACE_SECONDS = 600  # terminating pods exist as long as the case runs


def prepare(admin: Client) -> None:
    """Create the namespaces of all cases with their default service accounts."""
    for name in NAMESPACES:
        meta = {"name": "default", "namespace": name}
        admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})


def set_up(admin: Client, case: JSON) -> None:
    """Create all of a case's objects except the new pod."""
    for namespace in case["namespaces"]:
        labels = {"team": None, "stage": None} | namespace["metadata"]["labels"]
        admin.patch(path_of(namespace), {"metadata": {"labels": labels}})
    for storage_class in case["classes"]:
        admin.create(storage_class)
    uids = {}
    for claim in case["claims"]:
        uids[claim["metadata"]["uid"]] = _add(admin, claim)["metadata"]["uid"]
    for volume in deepcopy(case["volumes"]):
        claim_reference = volume["spec"].get("claimRef", {})
        if "uid" in claim_reference:
            claim_reference["uid"] = uids.get(claim_reference["uid"], claim_reference["uid"])
        _add(admin, volume)
    for node in case["nodes"]:
        _add(admin, node)
        # The API server adds a not-ready taint to every new node.
        spec = {"taints": node["spec"].get("taints"), "unschedulable": node["spec"].get("unschedulable")}
        admin.patch(path_of(node), {"spec": spec})
    for pod in case["pods"]:
        _add(admin, pod)


def read_back(admin: Client, pod: Object) -> JSON:
    """The case as returned by the API server, without the new pod in its pod list."""
    case = {part: [{"kind": kind, **item} for item in admin.items(path)] for part, (path, kind) in LISTS.items()}
    case["pods"] = [other for other in case["pods"] if other["metadata"]["uid"] != pod["metadata"]["uid"]]
    return {"pod": pod, **case}


def clear(admin: Client) -> None:
    """Delete everything except the namespaces."""
    for part, (path, kind) in LISTS.items():
        if part != "namespaces":
            for item in admin.items(path):
                _remove(admin, {"apiVersion": _version_of(path), "kind": kind, **item})


def find_selected_nodes(admin: Client, pod: Object) -> Iterator[str]:
    """The node that the scheduler selected for a pod's volumes. The pod is bound only after provisioning."""
    for volume in pod["spec"].get("volumes", ()):
        name = volume["persistentVolumeClaim"]["claimName"]
        claim = admin.find(f"/api/v1/namespaces/{pod['metadata']['namespace']}/persistentvolumeclaims/{name}") or {}
        if node := claim.get("metadata", {}).get("annotations", {}).get(SELECTED_NODE):
            yield node


def _add(admin: Client, body: Object) -> Object:
    """Create an object with its status, and delete it if it has a deletion timestamp."""
    meta = {key: value for key, value in body["metadata"].items() if not key.startswith(("deletion", "uid"))}
    created = admin.create({**body, "metadata": meta})
    if "status" in body:
        admin.patch(f"{path_of(body)}/status", {"status": body["status"]})
    if "deletionTimestamp" in body["metadata"]:
        admin.delete(path_of(body), gracePeriodSeconds=DELETION_GRACE_SECONDS)
    return created


def _remove(admin: Client, body: Object) -> None:
    if body["metadata"].get("finalizers"):
        admin.patch(path_of(body), {"metadata": {"finalizers": None}})
    admin.delete(path_of(body), gracePeriodSeconds=0)


def _version_of(path: str) -> str:
    return path.removeprefix("/api/").removeprefix("/apis/").rpartition("/")[0]
