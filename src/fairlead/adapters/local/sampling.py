"""What a run uses, looked at time and again: kept as a series that never grows long, and held against its limits.

Standard library only; the library for GPUs is loaded where the run has any.
"""

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from fairlead.adapters.local import procfs
from fairlead.adapters.local.processes import RunProcess
from fairlead.adapters.local.specs import USAGE, Spec

MAX_SAMPLES = 1000
FIRST_SECONDS = 1.0
DISK_SHARE = 20  # looking at files may take a twentieth of the time

Sample = dict[str, Any]


class ProcessSampler:
    """Looks at one run."""

    def __init__(self, folder: Path, spec: Spec, payload: RunProcess) -> None:
        self.file, self.spec, self.payload = folder / USAGE, spec, payload
        self.every = FIRST_SECONDS
        self.samples: list[Sample] = []
        self.ended_cpu = 0.0  # of processes that are gone
        self.cpu_of: dict[int, float] = {}
        self.disk, self.disk_due = 0, 0.0
        self.most = {"mem": 0, "disk": 0, "cpu_seconds": 0.0}
        self.sampled, self.next_sample = 0.0, 0.0  # not by the clock, which may be set
        self.gpus = _open_gpus(spec)

    def look(self) -> tuple[str, str] | None:
        """Look at the run; the reason and message where it is over a limit."""
        due = time.monotonic() >= self.next_sample
        if not due and self.spec.memory is None:
            return None
        processes, memory = self._measure()
        if self.spec.memory is not None and memory > self.spec.memory:
            # What processes share is counted again where some of them end while the others are looked at.
            memory = min(memory, self._measure()[1])
        self.most["mem"] = max(self.most["mem"], memory)
        if self.spec.memory is not None and memory > self.spec.memory:
            return "OOMKilled", f"its memory was {_over(memory, self.spec.memory)}"
        if due:
            self._sample(processes, memory)
            if self.spec.disk is not None and self.disk > self.spec.disk:
                return "Evicted", f"its files were {_over(self.disk, self.spec.disk)}"
        return None

    def hear(self, cpu_seconds: float, memory: float) -> None:
        """What the system counted: the time of all processes, and the memory of the largest."""
        self.most["cpu_seconds"] = max(self.most["cpu_seconds"], cpu_seconds)
        self.most["mem"] = max(self.most["mem"], int(memory))

    def peaks(self) -> Sample:
        """The most that the run used."""
        return dict(self.most)

    def _measure(self) -> tuple[list[procfs.Process], int]:
        processes = procfs.list_tree(self.payload.proc, self.payload.root_pid)[1:]
        memory = procfs.measure_memory(self.payload.proc, processes, self.spec.memory)
        return processes, memory + self._measure_mounts()

    def _measure_mounts(self) -> int:
        """What lies in the run's folders in memory, which counts as memory."""
        in_memory = [mount for mount in self.spec.mounts if mount.source is None]
        return sum(procfs.measure_mount(f"/proc/{self.payload.init_pid}/root{mount.target}") for mount in in_memory)

    def _sample(self, processes: list[procfs.Process], memory: int) -> None:
        now = time.monotonic()
        cpu = self._count_cpu(processes)
        self._look_at_disk()
        before, elapsed = self.samples[-1] if self.samples else None, max(now - self.sampled, 0.001)
        cores = 0.0 if before is None else max(cpu - before["cpu_seconds"], 0.0) / elapsed
        sample: Sample = {"at": time.time(), "cpu_seconds": round(cpu, 2), "cpu": round(cores, 3), "mem": memory}
        sample |= {"disk": self.disk} | self._look_at_gpus()
        for name in ("cpu_seconds", "cpu", "disk", "gpu", "gpu_mem"):
            if name in sample:
                self.most[name] = max(self.most.get(name, 0), sample[name])
        self.samples.append(sample)
        self.sampled, self.next_sample = now, now + self.every
        with contextlib.suppress(OSError):  # where the disk is full, the run goes on
            self._keep(sample)

    def _keep(self, sample: Sample) -> None:
        if len(self.samples) > MAX_SAMPLES:
            self.samples = self.samples[::2]
            self.every *= 2
            self.file.write_text("".join(json.dumps(kept) + "\n" for kept in self.samples), "utf-8")
        else:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(sample) + "\n")

    def _count_cpu(self, processes: list[procfs.Process]) -> float:
        """The time that all processes took so far, those that ended among them."""
        now = {process.pid: process.cpu_seconds for process in processes}
        self.ended_cpu += sum(seconds for pid, seconds in self.cpu_of.items() if pid not in now)
        self.cpu_of = now
        return self.ended_cpu + sum(now.values())

    def _look_at_disk(self) -> None:
        began = time.monotonic()
        if began < self.disk_due:
            return
        self.disk = procfs.measure_disk(self.spec.home)
        self.disk_due = began + (time.monotonic() - began) * DISK_SHARE

    def _look_at_gpus(self) -> Sample:
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
    sys.path.append(spec.nvml)
    try:
        import pynvml  # type: ignore[import-not-found, unused-ignore]

        pynvml.nvmlInit()
        return pynvml, [pynvml.nvmlDeviceGetHandleByUUID(device) for device in spec.devices]
    except Exception:  # no driver, another library: a run is not kept from running by what would look at it
        return None


def _over(size: int, limit: int) -> str:
    """How much it is and how much was allowed; to the byte where they would look the same."""
    shown = _show(size), _show(limit)
    return "{}, over its limit of {}".format(*shown if shown[0] != shown[1] else (f"{size} bytes", f"{limit} bytes"))


def _show(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
