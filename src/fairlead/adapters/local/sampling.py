"""Samples a run's resource usage and checks it against the run's limits.

Standard library only, plus pynvml if the run has GPUs.
"""

import contextlib
import errno
import json
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fairlead.adapters.local.processes import (
    Process,
    RunProcess,
    count_oom_kills,
    list_tree,
    measure_memory,
    measure_mount,
)
from fairlead.adapters.local.specs import USAGE, Spec

MAX_SAMPLES = 1000
FIRST_INTERVAL_SECONDS = 1.0
DISK_SHARE = 20  # measuring disk usage may take up to 1/20 of the time
DISK_SECONDS = 0.2  # at a time. A million files take several seconds, in which a run could not be stopped
PATH_TOO_LONG = "disk usage cannot be measured: a path is longer than 4,096 bytes"

OUT_OF_MEMORY = "this machine ran out of memory"

Sample = dict[str, Any]


class ProcessSampler:
    """Samples the processes of a run."""

    def __init__(self, folder: Path, spec: Spec, process: RunProcess) -> None:
        self.file, self.spec, self.process, self.cgroup = folder / USAGE, spec, process, process.cgroup
        self.interval = FIRST_INTERVAL_SECONDS
        self.samples: list[Sample] = []
        self.ended_cpu = 0.0  # CPU seconds of processes that have ended
        self.cpu_of: dict[int, float] = {}
        self.disk, self.disk_due, self.disk_error = 0, 0.0, ""
        self.sizes, self.disk_so_far = list_sizes(spec.disk_folders), 0  # of the measurement in progress
        self.peak = {"mem": 0, "disk": 0, "cpu_seconds": 0.0}
        self.sampled, self.next_sample = 0.0, 0.0  # monotonic: the system clock may be changed
        self.gpus = _open_gpus(spec)
        self.reset_ooms()

    def check(self) -> tuple[str, str] | None:
        """Sample the run if due; return a reason and a message if it exceeds a limit."""
        due = time.monotonic() >= self.next_sample
        if self.cgroup.limits_memory:
            return self.check_oom() or (self._check_disk() if due else None)
        # Memory can grow quickly, so it is measured on every call. The rest can wait for the next sample.
        if not due and self.spec.memory is None:
            return None
        processes, memory = self._measure()
        if self.spec.memory is not None and memory > self.spec.memory:
            # Shared memory is counted twice if a process ends during the measurement, so measure again.
            memory = min(memory, self._measure()[1])
        self.peak["mem"] = max(self.peak["mem"], memory)
        if self.spec.memory is not None and memory > self.spec.memory:
            return "OOMKilled", f"memory usage of {_format_excess(memory, self.spec.memory)}"
        return self._check_disk(processes, memory) if due else None

    def check_oom(self, *, killed: bool = False) -> tuple[str, str] | None:
        """Return a reason and a message if the kernel has killed a process of the run for lack of memory.

        `killed`: something other than the supervisor killed the run. Without a cgroup, this is the only sign.
        """
        if not self.cgroup.limits_memory:
            return ("OOMKilled", OUT_OF_MEMORY) if killed and count_oom_kills() > self.oom_kills else None
        if not self.cgroup.has_oom():
            return None
        if self.spec.memory is not None and self.cgroup.has_exceeded(self.spec.memory):
            return "OOMKilled", f"memory usage exceeded the limit of {_format_bytes(self.spec.memory)}"
        return "OOMKilled", OUT_OF_MEMORY

    def reset_ooms(self) -> None:
        """Ignore the processes that the kernel has killed so far. A served run restarts with the same sampler."""
        self.cgroup.reset_ooms()
        self.oom_kills = 0 if self.cgroup.limits_memory else count_oom_kills()

    def record_rusage(self, cpu_seconds: float, memory: float) -> None:
        """Record the kernel's totals: the CPU time of all processes, and the peak memory of the largest one."""
        self.peak["cpu_seconds"] = max(self.peak["cpu_seconds"], cpu_seconds)
        self.peak["mem"] = max(self.peak["mem"], int(memory))

    def peaks(self) -> Sample:
        """Return the peak usage. The kernel's own numbers include everything between two samples."""
        return self.peak | self.cgroup.read_peaks()

    def _measure(self) -> tuple[list[Process], int]:
        processes = self._list_processes()
        return processes, measure_memory(self.process.proc, processes, self.spec.memory, self._measure_mounts())

    def _list_processes(self) -> list[Process]:
        return list_tree(self.process.proc, self.process.root_pid)[1:]  # excludes init

    def _measure_mounts(self) -> int:
        """Return the number of bytes in the run's tmpfs mounts, which count as memory."""
        tmpfs_mounts = [mount for mount in self.spec.mounts if mount.source is None]
        return sum(measure_mount(f"/proc/{self.process.init_pid}/root{mount.target}") for mount in tmpfs_mounts)

    def _check_disk(
        self, processes: Sequence[Process] | None = None, memory: int | None = None
    ) -> tuple[str, str] | None:
        """Sample the run; return a reason and a message if it exceeds its disk limit."""
        self._sample(processes, memory)
        if self.spec.disk is not None and self.disk_error:
            return "Evicted", self.disk_error
        if self.spec.disk is not None and self.disk > self.spec.disk:
            return "Evicted", f"disk usage of {_format_excess(self.disk, self.spec.disk)}"
        return None

    def _sample(self, processes: Sequence[Process] | None, memory: int | None) -> None:
        now = time.monotonic()
        processes = self._list_processes() if processes is None else processes
        usage = self.cgroup.read_usage()
        memory = usage.get("mem", 0) if memory is None else memory
        cpu = usage["cpu_seconds"] if "cpu_seconds" in usage else self._count_cpu(processes)
        self._measure_disk(processes)
        previous, elapsed = self.samples[-1] if self.samples else None, max(now - self.sampled, 0.001)
        cores = 0.0 if previous is None else max(cpu - previous["cpu_seconds"], 0.0) / elapsed
        sample: Sample = {"at": time.time(), "cpu_seconds": round(cpu, 2), "cpu": round(cores, 3), "mem": memory}
        sample |= {"disk": self.disk} | self._measure_gpus()
        for name in ("cpu_seconds", "cpu", "disk", "gpu", "gpu_mem"):
            if name in sample:
                self.peak[name] = max(self.peak.get(name, 0), sample[name])
        self.samples.append(sample)
        self.sampled, self.next_sample = now, now + self.interval
        with contextlib.suppress(OSError):  # the run continues if the disk is full
            self._save(sample)

    def _save(self, sample: Sample) -> None:
        if len(self.samples) > MAX_SAMPLES:  # keep every other sample
            self.samples = self.samples[::2]
            self.interval *= 2
            self.file.write_text("".join(json.dumps(each) + "\n" for each in self.samples), "utf-8")
        else:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(sample) + "\n")

    def _count_cpu(self, processes: Sequence[Process]) -> float:
        """Return the CPU seconds of all processes so far, including processes that have ended."""
        now = {process.pid: process.cpu_seconds for process in processes}
        self.ended_cpu += sum(seconds for pid, seconds in self.cpu_of.items() if pid not in now)
        self.cpu_of = now
        return self.ended_cpu + sum(now.values())

    def _measure_disk(self, processes: Sequence[Process]) -> None:
        """Continue to measure the disk usage, which may take several calls."""
        started = time.monotonic()
        if started < self.disk_due:
            return
        try:
            for size in self.sizes:
                self.disk_so_far += size
                if time.monotonic() > started + DISK_SECONDS:
                    break
            else:
                deleted = measure_deleted_files(self.process.proc, [each.pid for each in processes], self.spec.home)
                self.disk = self.disk_so_far + deleted
                self.sizes, self.disk_so_far = list_sizes(self.spec.disk_folders), 0
        except OSError:
            self.disk_error = PATH_TOO_LONG
        self.disk_due = started + (time.monotonic() - started) * DISK_SHARE

    def _measure_gpus(self) -> Sample:
        if not self.gpus:
            return {}
        library, handles = self.gpus
        try:
            used = [library.nvmlDeviceGetMemoryInfo(handle).used for handle in handles]
            busy = [library.nvmlDeviceGetUtilizationRates(handle).gpu for handle in handles]
        except library.NVMLError:
            return {}
        return {"gpu": round(sum(busy) / 100, 2), "gpu_mem": sum(used)}


def _open_gpus(spec: Spec) -> Any:
    if not spec.devices or spec.nvml is None:
        return None
    sys.path.append(spec.nvml)  # the supervisor runs without site-packages
    try:
        import pynvml  # type: ignore[import-not-found, unused-ignore]

        pynvml.nvmlInit()
        return pynvml, [pynvml.nvmlDeviceGetHandleByUUID(device) for device in spec.devices]
    except Exception:  # no driver, or a different library version: continue without GPU samples
        return None


def _format_excess(size: int, limit: int) -> str:
    """Format the usage and the limit, in bytes if they would look equal."""
    amounts = _format_bytes(size), _format_bytes(limit)
    if amounts[0] == amounts[1]:
        amounts = f"{size} bytes", f"{limit} bytes"
    return f"{amounts[0]} exceeded the limit of {amounts[1]}"


def _format_bytes(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def list_sizes(paths: Iterable[str]) -> Iterator[int]:
    """The numbers of bytes used by each file and folder in some folders. Raises OSError if a path is too long."""
    folders = list(paths)
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # deleted in the meantime
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        # Count allocated space: a sparse file occupies less than its size. The unit is 512 bytes.
                        yield entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError as error:
            # A run must not be able to hide files. Other folders were deleted, or are not readable.
            if error.errno == errno.ENAMETOOLONG:
                raise


def measure_deleted_files(proc: str, pids: Iterable[int], folder: str) -> int:
    """Return the bytes used by deleted files that processes have open, on the file system of a folder."""
    blocks: dict[int, int] = {}  # by inode, because processes share open files
    with contextlib.suppress(OSError):
        device = os.stat(folder).st_dev
        for pid in pids:
            for status in _list_open_files(f"{proc}/{pid}/fd"):
                if status.st_nlink == 0 and status.st_dev == device and stat.S_ISREG(status.st_mode):
                    blocks[status.st_ino] = status.st_blocks
    return sum(blocks.values()) * 512


def _list_open_files(folder: str) -> list[os.stat_result]:
    files = []
    with contextlib.suppress(OSError):  # the process has ended
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):  # closed in the meantime
                files.append(os.stat(f"{folder}/{name}"))
    return files
