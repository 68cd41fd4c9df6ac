"""Fit reports on real and hypothetical nodes."""

from fairlead.core.fitting.fit_report import MAX_ROOM, build_report
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.what_if import WhatIfCluster, simulate
from tests.core.nodes import make_holding, make_node
from tests.making import SERVED, make_policy, plan

ONE_GPU = {"resources": {"gpu": 1}}


def make_supposed() -> WhatIfCluster:
    return WhatIfCluster(
        NodeTable([make_node(make_holding(gpu=1), name=name) for name in "abc"] + [make_node(name="d", gpu=0)])
    )


def test_a_request_that_fits_is_told_with_the_room_that_there_is() -> None:
    found = build_report(plan(ONE_GPU), make_supposed())
    assert (found.verdict, found.reasons, found.room) == ("now", [], 3)
    assert found.counts == {"now": 3, "later": 0, "never": 1}


def test_room_is_for_whole_runs_with_all_of_their_pods() -> None:
    asked = {"function": SERVED, "action": "serve", "replicas": 2, **ONE_GPU}
    assert build_report(plan(asked), make_supposed()).room == 1


def test_room_is_counted_up_to_a_thousand() -> None:
    table = NodeTable([make_node(name="large", cpu=10_000, pods=10_000)])
    assert build_report(plan({"resources": {"cpu": 1}}), WhatIfCluster(table)).room == MAX_ROOM


def test_a_request_that_has_to_wait_has_no_room_and_a_reason() -> None:
    found = build_report(plan({"resources": {"gpu": 2}}), make_supposed())
    assert (found.verdict, found.room) == ("later", 0)
    assert found.reasons == [
        "needs 2 GPUs on one node; at most 1 free on any of 3 suitable nodes (a); run train-a uses 1",
    ]


def test_every_node_can_be_listed_the_nearest_first() -> None:
    table = NodeTable([make_node(name=f"n{number:02}", gpu=0) for number in range(30)])
    table.put(make_node(name="zz-now"))
    table.put(make_node(make_holding(gpu=2), name="yy-later"))
    few, all_of_them = (
        build_report(plan(ONE_GPU), WhatIfCluster(table)),
        build_report(plan(ONE_GPU), WhatIfCluster(table), all_nodes=True),
    )
    assert [len(found.nodes) for found in (few, all_of_them)] == [20, 32]
    assert [node.name for node in all_of_them.nodes[:3]] == ["zz-now", "yy-later", "n00"]
    assert all_of_them.nodes[0].fits
    assert all(node.reasons for node in all_of_them.nodes[1:])


def test_a_request_that_is_refused_is_told_why_and_not_judged() -> None:
    refused = plan(ONE_GPU, make_policy(rules={"resources.gpu": {"max": 0}}))
    found = build_report(refused, simulate(make_supposed().table, ["a"]))
    assert (found.verdict, found.room, found.nodes) == ("unknown", None, [])
    assert [violation["path"] for violation in found.violations] == ["resources.gpu.devices"]
    assert found.what_if.sentences == ["1 empty node like a: a+1"]


def test_what_never_fits_is_an_answer_and_no_violation() -> None:
    found = build_report(plan({"resources": {"gpu": 9}}), make_supposed())
    assert (found.verdict, found.violations) == ("never", [])
    assert build_report(plan({"resources": {"gpu": 9}}), make_supposed(), autoscaled=True).verdict == "later"
