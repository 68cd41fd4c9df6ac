"""A crowd submits, stops and reads at once: everybody is answered, nothing is lost, and the server keeps its size."""

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from tests.faults.callers import FINAL, Caller, Noted
from tests.faults.checking import Footprint, check_all, check_footprint
from tests.faults.sites import Site, open_site
from tests.processes.machines import Machine

ALL = os.environ.get("FAULTS") == "all"
CLIENTS, SECONDS = (100, 120.0) if ALL else (20, 10.0)
WARM = 0.3  # of that time: until then, what a server keeps for later is still being filled
KINDS = ["fine", "stopped at once", "fine", "stopped", "failing", "fine", "deleted"]
PATHS = ("/runs", "/runs/{}", "/runs/{}/logs", "/runs/{}/events", "/runs/{}/why", "/nodes", "/me", "/capacity")


def test_server_answers_many_clients_and_releases_its_resources(machine: Machine) -> None:
    noted = Noted()
    with open_site(machine) as site:
        gather(site, noted, SECONDS * WARM)
        before = Footprint.of(site.server.process.pid)
        gather(site, noted, SECONDS)
        assert noted.refused == []
        assert len(noted.kinds) > CLIENTS
        check_all(site, noted)
        check_footprint(before, Footprint.of(site.server.process.pid))


def gather(site: Site, noted: Noted, seconds: float) -> None:
    """Let everybody come, for some seconds."""
    last = time.monotonic() + seconds
    with ThreadPoolExecutor(CLIENTS) as threads:
        for each in [threads.submit(visit, site, noted, number, last) for number in range(CLIENTS)]:
            each.result()


def visit(site: Site, noted: Noted, number: int, last: float) -> None:
    """One of them: submits runs, looks at them and around, and sees them through."""
    chance, gives_up = random.Random(number), last + 300
    with Caller(site, noted, lambda: time.monotonic() > gives_up) as caller:
        for turn in count(number):
            if time.monotonic() > last:
                return
            run_id = caller.submit(KINDS[turn % len(KINDS)])
            while chance.random() < 0.8:
                path = chance.choice(PATHS).format(run_id)
                answer = caller.ask("GET", path)
                assert answer.status_code == 200, answer.text
            caller.see_through(run_id)
            if run_id not in noted.deleted:
                caller.wait(run_id, *FINAL)
