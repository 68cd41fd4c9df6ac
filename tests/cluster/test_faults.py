"""Cluster errors, outages and expired watches: no run fails because of them, and none starts twice."""

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
    Action,
    Dropped,
    Fault,
    Moment,
    Proxy,
    ProxyHandler,
    drop,
    hang,
    hold,
    interrupt_after,
    respond_with,
)
from tests.cluster.trials import Trial

PATH_END = r"(\?|$)"
WATCH_PATTERN = "[?&]watch=true"
FORBIDDEN = 'secrets is forbidden: User "me" cannot create resource "secrets" in API group "" in the namespace "mine"'
BUSY, BUSY_SECONDS = "too many requests for some seconds", 8  # longer than the first retry delays
# Faults for the requests that start a run: method, path, fault, time and number.
STARTS: dict[str, tuple[str, str, Action, Moment, int]] = {
    "namespace created, response 500": ("POST", f"/api/v1/namespaces{PATH_END}", respond_with(500), "after", 1),
    "job created, response 500": ("POST", f"/{{}}/jobs{PATH_END}", respond_with(500), "after", 1),
    "claim created, response 503": ("POST", f"/{{}}/persistentvolumeclaims{PATH_END}", respond_with(503), "after", 1),
    "secret created, response 500": ("POST", f"/{{}}/secrets{PATH_END}", respond_with(500), "after", 1),
    "code created, response 500": ("POST", f"/{{}}/configmaps{PATH_END}", respond_with(500), "after", 1),
    "released, response 500": ("PATCH", "/{}/jobs/", respond_with(500), "after", 1),
    "job created, connection closed": ("POST", f"/{{}}/jobs{PATH_END}", drop, "after", 1),
    "job not created, connection closed": ("POST", f"/{{}}/jobs{PATH_END}", drop, "before", 1),
    BUSY: ("POST", f"/{{}}/jobs{PATH_END}", respond_with(429, retry_after=BUSY_SECONDS), "before", 2),
    "code not created, response 503": ("POST", f"/{{}}/configmaps{PATH_END}", respond_with(503), "before", 1),
    "not released, response 409": ("PATCH", "/{}/jobs/", respond_with(409), "before", 1),
}


@pytest.fixture(scope="module")
def platform(proxied_platform: Platform) -> Platform:
    """A server that reaches the cluster through the proxy."""
    return proxied_platform


def remove(platform: Platform, run: Run) -> str:
    """Delete a run's Job as kubectl would, and return its name."""
    job = platform.job_of(run)["metadata"]
    path = f"/apis/batch/v1/namespaces/{job['namespace']}/jobs/{job['name']}"
    platform.admin.delete(path, propagationPolicy="Background")
    return str(job["name"])


def reasons_of(platform: Platform, run: Run) -> list[str]:
    """The reasons in the history of a run."""
    return [event["reason"] for event in platform.api("GET", f"/runs/{run.id}/events")]


def test_run_starts_once_with_any_fault_in_the_requests_of_its_start(platform: Platform, proxy: Proxy) -> None:
    trials = {name: Trial(platform) for name in STARTS}
    faults = {
        name: Fault(method, pattern.replace("{}", f"namespaces/{trials[name].namespace}"), action, moment, times=times)
        for name, (method, pattern, action, moment, times) in STARTS.items()
    }
    with proxy.injecting(*faults.values()):
        runs = {name: trial.submit() for name, trial in trials.items()}
        for name, run in runs.items():
            trials[name].wait_for_result(run)
    assert {name: fault.hits for name, fault in faults.items()} == {name: STARTS[name][-1] for name in STARTS}
    assert all(later - earlier >= BUSY_SECONDS for earlier, later in pairwise(faults[BUSY].request_times))
    for name, run in runs.items():
        assert "StartDelayed" in reasons_of(platform, run), name
        trials[name].check_all(run)


def test_run_waiting_for_permissions_names_them_and_the_check_command(platform: Platform, proxy: Proxy) -> None:
    trial = Trial(platform)
    pattern = f"/namespaces/{trial.namespace}/secrets"
    with proxy.injecting(Fault("POST", pattern, respond_with(403, FORBIDDEN), times=ALWAYS)):
        run = trial.submit()
        status = platform.until(run, "StartDelayed")
        assert status["state"] == "pending"
        assert FORBIDDEN in status["message"]
        assert "run `fairlead clusters check main`; retrying" in status["message"]
        assert trial.count_objects() == {"Job": 1, "PersistentVolumeClaim": 1}
        assert trial.find_orphans() == []
    trial.wait_for_result(run)
    trial.check_all(run)


def test_run_waiting_for_permissions_can_be_stopped_and_leaves_no_objects(platform: Platform, proxy: Proxy) -> None:
    trial = Trial(platform)
    with proxy.injecting(Fault("POST", f"/namespaces/{trial.namespace}/secrets", respond_with(403), times=ALWAYS)):
        run = trial.submit()
        platform.until(run, "StartDelayed")
        run.stop()
        assert platform.until(run, "stopped", "failed")["state"] == "stopped"
        until(lambda: not trial.list_objects())
    assert trial.count_executions() == 0


def test_twenty_runs_complete_while_watches_break_every_second(
    platform: Platform, proxy: Proxy, tmp_path: Path
) -> None:
    executions = tmp_path / "executions"
    interrupted = Fault("GET", WATCH_PATTERN, interrupt_after(1.0), "after", times=ALWAYS)
    with proxy.injecting(interrupted):
        proxy.disconnect()
        runs = [platform.shell(f"echo $FAIRLEAD_RUN >> {executions}; sleep {index % 3}") for index in range(20)]
        for run in runs:
            assert platform.until(run, "completed", "failed")["state"] == "completed"
    assert interrupted.hits > 5
    assert Counter(executions.read_text("utf-8").split()) == Counter(run.id for run in runs)
    assert [len(platform.pods_of(run)) for run in runs] == [1] * 20


def test_changes_during_a_broken_watch_are_found_by_a_new_list(platform: Platform, proxy: Proxy) -> None:
    removed, unchanged = platform.run(), platform.run()
    for run in (removed, unchanged):
        platform.until(run, "running")
    with proxy.injecting(Fault("GET", WATCH_PATTERN, respond_with(410), times=10)):
        proxy.disconnect()
        remove(platform, removed)
        status = platform.until(removed, "failed", "completed", "stopped")
    assert (status["state"], status["reason"]) == ("failed", "Lost")
    assert platform.get_run(unchanged)["state"] == "running"
    unchanged.stop()
    platform.until(unchanged, "stopped")


def test_removed_run_is_not_restarted_if_its_pod_event_arrives_first(platform: Platform, proxy: Proxy) -> None:
    run = platform.run()
    platform.until(run, "running")
    with proxy.injecting(Fault("GET", "/apis/batch/v1/jobs[?]", drop, times=ALWAYS)):
        proxy.disconnect()
        name = remove(platform, run)
        until(lambda: not any(name in node["runs"] for node in platform.api("GET", "/nodes")))
        assert platform.get_run(run)["state"] == "running"
    assert platform.until(run, "failed", "completed", "stopped")["reason"] == "Lost"
    assert "Claimed" not in reasons_of(platform, run)[2:]


def test_unresponsive_cluster_changes_no_state(platform: Platform, proxy: Proxy, tmp_path: Path) -> None:
    executions, go = tmp_path / "executions", tmp_path / "go"
    running = platform.shell(f"echo $FAIRLEAD_RUN >> {executions}; until [ -e {go} ]; do sleep 0.05; done")
    platform.until(running, "running")
    unresponsive = [Fault(method, "", hang(60), times=ALWAYS) for method in ("GET", "POST", "PATCH", "DELETE")]
    with proxy.injecting(*unresponsive):
        proxy.disconnect()
        waiting = platform.shell(f"echo $FAIRLEAD_RUN >> {executions}")
        go.touch()
        status = platform.until(waiting, "StartDelayed")
        assert (status["state"], platform.get_run(running)["state"]) == ("pending", "running")
        assert "the cluster is unreachable" in status["message"]
    proxy.disconnect()
    for run in (running, waiting):
        assert platform.until(run, "completed", "failed")["state"] == "completed"
    assert Counter(executions.read_text("utf-8").split()) == Counter([running.id, waiting.id])


def test_outcome_is_reported_once_pods_are_readable(platform: Platform, proxy: Proxy) -> None:
    """The run's Job has ended, but its pods cannot be read."""
    trial = Trial(platform, blocked=True)
    run = trial.submit()
    platform.until(run, "running")
    forbidden = Fault("GET", f"/namespaces/{trial.namespace}/pods[?]", respond_with(403), times=ALWAYS)
    with proxy.injecting(Fault("GET", "/api/v1/pods[?]", drop, times=ALWAYS), forbidden):
        proxy.disconnect()
        trial.go.touch()
        until(lambda: forbidden.hits)
        with platform.server.client() as client:
            response = client.get(f"/runs/{run.id}/logs")
        assert (response.status_code, response.json()["code"]) == (503, "unavailable")
        assert platform.get_run(run)["state"] == "running"
    trial.wait_for_result(run)
    assert trial.read_log(run) == "started\n"
    trial.check_all(run)


def test_run_is_stopped_only_after_its_job_can_no_longer_start(platform: Platform, proxy: Proxy) -> None:
    """The Job was released but the response was lost; then the run is stopped and the deletion fails for a while."""
    trial, is_hidden = Trial(platform, blocked=True), threading.Event()

    def hide_jobs(_request: ProxyHandler) -> None:
        is_hidden.set()
        proxy.disconnect()
        raise Dropped

    def drop_if_hidden(_request: ProxyHandler) -> None:
        if is_hidden.is_set():
            raise Dropped

    jobs = f"/namespaces/{trial.namespace}/jobs/"
    forbidden = Fault("DELETE", jobs, respond_with(403), times=ALWAYS)
    released = Fault("PATCH", jobs, drop, "after")
    config_map_created = Fault("POST", f"/namespaces/{trial.namespace}/configmaps", hide_jobs, "after")
    with proxy.injecting(forbidden):
        with proxy.injecting(
            config_map_created, released, Fault("GET", "/apis/batch/v1/jobs[?]", drop_if_hidden, times=ALWAYS)
        ):
            run = trial.submit()
            until(lambda: released.hits)
            run.stop()
            until(lambda: forbidden.hits)
        until(trial.count_executions)
        assert platform.until(run, "StopDelayed", "stopped")["state"] == "stopping"
    assert platform.until(run, "stopped", "completed", "failed")["state"] == "stopped"
    until(lambda: not trial.list_objects())


def test_job_observed_after_its_run_was_stopped_is_removed(platform: Platform, proxy: Proxy) -> None:
    """The create request returns an error and the watch is late, so the server does not know about the Job."""
    trial, visible = Trial(platform), threading.Event()
    late_watch = Fault("GET", "/batch/v1/jobs[?].*watch=true", hold(visible), "during", text=trial.namespace.encode())
    job_created = Fault("POST", f"/namespaces/{trial.namespace}/jobs{PATH_END}", respond_with(500), "after")
    with proxy.injecting(late_watch, job_created):
        run = trial.submit()
        platform.until(run, "StartDelayed")
        run.stop()
        assert platform.until(run, "stopped", "failed")["state"] == "stopped"
        until(lambda: trial.count_created("Job") == 1)  # the audit log may lag behind
        visible.set()
        until(lambda: not trial.list_objects())
    assert trial.count_executions() == 0


@pytest.fixture
def cleaning_platform(platform: Platform) -> Iterator[Platform]:
    """A server that removes the objects of a run as soon as the run has ended."""
    platform.variables = {"FAIRLEAD_KEEP_OBJECTS_MINUTES": "0"}
    platform.restart()
    yield platform
    platform.variables = {}
    platform.restart()


def test_objects_are_removed_after_a_late_log_and_a_failed_removal(cleaning_platform: Platform, proxy: Proxy) -> None:
    platform, trial, ended = cleaning_platform, Trial(cleaning_platform, blocked=True), threading.Event()
    trial_path = f"/namespaces/{trial.namespace}"
    log = Fault("GET", f"{trial_path}/pods/[^/]+/log[?].*follow=true", hold(ended, drop_after=True))
    forbidden = Fault("DELETE", f"{trial_path}/jobs/", respond_with(403))
    with proxy.injecting(log, forbidden):
        run = trial.submit()
        platform.until(run, "running")
        until(lambda: run.logs() == "" and log.request_times)  # a client follows the log until after the run has ended
        trial.go.touch()
        trial.wait_for_result(run)
        ended.set()
        until(lambda: not trial.list_objects())
    assert forbidden.hits == 1
    assert trial.read_log(run) == "started\n"
