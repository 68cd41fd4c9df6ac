"""How long it takes to tell whether a run would fit, beside plain loops over the same nodes. CPU time of one core.

Nodes are warm: what is taken of each is known, as it is in a server that watches a cluster. The loops add up what runs
on each node, as one would write it first, or have that kept for them. Each figure is that of the least disturbed round,
in which all take turns; the ratios compare within the run.
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
from fairlead.core.fitting import evaluation
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.pod_resources import PODS
from fairlead.model.nodes import Amounts, Node, ScheduledPod, Taint
from fairlead.model.quantities import NANOS

SIZES = (100, 1000, 5000, 20000)
PODS_EACH = 30
ROUNDS = 12
CASE_SECONDS = 0.05
GOAL_SIZE, GOAL_SECONDS, GOAL_UPDATE_SECONDS = 5000, 0.010, 0.0001
GOAL_GROWTH = 2.0  # how much longer a node may take among 20,000 than among 1,000, which caches hold: a square is 20

GPU, MEMORY, GIBIBYTE = "nvidia.com/gpu", "memory", 2**30 * NANOS
ZONE, HOST, PRODUCT = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "nvidia.com/gpu.product"
HAS = {
    "cpu": 96 * NANOS,
    MEMORY: 768 * GIBIBYTE,
    "ephemeral-storage": 2000 * GIBIBYTE,
    GPU: 8 * NANOS,
    PODS: 110 * NANOS,
}
TEAM = Taint("team", "vision", "NoSchedule")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure how long it takes to tell whether a run would fit.")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="nodes at most")
    sizes = [size for size in SIZES if size <= parser.parse_args().most]
    gc.disable()  # a collection looks at all pods of all nodes, and comes when it likes
    measured = {size: measure_fits(size) for size in sizes}
    describe_growth(measured)
    measure_update(min(GOAL_SIZE, sizes[-1]))
    measure_memory(min(GOAL_SIZE, sizes[-1]))


def make_cluster(size: int) -> list[Node]:
    """Nodes of three zones, with some pods on each. On every node some GPUs are taken, and on none are all free."""
    random = Random(size)
    return [make_node(f"node-{number}", number, random) for number in range(size)]


def make_node(name: str, number: int, random: Random) -> Node:
    """One of them. Every tenth is for a team, every fiftieth is cordoned."""
    labels = {HOST: name, ZONE: f"zone-{number % 3}", PRODUCT: random.choice(("A100", "H100", "L40S")), "pool": "gpu"}
    held = [make_holding(number * PODS_EACH + at, random) for at in range(PODS_EACH)]
    held[0] = replace(held[0], amounts={**held[0].amounts, GPU: random.randint(1, 8) * NANOS})
    return Node(name, HAS, labels, tuple(held), (TEAM,) if number % 10 == 0 else (), number % 50 == 49)


def make_holding(number: int, random: Random) -> ScheduledPod:
    """What a pod holds. Some bear none of their own kind on the same node."""
    amounts = {"cpu": random.randint(1, 3) * NANOS, MEMORY: random.randint(1, 8) * GIBIBYTE, PODS: NANOS}
    app = {"app": f"app-{random.randrange(100)}"}
    anti_affinity = ({"topologyKey": HOST, "labelSelector": {"matchLabels": app}},) if number % 100 == 0 else ()
    return ScheduledPod(f"run-{number}", f"train-{number}", amounts, "forest", "forest", app, anti_affinity)


def make_asks() -> dict[str, PodRequest]:
    """What is asked for: plainly, in vain, and with all that looks beyond amounts."""
    wanted = {"cpu": 8 * NANOS, MEMORY: 32 * GIBIBYTE, GPU: 2 * NANOS, PODS: NANOS}
    products = {"key": PRODUCT, "operator": "In", "values": ["A100", "H100"]}
    anti_affinity = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "app-7"}}}
    plain = PodRequest(wanted, namespace="forest", labels={"app": "app-7"})
    return {
        "2 GPUs, which fit": plain,
        "8 GPUs, which fit nowhere now": replace(plain, amounts={**wanted, GPU: 8 * NANOS}),
        "2 GPUs, node affinity, taints, anti-affinity": replace(
            plain,
            node_terms=({"matchExpressions": [products, {"key": ZONE, "operator": "Exists", "values": []}]},),
            tolerations=({"key": "team", "operator": "Exists"},),
            pod_anti_affinity=(anti_affinity,),
        ),
    }


# Plain loops


def judge_plainly(
    pod_request: PodRequest, nodes: Sequence[Node], count_free: Callable[[Node], Amounts]
) -> tuple[str, set[str]]:
    """The verdict and the nodes that take it, found node by node."""
    namesakes = find_near(pod_request, nodes)
    now, later = set(), False
    for node in nodes:
        if (
            fits_plainly(pod_request, node, count_free(node))
            and node.name not in namesakes
            and not is_repelled(pod_request, node)
        ):
            now.add(node.name)
        elif not now and not later:
            later = suits_plainly(pod_request, node) and all(
                amount <= node.capacity.get(name, 0) for name, amount in pod_request.amounts.items()
            )
    return evaluation.NOW if now else evaluation.LATER if later else evaluation.NEVER, now


def fits_plainly(pod_request: PodRequest, node: Node, free: Amounts) -> bool:
    """Whether a node has what is asked for, and is open to it."""
    if node.unschedulable or not suits_plainly(pod_request, node):
        return False
    return all(amount <= free.get(name, 0) for name, amount in pod_request.amounts.items())


def suits_plainly(pod_request: PodRequest, node: Node) -> bool:
    """Whether a node has the labels, and only taints that are tolerated."""
    tolerated = {said["key"] for said in pod_request.tolerations}
    if any(taint.key not in tolerated for taint in node.taints):
        return False
    return all(
        suits_expression(said, node) for term in pod_request.node_terms or () for said in term["matchExpressions"]
    )


def suits_expression(said: Any, node: Node) -> bool:
    """Whether a node has a label, with one of some values."""
    return (
        said["key"] in node.labels if said["operator"] == "Exists" else node.labels.get(said["key"]) in said["values"]
    )


def find_near(pod_request: PodRequest, nodes: Sequence[Node]) -> set[str]:
    """The nodes with a pod that it must be far from."""
    wanted = [term["labelSelector"]["matchLabels"].items() for term in pod_request.pod_anti_affinity]
    return {
        node.name
        for node in nodes
        for held in (node.pods if wanted else ())
        if any(said <= held.labels.items() for said in wanted)
    }


def is_repelled(pod_request: PodRequest, node: Node) -> bool:
    """Whether a pod of a node does not bear it there."""
    return any(
        term["labelSelector"]["matchLabels"].items() <= pod_request.labels.items()
        for held in node.pods
        for term in held.anti_affinity
    )


def add_up(node: Node) -> Amounts:
    """What is left of a node, pod by pod."""
    left = dict(node.capacity)
    for held in node.pods:
        for name, amount in held.amounts.items():
            left[name] -= amount
    return left


# Measuring


def judge_anew(pod_request: PodRequest, table: NodeTable) -> None:
    """As a server does it: each time another look at the cluster, of which nothing is remembered but the columns."""
    evaluation.evaluate(pod_request, table.copy())


def measure_fits(size: int) -> dict[str, float]:
    """Each ask on so many nodes; the seconds of ours."""
    table = NodeTable(make_cluster(size))
    print(f"\n{size:,} nodes with {PODS_EACH} pods each")
    print(f"  {'':46}{'milliseconds':>13}{'plain loops':>20}{'with sums kept':>20}")
    found = {}
    for name, pod_request in make_asks().items():
        check_same(pod_request, table)
        ours, loops, kept = measure(
            partial(judge_anew, pod_request, table),
            partial(judge_plainly, pod_request, table.nodes, add_up),
            partial(judge_plainly, pod_request, table.nodes, lambda node: node.left),
        )
        found[name] = ours
        print(f"  {name:46}{ours * 1000:13.2f}{_beside(loops, ours)}{_beside(kept, ours)}")
    return found


def check_same(pod_request: PodRequest, table: NodeTable) -> None:
    """Whether the loops say what we say."""
    verdict, now = judge_plainly(pod_request, table.nodes, add_up)
    assert evaluation.evaluate(pod_request, table).verdict == verdict, (pod_request, verdict)
    assert {table.names[at] for at in NodeFilter(pod_request, table).feasible} == now, pod_request


def measure(*cases: Callable[[], object]) -> Iterator[float]:
    """The seconds that each case takes."""
    rounds: list[list[float]] = [[] for _ in cases]
    for _ in range(ROUNDS):
        for case, spent in zip(cases, rounds, strict=True):
            case()  # after the others, memory that it needs is not at hand
            start, count = time.process_time(), 0
            while (took := time.process_time() - start) < CASE_SECONDS:
                case()
                count += 1
            spent.append(took / count)
    return map(min, rounds)


def describe_growth(measured: dict[int, dict[str, float]]) -> None:
    """What one node takes among few and among many, and whether the goals are met."""
    print(f"\nmicroseconds per node{'':27}" + "".join(f"{size:>10,}" for size in measured))
    worst = 0.0
    for name in make_asks():
        each = {size: found[name] / size for size, found in measured.items()}
        print(f"  {name:46}" + "".join(f"{seconds * 1e6:10.3f}" for seconds in each.values()))
        worst = max(worst, each[max(each)] / each.get(1000, each[max(each)]))
    slowest = max(measured.get(GOAL_SIZE, {"": 0.0}).values())
    _describe_goal(f"{GOAL_SIZE:,} nodes in under {GOAL_SECONDS * 1000:.0f} ms", slowest < GOAL_SECONDS)
    _describe_goal(f"linear: at most x {GOAL_GROWTH} per node from 1,000 nodes on ({worst:.2f})", worst <= GOAL_GROWTH)


def measure_update(size: int) -> None:
    """One pod that comes and goes: what is kept of the cluster is brought up to date, and looked at."""
    view, nodes = ClusterView(lambda _run: None), make_cluster(size)
    for number, node in enumerate(nodes):
        view.on_node_change(None, ObservedNode(node.name, number, replace(node, pods=()), True, None))
        for at, held in enumerate(node.pods):
            view.on_pod_change(None, make_pod(f"{node.name}-{at}", node.name, held))
    busy = make_pod("new", nodes[size // 2].name, nodes[0].pods[0])
    table, changed = NodeTable(nodes), [replace(nodes[0], pods=nodes[0].pods[at:]) for at in (0, 1)]

    def hear(look: Callable[[], object]) -> None:
        view.on_pod_change(None, busy)
        look()
        view.on_pod_change(busy, None)
        look()

    def put() -> None:
        for node in changed:
            table.put(replace(node))  # without what was worked out of it before
            assert len(table) == size

    cases: dict[str, Callable[[], object]] = {
        "a pod event, and a look at the cluster": partial(hear, view.nodes),
        "the same, until all columns are as they should be": partial(hear, lambda: len(view.nodes())),
        "a node put in its place, where nobody has a copy": put,
    }
    print(f"\none pod more or less on one of {size:,} nodes")
    took = dict(zip(cases, (seconds / 2 for seconds in measure(*cases.values())), strict=True))
    for name, seconds in took.items():
        print(f"  {name:50}{seconds * 1000:9.4f} ms")
    _describe_goal(
        f"an update in under {GOAL_UPDATE_SECONDS * 1000} ms", next(iter(took.values())) < GOAL_UPDATE_SECONDS
    )


def make_pod(name: str, node: str, held: ScheduledPod) -> ObservedPod:
    """A pod of nobody's run, as the cluster tells of it."""
    return ObservedPod(name, 1, "forest", name, "", "", "", node, "Running", replace(held, run_id="", name=None))


def measure_memory(size: int) -> None:
    """What nodes take with all pods on them, and what columns add to them once each ask was looked at."""
    tracemalloc.start()
    nodes = make_cluster(size)
    for node in nodes:
        assert node.left
    of_nodes, _ = tracemalloc.get_traced_memory()
    table = NodeTable(nodes)
    for pod_request in make_asks().values():
        evaluation.evaluate(pod_request, table)
    of_all, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"\nmemory of {len(table):,} nodes with {PODS_EACH} pods each")
    print(f"  {'nodes and pods':46}{of_nodes / 2**20:13.1f} MiB")
    print(f"  {'columns':46}{(of_all - of_nodes) / 2**20:13.2f} MiB")


def _beside(other: float, ours: float) -> str:
    return f"{other * 1000:11.1f} (x {other / ours:.1f})".rjust(20)


def _describe_goal(goal: str, met: bool) -> None:
    print(f"  goal: {goal}: {'met' if met else 'MISSED'}")


if __name__ == "__main__":
    main()
