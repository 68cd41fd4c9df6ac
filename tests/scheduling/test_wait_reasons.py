"""Waiting messages: why a run does not fit on any node, in one sentence."""

from typing import Any

import pytest

from fairlead.model.nodes import Node, NodeTable, PodRequest
from fairlead.scheduling.evaluation import explain_no_fit
from fairlead.scheduling.filters import NodeFilter
from tests.scheduling.nodes import make_node, make_pod_request, make_scheduled_pod

NOT_READY = "node.kubernetes.io/not-ready:NoExecute"
TEAM = "team=b:NoSchedule"
GPU_TYPE = [{"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A100", "H100"]}]}]


def gpu_node(name: str, used: int = 0, total: int = 8, **more: Any) -> Node:
    """A node with GPUs, some in use."""
    return make_node(*([make_scheduled_pod(gpu=used)] if used else []), name=name, gpu=total, **more)


def cpu_node(name: str, **more: Any) -> Node:
    """A node without GPUs."""
    return make_node(name=name, gpu=0, **more)


CASES: list[tuple[str, PodRequest, list[Node]]] = [
    # Matching nodes are full.
    (
        "needs 8 GPUs on one node; at most 5 free on any of 3 suitable nodes (n3); run train-a uses 3",
        make_pod_request(gpu=8, selector={"pool": "a"}),
        [*(gpu_node(f"n{used}", used, labels={"pool": "a"}) for used in (5, 3, 8)), gpu_node("other")],
    ),
    (
        "needs 8 GPUs on one node; at most 1 free on any of 2 nodes (b); run train-a uses 7",
        make_pod_request(gpu=8),
        [gpu_node("a", 8), gpu_node("b", 7)],
    ),
    (
        "needs 8 GPUs on one node; none free on any of 2 nodes; run train-a uses 8",
        make_pod_request(gpu=8),
        [gpu_node("a", 8), gpu_node("b", 9)],
    ),
    ("needs 8 GPUs; 3 of 8 free on a; run train-a uses 5", make_pod_request(gpu=8), [gpu_node("a", 5)]),
    (
        "needs 8 GPUs; 3 of 8 free on a, the only suitable node; run train-a uses 5",
        make_pod_request(gpu=8, selector={"pool": "a"}),
        [gpu_node("a", 5, labels={"pool": "a"}), gpu_node("b")],
    ),
    (
        "needs 16 GiB memory on one node; at most 8 GiB free on any of 2 nodes (b); run train-a uses 24 GiB",
        make_pod_request(mem="16Gi"),
        [make_node(make_scheduled_pod(mem="30Gi"), name="a"), make_node(make_scheduled_pod(mem="24Gi"), name="b")],
    ),
    (
        "needs 8 GPUs and 32 GiB memory on one node; none of 2 nodes has all of that free; "
        "b is closest with 24 GiB of 32 GiB memory",
        make_pod_request(gpu=8, mem="32Gi"),
        [gpu_node("a", 4), make_node(make_scheduled_pod(mem="8Gi"), name="b", gpu=8)],
    ),
    (
        "needs room for one more pod; all 2 nodes are at their pod limit (a: 1 pod)",
        make_pod_request(),
        [make_node(make_scheduled_pod(), name=name, pods=1) for name in ("a", "b")],
    ),
    # Nodes that are too small are ignored.
    (
        "needs 8 GPUs; 5 of 8 free on c, the only suitable node; run train-a uses 3",
        make_pod_request(gpu=8),
        [cpu_node("a"), gpu_node("b", total=6), gpu_node("c", 3)],
    ),
    # Matching nodes are not ready or tainted.
    (
        "2 suitable nodes (a and b) accept no new pods: 1 is cordoned and 1 is tainted with " + NOT_READY,
        make_pod_request(gpu=8),
        [gpu_node("a", cordoned=True), gpu_node("b", 8, taints=[NOT_READY]), cpu_node("c")],
    ),
    (
        "3 suitable nodes (a, b and c) only accept pods that tolerate their taints: "
        "3 are tainted with team=b:NoSchedule and 1 is tainted with gpu:NoExecute",
        make_pod_request(gpu=8),
        [
            gpu_node("a", taints=[TEAM]),
            gpu_node("b", 8, taints=[TEAM]),
            gpu_node("c", taints=["gpu:NoExecute", TEAM]),
            cpu_node("d"),
        ],
    ),
    (
        "1 suitable node (a) only accepts pods that tolerate its taints: 1 is tainted with team=b:NoSchedule",
        make_pod_request(gpu=8),
        [gpu_node("a", taints=[TEAM], cordoned=True), cpu_node("d", taints=[NOT_READY])],
    ),
    # Nothing is large enough.
    (
        "needs 900 GiB memory; the largest of 3 nodes has 512 GiB (b)",
        make_pod_request(mem="900Gi"),
        [make_node(name="a"), make_node(name="b", mem="512Gi"), make_node(name="c", mem="64Gi", taints=[TEAM])],
    ),
    (
        "needs 900 GiB memory; a, the only matching node, has 32 GiB",
        make_pod_request(mem="900Gi", selector={"pool": "a"}),
        [make_node(name="a", labels={"pool": "a"}), make_node(name="b", mem="1Ti")],
    ),
    ("needs 1 GPU; none of 2 nodes has any", make_pod_request(gpu=1), [cpu_node("a"), cpu_node("b", cordoned=True)]),
    (
        "needs 16 GPUs; the largest of 2 nodes has 8 (a)",
        make_pod_request(gpu=16, mem="33Gi"),
        [gpu_node("a"), gpu_node("b", 8)],
    ),
    (
        "needs 8 GPUs and 64 GiB memory; none of 2 nodes has all of that; b is closest with 6 of 8 GPUs",
        make_pod_request(gpu=8, mem="64Gi"),
        [gpu_node("a"), gpu_node("b", total=6, mem="64Gi")],
    ),
    # No node has the requested labels.
    (
        "no node has pool=a100: 4 nodes checked, 3 are tainted with team=b:NoSchedule",
        make_pod_request(selector={"pool": "a100"}),
        [*(gpu_node(name, taints=[TEAM]) for name in "abc"), gpu_node("d", labels={"pool": "v100"})],
    ),
    ("no node has pool=a100: 1 node checked", make_pod_request(selector={"pool": "a100"}), [gpu_node("a")]),
    (
        "no node has pool=a or zone=b: 1 node checked",
        make_pod_request(selector={"pool": "a", "zone": "b"}),
        [gpu_node("a")],
    ),
    (
        "no node has pool=a and zone=b together: 3 nodes checked, 2 have pool=a and 1 has zone=b",
        make_pod_request(selector={"pool": "a", "zone": "b"}),
        [gpu_node("a", labels={"pool": "a"}), gpu_node("b", labels={"zone": "b"}), gpu_node("c", labels={"pool": "a"})],
    ),
    (
        "no node has a GPU of type A100 or H100: 1 node checked",
        make_pod_request(terms=GPU_TYPE),
        [gpu_node("a", labels={"nvidia.com/gpu.product": "L40S"})],
    ),
    (
        "no node has labels that match its node affinity (2 terms): 1 node checked",
        make_pod_request(terms=[*GPU_TYPE, {}]),
        [gpu_node("a")],
    ),
    ("the cluster has no nodes", make_pod_request(), []),
]


@pytest.mark.parametrize(("message", "pod_request", "nodes"), CASES, ids=[message[:50] for message, _, _ in CASES])
def test_the_wait_reason_is_summarized_in_one_sentence(
    message: str, pod_request: PodRequest, nodes: list[Node]
) -> None:
    assert explain_no_fit(NodeFilter(pod_request, NodeTable(nodes))) == message


def test_a_fitting_request_has_no_wait_reason() -> None:
    assert explain_no_fit(NodeFilter(make_pod_request(gpu=8), NodeTable([gpu_node("a", 1), gpu_node("b")]))) == ""


def test_a_slightly_too_large_amount_is_shown_in_bytes() -> None:
    message = explain_no_fit(
        NodeFilter(make_pod_request(mem=str(32 * 2**30 + 1)), NodeTable([make_node(name="a"), make_node(name="b")]))
    )
    assert message == "needs 34359738369 bytes memory; the largest of 2 nodes has 34359738368 bytes (a)"
