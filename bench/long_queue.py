"""Measures a server with 100,000 waiting runs of one project, with SQLite and PostgreSQL.

One project has a run that occupies all cores but one half, and 100,000 waiting runs with 20 different requests. The
benchmark submits the first 5,000 of them; the database copies the others. Then it measures submissions, the start of a
run of another project, the server's memory, and the CPU time of the server while nothing happens.
"""

import argparse
import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

import sqlalchemy as sa

from bench.http_load import fetch, write_request
from bench.seed_database import CHUNK, row_of
from bench.sites import Site, running_sites
from fairlead.adapters.database.stores import DatabaseStore
from fairlead.adapters.database.tables import plans, runs
from fairlead.model.columns import Condition
from fairlead.model.records import RunRecord
from fairlead.scheduling.queue_order import WAITING, queue_key

WAITING_RUNS, SUBMITTED = 100_000, 5000
REQUESTS = 20  # different requests
LAST = 300  # submissions that are measured once the queue is full
STARTS = 5
IDLE_SECONDS = 20.0
START_GOAL, SUBMIT_GOAL, MEMORY_GOAL, CPU_GOAL = 1.0, 0.1, 400 << 20, 0.05
PROGRAM = {"name": "wait", "command": ["sleep", "3600"]}
SHORT = {"name": "noop", "command": ["true"]}


@dataclass
class Figures:
    """What was measured on one database."""

    submit: list[float]
    start: list[float]
    memory: int
    cpu: float


class Client:
    """Sends requests to a site."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request and return the response."""
        data = b"" if body is None else json.dumps(body).encode()
        response = fetch(self.site.port, write_request(method, f"/api/v1{path}", self.site.token, data))
        return json.loads(response) if response else None

    def submit(self, project: str, function: dict[str, Any], **resources: Any) -> str:
        """Submit a run and return its ID."""
        run: str = self.send("POST", f"/projects/{project}/runs", {"function": function, "resources": resources})["id"]
        return run

    def wait_for(self, run_id: str, *states: str) -> None:
        """Wait until a run has one of these states."""
        while self.send("GET", f"/runs/{run_id}")["state"] not in states:
            time.sleep(0.005)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=WAITING_RUNS, help="the number of waiting runs")
    options = parser.parse_args()
    started = time.perf_counter()
    with running_sites((options.runs,), lambda _sizes: None) as sites:
        figures = {site.database: _measure(site, min(SUBMITTED, options.runs)) for site in sites}
    print(f"\n{options.runs:,} waiting runs{'':10}" + "".join(f"{database:>14}" for database in figures))
    rows = [
        ("submit, median", "ms", [median(each.submit) * 1000 for each in figures.values()], None),
        ("submit, 95 %", "ms", [_percentile(each.submit) * 1000 for each in figures.values()], SUBMIT_GOAL * 1000),
        ("start of another project", "ms", [max(each.start) * 1000 for each in figures.values()], START_GOAL * 1000),
        ("memory", "MiB", [each.memory / 2**20 for each in figures.values()], MEMORY_GOAL / 2**20),
        ("CPU of the idle server", "%", [each.cpu * 100 for each in figures.values()], CPU_GOAL * 100),
    ]
    for name, unit, values, goal in rows:
        met = "" if goal is None else f"  goal: under {goal:g} {unit}: {'met' if max(values) < goal else 'MISSED'}"
        print(f"{name:28}{''.join(f'{value:>10.1f} {unit:<3}' for value in values)}{met}")
    print(f"{time.perf_counter() - started:.0f} s in total")


def _percentile(latencies: list[float]) -> float:
    return sorted(latencies)[int(len(latencies) * 0.95)]


def _measure(site: Site, submitted: int) -> Figures:
    client = Client(site)
    for project in ("many", "few"):
        client.send("POST", "/projects", {"name": project, "parent": "cluster/local"})
    cores = os.process_cpu_count() if hasattr(os, "process_cpu_count") else len(os.sched_getaffinity(0))
    blocker = client.submit("many", PROGRAM, cpu=cores - 0.5, mem="64Mi")
    client.wait_for(blocker, "running")
    for number in range(submitted):
        client.submit("many", PROGRAM, cpu=1, mem=f"{64 + number % REQUESTS}Mi")
    with _timed(f"{site.database}: copying {site.rows - submitted:,} runs"):
        _copy_waiting_runs(site, site.rows - submitted)
    submit = []
    for number in range(LAST):
        before = time.perf_counter()
        client.submit("many", PROGRAM, cpu=1, mem=f"{64 + number % REQUESTS}Mi")
        submit.append(time.perf_counter() - before)
    start = []
    for _ in range(STARTS):
        before = time.perf_counter()
        run = client.submit("few", SHORT, cpu="250m", mem="64Mi")
        client.wait_for(run, "running", "completed")
        start.append(time.perf_counter() - before)
        client.wait_for(run, "completed")
    before, cpu = time.perf_counter(), site.cpu_seconds()[0]
    time.sleep(IDLE_SECONDS)
    idle = (site.cpu_seconds()[0] - cpu) / (time.perf_counter() - before)
    figures = Figures(submit, start, site.memory(), idle)
    client.send("POST", f"/runs/{blocker}/stop")
    site.down()
    return figures


@contextlib.contextmanager
def _timed(label: str) -> Iterator[None]:
    before = time.perf_counter()
    yield
    print(f"{label}: {time.perf_counter() - before:.0f} s", flush=True)


def _copy_waiting_runs(site: Site, number: int) -> None:
    """Insert copies of the waiting runs with new IDs, as if they had been submitted now."""
    with contextlib.closing(DatabaseStore(site.url)) as store:
        with store.reading() as tx:
            models = tx.find(RunRecord, *WAITING, Condition("scope", "=", "project/many"), limit=REQUESTS)
        for start in range(0, number, CHUNK):
            now = datetime.now(UTC)
            rows, copied = [], []
            for at in range(start, min(start + CHUNK, number)):
                model, run_id = models[at % len(models)], uuid.UUID(int=(int(now.timestamp() * 1000) << 80) + at).hex
                stamps = {"id": run_id, "created_at": now, "updated_at": now, "queue_key": queue_key(now, run_id, 0)}
                rows.append(row_of(model) | stamps)
                copied.append({"new": run_id, "old": model.id})
            copy = sa.insert(plans).from_select(
                ["id", "request", "plan", "demand"],
                sa.select(sa.bindparam("new"), plans.c.request, plans.c.plan, plans.c.demand).where(
                    plans.c.id == sa.bindparam("old")
                ),
            )
            with store.engine.begin() as connection:
                connection.execute(sa.insert(runs), rows)
                for each in copied:
                    connection.execute(copy, each)


if __name__ == "__main__":
    main()
