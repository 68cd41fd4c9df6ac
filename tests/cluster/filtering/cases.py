"""Cases for kube-scheduler's filters: a new pod, and a small cluster.

All objects are Kubernetes JSON that the API server accepts. Values come from small sets, so that nodes and pods often
match. A pod's constraints are chosen per case, so that one reason does not hide another.
"""

from random import Random
from typing import Any

from tests.cluster.filtering import affinities, containers
from tests.cluster.filtering.affinities import HOST, NAMESPACES, OLD_ZONE, ZONES, chance, pick_labels
from tests.cluster.filtering.storage import DELETED_AT, Storage

JSON = dict[str, Any]

MAX_NODES, MAX_PODS = 8, 12
CAPACITY = {
    "cpu": ("0", "101m", "201m", "2", "4", "4", "8", "8", "3500m", "16"),
    "memory": ("201", "512Mi", "1Gi", "2Gi", "4Gi", "4Gi", "8Gi", "1000000000"),
    "ephemeral-storage": ("1Gi", "10Gi", "20Gi", "10G"),
    "pods": ("0", "1", "2", "3", "5", "10", "110", "110", "110", "110"),
}
DEVICES = {
    "nvidia.com/gpu": ("0", "1", "2", "8"),
    "nvidia.com/mig-1g.5gb": ("1", "4"),
    "example.com/fpga": ("1", "2"),
    "hugepages-2Mi": ("0", "64Mi", "256Mi"),
}
PHASES = ("Running", "Running", "Running", "Running", "Running", "Pending", "Succeeded", "Failed")


def make_case(random: Random) -> JSON:
    """A case in the format of the filter program."""
    names = [f"node-{number}" for number in range(1, random.randint(1, MAX_NODES) + 1)]
    storage = Storage(random, names)
    pod = make_pod(random, names, storage)
    pods = [make_placed_pod(random, number, names, storage) for number in range(random.randint(0, MAX_PODS))]
    if "volumes" in pod["spec"]:
        storage.add_spare_volumes()
    return {
        "pod": pod,
        "nodes": [make_node(random, name) for name in names],
        "pods": pods,
        "namespaces": [make_namespace(random, name) for name in NAMESPACES],
        "claims": list(storage.claims.values()),
        "volumes": storage.volumes,
        "classes": storage.classes,
    }


def make_node(random: Random, name: str) -> JSON:
    """A node, with labels that most nodes have."""
    labels = pick_labels(random, affinities.NODE_LABELS, 0.75)
    if chance(random, 0.9):
        labels[HOST] = name if chance(random, 0.97) else "node-1"
    if chance(random, 0.15):
        labels[OLD_ZONE] = random.choice(ZONES)
    capacity = {resource: random.choice(amounts) for resource, amounts in CAPACITY.items()}
    capacity |= {resource: random.choice(amounts) for resource, amounts in DEVICES.items() if chance(random, 0.6)}
    spec: JSON = {"taints": affinities.make_taints(random)} if chance(random, 0.5) else {}
    if chance(random, 0.06):
        spec["unschedulable"] = True
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec}
    return body | {"status": {"allocatable": capacity}}


def make_namespace(random: Random, name: str) -> JSON:
    """A namespace, with the label that the API server adds."""
    labels = pick_labels(random, affinities.NAMESPACE_LABELS, 0.6) | {"kubernetes.io/metadata.name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def make_pod(random: Random, names: list[str], storage: Storage) -> JSON:
    """The new pod, before the API server has added default values."""
    pod = _make_body(random, "new", omit_defaults=True)
    spec, own_labels = pod["spec"], pod["metadata"].get("labels", {})
    affinity: JSON = {}
    if chance(random, 0.6):
        spec["tolerations"] = affinities.make_tolerations(random)
    if chance(random, 0.15):
        spec["nodeSelector"] = affinities.make_node_selector(random)
    if chance(random, 0.2):
        affinity["nodeAffinity"] = affinities.make_node_affinity(random, names)
    if chance(random, 0.15):
        affinity["podAffinity"] = _require(affinities.make_pod_terms(random, own_labels))
    if chance(random, 0.15):
        affinity["podAntiAffinity"] = _require(affinities.make_pod_terms(random, own_labels))
    if affinity:
        spec["affinity"] = affinity
    if chance(random, 0.4):
        spec["topologySpreadConstraints"] = affinities.make_spread(random, own_labels)
    if chance(random, 0.3):
        containers.add_ports(random, spec, omit_defaults=True)
    if chance(random, 0.3):
        storage.mount(pod["metadata"]["namespace"], spec)
    if chance(random, 0.04):
        spec["nodeName"] = random.choice([*names, "node-none"])
    return pod


def make_placed_pod(random: Random, number: int, names: list[str], storage: Storage) -> JSON:
    """A pod that is bound to a node: running, terminating or ended."""
    pod = _make_body(random, f"placed-{number}", omit_defaults=False)
    meta, spec = pod["metadata"], pod["spec"]
    spec["nodeName"] = random.choice(names) if chance(random, 0.97) else "node-none"
    if chance(random, 0.2):
        own_labels = meta.get("labels", {})
        terms = affinities.merge_keys(affinities.make_pod_terms(random, own_labels), own_labels)
        spec["affinity"] = {"podAntiAffinity": _require(terms)}
    if chance(random, 0.25):
        containers.add_ports(random, spec, omit_defaults=False)
    if chance(random, 0.2):
        storage.mount(meta["namespace"], spec)
    if chance(random, 0.1):
        meta |= {"deletionTimestamp": DELETED_AT, "deletionGracePeriodSeconds": 30}
    status: JSON = {"phase": random.choice(PHASES)}
    if chance(random, 0.25):
        status["containerStatuses"] = containers.make_statuses(random, spec["containers"])
        status["initContainerStatuses"] = containers.make_statuses(random, spec.get("initContainers", []))
        if chance(random, 0.3):
            reason = random.choice(("Infeasible", "Deferred"))
            status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return pod | {"status": status}


def _make_body(random: Random, name: str, *, omit_defaults: bool) -> JSON:
    """A pod with its resource requests."""
    pod_level = chance(random, 0.1)
    spec: JSON = {"containers": containers.make_containers(random, omit_defaults=omit_defaults, small=pod_level)}
    if chance(random, 0.3):
        spec["initContainers"] = containers.make_init_containers(random, omit_defaults=omit_defaults, small=pod_level)
    if chance(random, 0.1):
        spec["overhead"] = {"cpu": "100m", "memory": "64Mi"} if chance(random, 0.7) else {"cpu": "250m"}
    if pod_level:
        requests = {"cpu": random.choice(("1500m", "2")), "memory": random.choice(("768Mi", "1Gi"))}
        part = "limits" if omit_defaults and chance(random, 0.3) else "requests"
        spec["resources"] = {part: dict(random.sample(list(requests.items()), random.choice((1, 2))))}
    meta = {"name": name, "namespace": pick_namespace(random), "uid": name}
    labels = pick_labels(random, affinities.POD_LABELS, 0.75)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta | ({"labels": labels} if labels else {}), "spec": spec}


def pick_namespace(random: Random) -> str:
    """A namespace. Most pods are in the first one."""
    return NAMESPACES[0] if chance(random, 0.6) else random.choice(NAMESPACES)


def _require(terms: list[JSON]) -> JSON:
    return {affinities.REQUIRED: terms}
