"""Whether a run would run now, later or never on a node, and why not."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.core.fitting import evaluation
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.formatting import show_amount
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest, read_pod_request
from fairlead.core.planning import plan_run
from fairlead.model.nodes import Node, ScheduledPod
from fairlead.model.quantities import NANOS
from tests.core.nodes import make_amounts, make_holding, make_node, make_pod_request
from tests.making import PYTHON, make_cluster, make_request, make_snapshot, plan


def reasons(pod_request: PodRequest, node: Node) -> list[str]:
    """Why a node does not take a run now."""
    return [reason.message for reason in evaluation.find_reasons(NodeFilter(pod_request, NodeTable([node])), node)]


def test_what_fits_has_no_reason_against_it() -> None:
    fit = evaluation.evaluate(make_pod_request(cpu=8, mem="32Gi", disk="100Gi", gpu=2), NodeTable([make_node()]))
    assert (fit.verdict, fit.reasons) == ("now", ())
    assert fit.nodes == ({"name": "box", "fits": True, "reasons": []},)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"cpu": 9}, "needs 9 CPU cores; box has 8 in total"),
        ({"cpu": "8001m"}, "needs 8.001 CPU cores; box has 8 in total"),
        ({"mem": "64Gi"}, "needs 64 GiB memory; box has 32 GiB in total"),
        ({"disk": "1Ti"}, "needs 1 TiB disk; box has 100 GiB in total"),
        ({"gpu": 3}, "needs 3 GPUs; box has 2 in total"),
        ({"amd.com/gpu": 1}, "needs 1 GPU; box has none"),
        ({"example.com/fpga": 2}, "needs 2 example.com/fpga; box has none"),
    ],
)
def test_what_the_node_does_not_have_never_fits_and_says_the_numbers(asked: dict[str, Any], message: str) -> None:
    fit = evaluation.evaluate(make_pod_request(**asked), NodeTable([make_node()]))
    assert (fit.verdict, fit.reasons) == ("never", (message,))


def test_what_others_hold_fits_later_and_says_who_holds_it() -> None:
    node = make_node(make_holding("train-a", mem="24Gi"), make_holding("train-b", cpu=1))
    fit = evaluation.evaluate(make_pod_request(mem="16Gi"), NodeTable([node]))
    assert fit.verdict == "later"
    assert fit.reasons == ("needs 16 GiB memory; 8 GiB of 32 GiB free on box. In use by train-a",)
    assert fit.nodes == ({"name": "box", "fits": False, "reasons": list(fit.reasons)},)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a"], "In use by a"),
        (["a", "b"], "In use by a, b"),
        (["a", "b", "c", "d"], "In use by a, b, c and 1 more"),
        (["a", "b", "c", "d", "e"], "In use by a, b, c and 2 more"),
        ([None], "In use by 1 run"),
        ([None, None], "In use by 2 runs"),
        (["a", None], "In use by a and 1 more"),
        ([None, "a", None], "In use by a and 2 more"),
    ],
)
def test_the_holders_are_named_as_far_as_the_reader_may_know(names: list[str | None], told: str) -> None:
    node = make_node(*(make_holding(name, cpu=1) for name in names))
    (reason,) = reasons(make_pod_request(cpu=8), node)
    assert reason.endswith(told)
    assert "None" not in reason


def test_a_node_that_is_full_of_runs_says_so() -> None:
    node = make_node(make_holding("a"), make_holding("b"), pods=2)
    assert reasons(make_pod_request(), node) == ["box is at its limit of 2 runs: a, b"]
    assert evaluation.evaluate(make_pod_request(), NodeTable([node])).verdict == "later"


def test_every_reason_is_told_at_once() -> None:
    pod_request = make_pod_request(cpu=9, mem="64Gi", selector={"zone": "a"})
    found = list(evaluation.find_reasons(NodeFilter(pod_request, NodeTable([make_node()])), make_node()))
    assert [reason.path for reason in found] == ["node_selector.zone", "resources.cpu", "resources.mem"]


def test_more_than_is_there_may_be_held_without_negative_numbers() -> None:
    """A setting may give a machine less than its runs hold already."""
    (reason,) = reasons(make_pod_request(cpu=4), make_node(make_holding("a", cpu=12)))
    assert reason == "needs 4 CPU cores; 0 of 8 free on box. In use by a"


def test_who_asks_for_none_is_not_kept_off_by_what_is_overdrawn() -> None:
    assert reasons(make_pod_request(cpu=0, gpu=1), make_node(make_holding("a", cpu=12))) == []


def test_one_node_that_takes_it_is_enough() -> None:
    small, large = make_node(cpu=1), Node("large", make_amounts(cpu=64, pods=9))
    fit = evaluation.evaluate(make_pod_request(cpu=16), NodeTable([small, large]))
    assert (fit.verdict, fit.reasons, [node["fits"] for node in fit.nodes]) == ("now", (), [True, False])


def test_where_nodes_may_appear_nothing_is_never() -> None:
    for nodes in (NodeTable(), NodeTable([make_node()]), NodeTable([make_node(), make_node(name="other")])):
        assert evaluation.evaluate(make_pod_request(cpu=9), nodes).verdict == "never"
        fit = evaluation.evaluate(make_pod_request(cpu=9), nodes, autoscaled=True)
        assert (fit.verdict, bool(fit.reasons)) == ("later", True)
    assert evaluation.evaluate(make_pod_request(cpu=8), NodeTable([make_node()]), autoscaled=True).verdict == "now"


def test_a_plan_for_a_cluster_that_grows_is_not_refused_for_its_nodes() -> None:
    request = make_request(resources={"cpu": 9})
    for autoscaled, rules in ((False, ["never_fits"]), (True, [])):
        snapshot = make_snapshot(make_cluster(autoscaled=autoscaled))
        planned = plan_run(request, snapshot, "r7", nodes=NodeTable([make_node()]))
        assert [violation.rule for violation in planned.violations] == rules


def test_of_many_nodes_one_sentence_is_told_and_of_each_every_reason() -> None:
    fit = evaluation.evaluate(make_pod_request(cpu=9, gpu=3), NodeTable([make_node(), make_node(name="other", cpu=4)]))
    assert fit.reasons == ("needs 3 GPUs; the largest of 2 nodes has 2 (box)",)
    assert [len(node["reasons"]) for node in fit.nodes] == [2, 2]


def test_without_nodes_nothing_ever_fits() -> None:
    assert evaluation.evaluate(make_pod_request(), NodeTable()).verdict == "never"
    (violation,) = evaluation.explain_never_fits(make_pod_request(), NodeTable())
    assert (violation.path, violation.rule) == ("", "never_fits")


def test_too_many_pods_are_told_to_be_fewer() -> None:
    (violation,) = evaluation.explain_never_fits(
        replace(make_pod_request(cpu=5), count=3), NodeTable([make_node(cpu=8)])
    )
    assert violation.message == "has 3 pods; only 1 would fit on empty nodes"
    assert (violation.path, violation.hint) == ("replicas", "request fewer replicas")


def test_what_never_fits_is_refused_for_the_node_that_comes_nearest() -> None:
    near, far = make_node(make_holding("a", cpu=8)), make_node(cpu=1, mem="1Gi", gpu=0)
    found = list(evaluation.explain_never_fits(make_pod_request(cpu=9, mem="2Gi", gpu=1), NodeTable([far, near])))
    assert [(item.path, item.rule) for item in found] == [("resources.cpu", "never_fits")]
    assert found[0].message == "needs 9 CPU cores; box has 8 in total"
    assert found[0].hint


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ({"cpu": 99}, "resources.cpu"),
        ({"mem": "99Ti"}, "resources.mem"),
        ({"disk": "99Ti"}, "resources.disk"),
        ({"gpu": 99}, "resources.gpu"),
        ({"amd.com/gpu": 1}, "resources.gpu"),
        ({"example.com/fpga": 2}, "resources.extended.example.com/fpga"),
        ({"nvidia.com/mig-1g.5gb": 1}, "resources.gpu.mig"),
        ({"selector": {"zone": "a"}}, "node_selector.zone"),
        ({"terms": []}, "affinity"),
    ],
)
def test_a_refusal_stands_at_what_asked_for_it(asked: dict[str, Any], path: str) -> None:
    assert [
        item.path for item in evaluation.explain_never_fits(make_pod_request(**asked), NodeTable([make_node()]))
    ] == [path]


@pytest.mark.parametrize(
    ("resource", "nanos", "shown"),
    [
        ("cpu", NANOS, "1"),
        ("cpu", 3 * NANOS // 2, "1500m"),
        ("cpu", 0, "0"),
        ("nvidia.com/gpu", 2 * NANOS, "2"),
        ("memory", 0, "0"),
        ("memory", 1000 * NANOS, "1000"),
        ("memory", 2**20 * NANOS, "1Mi"),
        ("memory", 1536 * 2**20 * NANOS, "1.5Gi"),
        ("memory", 2**30 * NANOS, "1Gi"),
        ("memory", 25 * 2**40 * NANOS, "25Ti"),
        ("ephemeral-storage", 10 * 2**30 * NANOS, "10Gi"),
    ],
)
def test_amounts_are_shown_as_people_write_them(resource: str, nanos: int, shown: str) -> None:
    assert show_amount(resource, nanos) == shown


def test_an_amount_that_is_too_large_does_not_look_as_if_it_would_fit() -> None:
    asked = PodRequest({"memory": (32 * 2**30 + 1) * NANOS})
    (reason,) = reasons(asked, make_node())
    assert reason != "needs 32 GiB memory; box has 32 GiB in total"


def test_a_node_that_could_take_it_empty_could_ever_take_it() -> None:
    table = NodeTable([make_node(make_holding("a", cpu=8))])
    assert NodeFilter(make_pod_request(cpu=8), table).feasible_when_empty
    assert not NodeFilter(make_pod_request(cpu=9), table).feasible_when_empty


def test_what_is_asked_is_read_off_the_pod() -> None:
    resources = {"cpu": "500m", "mem": "2Gi", "disk": "1Gi", "gpu": 1, "extended": {"example.com/fpga": 1}}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
            }
        }
    }
    asked = {"function": PYTHON, "resources": resources, "node_selector": {"disk": "ssd"}, "affinity": affinity}
    pod_request = read_pod_request(plan(asked, make_cluster(executor="local")).manifests)
    wanted = make_amounts(cpu="500m", mem="2Gi", disk="1Gi", gpu=1, pods=1) | {"example.com/fpga": NANOS}
    assert pod_request.amounts == wanted
    assert pod_request.node_selector == {"disk": "ssd"}
    assert pod_request.node_terms == ({"matchExpressions": [{"key": "zone", "operator": "Exists"}]},)


def test_who_asks_for_nothing_asks_for_one_run() -> None:
    pod_request = read_pod_request(plan({"function": PYTHON}, make_cluster(executor="local")).manifests)
    assert pod_request == PodRequest({"pods": NANOS}, namespace=pod_request.namespace, labels=pod_request.labels)


@pytest.mark.parametrize(
    ("sharing", "memory", "asked"),
    [
        ("hami", "50%", {"nvidia.com/gpu": 1}),
        ("hami", "10GB", {"nvidia.com/gpu": 1}),
        ("kai", "50%", {}),
        ("none", "100%", {"nvidia.com/gpu": 1}),
    ],
)
def test_what_no_node_lists_is_asked_of_none(sharing: str, memory: str, asked: dict[str, int]) -> None:
    planned = plan({"resources": {"gpu": {"memory": memory}}}, make_cluster(gpu_sharing=sharing))
    assert read_pod_request(planned.manifests).amounts == make_amounts(**asked, pods=1)


def test_of_an_extended_resource_nothing_is_left_out_for_its_name() -> None:
    extended = {"v.example/nic": 1, "v.example/nicmem": 2}
    planned = plan({"resources": {"extended": extended}})
    assert read_pod_request(planned.manifests).amounts == make_amounts(**extended, pods=1)


def test_tolerations_are_read_off_the_pod() -> None:
    planned = plan({"tolerations": [{"key": "team", "operator": "Exists"}]})
    assert read_pod_request(planned.manifests).tolerations == ({"key": "team", "operator": "Exists"},)


def test_what_is_held_is_what_is_not_free() -> None:
    node = make_node(ScheduledPod("r1", "a", make_amounts(cpu=2)), ScheduledPod("r2", "b", make_amounts(cpu="500m")))
    assert node.free("cpu") == make_amounts(cpu="5500m")["cpu"]
    assert node.free("example.com/none") == 0
