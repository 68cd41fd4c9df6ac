"""Checks of cluster capabilities: storage, runtime classes, GPUs, queues and the metrics API."""

from collections.abc import Iterator, Mapping, Sequence

from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient, path_of
from fairlead.adapters.kubernetes.kueue import GROUP, read_cluster_queue, read_local_queue
from fairlead.model.quantities import NANOS, Quantity
from fairlead.model.runs import JSON, Check
from fairlead.model.scopes import Cluster

MAX_LISTED = 12
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
HAMI = "hami.io/"
MIG = "nvidia.com/mig-"

Groups = Mapping[str, str]  # API groups of a cluster with their preferred versions


def check_storage(api: KubernetesClient, cluster: Cluster) -> Iterator[Check]:
    """Check storage classes."""
    items = api.list(path_of("storage.k8s.io/v1", "storageclasses"))["items"]
    classes = {item["metadata"]["name"]: item["metadata"].get("annotations", {}) for item in items}
    yield from _check_allowed("storage", "storage_classes", cluster.storage_classes, list(classes))
    defaults = [name for name, annotations in classes.items() if annotations.get(DEFAULT_CLASS) == "true"]
    if not classes:
        message = "the cluster has no storage class, so runs with volumes cannot start"
        yield Check(
            "storage", "warning", message, "install a volume provisioner, such as the one from your cloud provider"
        )
    elif not defaults:
        message = (
            "the cluster has no default storage class, so runs whose volumes do not specify one cannot start; "
            f"available: {_list(classes)}"
        )
        annotation = f'{{"metadata":{{"annotations":{{"{DEFAULT_CLASS}":"true"}}}}}}'
        yield Check("storage", "warning", message, f"kubectl patch storageclass {min(classes)} -p '{annotation}'")
    else:
        yield Check("storage", "ok", f"storage classes {_list(classes)}; {defaults[0]} is the default")


def check_runtimes(api: KubernetesClient, cluster: Cluster) -> Iterator[Check]:
    """Check runtime classes."""
    items = api.list(path_of("node.k8s.io/v1", "runtimeclasses"))["items"]
    names = [item["metadata"]["name"] for item in items]
    yield from _check_allowed("runtime classes", "runtime_classes", cluster.runtime_classes, names)
    yield Check("runtime classes", "ok", _list(names) if names else "only the default runtime")


def check_gpus(api: KubernetesClient, cluster: Cluster) -> Iterator[Check]:
    """Check GPUs: devices, types and sharing."""
    nodes = api.list(path_of("v1", "nodes"))["items"]
    devices = [_devices_of(node) for node in nodes]
    gpu_nodes = [node for node, counts in zip(nodes, devices, strict=True) if counts.get(cluster.gpu_resource)]
    names = {name for counts in devices for name, count in counts.items() if count}
    slices = [name for name in names if name.startswith(MIG)]
    none = f"none of {len(nodes)} nodes has {cluster.gpu_resource}"
    if gpu_nodes or slices:
        total = sum(counts.get(cluster.gpu_resource, 0) for counts in devices)
        mig = f"; MIG slices: {_list(slices)}" if slices else ""
        yield Check("gpus", "ok", f"{total} {cluster.gpu_resource} on {len(gpu_nodes)} of {len(nodes)} nodes{mig}")
    elif cluster.autoscaled:
        yield Check("gpus", "ok", f"{none} now; the autoscaler may add nodes that do")
    else:
        others = sorted(name for name in names if name.endswith("gpu"))  # other vendors, such as amd.com/gpu
        fix = f"set gpu_resource to {others[0]}, which some nodes have" if others else "install the GPU device plugin"
        yield Check("gpus", "warning", none, f"{fix}; ignore this if the cluster has no GPUs")
    yield from _check_types(cluster, gpu_nodes)
    if cluster.gpu_sharing == "hami":
        count = sum(any(name.startswith(HAMI) for name in node["metadata"].get("annotations", {})) for node in nodes)
        if count:
            yield Check("gpu sharing", "ok", f"HAMi runs on {count} of {len(nodes)} nodes")
        else:
            message = "gpu_sharing is hami, but no node is registered with HAMi"
            yield Check("gpu sharing", "problem", message, "install HAMi, and label nodes that have GPUs with gpu=on")


def check_queues(api: KubernetesClient, cluster: Cluster, namespaces: Sequence[str], groups: Groups) -> Iterator[Check]:
    """Check KAI and Kueue if the cluster uses them."""
    for field in ("gpu_sharing", "queueing"):
        if getattr(cluster, field) == "kai":
            yield _check_kai(api, cluster, field, groups)
    if cluster.queueing == "kueue":
        yield from _check_kueue(api, cluster, namespaces, groups)


def check_usage(groups: Groups) -> Iterator[Check]:
    """Check the metrics API."""
    if "metrics.k8s.io" in groups:
        yield Check("usage", "ok", "metrics.k8s.io is installed: the resource usage of runs is shown")
    else:
        message = "metrics.k8s.io is not installed: the resource usage of runs is not shown"
        yield Check("usage", "warning", message, "install metrics-server")


def find_object(api: KubernetesClient, path: str) -> JSON | None:
    """Get an object, or None if it does not exist."""
    try:
        return api.get(path)
    except ApiError as error:
        if error.status != 404:
            raise
        return None


def _check_allowed(name: str, field: str, allowed: Sequence[str] | None, existing: Sequence[str]) -> Iterator[Check]:
    missing = [item for item in allowed or () if item not in existing]
    if missing:
        message = f"{field} allows {_list(missing)}, but the cluster has {_list(existing) if existing else 'none'}"
        yield Check(name, "problem", message, f"create the missing ones, or remove them from {field}")


def _check_types(cluster: Cluster, gpu_nodes: Sequence[JSON]) -> Iterator[Check]:
    """Check that runs can request GPU types."""
    label = cluster.gpu_product_label
    products = [node["metadata"].get("labels", {}).get(label) for node in gpu_nodes]
    if None in products:
        unlabeled = f"{products.count(None)} of {len(gpu_nodes)} nodes with GPUs have no label {label}"
        message = f"{unlabeled}: runs that request a GPU type cannot use them"
        yield Check("gpu types", "warning", message, "install GPU feature discovery, or set gpu_product_label")
    unmatched = [name for name, known in cluster.gpu_types.items() if not set(products) & set(known)]
    available = _list({product for product in products if product is not None}) or "none"
    if unmatched and gpu_nodes:
        message = f"no node has a product listed for {_list(unmatched)} in gpu_types; available products: {available}"
        yield Check("gpu types", "warning", message, "use the product names from the node label")


def _check_kai(api: KubernetesClient, cluster: Cluster, field: str, groups: Groups) -> Check:
    name = field.replace("_", " ")
    if "scheduling.run.ai" not in groups:
        return Check(name, "problem", f"{field} is kai, but KAI is not installed", "install the KAI scheduler")
    if find_object(api, path_of("scheduling.run.ai/v2", "queues", name=cluster.kai_queue)) is None:
        message = f"KAI has no queue {cluster.kai_queue}: runs must wait"
        return Check(name, "problem", message, "create it, or set kai_queue to an existing queue")
    return Check(name, "ok", f"KAI is installed with the queue {cluster.kai_queue}")


def _check_kueue(api: KubernetesClient, cluster: Cluster, namespaces: Sequence[str], groups: Groups) -> Iterator[Check]:
    if GROUP not in groups:
        yield Check("queueing", "problem", "queueing is kueue, but Kueue is not installed", "install Kueue")
        return
    version, queue = f"{GROUP}/{groups[GROUP]}", cluster.kueue_queue
    objects = {
        namespace: find_object(api, path_of(version, "localqueues", namespace, queue)) for namespace in namespaces
    }
    if missing := [namespace for namespace, raw in objects.items() if raw is None]:
        message = f"LocalQueue {queue} does not exist in {_list(missing)}: runs there must wait"
        yield Check("queueing", "problem", message, "create it for a ClusterQueue, or set kueue_queue to another queue")
    local_queues = {namespace: read_local_queue(raw) for namespace, raw in objects.items() if raw is not None}
    # Queues are stopped on purpose, so this is only a warning.
    if stopped := [namespace for namespace, local in local_queues.items() if local.stopped]:
        message = f"LocalQueue {queue} is stopped in {_list(stopped)}: runs there must wait"
        yield Check("queueing", "warning", message, "set its stopPolicy to None to resume it")
    has_problems = False
    for name in sorted({local.cluster_queue for local in local_queues.values()}):
        for check in _check_cluster_queue(name, find_object(api, path_of(version, "clusterqueues", name=name))):
            has_problems = True
            yield check
    if not (missing or stopped or has_problems):
        message = f"Kueue is installed with the queue {queue} in all {len(namespaces)} namespaces"
        yield Check("queueing", "ok", message)


def _check_cluster_queue(name: str, raw: JSON | None) -> Iterator[Check]:
    """Check that a ClusterQueue admits runs."""
    queue = None if raw is None else read_cluster_queue(raw)
    if queue is None:
        message = f"ClusterQueue {name}, which the LocalQueues use, does not exist: runs there must wait"
        yield Check("queueing", "problem", message, "create it, or point the LocalQueues to a different ClusterQueue")
    elif queue.stopped:
        message = f"ClusterQueue {name} is stopped: runs there must wait"
        yield Check("queueing", "warning", message, "set its stopPolicy to None to resume it")
    elif queue.inactive_message:
        message = f"ClusterQueue {name} is inactive: {queue.inactive_message}"
        yield Check("queueing", "problem", message, "fix the reported cause")


def _devices_of(node: JSON) -> dict[str, int]:
    """The allocatable extended resources of a node."""
    allocatable = node.get("status", {}).get("allocatable", {})
    return {name: Quantity.parse(text).nanos // NANOS for name, text in allocatable.items() if "/" in name}


def _list(names: Sequence[str] | set[str] | Mapping[str, object]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - MAX_LISTED} more" if len(ordered) > MAX_LISTED else ""
    return ", ".join(ordered[:MAX_LISTED]) + more
