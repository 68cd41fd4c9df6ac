"""Checks whether a cluster is set up for runs: connection, permissions, namespaces, capabilities and callbacks."""

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient, path_of
from fairlead.adapters.kubernetes.kueue import GROUP, read_cluster_queue, read_local_queue
from fairlead.adapters.kubernetes.objects import PROJECT_LABEL
from fairlead.errors import Unavailable
from fairlead.manifests.kubernetes_rbac import SYSTEM, RbacRule, list_permissions
from fairlead.manifests.pods import PROBE_LABEL, REACHED, render_probe
from fairlead.model import names
from fairlead.model.quantities import NANOS, Quantity
from fairlead.model.runs import JSON, Check
from fairlead.model.scopes import Cluster

MAX_LISTED = 12
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
HAMI = "hami.io/"
MIG = "nvidia.com/mig-"

Groups = Mapping[str, str]  # API groups of a cluster with their preferred versions

PATIENCE_SECONDS = 35.0  # so that the whole check takes less than a minute
POD_SECONDS = 60  # deadline of the pod, in case the server is killed before it deletes the pod
PAUSE_SECONDS = 0.25
CALLBACKS = "callbacks"
ENDED = ("Succeeded", "Failed")
NO_CALLBACKS = (
    "pods cannot call the server because the cluster has no server_url: code is limited to 1 MB and results to "
    "4000 bytes, and output files are not saved"
)

MIN_VERSION = (1, 27)  # the first version with strict field validation and mutable pod templates in suspended Jobs
CONCURRENT_REVIEWS = 8  # a check needs about fifty, and more with many namespaces
MAX_NAMESPACES = 20  # only the first ones are checked
REVIEWS = path_of("authorization.k8s.io/v1", "selfsubjectaccessreviews")
CHECK_ADDRESS = "check that the kubeconfig has the address of the API server"

Namespaces = Mapping[str, str]  # namespace by project


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
            f"available: {_format_names(classes)}"
        )
        annotation = f'{{"metadata":{{"annotations":{{"{DEFAULT_CLASS}":"true"}}}}}}'
        yield Check("storage", "warning", message, f"kubectl patch storageclass {min(classes)} -p '{annotation}'")
    else:
        yield Check("storage", "ok", f"storage classes {_format_names(classes)}; {defaults[0]} is the default")


def check_runtimes(api: KubernetesClient, cluster: Cluster) -> Iterator[Check]:
    """Check runtime classes."""
    items = api.list(path_of("node.k8s.io/v1", "runtimeclasses"))["items"]
    names = [item["metadata"]["name"] for item in items]
    yield from _check_allowed("runtime classes", "runtime_classes", cluster.runtime_classes, names)
    yield Check("runtime classes", "ok", _format_names(names) if names else "only the default runtime")


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
        mig = f"; MIG slices: {_format_names(slices)}" if slices else ""
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
        found = _format_names(existing) if existing else "none"
        message = f"{field} allows {_format_names(missing)}, but the cluster has {found}"
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
    available = _format_names({product for product in products if product is not None}) or "none"
    if unmatched and gpu_nodes:
        message = (
            f"no node has a product listed for {_format_names(unmatched)} in gpu_types; available products: {available}"
        )
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
        message = f"LocalQueue {queue} does not exist in {_format_names(missing)}: runs there must wait"
        yield Check("queueing", "problem", message, "create it for a ClusterQueue, or set kueue_queue to another queue")
    local_queues = {namespace: read_local_queue(raw) for namespace, raw in objects.items() if raw is not None}
    # Queues are stopped on purpose, so this is only a warning.
    if stopped := [namespace for namespace, local in local_queues.items() if local.stopped]:
        message = f"LocalQueue {queue} is stopped in {_format_names(stopped)}: runs there must wait"
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


def _format_names(names: Sequence[str] | set[str] | Mapping[str, object]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - MAX_LISTED} more" if len(ordered) > MAX_LISTED else ""
    return ", ".join(ordered[:MAX_LISTED]) + more


def check_callbacks(
    api: KubernetesClient,
    cluster: Cluster,
    namespaces: Sequence[str],
    *,
    patience: float = PATIENCE_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Check]:
    """Use a pod in the first existing namespace to check whether pods can reach the server."""
    if cluster.server_url is None:
        hint = f"fairlead clusters edit {cluster.name} --server-url https://..., with an address that pods can reach"
        yield Check(CALLBACKS, "warning", NO_CALLBACKS, hint)
        return
    namespace = next((name for name in namespaces if _namespace_exists(api, name)), None)
    if namespace is None:
        message = f"cannot check whether pods can reach {cluster.server_url}: no project has a namespace yet"
        yield Check(CALLBACKS, "warning", message, "create a project on the cluster, submit a run, then check again")
        return
    try:
        yield from _run_probe(api, cluster, namespace, patience, sleep)
    except ApiError as error:
        message = f"the probe pod could not be created in {namespace}: {error}"
        yield Check(CALLBACKS, "problem", message, "fix the reported cause; it also affects runs")


def _run_probe(
    api: KubernetesClient, cluster: Cluster, namespace: str, patience: float, sleep: Callable[[float], None]
) -> Iterator[Check]:
    name = f"fairlead-probe-{secrets.token_hex(4)}"
    path = path_of("v1", "pods", namespace)
    _delete_leftovers(api, path)
    created = api.create(path, render_probe(cluster, namespace, name, POD_SECONDS))
    try:
        pod = created
        for _ in range(round(patience / PAUSE_SECONDS)):
            if pod.get("status", {}).get("phase") in ENDED:
                break
            sleep(PAUSE_SECONDS)
            pod = api.get(f"{path}/{name}")
        yield _evaluate_probe(pod, cluster, patience)
    finally:
        # If this fails, the pod ends on its own, and the next check deletes it.
        with contextlib.suppress(ApiError, Unavailable):
            api.delete(f"{path}/{name}", uid=created["metadata"]["uid"])


def _namespace_exists(api: KubernetesClient, namespace: str) -> bool:
    raw = find_object(api, path_of("v1", "namespaces", name=namespace))
    return raw is not None and "deletionTimestamp" not in raw["metadata"]


def _delete_leftovers(api: KubernetesClient, path: str) -> None:
    """Delete the probe pods of interrupted checks."""
    for pod in api.list(path, labelSelector=f"{PROBE_LABEL}=true")["items"]:
        if pod.get("status", {}).get("phase") in ENDED:  # others may belong to a check that is in progress
            api.delete(f"{path}/{pod['metadata']['name']}", uid=pod["metadata"]["uid"])


def _evaluate_probe(pod: JSON, cluster: Cluster, patience: float) -> Check:
    status = pod.get("status", {})
    container: JSON = next(iter(status.get("containerStatuses", ())), {})
    state = container.get("state", {})
    result = state.get("terminated", {}).get("message", "").strip()
    if status.get("phase") == "Succeeded" and result == REACHED:
        return Check(CALLBACKS, "ok", f"pods can reach the server at {cluster.server_url}")
    if status.get("phase") == "Succeeded" and result:
        message = f"pods cannot reach the server at {cluster.server_url}: {result}"
        hint = "check that the server listens there, and check network policies, firewalls and certificates"
        return Check(CALLBACKS, "problem", message, hint)
    waiting = state.get("waiting") or state.get("terminated") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions", ())}
    scheduled = conditions.get("PodScheduled", {})
    if status.get("phase") not in ENDED and scheduled.get("status") == "False":
        waiting = scheduled
    reason = ": ".join(filter(None, (waiting.get("reason", ""), waiting.get("message", ""))))
    detail = reason or status.get("message") or f"it is {status.get('phase', 'Pending')}"
    if status.get("phase") in ENDED:
        message = f"the probe pod for {cluster.server_url} failed ({cluster.python_image}): {detail}"
        hint = "check that python_image contains python3 and can run as a non-root user"
        return Check(CALLBACKS, "problem", message, hint)
    message = f"the probe pod for {cluster.server_url} did not run within {patience:.0f} s: {detail}"
    hint = f"fix the reported cause; if {cluster.python_image} is still being pulled, check again"
    return Check(CALLBACKS, "warning", message, hint)


def check_cluster(api: KubernetesClient, cluster: Cluster, projects: Sequence[str]) -> list[Check]:
    """The results of all checks for runs in these projects."""
    try:
        version = api.get("/version")
        groups = {group["name"]: group["preferredVersion"]["version"] for group in api.get("/apis")["groups"]}
    except Unavailable as error:
        hint = "check the address in the kubeconfig, and that this machine can reach it"
        return [Check("connection", "problem", str(error), hint)]
    except ApiError as error:
        if error.status not in (401, 403):
            return [_not_kubernetes(str(error))]
        hint = f"create a new token, then run fairlead clusters connect {cluster.name} --kubeconfig FILE"
        return [Check("connection", "problem", f"the cluster rejects the credentials: {error}", hint)]
    except (KeyError, TypeError, AttributeError):
        return [_not_kubernetes("it does not list API groups")]
    namespaces = {name: names.namespace_of(name, cluster.namespace) for name in projects[:MAX_NAMESPACES]}
    # If the server may create namespaces, it can create pods in all of them.
    probe_namespaces = [*namespaces.values(), *([SYSTEM] if cluster.create_namespaces else [])]
    parts: Sequence[tuple[str, Callable[[], Iterator[Check]]]] = (
        ("permissions", lambda: _check_permissions(api, cluster, namespaces)),
        ("namespaces", lambda: _check_namespaces(api, cluster, namespaces, len(projects))),
        ("storage", lambda: check_storage(api, cluster)),
        ("runtime classes", lambda: check_runtimes(api, cluster)),
        ("gpus", lambda: check_gpus(api, cluster)),
        ("queueing", lambda: check_queues(api, cluster, list(namespaces.values()), groups)),
        ("usage", lambda: check_usage(groups)),
        ("callbacks", lambda: check_callbacks(api, cluster, probe_namespaces)),
    )
    return [_check_version(version), *(check for name, part in parts for check in _run_part(name, part))]


def _not_kubernetes(detail: str) -> Check:
    return Check("connection", "problem", f"the address is not a Kubernetes API server: {detail}", CHECK_ADDRESS)


def _run_part(name: str, part: Callable[[], Iterator[Check]]) -> list[Check]:
    """Run one part of the check. An error becomes a result of the check, so that the other parts still run."""
    try:
        return list(part())
    except ApiError as error:
        if error.status != 403:
            message = f"the cluster rejected a request: {error}"
            return [Check(name, "problem", message, "fix the reported cause, then check again")]
        return [Check(name, "warning", f"cannot be checked: {error}", "grant the missing permissions")]
    except Unavailable as error:
        return [Check(name, "problem", str(error), "check again")]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        message = f"the cluster returned an invalid response: {type(error).__name__} {error}"
        return [Check(name, "problem", message, CHECK_ADDRESS)]


def _check_version(version: JSON) -> Check:
    git_version, oldest = str(version.get("gitVersion", "")), ".".join(map(str, MIN_VERSION))
    match = re.match(r"v?([0-9]+)\.([0-9]+)", git_version)
    if match is not None and (int(match[1]), int(match[2])) < MIN_VERSION:
        message = f"Kubernetes {git_version} is too old: runs need {oldest} or newer"
        return Check("connection", "problem", message, f"upgrade the cluster to {oldest} or newer")
    return Check("connection", "ok", f"connected to Kubernetes {git_version}")


def _check_permissions(api: KubernetesClient, cluster: Cluster, namespaces: Namespaces) -> Iterator[Check]:
    # One review per permission: SelfSubjectRulesReview may be incomplete, depending on the authorizer.
    # An empty namespace in a review means all namespaces.
    in_projects = [""] if cluster.create_namespaces else namespaces.values()
    required = [
        (permission, verb, namespace)
        for permission in list_permissions(cluster)
        for namespace in ([""] if permission.scope == "cluster" else in_projects)
        for verb in permission.verbs
    ]
    with ThreadPoolExecutor(CONCURRENT_REVIEWS) as pool:
        allowed = list(pool.map(lambda permission: _is_allowed(api, *permission), required))
    missing = [
        _describe_permission(*permission) for permission, granted in zip(required, allowed, strict=True) if not granted
    ]
    if missing:
        more = f", and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
        message = f"missing: {', '.join(missing[:MAX_LISTED])}{more}"
        yield Check("permissions", "problem", message, f"fairlead clusters rbac {cluster.name} | kubectl apply -f -")
    else:
        scope = "in all namespaces" if cluster.create_namespaces else f"in {_count(len(namespaces), 'namespace')}"
        message = f"all {len(required)} required permissions are granted; project permissions apply {scope}"
        yield Check("permissions", "ok", message)


def _is_allowed(api: KubernetesClient, permission: RbacRule, verb: str, namespace: str) -> bool:
    resource, _, part = permission.resource.partition("/")
    attributes = {"group": permission.group, "resource": resource, "verb": verb, "namespace": namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**attributes, **({"subresource": part} if part else {})}},
    }
    return bool(api.create(REVIEWS, body)["status"].get("allowed"))


def _describe_permission(permission: RbacRule, verb: str, namespace: str) -> str:
    return f"{verb} {permission.qualified_name}" + (f" in {namespace}" if namespace else "")


def _check_namespaces(
    api: KubernetesClient, cluster: Cluster, namespaces: Namespaces, projects: int
) -> Iterator[Check]:
    """Check that the namespaces of projects exist and are labeled."""
    objects = {
        name: find_object(api, path_of("v1", "namespaces", name=namespace)) for name, namespace in namespaces.items()
    }
    missing = [name for name, raw in objects.items() if raw is None]
    for project in namespaces:
        namespace, raw = namespaces[project], objects[project]
        label = f"{PROJECT_LABEL}={names.label_value(project)}"
        if raw is not None and raw["metadata"].get("labels", {}).get(PROJECT_LABEL) != names.label_value(project):
            message = f"namespace {namespace} exists but is not labeled for project {project}, whose runs must wait"
            hint = f"kubectl label namespace {namespace} {label}, or choose another namespace rule"
            yield Check("namespaces", "problem", message, hint)
        elif raw is None and not cluster.create_namespaces:
            message = f"namespace {namespace} of project {project} does not exist: its runs must wait"
            hint = f"kubectl create namespace {namespace} && kubectl label namespace {namespace} {label}"
            yield Check("namespaces", "problem", message, hint)
    message = f"{len(namespaces) - len(missing)} of {_count(projects, 'project')} have a namespace"
    if len(namespaces) < projects:
        message += f"; {projects - len(namespaces)} were not checked"
    if cluster.create_namespaces:
        message += "; missing namespaces are created when needed"
    yield Check("namespaces", "ok", message)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
