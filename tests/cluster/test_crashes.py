"""A server that is killed at each step of a run's life: started again, it goes on, and nothing happens twice."""

import pytest

from tests.cluster.clients import until
from tests.cluster.platforms import Platform
from tests.cluster.proxies import Fault, Moment, Proxy, hang
from tests.cluster.trials import SERVING, Trial

END = r"(\?|$)"
# The requests of a start, in their order. The second Secret is the one that images are pulled with.
START = {
    "namespace get": ("GET", f"/api/v1/{{}}{END}", 0),
    "namespace create": ("POST", f"/api/v1/namespaces{END}", 0),
    "job": ("POST", f"/{{}}/jobs{END}", 0),
    "claim": ("POST", f"/{{}}/persistentvolumeclaims{END}", 0),
    "secret": ("POST", f"/{{}}/secrets{END}", 0),
    "pull secret": ("POST", f"/{{}}/secrets{END}", 1),
    "code": ("POST", f"/{{}}/configmaps{END}", 0),
    "release": ("PATCH", "/{}/jobs/", 0),
}
BOTH = pytest.mark.parametrize("moment", ["before", "after"])
# The watch event at which the server is killed before it receives the event.
HEARD = {
    "job made": ("/jobs[?].*watch=true", '"namespace":"{}"'),
    "pod made": ("/api/v1/pods[?].*watch=true", '"namespace":"{}"'),
    "job ended": ("/jobs[?].*watch=true", '"type":"Complete"'),
}


@pytest.fixture(scope="module")
def platform(proxied_platform: Platform) -> Platform:
    """A server that reaches the cluster through the proxy."""
    return proxied_platform


def crash(platform: Platform, fault: Fault) -> None:
    """Wait until the server is killed, and start it again."""
    assert platform.server.process.wait().code == -9
    assert fault.befell == 1
    platform.restart()


@BOTH
@pytest.mark.parametrize("step", START)
def test_server_killed_at_any_step_of_a_start_starts_the_run_once(
    platform: Platform, proxy: Proxy, step: str, moment: Moment
) -> None:
    trial = Trial(platform)
    method, address, skip = START[step]
    fault = trial.killing(method, address, moment, skip=skip)
    with proxy.doing(fault):
        run = trial.submit()
        crash(platform, fault)
    trial.complete(run)
    trial.check_all(run)


@pytest.mark.parametrize(
    ("method", "address", "moment"),
    [
        ("POST", "/{}/deployments", "after"),
        ("POST", "/{}/services", "before"),
        ("POST", "/{}/services", "after"),
        ("PATCH", "/{}/deployments/", "after"),
    ],
)
def test_server_killed_during_the_start_of_a_served_run_starts_it_once(
    platform: Platform, proxy: Proxy, method: str, address: str, moment: Moment
) -> None:
    trial = Trial(platform)
    fault = trial.killing(method, address, moment)
    with proxy.doing(fault):
        run = trial.serve()
        crash(platform, fault)
    platform.until(run, "running")
    assert trial.find_orphans() == []
    assert (trial.count_objects(), trial.count_made("Pod")) == (SERVING, 1)
    run.stop()
    assert platform.until(run, "stopped", "failed")["state"] == "stopped"
    until(lambda: not trial.list_objects())


@pytest.mark.parametrize("words", HEARD)
def test_server_killed_during_a_watch_catches_up_with_the_cluster(platform: Platform, proxy: Proxy, words: str) -> None:
    trial = Trial(platform)
    address, content = HEARD[words]
    fault = trial.killing("GET", address, "during", words=content.replace("{}", trial.namespace).encode())
    with proxy.doing(fault):
        run = trial.submit()
        crash(platform, fault)
    trial.complete(run)
    trial.check_all(run)


@BOTH
def test_server_killed_during_a_stop_completes_it_after_restart(
    platform: Platform, proxy: Proxy, moment: Moment
) -> None:
    trial = Trial(platform, waits=True)
    fault = trial.killing("DELETE", "/{}/jobs/", moment)
    run = trial.submit()
    platform.until(run, "running")
    until(trial.count_runs)
    trial.submitted.clear()
    with proxy.doing(fault):
        run.stop()
        trial.submitted.set()
        crash(platform, fault)
    ended = platform.until(run, "stopped", "completed", "failed")
    assert (ended["state"], ended["message"]) == ("stopped", f"stopped by {ended['stopped_by']}")
    if moment == "before":
        assert trial.read_log(run) == "begun\n"
    until(lambda: not trial.list_objects())
    assert (trial.count_made("Job"), trial.count_runs()) == (1, 1)


@BOTH
def test_run_stopped_while_the_server_is_down_never_starts(platform: Platform, proxy: Proxy, moment: Moment) -> None:
    """A user stops the run while the server is down, for example through another server."""
    trial = Trial(platform)
    fault = trial.killing("POST", f"/{{}}/secrets{END}", moment)
    with proxy.doing(fault, Fault("GET", "/api/v1/nodes", hang(3), times=1)):
        run = trial.submit()
        crash(platform, fault)
        run.stop()
    assert platform.until(run, "stopped", "completed", "failed")["state"] == "stopped"
    until(lambda: not trial.list_objects())
    assert (trial.count_made("Job"), trial.count_made("Pod"), trial.count_runs()) == (1, 0, 0)


TIDY = {"log": ("GET", "/{}/pods/[^/]+/log"), "delete": ("DELETE", "/{}/jobs/")}


@pytest.fixture(scope="module")
def tidy_platform(platform: Platform) -> Platform:
    """A platform that removes the objects of ended runs immediately."""
    platform.variables = {"FAIRLEAD_KEEP_OBJECTS_MINUTES": "0"}
    platform.restart()
    return platform


@BOTH
@pytest.mark.parametrize("step", TIDY)
def test_server_killed_during_cleanup_keeps_result_and_log_and_removes_all_objects(
    tidy_platform: Platform, proxy: Proxy, step: str, moment: Moment
) -> None:
    platform, trial = tidy_platform, Trial(tidy_platform)
    fault = trial.killing(*TIDY[step], moment)
    with proxy.doing(fault):
        run = trial.submit()
        crash(platform, fault)
    trial.complete(run)
    until(lambda: not trial.list_objects())
    assert trial.read_log(run) == "begun\n"
    assert (trial.count_made("Job"), trial.count_made("Pod"), trial.count_runs()) == (1, 1, 1)
