"""Many concurrent clients: all requests get a response, nothing is lost, and the server's usage does not grow."""

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from tests.faults.callers import FINAL, RequestRecord, RetryingClient
from tests.faults.checking import Footprint, check_all, check_footprint
from tests.faults.sites import Site, open_site
from tests.processes.machines import Machine

ALL = os.environ.get("FAULTS") == "all"
CLIENTS, SECONDS = (100, 120.0) if ALL else (20, 10.0)
WARMUP_SHARE = 0.3  # part of that time, until the server's caches are filled
KINDS = ["succeeding", "stopped at once", "succeeding", "stopped", "failing", "succeeding", "deleted"]
PATHS = ("/runs", "/runs/{}", "/runs/{}/logs", "/runs/{}/events", "/runs/{}/why", "/nodes", "/me", "/capacity")


def test_server_answers_many_clients_and_releases_its_resources(machine: Machine) -> None:
    record = RequestRecord()
    with open_site(machine) as site:
        run_clients(site, record, SECONDS * WARMUP_SHARE)
        before = Footprint.of(site.server.process.pid)
        run_clients(site, record, SECONDS)
        assert record.rejections == []
        assert len(record.kinds) > CLIENTS
        check_all(site, record)
        check_footprint(before, Footprint.of(site.server.process.pid))


def run_clients(site: Site, record: RequestRecord, seconds: float) -> None:
    """Run all clients concurrently for some seconds."""
    deadline = time.monotonic() + seconds
    with ThreadPoolExecutor(CLIENTS) as threads:
        for future in [threads.submit(run_client, site, record, number, deadline) for number in range(CLIENTS)]:
            future.result()


def run_client(site: Site, record: RequestRecord, number: int, deadline: float) -> None:
    """Submit runs, send random read requests, and wait until the runs end."""
    rng, request_deadline = random.Random(number), deadline + 300
    with RetryingClient(site, record, lambda: time.monotonic() > request_deadline) as client:
        for index in count(number):
            if time.monotonic() > deadline:
                return
            run_id = client.submit(KINDS[index % len(KINDS)])
            while rng.random() < 0.8:
                path = rng.choice(PATHS).format(run_id)
                response = client.request("GET", path)
                assert response.status_code == 200, response.text
            client.apply_kind(run_id)
            if run_id not in record.deleted:
                client.wait(run_id, *FINAL)
