"""Quotas in previews, fit checks and explanations of waiting runs, with suggestions."""

from typing import Any

import pytest

from fairlead.errors import RequestRejected
from fairlead.model.plans import Suggestion
from fairlead.ports import Store
from fairlead.services.runs.fit import RunExplanation
from fairlead.services.transactions.unit_of_work import Call
from tests.making import PYTHON
from tests.services.executing import FAR, HERE, HOME, OTHER, Platform, initialize_platform
from tests.services.worlds import make_request


@pytest.fixture
def platform(store: Store, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A machine with eight cores and a quota of four; a run uses three."""
    created = initialize_platform(store, monkeypatch)
    created.world.put_policy(quota={"cpu": 4})
    created.submit(resources={"cpu": 3})
    created.control().sync(set())
    return created


def preview(platform: Platform, scope: str = HOME, **fields: Any) -> Any:
    """The fit of a preview."""
    return platform.world.preview(scope, function=PYTHON, **fields)["fit"]


def check_fit(platform: Platform, scope: str = HOME, **fields: Any) -> Any:
    """The response to a fit request."""
    request = make_request(function=PYTHON, **fields)
    return platform.world.services.fit_checks.check(platform.world.root, scope.partition("/")[2], request)


def wait(platform: Platform, scope: str = HOME, **fields: Any) -> str:
    """Submit a waiting run, and return its ID."""
    run = platform.submit(scope, **fields)
    platform.control().sync(set())
    assert platform.state(run.id) == ("queued", "QuotaExceeded")
    return run.id


def why(platform: Platform, run_id: str, call: Call | None = None) -> RunExplanation:
    """Why a run is waiting."""
    return platform.world.services.explanations.why(call or platform.world.root, run_id)


def summarize(suggestions: Any) -> list[tuple[str, str]]:
    """The kind and message of each suggestion."""
    return [
        (suggestion.kind, suggestion.message)
        if isinstance(suggestion, Suggestion)
        else (suggestion["kind"], suggestion["message"])
        for suggestion in suggestions
    ]


def holder_of(platform: Platform) -> str:
    """The name of the active run."""
    return f"train-{platform.executor.list_runs()[0]}"


def test_preview_reports_an_exhausted_quota(platform: Platform) -> None:
    fit, holder = preview(platform, resources={"cpu": 4}), holder_of(platform)
    quota = f"needs 4 CPU cores; 1 of 4 free in the platform quota; run {holder} uses 3"
    assert (fit["verdict"], fit["reasons"], fit["counts"]) == ("later", [quota], {"now": 1, "later": 0, "never": 0})
    assert summarize(fit["suggestions"]) == [
        ("lower", "request 1 CPU core instead of 4"),
        ("wait", f"wait for run {holder}, which uses 3 CPU cores of the platform quota"),
    ]
    assert preview(platform, resources={"cpu": 1})["verdict"] == "now"


def test_quota_reason_comes_before_node_reasons(platform: Platform) -> None:
    platform.world.put_policy(quota={"cpu": 7})
    fit = preview(platform, resources={"cpu": 6})
    first, second = fit["reasons"]
    assert first.startswith("needs 6 CPU cores; 4 of 7 free in the platform quota")
    assert second.startswith("needs 6 CPU cores; 5 of 8 free on box")
    assert [kind for kind, _ in summarize(fit["suggestions"])] == ["lower", "wait"]
    assert summarize(fit["suggestions"])[0] == ("lower", "request 4 CPU cores instead of 6")


def test_run_larger_than_its_quota_gives_a_warning_and_is_not_rejected(platform: Platform) -> None:
    plan = platform.world.preview(HOME, function=PYTHON, resources={"cpu": 5})
    assert (plan["violations"], plan["fit"]["verdict"]) == ([], "later")
    assert plan["fit"]["reasons"] == ["needs 5 CPU cores; the platform quota is 4"]
    assert "quota" in [warning["rule"] for warning in plan["warnings"]]
    assert summarize(plan["fit"]["suggestions"]) == [("lower", "request 1 CPU core instead of 5")]
    run_id = wait(platform, resources={"cpu": 5})
    assert why(platform, run_id).message == "needs 5 CPU cores; the platform quota is 4"


def test_request_that_never_fits_is_rejected_with_a_hint_within_the_quotas(platform: Platform) -> None:
    with pytest.raises(RequestRejected) as caught:
        platform.submit(resources={"cpu": 9})
    (violation,) = caught.value.violations
    assert violation.hint == "request 8 CPU cores or less; to run now, request 1 CPU core instead of 9"


def test_explanation_shows_the_missing_quota_with_current_numbers(platform: Platform) -> None:
    run_id, holder = wait(platform, resources={"cpu": 2}), holder_of(platform)
    explanation = why(platform, run_id)
    assert (explanation.state, explanation.reason) == ("queued", "QuotaExceeded")
    quota = "needs 2 CPU cores; 1 of 4 free in the platform quota"
    assert explanation.message == f"{quota}; run {holder} uses 3"
    assert explanation.fit.verdict == "later"
    assert summarize(explanation.fit.suggestions) == [
        ("lower", "request 1 CPU core instead of 2"),
        ("wait", f"wait for run {holder}, which uses 3 CPU cores of the platform quota"),
    ]
    explained = platform.world.services.explanations.explain(platform.world.root, run_id)["fit"]
    assert (explained["verdict"], explained["reasons"]) == ("later", [explanation.message])


@pytest.mark.every_store
def test_run_behind_others_is_reported(platform: Platform) -> None:
    first, second = (wait(platform, resources={"cpu": cpu}) for cpu in (4, 1))
    explanation = why(platform, second)
    assert explanation.message.endswith("; free quota is reserved for a run ahead in the queue")
    assert explanation.fit.suggestions == ()  # resources that the active run releases go to the first run in the queue
    # A replacement for the first run would wait behind the second, so a smaller request is not suggested.
    assert [kind for kind, _ in summarize(why(platform, first).fit.suggestions)] == ["wait"]
    assert preview(platform, resources={"cpu": 1})["reasons"] == [explanation.message]


@pytest.mark.every_store
def test_explanation_and_preview_consider_priorities(platform: Platform) -> None:
    first, second = (wait(platform, resources={"cpu": 4}, priority=priority) for priority in (0, 3))
    assert [why(platform, run_id).position for run_id in (first, second)] == [2, 1]
    assert "it is number 1 in the queue for the quota of platform, with priority 3" in why(platform, second).details
    fits = [preview(platform, resources={"cpu": 1}, priority=priority) for priority in (0, 5)]
    assert [fit["verdict"] for fit in fits] == ["later", "now"]


def test_positions_consider_the_weights_of_projects(platform: Platform) -> None:
    runs = [wait(platform, scope, resources={"cpu": 4}) for scope in (OTHER, OTHER, HOME, HOME)]
    # HOME holds 3 cores, so its runs are behind the first run of OTHER.
    assert [why(platform, run_id).position for run_id in runs] == [1, 3, 2, 4]
    platform.world.put_policy(OTHER, queue={"weight": 0.01})
    assert [why(platform, run_id).position for run_id in runs] == [1, 4, 2, 3]


def test_suggestion_for_a_waiting_run_assumes_the_last_position(platform: Platform) -> None:
    platform.world.put_policy(quota={"cpu": 5})
    first = wait(platform, resources={"cpu": 3})
    assert ("lower", "request 2 CPU cores instead of 3") in summarize(why(platform, first).fit.suggestions)
    wait(platform, resources={"cpu": 4})
    # A replacement would wait behind the run that is next in the queue.
    assert [kind for kind, _ in summarize(why(platform, first).fit.suggestions)] == ["wait"]


def test_each_suggestion_can_be_applied_in_one_call_and_starts_the_run(platform: Platform) -> None:
    platform.world.add_compute_resource("tiny", resources={"cpu": 1})
    run_id = wait(platform, resources={"cpu": 2})
    suggestions = why(platform, run_id).fit.suggestions
    assert [kind for kind, _ in summarize(suggestions)] == ["lower", "compute_resource", "wait"]
    assert suggestions[1].message == "use compute resource tiny (1 fits now)"
    for suggestion in suggestions[:2]:
        after = platform.world.services.runs.change(platform.world.root, run_id, suggestion.change)
        platform.control().sync(set())
        assert platform.state(after.id)[0] == "pending"
        platform.executor.end(after.id)
        platform.control().sync({after.id})
        run_id = wait(platform, resources={"cpu": 2})


def test_another_project_is_suggested_if_its_quotas_allow_it(platform: Platform) -> None:
    platform.world.services.policies.delete(platform.world.root, "platform")
    platform.world.put_policy(HERE, quota={"cpu": 4})
    elsewhere = ("cluster", "run it in project default: cluster local has room now")
    assert elsewhere in summarize(preview(platform, resources={"cpu": 2})["suggestions"])
    platform.world.put_policy("cluster/local", quota={"cpu": 1})
    assert elsewhere not in summarize(preview(platform, resources={"cpu": 2})["suggestions"])


def test_invisible_runs_are_not_named(platform: Platform) -> None:
    sam = platform.world.grant("sam", "member", OTHER)
    run_id = wait(platform, OTHER, resources={"cpu": 2}, call=sam)
    explanation = why(platform, run_id, sam)
    assert explanation.message == "needs 2 CPU cores; 1 of 4 free in the platform quota"
    assert [kind for kind, _ in summarize(explanation.fit.suggestions)] == ["lower"]
    assert "train" not in platform.run(run_id).message


def test_quota_of_runs_is_waited_for_and_cannot_be_lowered(platform: Platform) -> None:
    platform.world.put_policy(quota={"runs": 1})
    run_id = wait(platform)
    explanation = why(platform, run_id)
    holder = holder_of(platform)
    assert explanation.message == f"1 of 1 run active in the platform quota; one of them is run {holder}"
    message = f"wait for run {holder}, which uses a slot of the platform quota"
    assert summarize(explanation.fit.suggestions) == [("wait", message)]


def test_admitted_run_waits_for_no_quota(platform: Platform) -> None:
    run = platform.submit(resources={"cpu": 1})
    platform.control().sync(set())
    platform.world.put_policy(quota={"cpu": 1})
    assert "quota" not in why(platform, run.id).message


def test_fit_check_considers_quotas(platform: Platform) -> None:
    report = check_fit(platform, resources={"cpu": 2})
    assert (report.verdict, report.room, report.counts["now"]) == ("later", 0, 1)
    assert report.reasons[0].startswith("needs 2 CPU cores; 1 of 4 free in the platform quota")
    assert [kind for kind, _ in summarize(report.suggestions)] == ["lower", "wait"]
    assert (check_fit(platform, resources={"cpu": 1}).verdict, check_fit(platform, resources={"cpu": 1}).room) == (
        "now",
        1,
    )
    assert check_fit(platform, resources={"mem": "1Gi"}).room == 15


def test_quota_is_reported_without_nodes(platform: Platform) -> None:
    platform.world.put_policy("cluster/far", quota={"runs": 0})
    report = check_fit(platform, FAR)
    assert (report.verdict, report.reasons[0]) == ("unknown", "the cluster/far quota is 0 runs")
    assert preview(platform, FAR)["reasons"] == ["the cluster/far quota is 0 runs"]
