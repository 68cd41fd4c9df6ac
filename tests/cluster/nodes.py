"""Nodes that are only objects: what they have is what they say."""

from collections.abc import Mapping, Sequence

from tests.cluster.clients import STRATEGIC, Client, Object, until
from tests.cluster.kubelet import statuses

ROOM = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "500"}
GPU = "nvidia.com/gpu"
NOT_READY = "node.kubernetes.io/not-ready"


def make_node(name: str, *, labels: Mapping[str, str], taints: Sequence[Object]) -> Object:
    """A node as it is created."""
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    meta = {"name": name, "labels": own | dict(labels)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": list(taints)}}


def add_node(admin: Client, node: Object, room: Mapping[str, str], port: int) -> None:
    """Create a node that is ready, whose kubelet answers on a port, and wait until the scheduler may use it."""
    name = node["metadata"]["name"]
    admin.create(node)
    status = {
        "capacity": dict(room),
        "allocatable": dict(room),
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {"kubeletVersion": "v1.35.8", "osImage": "fake", "operatingSystem": "linux"},
    }
    admin.patch(f"/api/v1/nodes/{name}/status", {"status": status}, STRATEGIC)
    set_ready(admin, name, "True")
    until(lambda: not tainted(admin, name))


def set_ready(admin: Client, name: str, ready: str) -> None:
    """Say that a node is ready ("True"), is not ("False"), or is silent ("Unknown")."""
    reason = {"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}[ready]
    words = {"Unknown": "Kubelet stopped posting node status."}.get(ready, f"kubelet says {ready}")
    now = statuses.now()
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": words, **times}
    admin.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [condition]}}, STRATEGIC)


def tainted(admin: Client, name: str) -> bool:
    """Whether a node that became ready is still kept from pods."""
    taints = admin.get(f"/api/v1/nodes/{name}")["spec"].get("taints", ())
    return any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)
