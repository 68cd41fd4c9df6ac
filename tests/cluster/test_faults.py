"""A cluster that refuses, breaks down and loses the thread: no run fails for that, and none starts twice."""

import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from fairlead.sdk.runs import Run
from tests.cluster.clients import until
from tests.cluster.platforms import Platform
from tests.cluster.proxies import (
    ALWAYS,
    Dropped,
    Fault,
    Moment,
    Permission,
    Proxied,
    Proxy,
    answer,
    break_after,
    drop,
    hang,
    hold,
)
from tests.cluster.trials import Trial

END = r"(\?|$)"
WATCHES = "[?&]watch=true"
FORBIDDEN = 'secrets is forbidden: User "me" cannot create resource "secrets" in API group "" in the namespace "mine"'
BUSY, BUSY_SECONDS = "too many requests, for a while", 8  # longer than the first pauses between tries
# Faults for the requests of one start: method, path, fault, time and number.
STARTS: dict[str, tuple[str, str, Permission, Moment, int]] = {
    "namespace made, answered 500": ("POST", f"/api/v1/namespaces{END}", answer(500), "after", 1),
    "job made, answered 500": ("POST", f"/{{}}/jobs{END}", answer(500), "after", 1),
    "claim made, answered 503": ("POST", f"/{{}}/persistentvolumeclaims{END}", answer(503), "after", 1),
    "secret made, answered 500": ("POST", f"/{{}}/secrets{END}", answer(500), "after", 1),
    "code made, answered 500": ("POST", f"/{{}}/configmaps{END}", answer(500), "after", 1),
    "released, answered 500": ("PATCH", "/{}/jobs/", answer(500), "after", 1),
    "job made, and the connection broken": ("POST", f"/{{}}/jobs{END}", drop, "after", 1),
    "job not made, and the connection broken": ("POST", f"/{{}}/jobs{END}", drop, "before", 1),
    BUSY: ("POST", f"/{{}}/jobs{END}", answer(429, retry_after=BUSY_SECONDS), "before", 2),
    "code not made, with 503": ("POST", f"/{{}}/configmaps{END}", answer(503), "before", 1),
    "release not done, with 409": ("PATCH", "/{}/jobs/", answer(409), "before", 1),
}


@pytest.fixture(scope="module")
def platform(proxied_platform: Platform) -> Platform:
    """A server that reaches the cluster through the proxy."""
    return proxied_platform


def remove(platform: Platform, run: Run) -> str:
    """Delete the Job of a run as with kubectl, and return its name."""
    job = platform.job_of(run)["metadata"]
    path = f"/apis/batch/v1/namespaces/{job['namespace']}/jobs/{job['name']}"
    platform.admin.delete(path, propagationPolicy="Background")
    return str(job["name"])


def reasons_of(platform: Platform, run: Run) -> list[str]:
    """The reasons that its history tells."""
    return [event["reason"] for event in platform.api("GET", f"/runs/{run.id}/events")]


def test_run_starts_once_with_any_fault_in_the_requests_of_its_start(platform: Platform, proxy: Proxy) -> None:
    trials = {name: Trial(platform) for name in STARTS}
    faults = {
        name: Fault(
            method, address.replace("{}", f"namespaces/{trials[name].namespace}"), permission, moment, times=times
        )
        for name, (method, address, permission, moment, times) in STARTS.items()
    }
    with proxy.doing(*faults.values()):
        runs = {name: trial.submit() for name, trial in trials.items()}
        for name, run in runs.items():
            trials[name].complete(run)
    assert {name: fault.befell for name, fault in faults.items()} == {name: STARTS[name][-1] for name in STARTS}
    assert all(later - sooner >= BUSY_SECONDS for sooner, later in pairwise(faults[BUSY].met))
    for name, run in runs.items():
        assert "StartDelayed" in reasons_of(platform, run), name
        trials[name].check_all(run)


def test_run_waiting_for_permissions_names_them_and_the_check_command(platform: Platform, proxy: Proxy) -> None:
    trial = Trial(platform)
    address = f"/namespaces/{trial.namespace}/secrets"
    with proxy.doing(Fault("POST", address, answer(403, FORBIDDEN), times=ALWAYS)):
        run = trial.submit()
        status = platform.until(run, "StartDelayed")
        assert status["state"] == "pending"
        assert FORBIDDEN in status["message"]
        assert "run `fairlead clusters check main`; retrying" in status["message"]
        assert trial.count_objects() == {"Job": 1, "PersistentVolumeClaim": 1}
        assert trial.find_orphans() == []
    trial.complete(run)
    trial.check_all(run)


def test_run_waiting_for_permissions_can_be_stopped_and_leaves_no_objects(platform: Platform, proxy: Proxy) -> None:
    trial = Trial(platform)
    with proxy.doing(Fault("POST", f"/namespaces/{trial.namespace}/secrets", answer(403), times=ALWAYS)):
        run = trial.submit()
        platform.until(run, "StartDelayed")
        run.stop()
        assert platform.until(run, "stopped", "failed")["state"] == "stopped"
        until(lambda: not trial.list_objects())
    assert trial.count_runs() == 0


def test_twenty_runs_complete_while_watches_break_every_second(
    platform: Platform, proxy: Proxy, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    broken = Fault("GET", WATCHES, break_after(1.0), "after", times=ALWAYS)
    with proxy.doing(broken):
        proxy.hang_up()
        runs = [platform.shell(f"echo $FAIRLEAD_RUN >> {ran}; sleep {index % 3}") for index in range(20)]
        for run in runs:
            assert platform.until(run, "completed", "failed")["state"] == "completed"
    assert broken.befell > 5
    assert Counter(ran.read_text("utf-8").split()) == Counter(run.id for run in runs)
    assert [len(platform.pods_of(run)) for run in runs] == [1] * 20


def test_changes_during_a_broken_watch_are_found_by_a_new_list(platform: Platform, proxy: Proxy) -> None:
    removed, unchanged = platform.run(), platform.run()
    for run in (removed, unchanged):
        platform.until(run, "running")
    with proxy.doing(Fault("GET", WATCHES, answer(410), times=10)):
        proxy.hang_up()
        remove(platform, removed)
        status = platform.until(removed, "failed", "completed", "stopped")
    assert (status["state"], status["reason"]) == ("failed", "Lost")
    assert platform.show(unchanged)["state"] == "running"
    unchanged.stop()
    platform.until(unchanged, "stopped")


def test_removed_run_is_not_restarted_if_its_pod_event_arrives_first(platform: Platform, proxy: Proxy) -> None:
    run = platform.run()
    platform.until(run, "running")
    with proxy.doing(Fault("GET", "/apis/batch/v1/jobs[?]", drop, times=ALWAYS)):
        proxy.hang_up()
        name = remove(platform, run)
        until(lambda: not any(name in node["runs"] for node in platform.api("GET", "/nodes")))
        assert platform.show(run)["state"] == "running"
    assert platform.until(run, "failed", "completed", "stopped")["reason"] == "Lost"
    assert "Claimed" not in reasons_of(platform, run)[2:]


def test_unresponsive_cluster_changes_no_state(platform: Platform, proxy: Proxy, tmp_path: Path) -> None:
    ran, go = tmp_path / "ran", tmp_path / "go"
    running = platform.shell(f"echo $FAIRLEAD_RUN >> {ran}; until [ -e {go} ]; do sleep 0.05; done")
    platform.until(running, "running")
    silence = [Fault(method, "", hang(60), times=ALWAYS) for method in ("GET", "POST", "PATCH", "DELETE")]
    with proxy.doing(*silence):
        proxy.hang_up()
        waiting = platform.shell(f"echo $FAIRLEAD_RUN >> {ran}")
        go.touch()
        status = platform.until(waiting, "StartDelayed")
        assert (status["state"], platform.show(running)["state"]) == ("pending", "running")
        assert "the cluster is unreachable" in status["message"]
    proxy.hang_up()
    for run in (running, waiting):
        assert platform.until(run, "completed", "failed")["state"] == "completed"
    assert Counter(ran.read_text("utf-8").split()) == Counter([running.id, waiting.id])


def test_outcome_is_reported_once_pods_are_readable(platform: Platform, proxy: Proxy) -> None:
    """Its Job has ended, and of its pods nothing is heard."""
    trial = Trial(platform, waits=True)
    run = trial.submit()
    platform.until(run, "running")
    forbidden = Fault("GET", f"/namespaces/{trial.namespace}/pods[?]", answer(403), times=ALWAYS)
    with proxy.doing(Fault("GET", "/api/v1/pods[?]", drop, times=ALWAYS), forbidden):
        proxy.hang_up()
        trial.go.touch()
        until(lambda: forbidden.befell)
        with platform.server.client() as client:
            answered = client.get(f"/runs/{run.id}/logs")
        assert (answered.status_code, answered.json()["code"]) == (503, "unavailable")
        assert platform.show(run)["state"] == "running"
    trial.complete(run)
    assert trial.read_log(run) == "begun\n"
    trial.check_all(run)


def test_run_is_stopped_only_after_its_job_can_no_longer_start(platform: Platform, proxy: Proxy) -> None:
    """The Job was released but the response was lost; then the run is stopped and the deletion fails for a while."""
    trial, unseen = Trial(platform, waits=True), threading.Event()

    def lose_sight(_request: Proxied) -> None:
        unseen.set()
        proxy.hang_up()
        raise Dropped

    def hide(_request: Proxied) -> None:
        if unseen.is_set():
            raise Dropped

    jobs = f"/namespaces/{trial.namespace}/jobs/"
    forbidden = Fault("DELETE", jobs, answer(403), times=ALWAYS)
    released = Fault("PATCH", jobs, drop, "after")
    begun = Fault("POST", f"/namespaces/{trial.namespace}/configmaps", lose_sight, "after")
    with proxy.doing(forbidden):
        with proxy.doing(begun, released, Fault("GET", "/apis/batch/v1/jobs[?]", hide, times=ALWAYS)):
            run = trial.submit()
            until(lambda: released.befell)
            run.stop()
            until(lambda: forbidden.befell)
        until(trial.count_runs)
        assert platform.until(run, "StopDelayed", "stopped")["state"] == "stopping"
    assert platform.until(run, "stopped", "completed", "failed")["state"] == "stopped"
    until(lambda: not trial.list_objects())


def test_job_observed_after_its_run_was_stopped_is_removed(platform: Platform, proxy: Proxy) -> None:
    """The creation returns an error and the watch is late, so the server does not know about the Job."""
    trial, visible = Trial(platform), threading.Event()
    late = Fault("GET", "/batch/v1/jobs[?].*watch=true", hold(visible), "during", words=trial.namespace.encode())
    made = Fault("POST", f"/namespaces/{trial.namespace}/jobs{END}", answer(500), "after")
    with proxy.doing(late, made):
        run = trial.submit()
        platform.until(run, "StartDelayed")
        run.stop()
        assert platform.until(run, "stopped", "failed")["state"] == "stopped"
        until(lambda: trial.count_made("Job") == 1)  # the audit log may lag behind
        visible.set()
        until(lambda: not trial.list_objects())
    assert trial.count_runs() == 0


@pytest.fixture
def tidy_platform(platform: Platform) -> Iterator[Platform]:
    """A server that removes the objects of a run as soon as the run has ended."""
    platform.variables = {"FAIRLEAD_KEEP_OBJECTS_MINUTES": "0"}
    platform.restart()
    yield platform
    platform.variables = {}
    platform.restart()


def test_objects_are_removed_after_a_late_log_and_a_failed_removal(tidy_platform: Platform, proxy: Proxy) -> None:
    platform, trial, ended = tidy_platform, Trial(tidy_platform, waits=True), threading.Event()
    of_trial = f"/namespaces/{trial.namespace}"
    log = Fault("GET", f"{of_trial}/pods/[^/]+/log[?].*follow=true", hold(ended, dropping=True))
    forbidden = Fault("DELETE", f"{of_trial}/jobs/", answer(403))
    with proxy.doing(log, forbidden):
        run = trial.submit()
        platform.until(run, "running")
        until(lambda: run.logs() == "" and log.met)  # a client follows the log until after the end of the run
        trial.go.touch()
        trial.complete(run)
        ended.set()
        until(lambda: not trial.list_objects())
    assert forbidden.befell == 1
    assert trial.read_log(run) == "begun\n"
