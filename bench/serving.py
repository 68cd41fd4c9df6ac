"""Measures the HTTP API with SQLite and PostgreSQL, in a run of a few minutes.

Two servers for each table size run at the same time, and all cases take turns: other processes on the machine disturb
all cases alike, so compare figures only within a run. Each figure is from the least disturbed round, with eight
connections that each have one request in flight, or with one (`alone`); only the 99th percentile is over all rounds.

`per CPU second` uses the CPU time of the server's process, which Linux reports in steps of 10 ms. The column next to it
is the time of PostgreSQL's processes per response; SQLite runs in the server's process. Servers are started with
`fairlead up`, with compiled bytecode even if PYTHONDONTWRITEBYTECODE is set. Both databases write a commit to disk
before they acknowledge it, and contain compute resources in 200 projects.
"""

import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bench.http_load import MakeRequest, fetch, send_load, write_request
from bench.load_results import CaseResult, LoadRound
from bench.seed_database import COMMON, PREVIEW_PROJECT, PROFILE, RARE, VIEWER
from bench.sites import Site, running_sites
from fairlead.adapters.database.migrating import migrate
from fairlead.adapters.database.stores import DatabaseStore
from fairlead.model.records import SettingsRecord

SMALL, MIDDLE, LARGE = SIZES = (1_000, 10_000, 100_000)
ROUNDS = 3
BURST_SECONDS, ALONE_SECONDS = 0.25, 0.1
CONNECTIONS = 8
DEEPEST = 20_000
COMMITS = 200
API = "/api/v1"
LIST = f"{API}/compute-resources"
GOAL_LIST_SECONDS = 0.010
GOAL_PREVIEWS = 500
GOAL_START_SECONDS = 3.0
REQUEST = {
    "function": {"name": "train", "kind": "python", "source": "train.py", "handler": "main"},
    "profile": PROFILE,
    "resources": {"cpu": {"requests": 8, "limits": 12}, "mem": {"requests": "32Gi", "limits": "48Gi"}, "shm": "8Gi"},
    "envs": [{"name": "HF_HOME", "value": "/data/huggingface"}, {"name": "MODE", "value": "train"}],
    "volumes": [{"volume_type": "empty_dir", "name": "data", "mount_path": "/data", "spec": {"size": "20Gi"}}],
    "inputs": {"epochs": 3, "rate": 0.001},
    "deadline": "12h",
}
COMPUTE_RESOURCE = {
    "scope": "project/default",
    "description": "created by the benchmark",
    "requirements": {"resources": {"cpu": 4, "mem": {"requests": "16Gi", "limits": "32Gi"}, "gpu": {"devices": 1}}},
}


@dataclass(frozen=True)
class Case:
    """A request that is sent repeatedly."""

    name: str
    prepare: Callable[[Site], MakeRequest]
    sizes: tuple[int, ...] = SIZES
    is_list: bool = False


Results = dict[tuple[str, int, str], CaseResult]  # by case, size and database


def main() -> None:
    """Measure and print."""
    started = time.perf_counter()
    with running_sites(SIZES) as sites:
        results = _measure(sites)
        _print_starts(sites)
    _print_results(results)
    _print_ratios(results)
    _print_durability()
    _print_goals(results, sites)
    print(f"\n{time.perf_counter() - started:.0f} s in total")


def _cases() -> list[Case]:
    listed = {
        "list": "",
        "list by memory": "sort=mem_request",
        "page 2": "cursor",
        "page in the middle": "deep",
        "filter, half of all": f"gpu_devices={COMMON}",
        "filter, 1 in 1,000": f"gpu_devices={RARE}",
        "filter and by memory": f"gpu_devices={RARE}&sort=mem_request",
        "search, found often": "search=kind",
        "search, found nowhere": "search=nowhere",
        "list with total": "total=true",
    }
    return [
        Case("create", _creates, (SMALL, LARGE)),
        Case("preview", _previews, (SMALL, LARGE)),
        Case("read one", lambda site: _reads(site, f"{LIST}/{PROFILE}"), (SMALL, LARGE)),
        *(Case(name, _lists(query), is_list=True) for name, query in listed.items()),
        Case("list, viewer of few", lambda site: _reads(site, LIST, VIEWER), is_list=True),
        Case("by memory, viewer of few", lambda site: _reads(site, f"{LIST}?sort=mem_request", VIEWER), is_list=True),
    ]


def _creates(site: Site) -> MakeRequest:
    numbers, token = itertools.count(), site.token

    def make_request() -> bytes:
        body = json.dumps({**COMPUTE_RESOURCE, "name": f"made-{next(numbers)}"}).encode()
        return write_request("POST", LIST, token, body)

    return make_request


def _previews(site: Site) -> MakeRequest:
    body = json.dumps(REQUEST).encode()
    request = write_request("POST", f"{API}/projects/{PREVIEW_PROJECT}/runs/preview", site.token, body)
    plan = json.loads(fetch(site.port, request))
    assert plan["manifests"], plan["violations"]
    return lambda: request


def _reads(site: Site, path: str, token: str | None = None) -> MakeRequest:
    request = write_request("GET", path, token or site.token)
    return lambda: request


def _lists(query: str) -> Callable[[Site], MakeRequest]:
    if query in ("cursor", "deep"):
        return lambda site: _reads(site, f"{LIST}?cursor={_cursor(site, site.rows // 2 if query == 'deep' else 50)}")
    return lambda site: _reads(site, f"{LIST}?{query}" if query else LIST)


def _cursor(site: Site, depth: int) -> str:
    """Return the cursor after a number of rows, up to `DEEPEST`."""
    cursor, remaining = "", min(depth, DEEPEST)
    while remaining > 0:
        path = f"{LIST}?limit={min(remaining, 500)}" + (f"&cursor={cursor}" if cursor else "")
        cursor = json.loads(fetch(site.port, write_request("GET", path, site.token)))["next_cursor"]
        remaining -= 500
    return cursor


def _measure(sites: list[Site]) -> Results:
    requests = {
        (case.name, site.rows, site.database): (site, case.prepare(site))
        for case in _cases()
        for site in sites
        if site.rows in case.sizes
    }
    results = {key: CaseResult() for key in requests}
    for _ in range(ROUNDS):
        for key, (site, make_request) in requests.items():
            before = site.cpu_seconds()
            together = send_load(site.port, make_request, connections=CONNECTIONS, seconds=BURST_SECONDS)
            alone = send_load(site.port, make_request, connections=1, seconds=ALONE_SECONDS)
            server, database = (after - spent for after, spent in zip(site.cpu_seconds(), before, strict=True))
            results[key].rounds.append(LoadRound(together, alone, server, database))
    return results


def _print_starts(sites: list[Site]) -> None:
    print(f"{'':28}{'start, empty':>16}{'start, existing':>18}{'memory, MiB':>16}")
    print(f"{'':28}{'s':>8}{'CPU s':>8}{'s':>10}{'CPU s':>8}{'idle':>8}{'after':>8}")
    for site in sites:
        empty, existing = site.starts["empty"], site.starts["existing"]
        seconds = (
            f"{empty.wall_seconds:8.2f}{empty.cpu_seconds:8.2f}{existing.wall_seconds:10.2f}{existing.cpu_seconds:8.2f}"
        )
        print(f"{site.database:19}{site.rows:>9,}{seconds}{site.idle / 2**20:8.0f}{site.memory() / 2**20:8.0f}")


def _print_results(results: Results) -> None:
    print(f"\n{'':47}{'per':>8}{'per CPU':>9}{'ms of':>9}{'alone':>8}{CONNECTIONS:>8} at once, ms")
    print(f"{'':47}{'second':>8}{'second':>9}{'database':>9}{'ms':>8}{'median':>9}{'99%':>8}")
    for (name, rows, database), result in results.items():
        rates = f"{result.per_second:8,.0f}{result.per_cpu_second:9,.0f}{result.database_milliseconds:9.2f}"
        times = (result.alone_seconds, result.median_seconds, result.slow_seconds)
        text = "{:8.2f}{:9.2f}{:8.1f}".format(*(seconds * 1000 for seconds in times))
        print(f"{name:26}{rows:>9,} {database:11}{rates}{text}")


def _print_ratios(results: Results) -> None:
    print(f"\n{'ratios of milliseconds alone':28}{'PostgreSQL : SQLite':>22}{'100,000 : 1,000 rows':>30}")
    print(f"{'':28}{'1,000':>11}{'100,000':>11}{'SQLite':>19}{'PostgreSQL':>11}")
    for name in dict.fromkeys(name for name, _, _ in results):
        seconds = {(rows, kind): result.alone_seconds for (case, rows, kind), result in results.items() if case == name}
        by_database = [seconds[rows, "PostgreSQL"] / seconds[rows, "SQLite"] for rows in (SMALL, LARGE)]
        growth = [seconds[LARGE, kind] / seconds[SMALL, kind] for kind in ("SQLite", "PostgreSQL")]
        print(f"  {name:26}{by_database[0]:11.2f}{by_database[1]:11.2f}{growth[0]:19.2f}{growth[1]:11.2f}")


def _print_durability() -> None:
    """Print the cost of durable commits in SQLite, compared with commits that reach the disk later."""
    durations: dict[str, list[float]] = {"FULL": [], "NORMAL": []}
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder, ExitStack() as stack:
        stores = {mode: stack.enter_context(_store(Path(folder), mode)) for mode in durations}
        for number in range(COMMITS):
            for mode, store in stores.items():
                started = time.perf_counter()
                with store.changing("assets") as tx:
                    tx.add(_entry(number))
                durations[mode].append(time.perf_counter() - started)
    full_ms, normal_ms = (statistics.median(durations[mode]) * 1000 for mode in ("FULL", "NORMAL"))
    times = f"{full_ms:.2f} ms with synchronous=FULL, {normal_ms:.2f} ms with NORMAL"
    print(f"\nSQLite, one commit: {times}: {full_ms - normal_ms:.2f} ms more, x {full_ms / normal_ms:.1f}")


@contextmanager
def _store(folder: Path, synchronous: str) -> Iterator[DatabaseStore]:
    store = DatabaseStore(f"sqlite:///{folder / synchronous}.db")

    @sa.event.listens_for(store.engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA synchronous={synchronous}")

    migrate(store.engine)
    yield store
    store.close()


def _entry(number: int) -> SettingsRecord:
    at = datetime.now(UTC)
    return SettingsRecord(id=f"{number}", created_by="bench", created_at=at, updated_by="bench", updated_at=at)


def _print_goals(results: Results, sites: list[Site]) -> None:
    lists = {case.name for case in _cases() if case.is_list}
    print(f"\ngoal: a page of {LARGE:,} rows in under {GOAL_LIST_SECONDS * 1000:.0f} ms, with one connection")
    for (name, rows, database), result in results.items():
        if name in lists and rows == LARGE:
            alone = result.alone_seconds
            _print_goal(f"{name}, {database}", alone * 1000, "ms", alone < GOAL_LIST_SECONDS)
    print(f"goal: {GOAL_PREVIEWS} previews per CPU second of the server")
    for (name, rows, database), result in results.items():
        if name == "preview":
            met = result.per_cpu_second >= GOAL_PREVIEWS
            _print_goal(f"{database}, {rows:,} rows", result.per_cpu_second, "per second", met)
    print(f"goal: a start in under {GOAL_START_SECONDS:.0f} s, fastest start")
    for kind, database in itertools.product(("empty", "existing"), ("SQLite", "PostgreSQL")):
        fastest = min(site.starts[kind].wall_seconds for site in sites if site.database == database)
        _print_goal(f"{database}, {kind} database", fastest, "s", fastest < GOAL_START_SECONDS)


def _print_goal(name: str, value: float, unit: str, met: bool) -> None:
    print(f"  {name:40}{value:10,.2f} {unit:12} {'met' if met else 'MISSED'}")


if __name__ == "__main__":
    main()
