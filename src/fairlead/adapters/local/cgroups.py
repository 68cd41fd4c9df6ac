"""Control groups (cgroups): finds where the server may create them, and uses them to limit, measure and kill runs.

Standard library only. A run has one group in the v2 hierarchy, or one in the hierarchy of each v1 controller. Both may
be mixed: v2 is preferred for each controller that it has.
"""

import contextlib
import errno
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.adapters.local.specs import Spec

ROOT, MEMBERSHIP = "/sys/fs/cgroup", "/proc/self/cgroup"
V2_CONTROLLERS = ("memory", "cpu", "pids", "cpuset")
V1_CONTROLLERS = (*V2_CONTROLLERS, "cpuacct")  # v2 measures CPU time without a controller
SERVER_LEAF = "fairlead-server"

PERIOD_MICROSECONDS = 100_000
NANOS = 10**9
SOCKET_LIMIT = "memory.kmem.tcp.limit_in_bytes"
SWAP_LIMITS = ("memory.swap.max", "memory.memsw.limit_in_bytes")

MIN_QUOTA_MICROSECONDS = 1000
LARGEST_ALLOCATION = 1 << 16  # bytes: the largest kernel allocation that cannot fall back to single pages
KILL_SECONDS, REMOVE_SECONDS, PAUSE_SECONDS = 2.0, 1.0, 0.002


@dataclass(frozen=True)
class Hierarchy:
    """A folder in which the server creates groups, and the controllers that limit them."""

    version: int
    parent: str
    controllers: tuple[str, ...]


@dataclass(frozen=True)
class Hierarchies:
    """All hierarchies in which the server can create groups for runs; none if it cannot."""

    found: tuple[Hierarchy, ...] = ()
    error: str = "not checked"  # why a controller is missing; empty if none is
    limits_swap: bool = False

    def folders_of(self, run_folder: Path, *, limits_cpu: bool = True) -> dict[str, str]:
        """Return the folder of a run's group for each controller."""
        # Only runs with a CPU limit are in a v1 cpu group, because starting in one can take 1.6 times as long.
        name = _make_prefix(run_folder.parent) + run_folder.name
        return {
            controller: os.path.join(hierarchy.parent, name)
            for hierarchy in self.found
            for controller in hierarchy.controllers
            if limits_cpu or controller != "cpu"
        }

    def list_runs(self, runs: Path) -> list[Path]:
        """List the folders of the runs that have a group. Some of the folders may have been deleted."""
        prefix = _make_prefix(runs)
        names = {name for hierarchy in self.found for name in os.listdir(hierarchy.parent) if name.startswith(prefix)}
        return [runs / name.removeprefix(prefix) for name in sorted(names)]

    def mechanism_of(self, controller: str) -> str:
        """Return the mechanism of a limit, such as "cgroup v2"; empty if the controller is not available."""
        versions = (hierarchy.version for hierarchy in self.found if controller in hierarchy.controllers)
        return next((f"cgroup v{version}" for version in versions), "")


class Cgroup:
    """The groups of one run. Without folders, nothing is limited or measured, and there is nothing to kill."""

    def __init__(self, folders: Mapping[str, str]) -> None:
        self.folders = folders
        self.unique = list(dict.fromkeys(folders.values()))
        self.limits_memory = "memory" in folders  # whether the kernel limits and measures the memory of the run
        self._ooms = self._read_ooms()

    def enter(self) -> None:
        """Move this process to the groups. It must have a single thread. Raises OSError."""
        for folder in self.unique:
            # In v1, writing to cgroup.procs waits for all forks on the machine, and writing to tasks does not.
            _write(f"{folder}/{'cgroup.procs' if _is_v2(folder) else 'tasks'}", "0")

    def kill(self, keep: int = 0) -> None:
        """Kill all processes of the run except `keep`, and wait until they have exited."""
        pids, maximum = self.folders.get("pids"), ""
        if not keep:
            for folder in self.unique:
                with contextlib.suppress(OSError):  # v1, or a kernel before 5.14
                    _write(f"{folder}/cgroup.kill", "1")
        elif pids is not None:
            maximum = _read(f"{pids}/pids.max")
        if pids is not None:
            with contextlib.suppress(OSError):
                _write(f"{pids}/pids.max", "0")  # no process can start another one from now on
        deadline = time.monotonic() + KILL_SECONDS
        while (remaining := self.list_processes() - {keep}) and time.monotonic() < deadline:
            for pid in remaining:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(PAUSE_SECONDS)
        if maximum:
            _write(f"{pids}/pids.max", maximum)

    def list_processes(self) -> set[int]:
        """List the processes in the groups."""
        files = [f"{path}/cgroup.procs" for folder in self.unique[:1] for path, _, _ in os.walk(folder)]
        return {int(pid) for file in files for pid in _read(file).split()}

    def remove(self, *, kill: bool = False) -> None:
        """Remove the groups after their processes have exited, or kill them first."""
        if kill:
            self.kill()
        deadline = time.monotonic() + REMOVE_SECONDS
        for folder in self.unique:
            # Processes that are exiting keep a group busy for a moment.
            while not _remove(folder) and time.monotonic() < deadline:
                time.sleep(PAUSE_SECONDS)

    def read_usage(self) -> dict[str, Any]:
        """Return the memory and the CPU time of the run. Values that no group measures are omitted."""
        return _without_none({"mem": self._read_memory(), "cpu_seconds": self._read_cpu_seconds()})

    def read_peaks(self) -> dict[str, Any]:
        """Return the peak memory and the CPU time of the run. Values that no group measures are omitted."""
        return _without_none({"mem": self._read_peak_memory(), "cpu_seconds": self._read_cpu_seconds()})

    def _read_memory(self) -> int | None:
        """Return the memory of the run, without file contents that the kernel can drop. None without a group."""
        folder = self.folders.get("memory")
        if folder is None:
            return None
        usage, inactive = (
            ("memory.current", "inactive_file") if _is_v2(folder) else ("memory.usage_in_bytes", "total_inactive_file")
        )
        return max(_read_number(f"{folder}/{usage}") - _read_field(f"{folder}/memory.stat", inactive), 0)

    def _read_peak_memory(self) -> int | None:
        """Return the peak memory of the run, including file contents. None without a group, or before Linux 5.19."""
        folder = self.folders.get("memory", "")
        text = _read(f"{folder}/memory.peak") or _read(f"{folder}/memory.max_usage_in_bytes")
        return int(text) if text else None

    def _read_cpu_seconds(self) -> float | None:
        """Return the CPU time of all processes of the run, including those that have ended. None without a group."""
        if (folder := self.folders.get("cpuacct")) is not None:
            return _read_number(f"{folder}/cpuacct.usage") / NANOS
        folder = next((each for each in self.unique if _is_v2(each)), None)
        return None if folder is None else _read_field(f"{folder}/cpu.stat", "usage_usec") / 1e6

    def reset_ooms(self) -> None:
        """Ignore the processes that the kernel has killed so far. A served run restarts in the same group."""
        self._ooms = self._read_ooms()

    def has_oom(self) -> bool:
        """Whether the kernel has killed a process because there was no memory left."""
        return self._read_ooms()[0] > self._ooms[0]

    def has_exceeded(self, limit: int) -> bool:
        """Whether the kernel killed a process because of the run's own limit, not because the machine had no memory."""
        if "memory" in self.folders and not _is_v2(self.folders["memory"]):
            # v1 has no counter for the cause, but records the peak.
            return (self._read_peak_memory() or 0) >= limit - LARGEST_ALLOCATION
        return self._read_ooms()[1] > self._ooms[1]

    def _read_ooms(self) -> tuple[int, int]:
        """Return how many processes the kernel killed, and in v2 how often the limit was the cause."""
        folder = self.folders.get("memory", "")
        events = f"{folder}/memory.events"
        if os.path.exists(events):
            return _read_field(events, "oom_kill"), _read_field(events, "oom")
        return _read_field(f"{folder}/memory.oom_control", "oom_kill"), 0


def create_cgroup(spec: Spec) -> None:
    """Create the groups of a run with its limits. Idempotent. Raises OSError."""
    for folder in dict.fromkeys(spec.cgroup.values()):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o755)
    for controller, folder in spec.cgroup.items():
        for name, value in _list_limits(controller, folder, spec):
            _write(f"{folder}/{name}", value)


def find_hierarchies(root: str = ROOT, membership: str | None = None) -> Hierarchies:
    """Find where the server can create groups, by creating one in each place and moving a process there.

    `membership` is the content of /proc/self/cgroup.
    """
    search = _Search(root, _read(MEMBERSHIP) if membership is None else membership)
    search.find_v2()
    search.find_v1()
    missing = {*V2_CONTROLLERS} - {name for hierarchy in search.found for name in hierarchy.controllers}
    error = search.error or f"this machine has no cgroup controller for {', '.join(sorted(missing))}"
    return Hierarchies(tuple(search.found), error if missing else "", search.limits_swap)


class _Search:
    """The search for hierarchies."""

    def __init__(self, root: str, membership: str) -> None:
        self.root, self.membership = root, membership
        self.found: list[Hierarchy] = []
        self.error = ""  # why the last place that was tried cannot be used
        self.limits_swap = False

    def find_v2(self) -> None:
        """Find a folder for groups in the v2 hierarchy: next to the server's own group, or in it."""
        root = self.root if os.path.exists(f"{self.root}/cgroup.controllers") else f"{self.root}/unified"
        if not os.path.exists(f"{root}/cgroup.controllers"):
            return
        own = self._find_own(root, "")
        for parent in (os.path.dirname(own), own) if own != root else (own,):
            controllers = self._enable(root, parent, own)
            # Without controllers, a group could only be used to kill processes, which does not justify a slower start.
            if controllers and self._check(Hierarchy(2, parent, controllers)):
                self.error = ""
                return

    def find_v1(self) -> None:
        """Find the server's own group in the hierarchy of each v1 controller that v2 does not have."""
        in_v2 = {controller for hierarchy in self.found for controller in hierarchy.controllers}
        for controller in V1_CONTROLLERS:
            is_measured = controller == "cpuacct" and bool(in_v2)
            if controller not in in_v2 and not is_measured and os.path.exists(f"{self.root}/{controller}/tasks"):
                own = self._find_own(f"{self.root}/{controller}", controller)
                self._check(Hierarchy(1, own, (controller,)))

    def _find_own(self, mount: str, controller: str) -> str:
        """Return the folder of the server's own group in a hierarchy."""
        for line in self.membership.splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                own = os.path.normpath(f"{mount}/{path}")
                # In a container, the path may start at the machine's root group, and the mount at the container's.
                return own if os.path.isdir(own) and "/../" not in f"{path}/" else mount
        return mount

    def _enable(self, root: str, parent: str, own: str) -> tuple[str, ...]:
        """Enable the controllers for groups in a v2 folder and above it; return those that are enabled."""
        path = root
        for part in ("", *os.path.relpath(parent, root).split("/")):
            path = os.path.normpath(f"{path}/{part}")
            enabled = _read(f"{path}/cgroup.subtree_control").split()
            for controller in _read(f"{path}/cgroup.controllers").split():
                if controller in V2_CONTROLLERS and controller not in enabled:
                    enabled += [controller] if self._enable_one(path, controller, own) else []
        return tuple(controller for controller in V2_CONTROLLERS if controller in enabled)

    def _enable_one(self, folder: str, controller: str, own: str) -> bool:
        """Enable one controller in a v2 folder."""
        try:
            try:
                _write(f"{folder}/cgroup.subtree_control", f"+{controller}")
            except OSError as error:
                if error.errno != errno.EBUSY or folder != own:
                    raise
                # The kernel refuses this while the group has processes of its own, so move them to a group inside it.
                _empty(folder)
                _write(f"{folder}/cgroup.subtree_control", f"+{controller}")
        except OSError as error:
            self.error = f"cannot enable {controller} in {folder}: {(error.strerror or '').lower()}"
            return False
        return True

    def _check(self, hierarchy: Hierarchy) -> bool:
        """Create a group in a hierarchy and move a process there."""
        folder = f"{hierarchy.parent}/fairlead-probe-{os.getpid()}"
        try:
            os.mkdir(folder, 0o755)
            for name, value in _initialize(hierarchy.controllers[0], folder):
                _write(f"{folder}/{name}", value)
            with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
                try:
                    _write(f"{folder}/cgroup.procs", str(process.pid))
                finally:
                    process.kill()
        except OSError as error:
            self.error = f"cannot create groups in {hierarchy.parent}: {(error.strerror or '').lower()}"
            return False
        else:
            self.limits_swap |= any(os.path.exists(f"{folder}/{name}") for name in SWAP_LIMITS)
            self.found.append(hierarchy)
            return True
        finally:
            Cgroup({"": folder}).remove()


def _empty(folder: str) -> None:
    """Move all processes in a group to a group inside it."""
    leaf = f"{folder}/{SERVER_LEAF}"
    os.makedirs(leaf, exist_ok=True)
    for pid in _read(f"{folder}/cgroup.procs").split():
        with contextlib.suppress(ProcessLookupError):  # it has exited
            _write(f"{leaf}/cgroup.procs", pid)


def _list_limits(controller: str, folder: str, spec: Spec) -> Iterator[tuple[str, str]]:
    """List the files of a group and the values to write to them, in this order."""
    yield from _initialize(controller, folder)
    is_v2 = _is_v2(folder)
    if controller == "cpuset" and spec.cpus:
        yield "cpuset.cpus", ",".join(map(str, spec.cpus))
    elif controller == "pids":
        yield "pids.max", str(spec.max_processes)
    elif controller == "memory" and is_v2:
        # A served run is restarted by its init process, which must survive.
        yield "memory.oom.group", "0" if spec.serves else "1"
    if controller == "memory" and spec.memory is not None:
        yield ("memory.max" if is_v2 else "memory.limit_in_bytes"), str(spec.memory)
        swap = "memory.swap.max" if is_v2 else "memory.memsw.limit_in_bytes"  # v1 limits the sum of memory and swap
        if os.path.exists(f"{folder}/{swap}"):  # missing if the kernel does not count swap
            yield swap, "0" if is_v2 else str(spec.memory)
        if os.path.exists(f"{folder}/{SOCKET_LIMIT}"):  # v1 counts buffers of TCP and UDP sockets separately
            yield SOCKET_LIMIT, str(spec.memory)
    if controller == "cpu" and spec.cpu is not None:
        quota = max(spec.cpu * PERIOD_MICROSECONDS // 1000, MIN_QUOTA_MICROSECONDS)
        yield ("cpu.max", f"{quota} {PERIOD_MICROSECONDS}") if is_v2 else ("cpu.cfs_quota_us", str(quota))


def _initialize(controller: str, folder: str) -> Iterator[tuple[str, str]]:
    """List the values that a v1 cpuset needs before it can contain processes: those of its parent."""
    if controller == "cpuset" and not _is_v2(folder):
        for name in ("cpuset.mems", "cpuset.cpus"):
            yield name, _read(f"{os.path.dirname(folder)}/{name}").strip()


def _make_prefix(runs: Path) -> str:
    """Return a prefix for group names. It contains the data folder, because servers may share a parent group."""
    return f"fairlead-{hashlib.sha256(os.fsencode(runs.resolve())).hexdigest()[:8]}-"


def _remove(folder: str) -> bool:
    """Remove a group, and the groups that its processes have created in it; return whether it is gone."""
    for path, _, _ in os.walk(folder, topdown=False):
        try:
            os.rmdir(path)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def _without_none(values: dict[str, float | None]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _is_v2(folder: str) -> bool:
    return os.path.exists(f"{folder}/cgroup.controllers")


def _read(file: str) -> str:
    """Read a file; empty if it does not exist, for example because the group was removed."""
    try:
        with open(file, encoding="utf-8") as reader:
            return reader.read()
    except OSError:
        return ""


def _read_number(file: str) -> int:
    return int(_read(file) or 0)


def _read_field(file: str, name: str) -> int:
    """Read a number from a file with lines such as "oom_kill 1"."""
    fields = dict(line.split(" ", 1) for line in _read(file).splitlines())
    return int(fields.get(name, 0))


def _write(file: str, value: str) -> None:
    with open(file, "w", encoding="utf-8") as writer:
        writer.write(value)
