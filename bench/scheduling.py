"""Compares fit checks with the filters of a real kube-scheduler, for the same nodes and pods.

The scheduler's time is from its own metrics for the filter phase: wall-clock time with 16 workers on all cores. Ours is
CPU time of one core, including the verdict, the counts and the reasons for the nearest nodes. If a pod fits, the
scheduler stops after enough feasible nodes; we check all of them.
"""

import itertools
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from fairlead.model.nodes import NodeTable
from fairlead.scheduling import evaluation
from fairlead.scheduling.pod_requests import read_pod
from fairlead.scheduling.readers import read_cluster
from tests.cluster import nodes
from tests.cluster.clients import Client, until
from tests.cluster.control_planes import ControlPlane, running

Object = dict[str, Any]

CONNECTIONS = 8
PODS_EACH = 5
ROUNDS = 20
CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110", nodes.GPU: "8"}
FILTER = re.compile(
    r'^scheduler_framework_extension_point_duration_seconds_(sum|count)\{extension_point="Filter",[^}]*\} (\S+)$', re.M
)


def measure_filters(size: int) -> None:
    """Fill a cluster, have pods scheduled there, and compare the times."""
    with running(with_metrics=True) as plane, plane.client() as admin:
        fill(plane, size)
        table = read_nodes(admin)
        print(f"\n{len(table):,} nodes with {PODS_EACH} pods each")
        print(f"  {'':46}{'our fit, ms':>13}{'filter phase, ms':>18}")
        for name, spec in make_specs().items():
            fit = evaluation.evaluate(read_pod(spec, {"namespace": "default"}), table)
            theirs = watch_filters(plane, admin, spec, fits=fit.verdict == evaluation.NOW)
            ours = min(itertools.islice(time_fits(spec, table), ROUNDS))
            print(f"  {name:46}{ours * 1000:13.2f}{theirs * 1000:18.2f}   (x {theirs / ours:.2f})")


def make_specs() -> dict[str, Object]:
    """Make pods: one that fits, one that does not, and one with constraints other than amounts."""
    labels = {"matchLabels": {"app": "app-7"}}
    affinity = {
        "nodeAffinity": require({"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}),
        "podAntiAffinity": require([{"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}]),
    }
    return {
        "1 GPU, which fits": make_spec("1"),
        "8 GPUs, which fit nowhere now": make_spec("8"),
        "8 GPUs, node affinity, anti-affinity": make_spec("8") | {"affinity": affinity},
    }


def require(terms: Any) -> Object:
    """Make a required affinity."""
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def make_spec(gpus: str) -> Object:
    """Make the spec of a pod that requests GPUs."""
    amounts = {"cpu": "1", "memory": "1Gi", nodes.GPU: gpus}
    resources = {"requests": amounts, "limits": {nodes.GPU: gpus}}
    return {"containers": [{"name": "main", "image": "example.test/sleep", "resources": resources}]}


def fill(plane: ControlPlane, size: int) -> None:
    """Create nodes, with pods that are bound to them at creation. One GPU of each node is in use."""
    with ThreadPoolExecutor(CONNECTIONS) as pool, plane.client() as admin:
        list(pool.map(partial(add_node, admin), range(size)))
        list(pool.map(partial(add_pod, admin), range(size * PODS_EACH)))


def add_node(admin: Client, number: int) -> None:
    """Create a node in one of three zones."""
    node = nodes.make_node(f"node-{number}", labels={"zone": f"zone-{number % 3}"}, taints=[])
    nodes.add_node(admin, node, CAPACITY, 1)


def add_pod(admin: Client, number: int) -> None:
    """Create a pod that is bound to a node."""
    node, index = divmod(number, PODS_EACH)
    spec = make_spec("1" if index == 0 else "0") | {"nodeName": f"node-{node}"}
    admin.create(make_pod(f"bound-{number}", spec, app=f"app-{number % 100}"))


def make_pod(name: str, spec: Object, **labels: str) -> Object:
    """Make a pod in the default namespace."""
    meta = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def read_nodes(admin: Client) -> NodeTable:
    """Read the nodes and pods of the cluster."""
    kinds = [("Node", "/api/v1/nodes"), ("Pod", "/api/v1/pods")]
    items = [{**item, "kind": kind} for kind, path in kinds for item in admin.get(path)["items"]]
    return read_cluster(items)


def watch_filters(plane: ControlPlane, admin: Client, spec: Object, *, fits: bool) -> float:
    """Return the mean seconds of the scheduler's filter phase for pods that are created and deleted one by one."""
    before = read_filters(plane)
    for number in range(ROUNDS):
        created = admin.create(make_pod(f"new-{number}", spec))
        path = f"/api/v1/namespaces/default/pods/{created['metadata']['name']}"
        until(partial(is_decided, admin, path, "True" if fits else "False"))
        admin.delete(path, gracePeriodSeconds=0)
    after = read_filters(plane)
    return (after["sum"] - before["sum"]) / (after["count"] - before["count"])


def is_decided(admin: Client, path: str, expected: str) -> bool:
    """Whether the scheduler has decided about a pod: `expected` is the status of its PodScheduled condition."""
    conditions = admin.get(path).get("status", {}).get("conditions", ())
    return ("PodScheduled", expected) in [(condition["type"], condition["status"]) for condition in conditions]


def read_filters(plane: ControlPlane) -> dict[str, float]:
    """Return the total seconds of the filters so far, and how often they ran."""
    totals = {"sum": 0.0, "count": 0.0}
    for name, value in FILTER.findall(plane.read_metrics()):
        totals[name] += float(value)
    return totals


def time_fits(spec: Object, table: NodeTable) -> Iterator[float]:
    """Yield the seconds of one fit check, repeatedly."""
    pod_request = read_pod(spec, {"namespace": "default"})
    while True:
        start = time.process_time()
        evaluation.evaluate(pod_request, table.copy())
        yield time.process_time() - start
