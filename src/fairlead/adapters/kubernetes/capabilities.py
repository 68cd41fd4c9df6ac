"""What a cluster offers that runs may ask for: storage, runtimes, GPUs, queues, and a look at what they use."""

from collections.abc import Iterator, Mapping, Sequence

from fairlead.adapters.kubernetes.clients import ApiClient, ApiError, path_of
from fairlead.adapters.kubernetes.kueue import GROUP, read_cluster_queue, read_local_queue
from fairlead.model.observations import JSON, Check
from fairlead.model.quantities import NANOS, Quantity
from fairlead.model.scopes import Cluster

MOST_TOLD = 12
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
HAMI = "hami.io/"
MIG = "nvidia.com/mig-"

Groups = Mapping[str, str]  # the API groups of a cluster, with the version that it prefers


def check_storage(api: ApiClient, cluster: Cluster) -> Iterator[Check]:
    """Whether volumes can be made."""
    found = api.list(path_of("storage.k8s.io/v1", "storageclasses"))["items"]
    classes = {item["metadata"]["name"]: item["metadata"].get("annotations", {}) for item in found}
    yield from _check_allowed("storage", "storage_classes", cluster.storage_classes, list(classes))
    usual = [name for name, said in classes.items() if said.get(DEFAULT_CLASS) == "true"]
    if not classes:
        message = "there is no storage class: volumes with a size wait until there is one"
        yield Check("storage", "warning", message, "install a provisioner of volumes, such as the one of your cloud")
    elif not usual:
        message = f"no storage class is the default, so that volumes that name none wait: {_list(classes)} are there"
        annotation = f'{{"metadata":{{"annotations":{{"{DEFAULT_CLASS}":"true"}}}}}}'
        yield Check("storage", "warning", message, f"kubectl patch storageclass {min(classes)} -p '{annotation}'")
    else:
        yield Check("storage", "ok", f"storage classes {_list(classes)}; {usual[0]} is the default")


def check_runtimes(api: ApiClient, cluster: Cluster) -> Iterator[Check]:
    """Whether the runtimes are there that runs may name."""
    found = api.list(path_of("node.k8s.io/v1", "runtimeclasses"))["items"]
    there = [item["metadata"]["name"] for item in found]
    yield from _check_allowed("runtime classes", "runtime_classes", cluster.runtime_classes, there)
    yield Check("runtime classes", "ok", _list(there) if there else "none beside the usual runtime")


def check_gpus(api: ApiClient, cluster: Cluster) -> Iterator[Check]:
    """Which GPUs nodes offer, and whether runs can ask for their types and for parts of them."""
    nodes = api.list(path_of("v1", "nodes"))["items"]
    offers = [_devices_of(node) for node in nodes]
    having = [node for node, offer in zip(nodes, offers, strict=True) if offer.get(cluster.gpu_resource)]
    names = {name for offer in offers for name, number in offer.items() if number}
    slices = [name for name in names if name.startswith(MIG)]
    nothing = f"none of {len(nodes)} nodes has {cluster.gpu_resource}"
    if having or slices:
        total = sum(offer.get(cluster.gpu_resource, 0) for offer in offers)
        cut = f"; slices: {_list(slices)}" if slices else ""
        yield Check("gpus", "ok", f"{total} {cluster.gpu_resource} on {len(having)} of {len(nodes)} nodes{cut}")
    elif cluster.autoscaled:
        yield Check("gpus", "ok", f"{nothing} now; nodes that have it may be added")
    else:
        others = sorted(name for name in names if name.endswith("gpu"))
        way = (
            f"set gpu_resource to {others[0]}, which nodes have" if others else "install the device plugin of the GPUs"
        )
        yield Check("gpus", "warning", nothing, f"{way}; where there are no GPUs, this is as it should be")
    yield from _check_types(cluster, having)
    if cluster.gpu_sharing == "hami":
        count = sum(any(name.startswith(HAMI) for name in node["metadata"].get("annotations", {})) for node in nodes)
        if count:
            yield Check("gpu sharing", "ok", f"HAMi is on {count} of {len(nodes)} nodes")
        else:
            message = "gpu_sharing is hami, and no node is registered with HAMi"
            yield Check("gpu sharing", "problem", message, "install HAMi, and label the nodes with GPUs: gpu=on")


def check_queues(api: ApiClient, cluster: Cluster, namespaces: Sequence[str], groups: Groups) -> Iterator[Check]:
    """Whether those are there who decide which run comes next."""
    for field in ("gpu_sharing", "queueing"):
        if getattr(cluster, field) == "kai":
            yield _check_kai(api, cluster, field, groups)
    if cluster.queueing == "kueue":
        yield from _check_kueue(api, cluster, namespaces, groups)


def check_usage(groups: Groups) -> Iterator[Check]:
    """Whether the cluster measures pods."""
    if "metrics.k8s.io" in groups:
        yield Check("usage", "ok", "metrics.k8s.io is there: what runs use is shown")
    else:
        message = "metrics.k8s.io is not there: what runs use is not shown"
        yield Check("usage", "warning", message, "install metrics-server")


def find_object(api: ApiClient, path: str) -> JSON | None:
    """An object; None where there is none."""
    try:
        return api.get(path)
    except ApiError as refused:
        if refused.status != 404:
            raise
        return None


def _check_allowed(name: str, field: str, allowed: Sequence[str] | None, there: Sequence[str]) -> Iterator[Check]:
    missing = [item for item in allowed or () if item not in there]
    if missing:
        message = f"{field} allows {_list(missing)}, and the cluster has {_list(there) if there else 'none'}"
        yield Check(name, "problem", message, f"make what is missing, or take it out of {field}")


def _check_types(cluster: Cluster, having: Sequence[JSON]) -> Iterator[Check]:
    """Whether runs can ask for a type of GPU."""
    label = cluster.gpu_product_label
    products = [node["metadata"].get("labels", {}).get(label) for node in having]
    if None in products:
        count = products.count(None)
        message = (
            f"{count} of {len(having)} nodes with GPUs have no label {label}: no run that asks for a type gets there"
        )
        yield Check("gpu types", "warning", message, "install GPU feature discovery, or set gpu_product_label")
    lost = [name for name, said in cluster.gpu_types.items() if not set(products) & set(said)]
    known = _list({product for product in products if product is not None}) or "none"
    if lost and having:
        message = f"no node has a product of {_list(lost)} in gpu_types; products that are there: {known}"
        yield Check("gpu types", "warning", message, "write the products as the label has them")


def _check_kai(api: ApiClient, cluster: Cluster, field: str, groups: Groups) -> Check:
    name = field.replace("_", " ")
    if "scheduling.run.ai" not in groups:
        return Check(name, "problem", f"{field} is kai, and KAI is not there", "install the KAI scheduler")
    if find_object(api, path_of("scheduling.run.ai/v2", "queues", name=cluster.kai_queue)) is None:
        message = f"KAI has no queue {cluster.kai_queue}: what is queued there waits"
        return Check(name, "problem", message, "make it, or set kai_queue to one that is there")
    return Check(name, "ok", f"KAI is there, with the queue {cluster.kai_queue}")


def _check_kueue(api: ApiClient, cluster: Cluster, namespaces: Sequence[str], groups: Groups) -> Iterator[Check]:
    if GROUP not in groups:
        yield Check("queueing", "problem", "queueing is kueue, and Kueue is not there", "install Kueue")
        return
    version, queue = f"{GROUP}/{groups[GROUP]}", cluster.kueue_queue
    found = {place: find_object(api, path_of(version, "localqueues", place, queue)) for place in namespaces}
    if without := [place for place, said in found.items() if said is None]:
        message = f"there is no LocalQueue {queue} in {_list(without)}: runs there wait"
        yield Check("queueing", "problem", message, "make one that leads to a ClusterQueue, or set kueue_queue")
    there = {place: read_local_queue(said) for place, said in found.items() if said is not None}
    if stopped := [place for place, local in there.items() if local.stopped]:
        message = f"LocalQueue {queue} is stopped in {_list(stopped)}: runs there wait"
        yield Check("queueing", "warning", message, "set its stopPolicy to None where that is not meant")
    troubled = False
    for name in sorted({local.cluster_queue for local in there.values()}):
        for check in _check_pool(name, find_object(api, path_of(version, "clusterqueues", name=name))):
            troubled = True
            yield check
    if not (without or stopped or troubled):
        yield Check("queueing", "ok", f"Kueue is there, with the queue {queue} in all {len(namespaces)} namespaces")


def _check_pool(name: str, said: JSON | None) -> Iterator[Check]:
    """Whether a ClusterQueue that runs are led to lets them go."""
    pool = None if said is None else read_cluster_queue(said)
    if pool is None:
        message = f"there is no ClusterQueue {name}, which queues of projects lead to: runs there wait"
        yield Check("queueing", "problem", message, "make it, or let the LocalQueues lead to another")
    elif pool.stopped:
        message = f"ClusterQueue {name} is stopped: runs there wait"
        yield Check("queueing", "warning", message, "set its stopPolicy to None where that is not meant")
    elif pool.trouble:
        yield Check("queueing", "problem", f"ClusterQueue {name} lets nothing go: {pool.trouble}", "mend what it says")


def _devices_of(node: JSON) -> dict[str, int]:
    """How many a node has of what is counted in whole devices."""
    said = node.get("status", {}).get("allocatable", {})
    return {name: Quantity.parse(text).nanos // NANOS for name, text in said.items() if "/" in name}


def _list(names: Sequence[str] | set[str] | Mapping[str, object]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - MOST_TOLD} more" if len(ordered) > MOST_TOLD else ""
    return ", ".join(ordered[:MOST_TOLD]) + more
