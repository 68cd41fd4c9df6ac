"""A cluster whose requests fail at random: no run is lost, none starts twice, and nothing is left."""

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
from tests.cluster.ledgers import AT_MOST_ONCE, Ledger, Vitals
from tests.cluster.platforms import Platform
from tests.cluster.proxies import ALWAYS, Fault, Proxy, break_after
from tests.cluster.storms import CALLS, DOING, SEEING, Storm, make_seed

LEAST_SECONDS, MOST_SECONDS = 8.0, 120.0  # per half of a storm: until all faults have happened
DATA = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data", "spec": {"size": "1Gi"}}
WHOLE = {"secrets": ["TOKEN"], "volumes": [DATA]}
SLEEP, SUCCEED, FAIL, SERVE = "sleep", "succeed", "exit-3", "serve"
Stops = list[tuple[float, str, Run]]  # when each is due


@pytest.fixture(scope="module")
def platform(proxied_platform: Platform) -> Platform:
    """A server that reaches the cluster through the proxy, and removes the objects of a run as soon as it has ended."""
    return prepare(proxied_platform)


@pytest.fixture
def ledger(platform: Platform, kubelet: FakeKubelet) -> Ledger:
    """The expected outcomes of the runs of a test."""
    return Ledger(platform, kubelet)


def prepare(platform: Platform) -> Platform:
    """Let the server remove the objects of a run as soon as it has ended, and give it the secret of `WHOLE`."""
    platform.variables = {"FAIRLEAD_KEEP_OBJECTS_MINUTES": "0"}
    platform.restart()
    platform.project.set_secret("TOKEN", "hunter2hunter2")
    return platform


def warm_up(platform: Platform, ledger: Ledger) -> Vitals:
    """Let the server do once what it is to do, and see what it takes of the machine then."""
    for run in [ledger.note(platform.pretend(SUCCEED, **WHOLE), "completed") for _ in range(20)]:
        platform.until(run, "completed")
        assert run.logs() == ""
    until(lambda: not ledger.list_left())
    return Vitals.of(platform.server)


def test_stream_of_runs_completes_with_random_request_faults(platform: Platform, proxy: Proxy, ledger: Ledger) -> None:
    seed = make_seed()
    before, storm, dice = warm_up(platform, ledger), Storm(seed), random.Random(seed)
    dropped = Fault("GET", CALLS["watch"][1], break_after(2.0), "after", times=ALWAYS)
    with proxy.doing(dropped), reading_logs(platform, ledger):
        proxy.hang_up()
        for calls in (DOING, SEEING):  # one after the other: while little can be seen, little is done
            with proxy.doing(*storm.make_faults(*calls)):
                send_stream(platform, ledger, dice, partial(storm.list_missing, *calls))
    assert dropped.befell > 20
    ledger.check(before)


def send_stream(
    platform: Platform, ledger: Ledger, dice: random.Random, list_missing: Callable[[], list[tuple[str, str]]]
) -> None:
    """Submit runs of all kinds until nothing is missing, and stop those that would not end, some sooner than others."""
    due: Stops = []
    began_at = time.monotonic()
    while (lasted := time.monotonic() - began_at) < LEAST_SECONDS or list_missing():
        assert lasted < MOST_SECONDS, f"{list_missing()} did not happen"
        submit(platform, ledger, dice, due)
        while due and due[0][0] < time.monotonic():
            heapq.heappop(due)[-1].stop()
        time.sleep(dice.uniform(0, 0.3))
    for *_, run in due:
        run.stop()


def submit(platform: Platform, ledger: Ledger, dice: random.Random, due: Stops) -> None:
    """Submit one run of a kind that dice choose."""
    options = WHOLE if dice.random() < 0.5 else {}
    kind = dice.choice((SUCCEED, FAIL, SLEEP, SLEEP, SERVE))
    if kind == SUCCEED:
        ledger.note(platform.pretend(SUCCEED, **options), "completed")
    elif kind == FAIL:
        ledger.note(platform.pretend(FAIL, **options), "failed ExitCode")
    else:
        run = serve(platform) if kind == SERVE else platform.pretend(SLEEP, **options)
        ledger.note(run, "stopped", pods=AT_MOST_ONCE)
        heapq.heappush(due, (time.monotonic() + dice.choice((0.0, 0.2, 1.0, 4.0)), run.id, run))


def serve(platform: Platform) -> Run:
    """Submit a run that serves."""
    (port,) = take_ports(1)
    command = ["python3", "-m", "http.server", str(port)]
    function = {"name": "web", "kind": "container", "image": "python:3.12", "command": command, "port": port}
    return platform.run(function=function, action="serve")


@contextlib.contextmanager
def reading_logs(platform: Platform, ledger: Ledger) -> Iterator[None]:
    """Read logs of recent runs concurrently: they exist, never existed, or are unavailable now."""
    ended, wrong = threading.Event(), set[str]()

    def read() -> None:
        with platform.server.client() as client:
            while not ended.wait(0.1):
                for run_id in list(ledger.entries)[-3:]:
                    answer = client.get(f"/runs/{run_id}/logs")
                    if answer.status_code not in (200, 404, 503):
                        wrong.add(f"{answer.status_code} {answer.text}")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()
    assert wrong == set()
