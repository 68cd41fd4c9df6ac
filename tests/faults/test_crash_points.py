"""`kill -9` at every line of the controller's step, again and again while runs come and go: nothing is lost."""

import os
import signal
import time

from tests.faults import crash_points
from tests.faults.callers import Noted, calling
from tests.faults.checking import check_all
from tests.faults.crash_points import Point
from tests.faults.sites import Site, open_site
from tests.processes.execution import until
from tests.processes.machines import Machine

ALL = os.environ.get("FAULTS") == "all"
SOME = 12  # lines, spread over all functions that a server comes to
RUNS = 200 if ALL else 60
KINDS = [
    "fine",
    "stopped",
    "large",
    "failing",
    "stopped at once",
    "large",
    "deleted",
    "equipped",
    "tried again",
    "bereft",
]
CALLERS = 5
QUOTA = {"quota": {"runs": 4}}
LIFE_SECONDS, LONG_LIFE_SECONDS = 8.0, 40.0  # of a server that does not come to its line; and when it is tried again
OFTEN = 5  # a line that is come to so often is one of a run's way, not only of the start


def test_server_killed_at_any_line_of_a_step_loses_and_repeats_nothing(machine: Machine) -> None:
    noted = Noted()
    with open_site(machine) as site:
        prepare(site)
        counts = count_lines(site, noted)
        chosen = choose(sorted(counts))
        with calling(site, noted, KINDS, callers=CALLERS, least=RUNS):
            missed = [
                point
                for number, point in enumerate(chosen)
                if not live_until(site, point, 1 + number % 3 if counts[point] > OFTEN else 1, LIFE_SECONDS)
            ]
            missed = [point for point in missed if not live_until(site, point, 1, LONG_LIFE_SECONDS)]
            site.up()
        # Some lines run only if the reason of a waiting run changes, which a busy machine may delay for longer.
        assert len(missed) <= max(1, len(chosen) // 20), missed
        check_all(site, noted)


def prepare(site: Site) -> None:
    """A quota for which some wait, and what runs are equipped with."""
    with site.client() as client:
        assert client.put("/policies/platform/platform", json=QUOTA).is_success
        assert client.put("/projects/default/secrets/WORD", json={"value": "secret"}).is_success


def count_lines(site: Site, noted: Noted) -> dict[Point, int]:
    """How often a server comes to each line that finds runs of one which was killed, while others come and go."""
    file = site.data / "lines.json"
    with calling(site, noted, KINDS, callers=CALLERS, least=3 * len(KINDS)):
        until(lambda: len(noted.kinds) > len(KINDS))
        site.server.stop(signal.SIGKILL)
        server = site.up(**{crash_points.KEEP_COUNT: str(file)})
    assert server.stop().code == 0
    return crash_points.read_counts(file)


def choose(points: list[Point]) -> list[Point]:
    """All of them, or some that are spread evenly."""
    return points if ALL else [points[len(points) * number // SOME] for number in range(SOME)]


def live_until(site: Site, point: Point, times: int, seconds: float) -> bool:
    """Start a server that crashes at the nth execution of a line. Return whether it did, also during shutdown."""
    process, last = site.start(**point.at(times)), time.monotonic() + seconds
    until(lambda: process.poll() is not None or time.monotonic() > last, 2 * seconds)
    if process.poll() is None:
        process.send(signal.SIGTERM)
        process.wait()
    assert process.poll() in (0, -signal.SIGKILL), process.output
    return process.poll() != 0
