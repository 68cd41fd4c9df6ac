"""Nodes without machines: objects with any declared capacity."""

from collections.abc import Mapping, Sequence

from tests.cluster.clients import STRATEGIC, Client, Object, until
from tests.cluster.kubelet import statuses

CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "500"}
GPU = "nvidia.com/gpu"
NOT_READY = "node.kubernetes.io/not-ready"


def make_node(name: str, *, labels: Mapping[str, str], taints: Sequence[Object]) -> Object:
    """The manifest of a node."""
    default_labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    meta = {"name": name, "labels": default_labels | dict(labels)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": list(taints)}}


def add_node(admin: Client, node: Object, capacity: Mapping[str, str], port: int) -> None:
    """Create a ready node with a kubelet on a port, and wait until the scheduler may use it."""
    name = node["metadata"]["name"]
    admin.create(node)
    status = {
        "capacity": dict(capacity),
        "allocatable": dict(capacity),
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {"kubeletVersion": "v1.35.8", "osImage": "fake", "operatingSystem": "linux"},
    }
    admin.patch(f"/api/v1/nodes/{name}/status", {"status": status}, STRATEGIC)
    set_ready(admin, name, "True")
    until(lambda: not has_kubernetes_taints(admin, name))


def set_ready(admin: Client, name: str, ready: str) -> None:
    """Set the Ready condition of a node: "True", "False", or "Unknown" for a node without a heartbeat."""
    reason = {"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}[ready]
    message = {"Unknown": "Kubelet stopped posting node status."}.get(ready, f"the kubelet reported {ready}")
    now = statuses.now()
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": message, **times}
    admin.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [condition]}}, STRATEGIC)


def has_kubernetes_taints(admin: Client, name: str) -> bool:
    """Whether a node has taints set by Kubernetes, which disappear a moment after it becomes ready."""
    taints = admin.get(f"/api/v1/nodes/{name}")["spec"].get("taints", ())
    return any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)
