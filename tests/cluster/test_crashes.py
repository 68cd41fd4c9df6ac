"""A server that is killed at each step of a run continues after a restart and repeats nothing."""

import pytest

from tests.cluster.clients import until
from tests.cluster.platforms import Platform
from tests.cluster.proxies import Fault, Moment, Proxy, hang
from tests.cluster.trials import SERVED_RUN_OBJECTS, Trial

PATH_END = r"(\?|$)"
# The requests for starting a run, in order. The second Secret is the image pull secret.
START = {
    "namespace get": ("GET", f"/api/v1/{{}}{PATH_END}", 0),
    "namespace create": ("POST", f"/api/v1/namespaces{PATH_END}", 0),
    "job": ("POST", f"/{{}}/jobs{PATH_END}", 0),
    "claim": ("POST", f"/{{}}/persistentvolumeclaims{PATH_END}", 0),
    "secret": ("POST", f"/{{}}/secrets{PATH_END}", 0),
    "pull secret": ("POST", f"/{{}}/secrets{PATH_END}", 1),
    "code": ("POST", f"/{{}}/configmaps{PATH_END}", 0),
    "release": ("PATCH", "/{}/jobs/", 0),
}
both_moments = pytest.mark.parametrize("moment", ["before", "after"])
# The server is killed just before it receives this watch event.
WATCH_EVENTS = {
    "job created": ("/jobs[?].*watch=true", '"namespace":"{}"'),
    "pod created": ("/api/v1/pods[?].*watch=true", '"namespace":"{}"'),
    "job ended": ("/jobs[?].*watch=true", '"type":"Complete"'),
}


@pytest.fixture(scope="module")
def platform(proxied_platform: Platform) -> Platform:
    """A server that reaches the cluster through the proxy."""
    return proxied_platform


def crash(platform: Platform, fault: Fault) -> None:
    """Wait until the server is killed, and start it again."""
    assert platform.server.process.wait().code == -9
    assert fault.hits == 1
    platform.restart()


@both_moments
@pytest.mark.parametrize("step", START)
def test_server_killed_at_any_step_of_a_start_starts_the_run_once(
    platform: Platform, proxy: Proxy, step: str, moment: Moment
) -> None:
    trial = Trial(platform)
    method, pattern, skip = START[step]
    fault = trial.make_kill_fault(method, pattern, moment, skip=skip)
    with proxy.injecting(fault):
        run = trial.submit()
        crash(platform, fault)
    trial.wait_for_result(run)
    trial.check_all(run)


@pytest.mark.parametrize(
    ("method", "pattern", "moment"),
    [
        ("POST", "/{}/deployments", "after"),
        ("POST", "/{}/services", "before"),
        ("POST", "/{}/services", "after"),
        ("PATCH", "/{}/deployments/", "after"),
    ],
)
def test_server_killed_during_the_start_of_a_served_run_starts_it_once(
    platform: Platform, proxy: Proxy, method: str, pattern: str, moment: Moment
) -> None:
    trial = Trial(platform)
    fault = trial.make_kill_fault(method, pattern, moment)
    with proxy.injecting(fault):
        run = trial.serve()
        crash(platform, fault)
    platform.until(run, "running")
    assert trial.find_orphans() == []
    assert (trial.count_objects(), trial.count_created("Pod")) == (SERVED_RUN_OBJECTS, 1)
    run.stop()
    assert platform.until(run, "stopped", "failed")["state"] == "stopped"
    until(lambda: not trial.list_objects())


@pytest.mark.parametrize("event", WATCH_EVENTS)
def test_server_killed_during_a_watch_catches_up_with_the_cluster(platform: Platform, proxy: Proxy, event: str) -> None:
    trial = Trial(platform)
    pattern, content = WATCH_EVENTS[event]
    fault = trial.make_kill_fault("GET", pattern, "during", text=content.replace("{}", trial.namespace).encode())
    with proxy.injecting(fault):
        run = trial.submit()
        crash(platform, fault)
    trial.wait_for_result(run)
    trial.check_all(run)


@both_moments
def test_server_killed_during_a_stop_completes_it_after_restart(
    platform: Platform, proxy: Proxy, moment: Moment
) -> None:
    trial = Trial(platform, blocked=True)
    fault = trial.make_kill_fault("DELETE", "/{}/jobs/", moment)
    run = trial.submit()
    platform.until(run, "running")
    until(trial.count_executions)
    trial.submitted.clear()
    with proxy.injecting(fault):
        run.stop()
        trial.submitted.set()
        crash(platform, fault)
    ended = platform.until(run, "stopped", "completed", "failed")
    assert (ended["state"], ended["message"]) == ("stopped", f"stopped by {ended['stopped_by']}")
    if moment == "before":
        assert trial.read_log(run) == "started\n"
    until(lambda: not trial.list_objects())
    assert (trial.count_created("Job"), trial.count_executions()) == (1, 1)


@both_moments
def test_run_stopped_while_the_server_is_down_never_starts(platform: Platform, proxy: Proxy, moment: Moment) -> None:
    """A user stops the run while the server is down, for example through another server."""
    trial = Trial(platform)
    fault = trial.make_kill_fault("POST", f"/{{}}/secrets{PATH_END}", moment)
    with proxy.injecting(fault, Fault("GET", "/api/v1/nodes", hang(3), times=1)):
        run = trial.submit()
        crash(platform, fault)
        run.stop()
    assert platform.until(run, "stopped", "completed", "failed")["state"] == "stopped"
    until(lambda: not trial.list_objects())
    assert (trial.count_created("Job"), trial.count_created("Pod"), trial.count_executions()) == (1, 0, 0)


CLEANUP = {"log": ("GET", "/{}/pods/[^/]+/log"), "delete": ("DELETE", "/{}/jobs/")}


@pytest.fixture(scope="module")
def cleaning_platform(platform: Platform) -> Platform:
    """A platform that removes the objects of ended runs immediately."""
    platform.variables = {"FAIRLEAD_KEEP_OBJECTS_MINUTES": "0"}
    platform.restart()
    return platform


@both_moments
@pytest.mark.parametrize("step", CLEANUP)
def test_server_killed_during_cleanup_keeps_result_and_log_and_removes_all_objects(
    cleaning_platform: Platform, proxy: Proxy, step: str, moment: Moment
) -> None:
    platform, trial = cleaning_platform, Trial(cleaning_platform)
    fault = trial.make_kill_fault(*CLEANUP[step], moment)
    with proxy.injecting(fault):
        run = trial.submit()
        crash(platform, fault)
    trial.wait_for_result(run)
    until(lambda: not trial.list_objects())
    assert trial.read_log(run) == "started\n"
    assert (trial.count_created("Job"), trial.count_created("Pod"), trial.count_executions()) == (1, 1, 1)
