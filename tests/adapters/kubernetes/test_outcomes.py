"""Observations of ended runs: results, or the reason for the failure."""

import pytest

from fairlead.adapters.kubernetes import observing
from fairlead.adapters.kubernetes.views import ClusterView
from fairlead.model.runs import Phase
from fairlead.run_events import RunEvents
from tests.adapters.kubernetes.making import JSON, RUN, make_main, make_pod, read_main, read_pod, terminated
from tests.adapters.kubernetes.test_observing import DONE, FAILED, LATER, LOW, RUNNING, observe, state_of


@pytest.mark.parametrize(
    ("main", "pods", "outdated"),
    [
        (make_main(), [], False),
        (make_main(), [make_pod(**RUNNING)], False),
        (make_main("Deployment"), [make_pod(**RUNNING)], False),
        (make_main("Job", DONE), [], True),
        (make_main("Job", DONE), [make_pod(**RUNNING)], True),
        (make_main("Job", DONE), [make_pod(phase="Succeeded", terminated=terminated(0))], False),
        (make_main("Job", DONE, completions=2), [make_pod(phase="Succeeded", terminated=terminated(0))], True),
        (make_main("Job", FAILED), [], True),
        (make_main("Job", FAILED), [make_pod(**RUNNING)], True),
        (make_main("Job", FAILED), [make_pod(phase="Failed", terminated=terminated(1))], False),
        (make_main("Job", FAILED), [make_pod(phase="Succeeded", terminated=terminated(0))], True),
        (
            make_main("Job", FAILED, completions=2),
            [make_pod("a", phase="Failed", terminated=terminated(1)), make_pod("b", index=1, **RUNNING)],
            True,
        ),
    ],
)
def test_job_that_ended_before_its_pods_has_outdated_pods(main: JSON, pods: list[JSON], outdated: bool) -> None:
    """Jobs and pods are watched separately, so an event for one may arrive before an earlier event for the other."""
    view = ClusterView(RunEvents())
    view.on_main_change(None, read_main(main))
    for raw in pods:
        view.on_pod_change(None, read_pod(raw))
    run_view = view.find_run(RUN)
    assert run_view is not None
    assert observing.has_outdated_pods(run_view) is outdated


def test_completed_job_has_its_result() -> None:
    message = '{"result": {"kind": "json", "value": 7}}'
    observation = observe(
        make_main("Job", DONE), make_pod(phase="Succeeded", terminated=terminated(0, "Completed", message))
    )
    assert observation is not None
    assert (observation.phase, observation.reason, observation.message, observation.exit_code) == (
        Phase.SUCCEEDED,
        "",
        "",
        0,
    )
    assert observation.result == {"kind": "json", "value": 7}
    assert str(observation.started_at) == str(observation.finished_at) == "2026-11-15 08:30:00+00:00"


def test_failed_upload_of_files_is_reported() -> None:
    message = '{"result": {"kind": "json", "value": 7}, "lost": {"files": 3, "why": "no route"}}'
    pod = make_pod(phase="Succeeded", terminated=terminated(0, "Completed", message))
    expected = "completed; 3 of its files could not be uploaded: no route"
    assert state_of(make_main("Job", DONE), pod) == (Phase.SUCCEEDED, "", expected)


@pytest.mark.parametrize("message", ["{", '{"result": 5}', '{"result": {"kind": "other"}}', "[]", ""])
def test_invalid_termination_message_gives_no_result(message: str) -> None:
    observation = observe(
        make_main("Job", DONE), make_pod(phase="Succeeded", terminated=terminated(0, "Completed", message))
    )
    assert observation is not None
    assert (observation.phase, observation.result) == (Phase.SUCCEEDED, None)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({"terminated": terminated(3)}, ("ExitCode", "exited with code 3", 3)),
        (
            {"terminated": terminated(4, message="one\ntwo\n\n  three\nfour\n")},
            ("ExitCode", "exited with code 4: two | three | four", 4),
        ),
        ({"terminated": terminated(139, message="bye\n")}, ("ExitCode", "killed by SIGSEGV (exit code 139): bye", 139)),
        (
            {"terminated": terminated(1, message='{"error": {"type": "ValueError", "message": "bad"}}')},
            ("ExitCode", "ValueError: bad", 1),
        ),
        ({"terminated": terminated(1, message='{"error": 5}')}, ("ExitCode", "exited with code 1", 1)),
        (
            {"terminated": terminated(137, "OOMKilled"), "limits": {"memory": "2Gi"}},
            ("OOMKilled", "exceeded its memory limit of 2Gi", 137),
        ),
        (
            {"terminated": terminated(137, "OOMKilled")},
            ("OOMKilled", "exceeded the memory of its node", 137),
        ),
        (
            {"terminated": terminated(128, "StartError", "no such program")},
            ("StartFailed", "its container could not be started: no such program", 128),
        ),
        (
            {"terminated": terminated(128, "ContainerCannotRun")},
            ("StartFailed", "its container could not be started: ContainerCannotRun", 128),
        ),
        (
            {"terminated": terminated(137, "ContainerStatusUnknown", "The container could not be located")},
            ("NodeLost", "its node box restarted while the pod was running", 137),
        ),
        (
            {"terminated": terminated(137), "status_fields": {"reason": "Evicted", "message": LOW}},
            ("Evicted", LOW.strip(), 137),
        ),
        (
            {"status_fields": {"reason": "UnexpectedAdmissionError", "message": "no GPU"}},
            ("UnexpectedAdmissionError", "no GPU", None),
        ),
        ({}, ("Failed", "failed for an unknown reason", None)),
    ],
)
def test_failed_job_has_reason_message_and_exit_code(pod: JSON, expected: tuple[str, str, int | None]) -> None:
    observation = observe(make_main("Job", FAILED), make_pod(phase="Failed", **pod))
    assert observation is not None
    assert (observation.phase, observation.reason, observation.message, observation.exit_code) == (
        Phase.FAILED,
        *expected,
    )


def test_exceeded_deadline_is_reported_with_its_seconds() -> None:
    pod = make_pod(phase="Failed", status_fields={"reason": "DeadlineExceeded"}, terminated=terminated(143, at=LATER))
    observation = observe(make_main("Job", FAILED, deadline=90), pod)
    assert observation is not None
    assert (observation.reason, observation.message) == ("DeadlineExceeded", "exceeded its deadline of 90 s")


def test_first_failed_pod_explains_the_failure() -> None:
    main = make_main("Job", FAILED, completions=3)
    pods = [
        make_pod("a", phase="Failed", terminated=terminated(143, at=LATER)),
        make_pod("b", phase="Failed", index=1, terminated=terminated(1, message='{"error": {"message": "one"}}')),
        make_pod("c", index=2, **RUNNING),
    ]
    observation = observe(main, *pods)
    assert observation is not None
    assert (observation.reason, observation.message, observation.exit_code, observation.error) == (
        "ExitCode",
        "pod 1: error: one",
        1,
        {"message": "one"},
    )


def test_removed_pods_are_reported() -> None:
    state = state_of(make_main("Job", FAILED))
    assert state == (Phase.FAILED, "PodRemoved", "its pod was removed: reached the limit")
