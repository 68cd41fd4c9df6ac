"""Fit reports on real and hypothetical nodes."""

from fairlead.model.nodes import NodeTable
from fairlead.planning.fit_reports import MAX_ROOM, WhatIfCluster, build_report, simulate_cluster
from tests.making import SERVED, make_policy, plan
from tests.scheduling.nodes import make_node, make_scheduled_pod

ONE_GPU = {"resources": {"gpu": 1}}


def make_what_if_cluster() -> WhatIfCluster:
    return WhatIfCluster(
        NodeTable([make_node(make_scheduled_pod(gpu=1), name=name) for name in "abc"] + [make_node(name="d", gpu=0)])
    )


def test_the_report_of_a_fitting_request_contains_the_room() -> None:
    report = build_report(plan(ONE_GPU), make_what_if_cluster())
    assert (report.verdict, report.reasons, report.room) == ("now", [], 3)
    assert report.counts == {"now": 3, "later": 0, "never": 1}


def test_room_counts_complete_runs_with_all_their_pods() -> None:
    requested = {"function": SERVED, "action": "serve", "replicas": 2, **ONE_GPU}
    assert build_report(plan(requested), make_what_if_cluster()).room == 1


def test_room_is_counted_up_to_a_thousand() -> None:
    table = NodeTable([make_node(name="large", cpu=10_000, pods=10_000)])
    assert build_report(plan({"resources": {"cpu": 1}}), WhatIfCluster(table)).room == MAX_ROOM


def test_a_request_that_has_to_wait_has_no_room_and_a_reason() -> None:
    report = build_report(plan({"resources": {"gpu": 2}}), make_what_if_cluster())
    assert (report.verdict, report.room) == ("later", 0)
    assert report.reasons == [
        "needs 2 GPUs on one node; at most 1 free on any of 3 suitable nodes (a); run train-a uses 1",
    ]


def test_all_nodes_can_be_listed_with_the_best_match_first() -> None:
    table = NodeTable([make_node(name=f"n{number:02}", gpu=0) for number in range(30)])
    table.put(make_node(name="zz-now"))
    table.put(make_node(make_scheduled_pod(gpu=2), name="yy-later"))
    default_report, full_report = (
        build_report(plan(ONE_GPU), WhatIfCluster(table)),
        build_report(plan(ONE_GPU), WhatIfCluster(table), all_nodes=True),
    )
    assert [len(report.nodes) for report in (default_report, full_report)] == [20, 32]
    assert [node.name for node in full_report.nodes[:3]] == ["zz-now", "yy-later", "n00"]
    assert full_report.nodes[0].fits
    assert all(node.reasons for node in full_report.nodes[1:])


def test_a_rejected_request_has_violations_and_an_unknown_verdict() -> None:
    planned = plan(ONE_GPU, make_policy(rules={"resources.gpu": {"max": 0}}))
    report = build_report(planned, simulate_cluster(make_what_if_cluster().table, ["a"]))
    assert (report.verdict, report.room, report.nodes) == ("unknown", None, [])
    assert [violation["path"] for violation in report.violations] == ["resources.gpu.devices"]
    assert report.what_if.sentences == ["1 empty node like a: a+1"]


def test_never_fits_is_a_verdict_and_not_a_violation() -> None:
    report = build_report(plan({"resources": {"gpu": 9}}), make_what_if_cluster())
    assert (report.verdict, report.violations) == ("never", [])
    assert build_report(plan({"resources": {"gpu": 9}}), make_what_if_cluster(), autoscaled=True).verdict == "later"
