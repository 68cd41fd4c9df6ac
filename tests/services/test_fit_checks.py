"""Fit checks for requests, on a cluster's nodes or on hypothetical nodes, and permissions."""

from typing import Any

import pytest

from fairlead.errors import NotFound, RequestRejected, Unavailable
from fairlead.model.nodes import NodeTable
from fairlead.model.plans import FitReport
from fairlead.services.transactions.unit_of_work import Call
from tests.making import PYTHON
from tests.services.executing import FAR, HOME, OTHER, Platform
from tests.services.worlds import call_as, make_request, rejection_rules


def check(
    platform: Platform,
    scope: str = HOME,
    *,
    call: Call | None = None,
    add_nodes: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
    all_nodes: bool = False,
    **fields: Any,
) -> FitReport:
    request, project = make_request(**{"function": PYTHON, **fields}), scope.partition("/")[2]
    fits = platform.world.services.fit_checks
    return fits.check(call or platform.world.root, project, request, add_nodes, without, all_nodes=all_nodes)


def occupy(platform: Platform, **fields: Any) -> str:
    """Start a run that uses resources, and return its ID."""
    run, controller = platform.submit(**fields), platform.control()
    controller.sync(set())
    platform.executor.set_running(run.id)
    controller.sync({run.id})
    return run.id


def test_fitting_request_reports_how_many_times_it_fits(platform: Platform) -> None:
    report = check(platform, resources={"gpu": 1})
    assert (report.verdict, report.room, report.counts) == ("now", 2, {"now": 1, "later": 0, "never": 0})
    assert [(node.name, node.fits, node.reasons) for node in report.nodes] == [("box", True, [])]


def test_request_that_must_wait_reports_the_reason(platform: Platform) -> None:
    run_id = occupy(platform, resources={"gpu": 2})
    report = check(platform, resources={"gpu": 1})
    assert (report.verdict, report.room) == ("later", 0)
    assert report.reasons == [f"needs 1 GPU; 0 of 2 free on box. In use by train-{run_id}"]


def test_request_that_never_fits_is_a_verdict_not_an_error(platform: Platform) -> None:
    report = check(platform, resources={"gpu": 3})
    assert (report.verdict, report.violations) == ("never", [])


def test_hypothetical_nodes_can_be_added_and_removed(platform: Platform) -> None:
    occupy(platform, resources={"gpu": 2})
    more = check(platform, resources={"gpu": 2}, add_nodes=("2xbox",))
    assert (more.verdict, more.room, more.what_if.added_nodes[0].names) == ("now", 2, ("box+1", "box+2"))
    fewer = check(platform, resources={"cpu": 1}, without=("box",))
    assert (fewer.verdict, fewer.reasons, fewer.nodes) == ("never", ["the cluster has no nodes"], [])
    assert (fewer.what_if.removed_nodes, fewer.what_if.removed_pods) == (["box"], 1)
    assert check(platform, resources={"gpu": 2}).verdict == "later", "hypothetical nodes are not stored"


def test_unknown_node_is_rejected(platform: Platform) -> None:
    with pytest.raises(RequestRejected) as caught:
        check(platform, add_nodes=("2xbux",), without=("bix",))
    assert rejection_rules(caught) == [("add_nodes.0", "unknown_node"), ("without.0", "unknown_node")]
    assert [violation.hint for violation in caught.value.violations] == ["did you mean box?"] * 2


def test_all_violations_are_reported(platform: Platform) -> None:
    report = check(platform, run_as_user=0, profile="none")
    assert (report.verdict, report.room) == ("unknown", None)
    assert sorted(violation["path"] for violation in report.violations) == ["profile", "run_as_user"]


def test_run_names_are_shown_only_to_users_who_see_their_project(platform: Platform) -> None:
    occupy(platform, resources={"gpu": 2})
    stranger = platform.world.grant("sam", "viewer", OTHER)
    reasons = [
        check(platform, OTHER, call=call, resources={"gpu": 1}).reasons[0] for call in (platform.world.root, stranger)
    ]
    assert [("train" in reason) for reason in reasons] == [True, False]


def test_invisible_project_is_not_found(platform: Platform) -> None:
    stranger = platform.world.grant("sam", "admin", OTHER)
    for call in (stranger, call_as("nobody")):
        with pytest.raises(NotFound, match="project/home"):
            check(platform, call=call)
    with pytest.raises(NotFound, match="project/none"):
        check(platform, "project/none")
    assert check(platform, call=platform.world.grant("vic", "viewer", HOME)).verdict == "now"


def test_verdict_is_unknown_without_nodes_and_violations_are_reported(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = check(platform, FAR, add_nodes=("a",))
    assert (report.verdict, report.reasons) == ("unknown", ["no server executes the runs of cluster/far"])

    def fail() -> NodeTable:
        raise Unavailable("no answer")

    monkeypatch.setattr(platform.executor, "nodes", fail)
    report = check(platform, run_as_user=0)
    assert (report.verdict, report.reasons) == ("unknown", ["the nodes of cluster/here are currently unavailable"])
    assert [violation["path"] for violation in report.violations] == ["run_as_user"]
