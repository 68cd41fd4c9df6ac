"""Measures the CPU time needed to decide whether a run fits, compared with plain loops over the nodes.

Nodes are warm: their free amounts are known, as in a server that watches a cluster. The loops sum up the pods on each
node, as a first version would, or use cached sums. In each round, all cases take turns, and each figure is from the
least disturbed round. Ratios compare figures from the same run.
"""

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from fairlead.adapters.kubernetes.objects import ObservedNode, ObservedPod
from fairlead.adapters.kubernetes.views import ClusterView
from fairlead.model.nodes import Amounts, Node, NodeTable, PodRequest, ScheduledPod, Taint
from fairlead.model.quantities import NANOS
from fairlead.run_events import RunEvents
from fairlead.scheduling import evaluation
from fairlead.scheduling.filters import NodeFilter
from fairlead.scheduling.pod_requests import PODS

SIZES = (100, 1000, 5000, 20000)
PODS_EACH = 30
ROUNDS = 12
CASE_SECONDS = 0.05
GOAL_SIZE, GOAL_UPDATE_SECONDS = 5000, 0.0001
# Maximum seconds by number of nodes, for requests that only have amounts and for those with other constraints.
GOALS_SIMPLE, GOALS_CONSTRAINED = {GOAL_SIZE: 0.008}, {GOAL_SIZE: 0.010, 20000: 0.040}
GOAL_GROWTH = 2.0  # growth of the time per node from 1,000 nodes, which fit in CPU caches, to 20,000; 20 is quadratic

GPU, MEMORY, GIBIBYTE = "nvidia.com/gpu", "memory", 2**30 * NANOS
ZONE, HOST, PRODUCT = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "nvidia.com/gpu.product"
CAPACITY = {
    "cpu": 96 * NANOS,
    MEMORY: 768 * GIBIBYTE,
    "ephemeral-storage": 2000 * GIBIBYTE,
    GPU: 8 * NANOS,
    PODS: 110 * NANOS,
}
TEAM = Taint("team", "vision", "NoSchedule")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure how long it takes to decide whether a run fits.")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="maximum number of nodes")
    sizes = [size for size in SIZES if size <= parser.parse_args().most]
    gc.disable()  # a collection visits all pods of all nodes at unpredictable times
    measured = {size: measure_fits(size) for size in sizes}
    print_growth(measured)
    measure_update(min(GOAL_SIZE, sizes[-1]))
    measure_memory(min(GOAL_SIZE, sizes[-1]))


def make_cluster(size: int) -> list[Node]:
    """Make nodes in three zones, with some pods each. Every node has some GPUs in use."""
    random = Random(size)
    return [make_node(f"node-{number}", number, random) for number in range(size)]


def make_node(name: str, number: int, random: Random) -> Node:
    """Make a node. Every tenth is tainted for a team, every fiftieth is cordoned."""
    labels = {HOST: name, ZONE: f"zone-{number % 3}", PRODUCT: random.choice(("A100", "H100", "L40S")), "pool": "gpu"}
    pods = [make_scheduled_pod(number * PODS_EACH + index, random) for index in range(PODS_EACH)]
    pods[0] = replace(pods[0], amounts={**pods[0].amounts, GPU: random.randint(1, 8) * NANOS})
    return Node(name, CAPACITY, labels, tuple(pods), (TEAM,) if number % 10 == 0 else (), number % 50 == 49)


def make_scheduled_pod(number: int, random: Random) -> ScheduledPod:
    """Make a pod. Some have anti-affinity to pods of their own app on the same node."""
    amounts = {"cpu": random.randint(1, 3) * NANOS, MEMORY: random.randint(1, 8) * GIBIBYTE, PODS: NANOS}
    app = {"app": f"app-{random.randrange(100)}"}
    anti_affinity = ({"topologyKey": HOST, "labelSelector": {"matchLabels": app}},) if number % 100 == 0 else ()
    return ScheduledPod(f"run-{number}", f"train-{number}", amounts, "forest", "forest", app, anti_affinity)


def make_pod_requests() -> dict[str, PodRequest]:
    """Make requests: one that fits, one that does not, and two with constraints other than amounts."""
    amounts = {"cpu": 8 * NANOS, MEMORY: 32 * GIBIBYTE, GPU: 2 * NANOS, PODS: NANOS}
    products = {"key": PRODUCT, "operator": "In", "values": ["A100", "H100"]}
    anti_affinity = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "app-7"}}}
    spread = {**anti_affinity, "topologyKey": ZONE, "maxSkew": 1}
    plain = PodRequest(amounts, namespace="forest", labels={"app": "app-7"})
    constrained = replace(
        plain,
        node_terms=({"matchExpressions": [products, {"key": ZONE, "operator": "Exists", "values": []}]},),
        tolerations=({"key": "team", "operator": "Exists"},),
        pod_anti_affinity=(anti_affinity,),
    )
    return {
        "2 GPUs, which fit": plain,
        "8 GPUs, which fit nowhere now": replace(plain, amounts={**amounts, GPU: 8 * NANOS}),
        "2 GPUs, node affinity, taints, anti-affinity": constrained,
        "the same with topology spread": replace(constrained, topology_spread=(spread,)),
    }


# Plain loops


def evaluate_with_loops(
    pod_request: PodRequest, nodes: Sequence[Node], count_free: Callable[[Node], Amounts]
) -> tuple[str, set[str]]:
    """Return the verdict and the feasible nodes, found node by node."""
    excluded = find_anti_affine(pod_request, nodes) | find_too_skewed(pod_request, nodes)
    now, later = set(), False
    for node in nodes:
        if (
            fits_with_loops(pod_request, node, count_free(node))
            and node.name not in excluded
            and not is_repelled(pod_request, node)
        ):
            now.add(node.name)
        elif not now and not later:
            later = matches_with_loops(pod_request, node) and all(
                amount <= node.capacity.get(name, 0) for name, amount in pod_request.amounts.items()
            )
    return evaluation.NOW if now else evaluation.LATER if later else evaluation.NEVER, now


def fits_with_loops(pod_request: PodRequest, node: Node, free: Amounts) -> bool:
    """Whether a node has the requested amounts free and accepts the pod."""
    if node.unschedulable or not matches_with_loops(pod_request, node):
        return False
    return all(amount <= free.get(name, 0) for name, amount in pod_request.amounts.items())


def matches_with_loops(pod_request: PodRequest, node: Node) -> bool:
    """Whether a node has the required labels and only tolerated taints."""
    tolerated = {toleration["key"] for toleration in pod_request.tolerations}
    if any(taint.key not in tolerated for taint in node.taints):
        return False
    return matches_affinity(pod_request, node)


def matches_affinity(pod_request: PodRequest, node: Node) -> bool:
    """Whether a node has the required labels."""
    return all(
        matches_expression(expression, node)
        for term in pod_request.node_terms or ()
        for expression in term["matchExpressions"]
    )


def matches_expression(expression: Any, node: Node) -> bool:
    """Whether a node has a label, with one of the values."""
    if expression["operator"] == "Exists":
        return expression["key"] in node.labels
    return node.labels.get(expression["key"]) in expression["values"]


def find_anti_affine(pod_request: PodRequest, nodes: Sequence[Node]) -> set[str]:
    """Return the nodes with a pod to which the requested pod has anti-affinity."""
    selectors = [term["labelSelector"]["matchLabels"].items() for term in pod_request.pod_anti_affinity]
    return {
        node.name
        for node in nodes
        for pod in (node.pods if selectors else ())
        if any(labels <= pod.labels.items() for labels in selectors)
    }


def find_too_skewed(pod_request: PodRequest, nodes: Sequence[Node]) -> set[str]:
    """Return the nodes in zones with too many pods of the requested pod's app."""
    excluded: set[str] = set()
    for constraint in pod_request.topology_spread:
        labels, counts = constraint["labelSelector"]["matchLabels"].items(), dict[str, int]()
        for node in nodes:
            if matches_affinity(pod_request, node):
                count = sum(labels <= pod.labels.items() for pod in node.pods)
                counts[node.labels[ZONE]] = counts.get(node.labels[ZONE], 0) + count
        most = min(counts.values()) + constraint["maxSkew"] - 1
        excluded |= {node.name for node in nodes if counts.get(node.labels[ZONE], 0) > most}
    return excluded


def is_repelled(pod_request: PodRequest, node: Node) -> bool:
    """Whether a pod on a node has anti-affinity to the requested pod."""
    return any(
        term["labelSelector"]["matchLabels"].items() <= pod_request.labels.items()
        for pod in node.pods
        for term in pod.anti_affinity
    )


def count_free_amounts(node: Node) -> Amounts:
    """Return the free amounts of a node, summed pod by pod."""
    free = dict(node.capacity)
    for pod in node.pods:
        for name, amount in pod.amounts.items():
            free[name] -= amount
    return free


# Measuring


def evaluate_uncached(pod_request: PodRequest, table: NodeTable) -> None:
    """Evaluate as a server does, with a new copy of the table, which caches nothing but its columns."""
    evaluation.evaluate(pod_request, table.copy())


def measure_fits(size: int) -> dict[str, float]:
    """Measure each request and return Fairlead's times in seconds."""
    table = NodeTable(make_cluster(size))
    print(f"\n{size:,} nodes with {PODS_EACH} pods each")
    print(f"  {'':46}{'milliseconds':>13}{'plain loops':>20}{'with cached sums':>20}")
    measured = {}
    for name, pod_request in make_pod_requests().items():
        check_same_result(pod_request, table)
        ours, loops, cached = measure(
            partial(evaluate_uncached, pod_request, table),
            partial(evaluate_with_loops, pod_request, table.nodes, count_free_amounts),
            partial(evaluate_with_loops, pod_request, table.nodes, lambda node: node.remaining),
        )
        measured[name] = ours
        print(f"  {name:46}{ours * 1000:13.2f}{_format_ratio(loops, ours)}{_format_ratio(cached, ours)}")
    return measured


def check_same_result(pod_request: PodRequest, table: NodeTable) -> None:
    """Check that the loops give the same results."""
    verdict, now = evaluate_with_loops(pod_request, table.nodes, count_free_amounts)
    assert evaluation.evaluate(pod_request, table).verdict == verdict, (pod_request, verdict)
    assert {table.names[index] for index in NodeFilter(pod_request, table).feasible} == now, pod_request


def measure(*cases: Callable[[], object]) -> Iterator[float]:
    """Return the time of each case in seconds."""
    rounds: list[list[float]] = [[] for _ in cases]
    for _ in range(ROUNDS):
        for case, spent in zip(cases, rounds, strict=True):
            case()  # warm up the CPU caches after the other cases
            start, count = time.process_time(), 0
            while (elapsed := time.process_time() - start) < CASE_SECONDS:
                case()
                count += 1
            spent.append(elapsed / count)
    return map(min, rounds)


def print_growth(measured: dict[int, dict[str, float]]) -> None:
    """Print the time per node for each size, and whether the goals are met."""
    print(f"\nmicroseconds per node{'':27}" + "".join(f"{size:>10,}" for size in measured))
    worst = 0.0
    for name in make_pod_requests():
        per_node = {size: seconds[name] / size for size, seconds in measured.items()}
        print(f"  {name:46}" + "".join(f"{seconds * 1e6:10.3f}" for seconds in per_node.values()))
        worst = max(worst, per_node[max(per_node)] / per_node.get(1000, per_node[max(per_node)]))
    requests = make_pod_requests()
    for kind, constrained, goals in (("only amounts", False, GOALS_SIMPLE), ("constraints", True, GOALS_CONSTRAINED)):
        for size, goal in goals.items():
            slowest = max(
                (
                    seconds
                    for name, seconds in measured.get(size, {}).items()
                    if bool(requests[name].node_terms) == constrained
                ),
                default=None,
            )
            if slowest is not None:
                title = f"{kind} on {size:,} nodes in under {goal * 1000:.0f} ms (x {slowest / goal:.2f})"
                _print_goal(title, slowest < goal)
    _print_goal(f"linear: at most x {GOAL_GROWTH} per node from 1,000 nodes on ({worst:.2f})", worst <= GOAL_GROWTH)


def measure_update(size: int) -> None:
    """Measure updating and reading the view of the cluster after a pod is added or removed."""
    view, nodes = ClusterView(RunEvents()), make_cluster(size)
    for number, node in enumerate(nodes):
        view.on_node_change(None, ObservedNode(node.name, number, replace(node, pods=()), True, None))
        for index, pod in enumerate(node.pods):
            view.on_pod_change(None, make_pod(f"{node.name}-{index}", node.name, pod))
    new_pod = make_pod("new", nodes[size // 2].name, nodes[0].pods[0])
    table, changed = NodeTable(nodes), [replace(nodes[0], pods=nodes[0].pods[index:]) for index in (0, 1)]
    *_, constrained = make_pod_requests().values()
    first_table = table.copy()

    def change_pod(read: Callable[[], object]) -> None:
        view.on_pod_change(None, new_pod)
        read()
        view.on_pod_change(new_pod, None)
        read()

    def put() -> None:
        for node in changed:
            table.put(replace(node))  # a copy without cached values
            assert len(table) == size

    def build_indexes() -> None:
        for _ in range(2):  # all cases are divided by two
            first_table.indexes.clear()
            evaluation.evaluate(constrained, first_table.copy())

    cases: dict[str, Callable[[], object]] = {
        "pod event, then reading the cluster": partial(change_pod, view.nodes),
        "pod event, then updating all columns": partial(change_pod, lambda: len(view.nodes())),
        "replacing a node of a table without copies": put,
        "pod event, then a request with all constraints": partial(
            change_pod, lambda: evaluation.evaluate(constrained, view.nodes())
        ),
        "first request with all constraints": build_indexes,
    }
    print(f"\none pod added or removed on one of {size:,} nodes")
    durations = dict(zip(cases, (seconds / 2 for seconds in measure(*cases.values())), strict=True))
    for name, seconds in durations.items():
        print(f"  {name:50}{seconds * 1000:9.4f} ms")
    _print_goal(
        f"an update in under {GOAL_UPDATE_SECONDS * 1000} ms", next(iter(durations.values())) < GOAL_UPDATE_SECONDS
    )


def make_pod(name: str, node: str, pod: ScheduledPod) -> ObservedPod:
    """Make an observed pod that does not belong to a run."""
    return ObservedPod(name, 1, "forest", name, "", "", "", node, "Running", replace(pod, run_id="", name=None))


def measure_memory(size: int) -> None:
    """Measure the memory of nodes with their pods, and of the columns after evaluating each request."""
    tracemalloc.start()
    nodes = make_cluster(size)
    for node in nodes:
        assert node.remaining
    of_nodes, _ = tracemalloc.get_traced_memory()
    table = NodeTable(nodes)
    for pod_request in make_pod_requests().values():
        evaluation.evaluate(pod_request, table)
    of_all, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"\nmemory of {len(table):,} nodes with {PODS_EACH} pods each")
    print(f"  {'nodes and pods':46}{of_nodes / 2**20:13.1f} MiB")
    print(f"  {'columns':46}{(of_all - of_nodes) / 2**20:13.2f} MiB")


def _format_ratio(other: float, ours: float) -> str:
    return f"{other * 1000:11.1f} (x {other / ours:.1f})".rjust(20)


def _print_goal(goal: str, met: bool) -> None:
    print(f"  goal: {goal}: {'met' if met else 'MISSED'}")


if __name__ == "__main__":
    main()
