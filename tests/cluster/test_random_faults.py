"""Random errors in requests to the cluster: no run is lost, none starts twice, and no objects remain."""

import contextlib
import heapq
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from fairlead.sdk.runs import Run
from tests.cluster.clients import until
from tests.cluster.control_planes import take_ports
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.ledgers import AT_MOST_ONCE, Ledger, ResourceUsage
from tests.cluster.platforms import Platform
from tests.cluster.proxies import ALWAYS, Fault, Proxy, interrupt_after
from tests.cluster.storms import CALLS, CHANGING_CALLS, OBSERVING_CALLS, Storm, make_seed

MIN_SECONDS, MAX_SECONDS = 8.0, 120.0  # for each half of the test, until all faults have happened
DATA = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data", "spec": {"size": "1Gi"}}
WITH_OBJECTS = {"secrets": ["TOKEN"], "volumes": [DATA]}
SLEEP, SUCCEED, FAIL, SERVE = "sleep", "succeed", "exit-3", "serve"
Stops = list[tuple[float, str, Run]]  # the time of each stop, and its run


@pytest.fixture(scope="module")
def platform(proxied_platform: Platform) -> Platform:
    """A server that uses the proxy, and removes the objects of a run as soon as it has ended."""
    return prepare(proxied_platform)


@pytest.fixture
def ledger(platform: Platform, kubelet: FakeKubelet) -> Ledger:
    """The expected outcomes of a test's runs."""
    return Ledger(platform, kubelet)


def prepare(platform: Platform) -> Platform:
    """Configure immediate removal of objects, and create the secret for `WITH_OBJECTS`."""
    platform.variables = {"FAIRLEAD_KEEP_OBJECTS_MINUTES": "0"}
    platform.restart()
    platform.project.set_secret("TOKEN", "hunter2hunter2")
    return platform


def warm_up(platform: Platform, ledger: Ledger) -> ResourceUsage:
    """Complete some runs, and return the server's resource usage afterwards."""
    for run in [ledger.expect(platform.run_simulated(SUCCEED, **WITH_OBJECTS), "completed") for _ in range(20)]:
        platform.until(run, "completed")
        assert run.logs() == ""
    until(lambda: not ledger.list_remaining())
    return ResourceUsage.of(platform.server)


def test_stream_of_runs_completes_with_random_request_faults(platform: Platform, proxy: Proxy, ledger: Ledger) -> None:
    seed = make_seed()
    before, storm, rng = warm_up(platform, ledger), Storm(seed), random.Random(seed)
    dropped = Fault("GET", CALLS["watch"][1], interrupt_after(2.0), "after", times=ALWAYS)
    with proxy.injecting(dropped), reading_logs(platform, ledger):
        proxy.disconnect()
        for calls in (CHANGING_CALLS, OBSERVING_CALLS):  # separately: few changes happen while observing fails
            with proxy.injecting(*storm.make_faults(*calls)):
                submit_until_done(platform, ledger, rng, partial(storm.list_missing, *calls))
    assert dropped.hits > 20
    ledger.check(before)


def submit_until_done(
    platform: Platform, ledger: Ledger, rng: random.Random, list_missing: Callable[[], list[tuple[str, str]]]
) -> None:
    """Submit runs of all kinds until all faults have happened, and after random delays stop those that never end."""
    stops: Stops = []
    started_at = time.monotonic()
    while (elapsed := time.monotonic() - started_at) < MIN_SECONDS or list_missing():
        assert elapsed < MAX_SECONDS, f"{list_missing()} did not happen"
        submit(platform, ledger, rng, stops)
        while stops and stops[0][0] < time.monotonic():
            heapq.heappop(stops)[-1].stop()
        time.sleep(rng.uniform(0, 0.3))
    for *_, run in stops:
        run.stop()


def submit(platform: Platform, ledger: Ledger, rng: random.Random, stops: Stops) -> None:
    """Submit one run of a random kind."""
    options = WITH_OBJECTS if rng.random() < 0.5 else {}
    kind = rng.choice((SUCCEED, FAIL, SLEEP, SLEEP, SERVE))
    if kind == SUCCEED:
        ledger.expect(platform.run_simulated(SUCCEED, **options), "completed")
    elif kind == FAIL:
        ledger.expect(platform.run_simulated(FAIL, **options), "failed ExitCode")
    else:
        run = serve(platform) if kind == SERVE else platform.run_simulated(SLEEP, **options)
        ledger.expect(run, "stopped", pods=AT_MOST_ONCE)
        heapq.heappush(stops, (time.monotonic() + rng.choice((0.0, 0.2, 1.0, 4.0)), run.id, run))


def serve(platform: Platform) -> Run:
    """Submit a served run."""
    (port,) = take_ports(1)
    command = ["python3", "-m", "http.server", str(port)]
    function = {"name": "web", "kind": "container", "image": "python:3.12", "command": command, "port": port}
    return platform.run(function=function, action="serve")


@contextlib.contextmanager
def reading_logs(platform: Platform, ledger: Ledger) -> Iterator[None]:
    """Read logs of recent runs during the block. Each response is 200, 404 or 503."""
    finished, failures = threading.Event(), set[str]()

    def read() -> None:
        with platform.server.client() as client:
            while not finished.wait(0.1):
                for run_id in list(ledger.entries)[-3:]:
                    response = client.get(f"/runs/{run_id}/logs")
                    if response.status_code not in (200, 404, 503):
                        failures.add(f"{response.status_code} {response.text}")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        finished.set()
        reader.join()
    assert failures == set()
