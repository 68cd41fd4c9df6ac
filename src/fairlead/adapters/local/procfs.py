"""What a tree of processes uses, read from /proc. Standard library only."""

import os
from pathlib import Path
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """One process, as /proc tells of it."""

    pid: int
    parent: int
    cpu_seconds: float
    resident: int


def list_tree(proc: str, root_pid: int) -> list[Process]:
    """A process and all below it; none where they are gone."""
    children: dict[int, list[Process]] = {}
    found: list[Process] = []
    try:
        names = os.listdir(proc)
    except OSError:
        return []
    for name in names:
        if name.isdigit() and (process := _read(proc, name)) is not None:
            children.setdefault(process.parent, []).append(process)
            if process.pid == root_pid:
                found.append(process)
    for process in found:
        found += children.get(process.pid, [])
    return found


def measure_memory(proc: str, processes: list[Process], bound: int | None = None) -> int:
    """The memory of processes together. What they share is told apart only where it matters: that is slow."""
    resident = sum(process.resident for process in processes)
    if len(processes) < 2 or bound is None or resident <= bound:
        return resident
    return sum(_read_proportional(proc, process) for process in processes)


def measure_mount(path: str) -> int:
    """The bytes that are taken of what is mounted at a path."""
    try:
        found = os.statvfs(path)
    except OSError:
        return 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def measure_disk(folder: str, most_entries: int = 200_000) -> int:
    """The bytes that files below a folder take; of very many files, those that were looked at."""
    total, waiting = 0, [folder]
    while waiting and most_entries > 0:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    most_entries -= 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue  # it is gone, or nobody may look
    return total


def count_oom_kills() -> int:
    """How often this machine killed a process because it had no memory left."""
    try:
        for line in Path("/proc/vmstat").read_text("ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def _read(proc: str, name: str) -> Process | None:
    try:
        with open(f"{proc}/{name}/stat", "rb") as file:
            # The name of the program is in parentheses, and may have anything in it.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return Process(int(name), int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS, int(fields[21]) * PAGE)


def _read_proportional(proc: str, process: Process) -> int:
    try:
        with open(f"{proc}/{process.pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return process.resident
