"""Our fit beside the filters of a real kube-scheduler, on the same nodes and pods, for the same pod.

The scheduler's time is what its own metrics say of its filter phase: wall-clock time, with its 16 workers on all cores
of the machine. Ours is CPU time of one core, with the verdict, the counts and every reason of the nearest nodes. Where
a pod fits, the scheduler looks at enough nodes to choose from and leaves the others; we look at all of them.
"""

import itertools
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from fairlead.core.fitting import evaluation
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import read_pod
from fairlead.core.fitting.reading_nodes import read_cluster
from tests.cluster import nodes
from tests.cluster.clients import Client, until
from tests.cluster.control_planes import ControlPlane, running

Object = dict[str, Any]

CONNECTIONS = 8
PODS_EACH = 5
ROUNDS = 20
ROOM = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110", nodes.GPU: "8"}
FILTER = re.compile(
    r'^scheduler_framework_extension_point_duration_seconds_(sum|count)\{extension_point="Filter",[^}]*\} (\S+)$', re.M
)


def measure_filters(size: int) -> None:
    """Fill a cluster of so many nodes, let pods be scheduled there, and compare."""
    with running(measured=True) as plane, plane.client() as admin:
        fill(plane, size)
        table = look(admin)
        print(f"\n{len(table):,} nodes with {PODS_EACH} pods each")
        print(f"  {'':46}{'our fit, ms':>13}{'filter phase, ms':>18}")
        for name, spec in make_specs().items():
            fit = evaluation.evaluate(read_pod(spec, {"namespace": "default"}), table)
            theirs = watch_filters(plane, admin, spec, fits=fit.verdict == evaluation.NOW)
            ours = min(itertools.islice(time_fits(spec, table), ROUNDS))
            print(f"  {name:46}{ours * 1000:13.2f}{theirs * 1000:18.2f}   (x {theirs / ours:.2f})")


def make_specs() -> dict[str, Object]:
    """Pods that ask plainly, in vain, and with more than amounts."""
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


def require(said: Any) -> Object:
    """What must hold."""
    return {"requiredDuringSchedulingIgnoredDuringExecution": said}


def make_spec(gpus: str) -> Object:
    """A pod that asks for GPUs."""
    amounts = {"cpu": "1", "memory": "1Gi", nodes.GPU: gpus}
    resources = {"requests": amounts, "limits": {nodes.GPU: gpus}}
    return {"containers": [{"name": "main", "image": "example.test/sleep", "resources": resources}]}


def fill(plane: ControlPlane, size: int) -> None:
    """Nodes with pods that are bound to them as they are created. One GPU of each node is taken."""
    with ThreadPoolExecutor(CONNECTIONS) as pool, plane.client() as admin:
        list(pool.map(partial(add_node, admin), range(size)))
        list(pool.map(partial(add_pod, admin), range(size * PODS_EACH)))


def add_node(admin: Client, number: int) -> None:
    """One of the nodes, in one of three zones."""
    node = nodes.make_node(f"node-{number}", labels={"zone": f"zone-{number % 3}"}, taints=[])
    nodes.add_node(admin, node, ROOM, 1)


def add_pod(admin: Client, number: int) -> None:
    """One of the pods that are there."""
    node, at = divmod(number, PODS_EACH)
    spec = make_spec("1" if at == 0 else "0") | {"nodeName": f"node-{node}"}
    admin.create(make_pod(f"there-{number}", spec, app=f"app-{number % 100}"))


def make_pod(name: str, spec: Object, **labels: str) -> Object:
    """A pod of the default namespace."""
    meta = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def look(admin: Client) -> NodeTable:
    """The cluster, as it would be read from a file."""
    found = [("Node", "/api/v1/nodes"), ("Pod", "/api/v1/pods")]
    items = [{**item, "kind": kind} for kind, path in found for item in admin.get(path)["items"]]
    return read_cluster(items)


def watch_filters(plane: ControlPlane, admin: Client, spec: Object, *, fits: bool) -> float:
    """The seconds of the scheduler's filter phase, over pods that are created one after the other and taken away."""
    before = read_filters(plane)
    for number in range(ROUNDS):
        made = admin.create(make_pod(f"new-{number}", spec))
        path = f"/api/v1/namespaces/default/pods/{made['metadata']['name']}"
        until(partial(is_decided, admin, path, "True" if fits else "False"))
        admin.delete(path, gracePeriodSeconds=0)
    after = read_filters(plane)
    return (after["sum"] - before["sum"]) / (after["count"] - before["count"])


def is_decided(admin: Client, path: str, wanted: str) -> bool:
    """Whether the scheduler has found a node for a pod, or said that there is none."""
    said = admin.get(path).get("status", {}).get("conditions", ())
    return ("PodScheduled", wanted) in [(each["type"], each["status"]) for each in said]


def read_filters(plane: ControlPlane) -> dict[str, float]:
    """How long the filters took so far, and how often they ran, whatever came of it."""
    found = {"sum": 0.0, "count": 0.0}
    for name, value in FILTER.findall(plane.read_measures()):
        found[name] += float(value)
    return found


def time_fits(spec: Object, table: NodeTable) -> Iterator[float]:
    """The seconds that one fit takes, again and again."""
    pod_request = read_pod(spec, {"namespace": "default"})
    while True:
        start = time.process_time()
        evaluation.evaluate(pod_request, table.copy())
        yield time.process_time() - start
