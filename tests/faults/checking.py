"""Invariants after any fault: nothing is lost, repeated, stuck or left behind, and no unexpected errors are logged."""

import contextlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.callers import FINAL, RequestRecord, RetryingClient
from tests.faults.sites import Site
from tests.processes.execution import until

TIMEOUT = 120.0
# The outcome of each kind of run: the state, the reason, and the attempts that must have executed.
OUTCOMES = {
    "succeeding": ("completed", "Completed", {"1"}),
    "slow": ("completed", "Completed", {"1"}),
    "large": ("completed", "Completed", {"1"}),
    "with secret": ("completed", "Completed", {"1"}),
    "failing": ("failed", "ExitCode", {"1"}),
    "stopped": ("stopped", "Stopped", set[str]()),
    "stopped at once": ("stopped", "Stopped", set[str]()),
    "deleted": (None, None, {"1"}),
    "supervisor killed": ("failed", "SupervisorLost", set[str]()),
    "retried": ("completed", "Completed", {"2"}),
    "long deadline": ("completed", "Completed", {"1"}),
    "short deadline": ("failed", "DeadlineExceeded", set[str]()),
    "logging": ("completed", "Completed", {"1"}),
    "writing": ("failed", "ExitCode", {"1"}),
}
RESTART = ("starting", "pending")
ORDER = ("queued", "pending", "starting", "running", "stopping", *FINAL)
MAX_GROWTH = 40 << 20  # bytes; allocators hold on to freed memory, but usage must not grow over time
MAX_MORE_FILES = 16  # the number of open client and database connections varies


def check_all(site: Site, record: RequestRecord) -> None:
    """Wait until all runs have ended, then check all invariants."""
    with RetryingClient(site, record, timed_out=_timeout(TIMEOUT)) as client:
        ended_runs = {run_id: _wait_for_end(client, run_id) for run_id in record.kinds if run_id not in record.deleted}
        check_acknowledged(client, record)
        _check_outcomes(site, record, ended_runs)
        _check_histories(client, record)
    check_nothing_left(site, record)
    check_log(site)


def check_acknowledged(client: RetryingClient, record: RequestRecord) -> None:
    """Acknowledged runs exist, deleted runs do not, and neither do any others."""
    listed, expected = {run["id"] for run in _list_runs(client)}, set(record.kinds) - record.deleted
    assert listed == expected, (listed - expected, expected - listed)


def check_nothing_left(site: Site, record: RequestRecord) -> None:
    """No process, folder, mount or cgroup of an ended run is left."""
    until(lambda: not find_processes(site.data), 30)
    expected = set(record.kinds) - record.deleted
    until(lambda: {folder.name.partition("-")[0] for folder in (site.data / "runs").iterdir()} <= expected, 30)
    mounts = [line for line in _read("/proc/self/mountinfo").splitlines() if f"{site.data}/" in line]
    assert not mounts, mounts
    cgroups = _find_cgroups(set(record.kinds))
    assert not cgroups, cgroups
    until(lambda: not list(_list_zombies(site.server.process.pid)), 30)


def check_log(site: Site) -> None:
    """No server logged an unexpected error."""
    for file in sorted(site.machine.folder.glob("*.err")):
        errors = [line for line in file.read_text("utf-8").splitlines() if "Traceback" in line or '"exception"' in line]
        assert not errors, (file, errors[:3])


@dataclass(frozen=True)
class Footprint:
    """The resource usage of a server: resident memory, open files, threads."""

    memory: int
    files: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> "Footprint":
        """Measure a process. The minimum of several samples excludes the memory of in-flight requests."""
        samples = []
        for _ in range(5):
            status = dict(line.split(":", 1) for line in _read(f"/proc/{pid}/status").splitlines())
            samples.append((int(status["VmRSS"].split()[0]) * 1024, len(os.listdir(f"/proc/{pid}/fd")), status))
            time.sleep(0.1)
        threads = min(int(status["Threads"]) for _, _, status in samples)
        return cls(min(memory for memory, _, _ in samples), min(files for _, files, _ in samples), threads)


def check_footprint(before: Footprint, after: Footprint) -> None:
    """Check that the resource usage of a server has not grown."""
    assert after.memory - before.memory < MAX_GROWTH, (before, after)
    assert after.files - before.files <= MAX_MORE_FILES, (before, after)
    assert after.threads - before.threads <= MAX_MORE_FILES, (before, after)


def find_processes(data: Path) -> list[tuple[int, str]]:
    """The PID and command of each process that uses a data folder, found by its command line or environment."""
    processes, runs = [], f"{data}/runs/".encode()
    names = [folder.name.partition("-")[0] for folder in (data / "runs").iterdir()]
    ids = {f"FAIRLEAD_RUN={name}".encode() for name in names}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            command = Path("/proc", name, "cmdline").read_bytes()
            marked = not ids.isdisjoint(Path("/proc", name, "environ").read_bytes().split(b"\0"))
            if marked or runs in command:
                processes.append((int(name), command.decode("utf-8", "replace").replace("\0", " ")))
    return processes


def _wait_for_end(client: RetryingClient, run_id: str) -> dict[str, Any]:
    client.wait(run_id, *FINAL)
    return client.get(run_id)


def _list_runs(client: RetryingClient) -> Iterator[dict[str, Any]]:
    cursor: dict[str, str] = {}
    while True:
        page = client.request("GET", "/runs", params={"limit": 200, **cursor}).json()
        yield from page["items"]
        if page["next_cursor"] is None:
            return
        cursor = {"cursor": page["next_cursor"]}


def _check_outcomes(site: Site, record: RequestRecord, ended_runs: dict[str, dict[str, Any]]) -> None:
    """Each run has the outcome expected for its kind, and no attempt ran twice."""
    unexpected = {
        run_id: (record.kinds[run_id], run)
        for run_id, run in ended_runs.items()
        if (run["state"], run["reason"]) != OUTCOMES[record.kinds[run_id]][:2]
    }
    assert not unexpected, unexpected
    executions = Counter(site.executions.read_text().split())
    repeated = [(line, record.kinds.get(line.partition(":")[0])) for line, count in executions.items() if count > 1]
    assert not repeated, repeated
    attempts: dict[str, set[str]] = {run_id: set() for run_id in record.kinds}
    for line in executions:
        run_id, _, number = line.partition(":")
        attempts[run_id].add(number)
    missing = {run_id: kind for run_id, kind in record.kinds.items() if not OUTCOMES[kind][2] <= attempts[run_id]}
    assert not missing, missing


def _check_histories(client: RetryingClient, record: RequestRecord) -> None:
    """Each run started and ended once, and all of its subresources can be read."""
    for run_id in set(record.kinds) - record.deleted:
        events = client.request("GET", f"/runs/{run_id}/events").json()
        steps = [(event["state"], event["reason"]) for event in events]
        states = [state for state, _ in steps]
        # A run returns to pending if its supervisor cannot start, for example because the disk is full.
        pairs = itertools.zip_longest(states, states[1:])
        without_restarts = [state for state, following in pairs if (state, following) != RESTART]
        assert record.kinds[run_id] == "retried" or without_restarts == sorted(without_restarts, key=ORDER.index), (
            run_id,
            steps,
        )
        assert (states[0], [state in FINAL for state in states].index(True)) == ("queued", len(states) - 1), states
        assert all(before != after for before, after in itertools.pairwise(steps)), (run_id, steps)
        for part in ("logs", "usage", "files", "result"):
            response = client.request("GET", f"/runs/{run_id}/{part}")
            assert response.status_code == 200, response.text


def _find_cgroups(run_ids: set[str]) -> list[str]:
    """The cgroups whose path contains a run ID."""
    cgroups = [path for path, _, _ in os.walk("/sys/fs/cgroup")]
    return [path for path in cgroups if any(run_id in path for run_id in run_ids)]


def _list_zombies(parent: int) -> Iterator[int]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, parent_pid = _read(f"/proc/{name}/stat").rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent_pid) == parent:
                yield int(name)


def _read(file: str) -> str:
    return Path(file).read_text("utf-8")


def _timeout(seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    return lambda: time.monotonic() > deadline
