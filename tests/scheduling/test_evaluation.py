"""Verdicts (now, later, never) for a run on nodes, with their reasons."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.model.nodes import Node, NodeTable, PodRequest, ScheduledPod
from fairlead.model.quantities import NANOS
from fairlead.planning.plan import plan_run
from fairlead.scheduling import evaluation
from fairlead.scheduling.filters import NodeFilter
from fairlead.scheduling.pod_requests import read_pod_request
from fairlead.scheduling.reasons import show_amount
from tests.making import PYTHON, make_cluster, make_request, make_snapshot, plan
from tests.scheduling.nodes import make_amounts, make_node, make_pod_request, make_scheduled_pod


def reasons(pod_request: PodRequest, node: Node) -> list[str]:
    """The reasons why a run does not fit a node now."""
    return [reason.message for reason in evaluation.find_reasons(NodeFilter(pod_request, NodeTable([node])), node)]


def test_a_fitting_run_has_no_reasons() -> None:
    fit = evaluation.evaluate(make_pod_request(cpu=8, mem="32Gi", disk="100Gi", gpu=2), NodeTable([make_node()]))
    assert (fit.verdict, fit.reasons) == ("now", ())
    assert fit.nodes == ({"name": "box", "fits": True, "reasons": []},)


@pytest.mark.parametrize(
    ("requested", "message"),
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
def test_requests_beyond_the_node_capacity_never_fit(requested: dict[str, Any], message: str) -> None:
    fit = evaluation.evaluate(make_pod_request(**requested), NodeTable([make_node()]))
    assert (fit.verdict, fit.reasons) == ("never", (message,))


def test_resources_in_use_by_others_fit_later_and_name_the_users() -> None:
    node = make_node(make_scheduled_pod("train-a", mem="24Gi"), make_scheduled_pod("train-b", cpu=1))
    fit = evaluation.evaluate(make_pod_request(mem="16Gi"), NodeTable([node]))
    assert fit.verdict == "later"
    assert fit.reasons == ("needs 16 GiB memory; 8 GiB of 32 GiB free on box. In use by train-a",)
    assert fit.nodes == ({"name": "box", "fits": False, "reasons": list(fit.reasons)},)


@pytest.mark.parametrize(
    ("names", "ending"),
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
def test_users_of_resources_are_named_if_the_reader_may_see_them(names: list[str | None], ending: str) -> None:
    node = make_node(*(make_scheduled_pod(name, cpu=1) for name in names))
    (reason,) = reasons(make_pod_request(cpu=8), node)
    assert reason.endswith(ending)
    assert "None" not in reason


def test_a_node_at_its_pod_limit_is_reported() -> None:
    node = make_node(make_scheduled_pod("a"), make_scheduled_pod("b"), pods=2)
    assert reasons(make_pod_request(), node) == ["box is at its limit of 2 runs: a, b"]
    assert evaluation.evaluate(make_pod_request(), NodeTable([node])).verdict == "later"


def test_all_reasons_are_reported_together() -> None:
    pod_request = make_pod_request(cpu=9, mem="64Gi", selector={"zone": "a"})
    all_reasons = list(evaluation.find_reasons(NodeFilter(pod_request, NodeTable([make_node()])), make_node()))
    assert [reason.path for reason in all_reasons] == ["node_selector.zone", "resources.cpu", "resources.mem"]


def test_overcommitted_nodes_show_no_negative_numbers() -> None:
    """Settings may reduce a machine's capacity below its current usage."""
    (reason,) = reasons(make_pod_request(cpu=4), make_node(make_scheduled_pod("a", cpu=12)))
    assert reason == "needs 4 CPU cores; 0 of 8 free on box. In use by a"


def test_an_overcommitted_resource_does_not_block_runs_that_do_not_request_it() -> None:
    assert reasons(make_pod_request(cpu=0, gpu=1), make_node(make_scheduled_pod("a", cpu=12))) == []


def test_one_fitting_node_is_enough() -> None:
    small, large = make_node(cpu=1), Node("large", make_amounts(cpu=64, pods=9))
    fit = evaluation.evaluate(make_pod_request(cpu=16), NodeTable([small, large]))
    assert (fit.verdict, fit.reasons, [node["fits"] for node in fit.nodes]) == ("now", (), [True, False])


def test_autoscaled_clusters_never_have_the_verdict_never() -> None:
    for nodes in (NodeTable(), NodeTable([make_node()]), NodeTable([make_node(), make_node(name="other")])):
        assert evaluation.evaluate(make_pod_request(cpu=9), nodes).verdict == "never"
        fit = evaluation.evaluate(make_pod_request(cpu=9), nodes, autoscaled=True)
        assert (fit.verdict, bool(fit.reasons)) == ("later", True)
    assert evaluation.evaluate(make_pod_request(cpu=8), NodeTable([make_node()]), autoscaled=True).verdict == "now"


def test_a_plan_for_an_autoscaled_cluster_is_not_rejected_for_missing_nodes() -> None:
    request = make_request(resources={"cpu": 9})
    for autoscaled, rules in ((False, ["never_fits"]), (True, [])):
        snapshot = make_snapshot(make_cluster(autoscaled=autoscaled))
        planned = plan_run(request, snapshot, "r7", nodes=NodeTable([make_node()]))
        assert [violation.rule for violation in planned.violations] == rules


def test_reasons_of_many_nodes_are_summarized_and_listed_per_node() -> None:
    fit = evaluation.evaluate(make_pod_request(cpu=9, gpu=3), NodeTable([make_node(), make_node(name="other", cpu=4)]))
    assert fit.reasons == ("needs 3 GPUs; the largest of 2 nodes has 2 (box)",)
    assert [len(node["reasons"]) for node in fit.nodes] == [2, 2]


def test_nothing_fits_a_cluster_without_nodes() -> None:
    assert evaluation.evaluate(make_pod_request(), NodeTable()).verdict == "never"
    (violation,) = evaluation.explain_never_fits(make_pod_request(), NodeTable())
    assert (violation.path, violation.rule) == ("", "never_fits")


def test_too_many_replicas_get_a_hint_to_request_fewer() -> None:
    (violation,) = evaluation.explain_never_fits(
        replace(make_pod_request(cpu=5), count=3), NodeTable([make_node(cpu=8)])
    )
    assert violation.message == "has 3 pods; only 1 would fit on empty nodes"
    assert (violation.path, violation.hint) == ("replicas", "request fewer replicas")


def test_the_rejection_of_a_run_that_never_fits_uses_the_best_matching_node() -> None:
    near, far = make_node(make_scheduled_pod("a", cpu=8)), make_node(cpu=1, mem="1Gi", gpu=0)
    violations = list(evaluation.explain_never_fits(make_pod_request(cpu=9, mem="2Gi", gpu=1), NodeTable([far, near])))
    assert [(item.path, item.rule) for item in violations] == [("resources.cpu", "never_fits")]
    assert violations[0].message == "needs 9 CPU cores; box has 8 in total"
    assert violations[0].hint


@pytest.mark.parametrize(
    ("requested", "path"),
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
def test_a_violation_has_the_path_of_the_requested_setting(requested: dict[str, Any], path: str) -> None:
    assert [
        item.path for item in evaluation.explain_never_fits(make_pod_request(**requested), NodeTable([make_node()]))
    ] == [path]


@pytest.mark.parametrize(
    ("resource", "nanos", "expected"),
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
def test_amounts_are_shown_as_kubernetes_quantities(resource: str, nanos: int, expected: str) -> None:
    assert show_amount(resource, nanos) == expected


def test_a_slightly_too_large_amount_is_not_rounded_to_the_capacity() -> None:
    pod_request = PodRequest({"memory": (32 * 2**30 + 1) * NANOS})
    (reason,) = reasons(pod_request, make_node())
    assert reason != "needs 32 GiB memory; box has 32 GiB in total"


def test_a_run_is_feasible_if_it_fits_an_empty_node() -> None:
    table = NodeTable([make_node(make_scheduled_pod("a", cpu=8))])
    assert NodeFilter(make_pod_request(cpu=8), table).feasible_when_empty
    assert not NodeFilter(make_pod_request(cpu=9), table).feasible_when_empty


def test_the_pod_request_is_read_from_the_manifest() -> None:
    resources = {"cpu": "500m", "mem": "2Gi", "disk": "1Gi", "gpu": 1, "extended": {"example.com/fpga": 1}}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
            }
        }
    }
    requested = {"function": PYTHON, "resources": resources, "node_selector": {"disk": "ssd"}, "affinity": affinity}
    pod_request = read_pod_request(plan(requested, make_cluster(executor="local")).manifests)
    expected = make_amounts(cpu="500m", mem="2Gi", disk="1Gi", gpu=1, pods=1) | {"example.com/fpga": NANOS}
    assert pod_request.amounts == expected
    assert pod_request.node_selector == {"disk": "ssd"}
    assert pod_request.node_terms == ({"matchExpressions": [{"key": "zone", "operator": "Exists"}]},)


def test_a_run_without_resources_requests_one_pod() -> None:
    pod_request = read_pod_request(plan({"function": PYTHON}, make_cluster(executor="local")).manifests)
    assert pod_request == PodRequest({"pods": NANOS}, namespace=pod_request.namespace, labels=pod_request.labels)


@pytest.mark.parametrize(
    ("sharing", "memory", "expected"),
    [
        ("hami", "50%", {"nvidia.com/gpu": 1}),
        ("hami", "10GB", {"nvidia.com/gpu": 1}),
        ("kai", "50%", {}),
        ("none", "100%", {"nvidia.com/gpu": 1}),
    ],
)
def test_gpu_shares_become_the_resources_that_nodes_list(sharing: str, memory: str, expected: dict[str, int]) -> None:
    planned = plan({"resources": {"gpu": {"memory": memory}}}, make_cluster(gpu_sharing=sharing))
    assert read_pod_request(planned.manifests).amounts == make_amounts(**expected, pods=1)


def test_extended_resources_are_counted_whatever_their_name() -> None:
    extended = {"v.example/nic": 1, "v.example/nicmem": 2}
    planned = plan({"resources": {"extended": extended}})
    assert read_pod_request(planned.manifests).amounts == make_amounts(**extended, pods=1)


def test_tolerations_are_read_from_the_manifest() -> None:
    planned = plan({"tolerations": [{"key": "team", "operator": "Exists"}]})
    assert read_pod_request(planned.manifests).tolerations == ({"key": "team", "operator": "Exists"},)


def test_free_is_capacity_minus_scheduled_pods() -> None:
    node = make_node(ScheduledPod("r1", "a", make_amounts(cpu=2)), ScheduledPod("r2", "b", make_amounts(cpu="500m")))
    assert node.free("cpu") == make_amounts(cpu="5500m")["cpu"]
    assert node.free("example.com/none") == 0
