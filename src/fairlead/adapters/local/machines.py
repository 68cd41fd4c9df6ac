"""What this machine has: cores, memory, disk, GPUs, and whether a run can have a view of the machine of its own."""

import functools
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fairlead.model.nodes import Amounts
from fairlead.model.quantities import NANOS, Quantity

GPU = "nvidia.com/gpu"
NAMES = {"cpu": "cpu", "mem": "memory", "disk": "ephemeral-storage", "gpu": GPU, "runs": "pods"}
RUNS_PER_CORE, FEWEST_RUNS = 8, 16


@dataclass(frozen=True)
class GpuDevice:
    """A GPU of this machine."""

    id: str
    product: str


@dataclass(frozen=True)
class Machine:
    """This machine as a node of one."""

    name: str
    capacity: Amounts
    labels: Mapping[str, str]
    gpus: tuple[GpuDevice, ...]
    cpus: tuple[int, ...]
    isolation_error: str | None  # None: runs have their own view of the machine; else what keeps them from it
    boot_id: str


def find_machine(data: Path, said: Mapping[str, Quantity]) -> Machine:
    """This machine, with what a setting says of its capacity in place of what it has."""
    gpus = find_gpus()
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    found = {
        "cpu": len(cpus) * NANOS,
        "memory": find_memory() * NANOS,
        "ephemeral-storage": shutil.disk_usage(data).total * NANOS,
        GPU: len(gpus) * NANOS,
        "pods": max(FEWEST_RUNS, RUNS_PER_CORE * len(cpus)) * NANOS,
    }
    capacity = found | {NAMES.get(name, name): amount.nanos for name, amount in said.items()}
    wanted = capacity[GPU] // NANOS
    labels = {
        "kubernetes.io/hostname": socket.gethostname(),
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
    }
    if gpus:
        labels["nvidia.com/gpu.product"] = gpus[0].product.replace(" ", "-")
    # Devices that a setting promises and nobody finds are numbered: that is how CUDA would call them.
    devices = (*gpus, *(GpuDevice(str(number), "") for number in range(len(gpus), wanted)))[:wanted]
    isolation_error = find_isolation_error()
    return Machine(socket.gethostname(), capacity, labels, devices, cpus, isolation_error, read_boot_id())


def describe_isolation(machine: Machine, *, is_root: bool) -> str:
    """How runs are kept apart from each other and from the server, plainly."""
    whose = "each as a user of its own" if is_root else "as your own user, which they share with the server"
    mounting = f"; they cannot mount volumes ({machine.isolation_error})" if machine.isolation_error else ""
    return f"on this machine, {whose}{mounting}"


def find_gpus() -> tuple[GpuDevice, ...]:
    """The GPUs that NVML knows; none where there is no driver."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return tuple(
            GpuDevice(pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle)) for handle in handles
        )
    except pynvml.NVMLError:
        return ()


def find_memory() -> int:
    """The memory of this machine, or of the container that this is."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            said = Path(file).read_text("ascii").strip()
        except OSError:
            continue
        if said.isdigit():
            return min(total, int(said))
    return total


def read_boot_id() -> str:
    """What changes when the machine is started anew."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


@functools.cache
def find_isolation_error() -> str | None:
    """What keeps a run from having its own view of the machine; None where it can."""
    probe = "from fairlead.adapters.local import processes; processes.probe()"
    tried = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["it failed"])[-1]
