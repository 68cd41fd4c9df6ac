"""The event bus for runs, and what the controller publishes and subscribes to."""

from fairlead.run_events import RunEvent, RunEvents
from tests.services.executing import HOME, Platform


def test_subscriber_receives_only_the_events_and_the_run_it_chose() -> None:
    run_events, all_runs, one_run = RunEvents(), list[str](), list[str]()
    run_events.subscribe(all_runs.append, RunEvent.CHANGED, RunEvent.SAVED)
    run_events.subscribe(one_run.append, RunEvent.SAVED, run_id="r1")
    run_events.publish(RunEvent.CHANGED, "r1")
    run_events.publish(RunEvent.SAVED, "r1")
    run_events.publish(RunEvent.SAVED, "r2")
    run_events.publish(RunEvent.OBSERVED, "r1")
    assert (all_runs, one_run) == (["r1", "r1", "r2"], ["r1"])


def test_subscriber_receives_nothing_after_it_has_unsubscribed() -> None:
    run_events, received = RunEvents(), list[str]()
    unsubscribe = run_events.subscribe(received.append, RunEvent.SAVED, run_id="r1")
    run_events.subscribe(received.append, RunEvent.SAVED, run_id="r1")
    unsubscribe()
    run_events.publish(RunEvent.SAVED, "r1")
    assert received == ["r1"]


def test_controller_reconciles_changed_and_observed_runs(platform: Platform) -> None:
    controller = platform.control()
    controller.run_events.publish(RunEvent.CHANGED, "r1")
    controller.run_events.publish(RunEvent.OBSERVED, "r2")
    controller.run_events.publish(RunEvent.SAVED, "r3")
    assert controller._changed == {"r1", "r2"}


def test_controller_does_not_reconcile_a_run_again_because_it_saved_it(platform: Platform) -> None:
    controller, run = platform.control(), platform.submit(HOME)
    platform.notified.clear()
    controller.sync({run.id})
    assert set(platform.notified) == {run.id}
    assert controller._changed == set()
