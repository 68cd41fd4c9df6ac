"""`kill -9` at every line of the reconcile step while runs are executed: nothing is lost or repeated."""

import os
import signal
import time

from tests.faults import crash_points
from tests.faults.callers import RequestRecord, submitting_runs
from tests.faults.checking import check_all
from tests.faults.crash_points import Point
from tests.faults.sites import Site, open_site
from tests.processes.execution import until
from tests.processes.machines import Machine

ALL = os.environ.get("FAULTS") == "all"
SAMPLE_SIZE = 12  # lines, spread evenly over all executed functions
RUNS = 200 if ALL else 60
KINDS = [
    "succeeding",
    "stopped",
    "large",
    "failing",
    "stopped at once",
    "large",
    "deleted",
    "with secret",
    "retried",
    "supervisor killed",
]
CLIENTS = 5
QUOTA = {"quota": {"runs": 4}}
# Time until a server that did not reach its line is stopped, on the first and second try.
LIFE_SECONDS, LONG_LIFE_SECONDS = 8.0, 40.0
MANY_TIMES = 5  # a line that is executed more often belongs to reconciling runs, not only to startup


def test_server_killed_at_any_line_of_a_step_loses_and_repeats_nothing(machine: Machine) -> None:
    record = RequestRecord()
    with open_site(machine) as site:
        prepare(site)
        counts = count_lines(site, record)
        chosen = choose(sorted(counts))
        with submitting_runs(site, record, KINDS, client_count=CLIENTS, minimum=RUNS):
            missed = [
                point
                for number, point in enumerate(chosen)
                if not crash_at(site, point, 1 + number % 3 if counts[point] > MANY_TIMES else 1, LIFE_SECONDS)
            ]
            missed = [point for point in missed if not crash_at(site, point, 1, LONG_LIFE_SECONDS)]
            site.up()
        # Some lines run only if a waiting run's reason changes, which a busy machine may delay for longer.
        assert len(missed) <= max(1, len(chosen) // 20), missed
        check_all(site, record)


def prepare(site: Site) -> None:
    """Create a quota that makes some runs wait, and the secret that some runs use."""
    with site.client() as client:
        assert client.put("/policies/platform/platform", json=QUOTA).is_success
        assert client.put("/projects/default/secrets/PASSWORD", json={"value": "secret"}).is_success


def count_lines(site: Site, record: RequestRecord) -> dict[Point, int]:
    """How many times each line is executed by a server that takes over a killed server's runs and gets new ones."""
    file = site.data / "lines.json"
    with submitting_runs(site, record, KINDS, client_count=CLIENTS, minimum=3 * len(KINDS)):
        until(lambda: len(record.kinds) > len(KINDS))
        site.server.stop(signal.SIGKILL)
        server = site.up(**{crash_points.COUNT_FILE: str(file)})
    assert server.stop().code == 0
    return crash_points.read_counts(file)


def choose(points: list[Point]) -> list[Point]:
    """All points, or an evenly spread sample."""
    return points if ALL else [points[len(points) * number // SAMPLE_SIZE] for number in range(SAMPLE_SIZE)]


def crash_at(site: Site, point: Point, times: int, seconds: float) -> bool:
    """Start a server that crashes at the nth execution of a line. Return whether it crashed, even during shutdown."""
    process, deadline = site.start(**point.variables(times)), time.monotonic() + seconds
    until(lambda: process.poll() is not None or time.monotonic() > deadline, 2 * seconds)
    if process.poll() is None:
        process.send(signal.SIGTERM)
        process.wait()
    assert process.poll() in (0, -signal.SIGKILL), process.output
    return process.poll() != 0
