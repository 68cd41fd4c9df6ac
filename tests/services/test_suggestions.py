"""Suggestions in previews, rejections and explanations, and how they are applied."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.errors import Conflict, Forbidden, NotFound, RequestRejected
from fairlead.model import explanations
from fairlead.model.plans import Suggestion
from fairlead.ports import Store
from fairlead.scheduling.admission import RESERVE_AFTER_SECONDS
from tests.making import PYTHON, make_request
from tests.services.executing import HOME, OTHER, Platform, initialize_platform


@pytest.fixture
def platform(store: Store, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A machine with eight cores; a run uses six."""
    created = initialize_platform(store, monkeypatch)
    created.submit(resources={"cpu": 6})
    created.control().sync(set())
    return created


def wait(platform: Platform, **request: Any) -> str:
    """Submit a run that waits for the active one, and return its ID."""
    return platform.submit(**{"resources": {"cpu": 4}, **request}).id


def suggestions_of(platform: Platform, run_id: str) -> tuple[Suggestion, ...]:
    """The suggestions in the explanation of a run."""
    return platform.world.services.explanations.why(platform.world.root, run_id).fit.suggestions


def test_preview_shows_what_would_fit_now(platform: Platform) -> None:
    fit = platform.world.preview(HOME, function=PYTHON, resources={"cpu": 4})["fit"]
    assert (fit["verdict"], fit["counts"]) == ("later", {"now": 0, "later": 1, "never": 0})
    assert [suggestion["kind"] for suggestion in fit["suggestions"]] == ["lower", "wait"]
    assert fit["suggestions"][0]["message"] == "request 2 CPU cores instead of 4"
    changed = platform.world.preview(HOME, function=PYTHON, **fit["suggestions"][0]["change"])
    assert (changed["fit"]["verdict"], changed["fit"]["suggestions"]) == ("now", [])


def test_another_visible_compute_resource_is_suggested(platform: Platform) -> None:
    for name, cpu, scope in (("small", 1, "platform"), ("tiny", 1, OTHER), ("huge", 99, "platform")):
        platform.world.add_compute_resource(name, scope=scope, resources={"cpu": cpu})
    fit = platform.world.preview(HOME, function=PYTHON, resources={"cpu": 4})["fit"]
    changes = [suggestion["change"] for suggestion in fit["suggestions"] if suggestion["kind"] == "compute_resource"]
    assert changes == [{"profile": "small"}]


def test_rejection_shows_what_would_fit(platform: Platform) -> None:
    with pytest.raises(RequestRejected) as caught:
        platform.submit(resources={"cpu": 9})
    (violation,) = caught.value.violations
    assert (violation.path, violation.rule) == ("resources.cpu", "never_fits")
    assert violation.hint == "request 8 CPU cores or less; to run now, request 2 CPU cores instead of 9"


def test_policy_can_queue_runs_that_never_fit_with_a_warning(platform: Platform) -> None:
    platform.world.put_policy(HOME, switches={"never_fits": "warn"})
    plan = platform.world.preview(HOME, function=PYTHON, resources={"cpu": 9})
    assert (plan["violations"], plan["fit"]["verdict"]) == ([], "never")
    assert ("resources.cpu", "never_fits") in [(warning["path"], warning["rule"]) for warning in plan["warnings"]]
    run_id = wait(platform, resources={"cpu": 9})
    platform.control().sync(set())
    assert platform.state(run_id) == ("queued", "NeverFits")


@pytest.mark.every_store
def test_explanation_shows_the_queue_position_and_suggestions(platform: Platform) -> None:
    first, second = wait(platform), wait(platform)
    reports = [platform.world.services.explanations.why(platform.world.root, run_id) for run_id in (first, second)]
    assert [report.ahead for report in reports] == [0, 1]
    assert reports[1].position == 2
    assert "it is number 2 in the queue of cluster/here" in reports[1].details
    assert [suggestion.kind for suggestion in reports[1].fit.suggestions] == ["lower", "wait"]
    explained = platform.world.services.explanations.explain(platform.world.root, second)
    assert explained["fit"] == explanations.fit_data(reports[1].fit)
    assert explained["manifests"]


def test_suggestion_is_applied_in_one_call(platform: Platform) -> None:
    before = wait(platform, inputs={"epochs": 3})
    after = platform.world.services.runs.change(platform.world.root, before, suggestions_of(platform, before)[0].change)
    assert platform.state(before) == ("stopped", "Stopped")
    assert platform.run(before).message.endswith(f": replaced by run {after.id}")
    stored = platform.world.services.runs.plan(platform.world.root, after.id)
    assert stored.request["inputs"] == {"epochs": 3}
    assert stored.request["resources"] == {"cpu": {"requests": "2"}}
    platform.control().sync(set())
    assert platform.state(after.id)[0] != "queued"
    assert {before, after.id} <= set(platform.notified)


@pytest.mark.every_store
def test_run_stays_queued_if_the_change_is_rejected(platform: Platform) -> None:
    before = wait(platform)
    for change in ({"resources": {"cpu": 9}}, {"resources": {"cpu": "many"}}, {"nonsense": 1}):
        with pytest.raises(RequestRejected):
            platform.world.services.runs.change(platform.world.root, before, change)
    assert platform.state(before)[0] == "queued"


def test_only_waiting_runs_can_be_changed_and_only_by_members(platform: Platform) -> None:
    runs, world = platform.world.services.runs, platform.world
    (running,) = platform.executor.runs
    platform.executor.set_running(running)
    platform.control().sync({running})
    with pytest.raises(Conflict, match="only waiting runs can be changed"):
        runs.change(world.root, running, {"resources": {"cpu": 1}})
    waiting = wait(platform)
    with pytest.raises(Forbidden):
        runs.change(world.grant("vera", "viewer", HOME), waiting, {"resources": {"cpu": 1}})
    with pytest.raises(NotFound):
        runs.change(world.grant("mia", "member", OTHER), waiting, {"resources": {"cpu": 1}})
    with pytest.raises(NotFound):
        runs.change(world.grant("max", "member", HOME), waiting, {}, "other")
    assert platform.state(waiting)[0] == "queued"


def test_run_can_move_to_another_project(platform: Platform) -> None:
    waiting = wait(platform)
    moved = platform.world.services.runs.change(platform.world.root, waiting, {"resources": {"cpu": 1}}, "other")
    assert (moved.scope, platform.state(waiting)[0]) == (OTHER, "stopped")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({}, "change"),
        ({"resources": {"cpu": {"requests": "4"}}}, "change"),
        ({"node_selectr": None}, "change.node_selectr"),
        ({"resources": {"mem": None, "cpu": 1}}, "change.resources.mem"),
    ],
    ids=str,
)
def test_change_without_effect_or_of_a_missing_field_is_rejected(
    platform: Platform, change: dict[str, Any], path: str
) -> None:
    waiting = wait(platform)
    with pytest.raises(RequestRejected) as caught:
        platform.world.services.runs.change(platform.world.root, waiting, change)
    assert [violation.path for violation in caught.value.violations] == [path]
    assert platform.state(waiting)[0] == "queued"


def test_run_that_must_wait_for_its_turn_does_not_fit_now(platform: Platform) -> None:
    controller = platform.control()
    wait(platform, resources={"cpu": 8})
    controller.sync(set())
    assert platform.world.preview(HOME, function=PYTHON, resources={"cpu": 1})["fit"]["verdict"] == "now"
    platform.world.clock.pass_by(seconds=RESERVE_AFTER_SECONDS)
    controller.sync(set())
    fit = platform.world.preview(HOME, function=PYTHON, resources={"cpu": 1})["fit"]
    assert (fit["verdict"], fit["suggestions"]) == ("later", [])
    (reason,) = fit["reasons"]
    assert reason.startswith("it would fit, but what it needs (1 CPU core) is reserved for train-")
    # Other amounts can be used.
    assert platform.world.preview(HOME, function=PYTHON, resources={"cpu": 0})["fit"]["verdict"] == "now"


def test_capacity_and_fit_checks_account_for_the_reservation(platform: Platform) -> None:
    platform.world.add_compute_resource("small", resources={"cpu": 1})
    platform.world.add_compute_resource("none", resources={"cpu": 0})
    controller = platform.control()
    wait(platform, resources={"cpu": 8})
    controller.sync(set())
    services, root = platform.world.services, platform.world.root
    request = make_request(function=PYTHON, resources={"cpu": 1})
    before = services.fit_checks.check(root, "home", request)
    assert (before.verdict, before.room, before.counts["now"]) == ("now", 2, 1)
    platform.world.clock.pass_by(seconds=RESERVE_AFTER_SECONDS)
    controller.sync(set())
    (capacity,) = services.capacity.show(root, "home")
    none, small = capacity.compute_resources
    assert (none.fits_now or 0) > 0
    assert (small.fits_now, small.message[:12]) == (0, "it would fit")
    report = services.fit_checks.check(root, "home", request)
    assert (report.verdict, report.room, report.counts) == ("later", 0, {"now": 0, "later": 1, "never": 0})
    assert report.reasons == report.nodes[0].reasons == [small.message]


def test_plan_token_stays_valid_when_nodes_change_if_never_fits_is_a_warning(platform: Platform) -> None:
    platform.world.put_policy(HOME, switches={"never_fits": "warn"})
    token = platform.world.preview(HOME, function=PYTHON, resources={"cpu": 9})["token"]
    platform.stop(next(iter(platform.executor.runs)))
    platform.executor.node = replace(platform.executor.node, name="another")
    run = platform.submit(resources={"cpu": 9}, plan_token=token)
    stored = platform.world.services.runs.plan(platform.world.root, run.id)
    assert "never_fits" not in [warning["rule"] for warning in stored.plan["warnings"]]
