"""Invariants after any fault: nothing is lost, done twice, stuck or left over, and no unexpected errors are logged."""

import contextlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.callers import FINAL, Caller, Noted
from tests.faults.sites import Site
from tests.processes.execution import until

TIMEOUT = 120.0
# How runs of a kind end: the state, the reason, and the tries that have noted that they ran; others may have.
ENDS = {
    "fine": ("completed", "Completed", {"1"}),
    "slow": ("completed", "Completed", {"1"}),
    "large": ("completed", "Completed", {"1"}),
    "equipped": ("completed", "Completed", {"1"}),
    "failing": ("failed", "ExitCode", {"1"}),
    "stopped": ("stopped", "Stopped", set[str]()),
    "stopped at once": ("stopped", "Stopped", set[str]()),
    "deleted": (None, None, {"1"}),
    "bereft": ("failed", "SupervisorLost", set[str]()),
    "tried again": ("completed", "Completed", {"2"}),
    "unhurried": ("completed", "Completed", {"1"}),
    "late": ("failed", "DeadlineExceeded", set[str]()),
    "logging": ("completed", "Completed", {"1"}),
    "writing": ("failed", "ExitCode", {"1"}),
}
RESTART = ("starting", "pending")
ORDER = ("queued", "pending", "starting", "running", "stopping", *FINAL)
MOST_GROWN = 40 << 20  # bytes of memory: what allocators keep of what was there at once, and no more with time
MORE_FILES = 16  # connections of clients and databases that may be open at one look and not at another


def check_all(site: Site, noted: Noted) -> None:
    """Wait until all runs have ended, then check all invariants."""
    with Caller(site, noted, gives_up=_after(TIMEOUT)) as caller:
        ended = {run_id: _end(caller, run_id) for run_id in noted.kinds if run_id not in noted.deleted}
        check_acknowledged(caller, noted)
        _check_ends(site, noted, ended)
        _check_histories(caller, noted)
    check_nothing_left(site, noted)
    check_log(site)


def check_acknowledged(caller: Caller, noted: Noted) -> None:
    """Acknowledged runs exist, deleted runs do not, and no others exist."""
    listed, wanted = {run["id"] for run in _list_runs(caller)}, set(noted.kinds) - noted.deleted
    assert listed == wanted, (listed - wanted, wanted - listed)


def check_nothing_left(site: Site, noted: Noted) -> None:
    """No process, folder, mount or group of processes is there without a run that goes on."""
    until(lambda: not find_processes(site.data), 30)
    expected = set(noted.kinds) - noted.deleted
    until(lambda: {folder.name.partition("-")[0] for folder in (site.data / "runs").iterdir()} <= expected, 30)
    mounts = [line for line in _read("/proc/self/mountinfo").splitlines() if f"{site.data}/" in line]
    assert not mounts, mounts
    groups = _find_groups(set(noted.kinds))
    assert not groups, groups
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
        """As it is now. The least of several looks: a moment's answers are not what a server keeps."""
        looks = []
        for _ in range(5):
            status = dict(line.split(":", 1) for line in _read(f"/proc/{pid}/status").splitlines())
            looks.append((int(status["VmRSS"].split()[0]) * 1024, len(os.listdir(f"/proc/{pid}/fd")), status))
            time.sleep(0.1)
        threads = min(int(status["Threads"]) for _, _, status in looks)
        return cls(min(memory for memory, _, _ in looks), min(files for _, files, _ in looks), threads)


def check_footprint(before: Footprint, after: Footprint) -> None:
    """A server takes about as much as it took when it had done the same for a while."""
    assert after.memory - before.memory < MOST_GROWN, (before, after)
    assert after.files - before.files <= MORE_FILES, (before, after)
    assert after.threads - before.threads <= MORE_FILES, (before, after)


def find_processes(data: Path) -> list[tuple[int, str]]:
    """Supervisors and runs of a data folder, known by their command line or by what their environment says."""
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


def _end(caller: Caller, run_id: str) -> dict[str, Any]:
    caller.wait(run_id, *FINAL)
    return caller.get(run_id)


def _list_runs(caller: Caller) -> Iterator[dict[str, Any]]:
    cursor: dict[str, str] = {}
    while True:
        page = caller.ask("GET", "/runs", params={"limit": 200, **cursor}).json()
        yield from page["items"]
        if page["next_cursor"] is None:
            return
        cursor = {"cursor": page["next_cursor"]}


def _check_ends(site: Site, noted: Noted, ended: dict[str, dict[str, Any]]) -> None:
    """Each run has the outcome of its kind, and no attempt ran twice."""
    strange = {
        run_id: (noted.kinds[run_id], run)
        for run_id, run in ended.items()
        if (run["state"], run["reason"]) != ENDS[noted.kinds[run_id]][:2]
    }
    assert not strange, strange
    ran = Counter(site.ran.read_text().split())
    twice = [(line, noted.kinds.get(line.partition(":")[0])) for line, times in ran.items() if times > 1]
    assert not twice, twice
    tries: dict[str, set[str]] = {run_id: set() for run_id in noted.kinds}
    for line in ran:
        run_id, _, number = line.partition(":")
        tries[run_id].add(number)
    missing = {run_id: kind for run_id, kind in noted.kinds.items() if not ENDS[kind][2] <= tries[run_id]}
    assert not missing, missing


def _check_histories(caller: Caller, noted: Noted) -> None:
    """Each run started and ended once, and all of its subresources can be read."""
    for run_id in set(noted.kinds) - noted.deleted:
        events = caller.ask("GET", f"/runs/{run_id}/events").json()
        steps = [(event["state"], event["reason"]) for event in events]
        states = [state for state, _ in steps]
        # A supervisor that cannot start yet, for example because the disk is full, is started again: back to pending.
        pairs = itertools.zip_longest(states, states[1:])
        lasting = [state for state, following in pairs if (state, following) != RESTART]
        assert noted.kinds[run_id] == "tried again" or lasting == sorted(lasting, key=ORDER.index), (run_id, steps)
        assert (states[0], [state in FINAL for state in states].index(True)) == ("queued", len(states) - 1), states
        assert all(before != after for before, after in itertools.pairwise(steps)), (run_id, steps)
        for part in ("logs", "usage", "files", "result"):
            answer = caller.ask("GET", f"/runs/{run_id}/{part}")
            assert answer.status_code == 200, answer.text


def _find_groups(run_ids: set[str]) -> list[str]:
    """Control groups that are named after a run."""
    groups = [path for path, _, _ in os.walk("/sys/fs/cgroup")]
    return [path for path in groups if any(run_id in path for run_id in run_ids)]


def _list_zombies(parent: int) -> Iterator[int]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, above = _read(f"/proc/{name}/stat").rpartition(")")[2].split()[:2]
            if state == "Z" and int(above) == parent:
                yield int(name)


def _read(file: str) -> str:
    return Path(file).read_text("utf-8")


def _after(seconds: float) -> Any:
    last = time.monotonic() + seconds
    return lambda: time.monotonic() > last
