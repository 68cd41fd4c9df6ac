"""Detects and checks this machine's resources and whether it can isolate runs."""

import functools
import os
import platform
import shutil
import socket
import subprocess
import sys
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fairlead.adapters.local import cgroups, landlock, seccomp
from fairlead.adapters.local.cgroups import Hierarchies
from fairlead.adapters.local.specs import MAX_PROCESSES, Spec
from fairlead.errors import Unavailable
from fairlead.model.nodes import PROTECTION_NAMES, Amounts, Capabilities, Protection, ProtectionName, Protections
from fairlead.model.quantities import NANOS, Quantity
from fairlead.model.runs import Check, LaunchSpec
from fairlead.scheduling.reasons import show_amount

GPU = "nvidia.com/gpu"
NAMES = {"cpu": "cpu", "mem": "memory", "disk": "ephemeral-storage", "gpu": GPU, "runs": "pods"}
# Runs that request no resources are limited only by this number. Each run has three processes.
RUNS_PER_CORE, MIN_RUNS = 8, 16
NO_SECCOMP = "the kernel or the architecture does not support the filter"
# This range is below the kernel's ephemeral ports, so that no outgoing connection takes one of them.
FIRST_PORT, PORTS = 20_000, 10_000


@dataclass(frozen=True)
class GpuDevice:
    """A GPU of this machine."""

    id: str
    product: str


@dataclass(frozen=True)
class Machine:
    """This machine as a single-node cluster."""

    name: str
    capacity: Amounts
    labels: Mapping[str, str]
    gpus: tuple[GpuDevice, ...]
    cpus: tuple[int, ...]
    isolation_error: str | None  # why runs cannot have namespaces of their own; None if they can
    boot_id: str
    protections: Protections
    cgroups: Hierarchies = field(default_factory=Hierarchies)
    max_processes: int = MAX_PROCESSES  # of one run, including threads


def find_machine(data: Path, overrides: Mapping[str, Quantity], max_processes: int = MAX_PROCESSES) -> Machine:
    """Detect this machine's resources. The `capacity` setting overrides detected amounts."""
    gpus = find_gpus()
    cpus = tuple(sorted(os.sched_getaffinity(0)))  # a container may be restricted to some of the machine's cores
    detected = {
        "cpu": len(cpus) * NANOS,
        "memory": find_memory() * NANOS,
        "ephemeral-storage": shutil.disk_usage(data).total * NANOS,
        GPU: len(gpus) * NANOS,
        "pods": max(MIN_RUNS, RUNS_PER_CORE * len(cpus)) * NANOS,
    }
    capacity = detected | {NAMES.get(name, name): amount.nanos for name, amount in overrides.items()}
    gpu_count = capacity[GPU] // NANOS
    labels = {
        "kubernetes.io/hostname": socket.gethostname(),
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
    }
    if gpus:
        # These are the labels that GPU feature discovery sets, so the same selector works here and on clusters.
        labels["nvidia.com/gpu.product"] = gpus[0].product.replace(" ", "-")
    # GPUs that are declared in the setting but not reported by NVML get a number as their ID, as in CUDA.
    devices = (*gpus, *(GpuDevice(str(number), "") for number in range(len(gpus), gpu_count)))[:gpu_count]
    isolation_error = find_isolation_error()
    hierarchies = cgroups.find_hierarchies()
    protections = find_protections(isolation_error, hierarchies, is_root=os.getuid() == 0)
    return Machine(
        name=socket.gethostname(),
        capacity=capacity,
        labels=labels,
        gpus=devices,
        cpus=cpus,
        isolation_error=isolation_error,
        boot_id=read_boot_id(),
        protections=protections,
        cgroups=hierarchies,
        max_processes=max_processes,
    )


def find_protections(isolation_error: str | None, hierarchies: Hierarchies, *, is_root: bool) -> Protections:
    """Return every protection of runs, with the mechanism that enforces it on this machine."""
    sampled = "brief excess usage is not detected"
    protections = (
        *_find_limits(isolation_error, hierarchies, is_root=is_root),
        Protection("disk", "polling", f"{sampled}; the number of files is not limited"),
        *_find_boundaries(isolation_error, landlock.find_abi(), is_root=is_root),
        Protection("system_calls", "seccomp") if seccomp.is_supported() else Protection("system_calls", "", NO_SECCOMP),
    )
    found = {protection.name: protection for protection in protections}
    return {name: found[name] for name in PROTECTION_NAMES}


def find_capabilities(machine: Machine, *, is_root: bool) -> Capabilities:
    """Return what this machine can do for runs."""
    isolated = machine.isolation_error is None
    return Capabilities(
        mount_error=machine.isolation_error,
        # Without a user namespace, a run cannot choose its user: it is the server's or, if that is root, a new one.
        user_ids=isolated,
        more_groups=isolated and is_root,
        networks=("host", "none") if isolated else ("host",),
        protections=machine.protections,
    )


def _find_boundaries(isolation_error: str | None, abi: int, *, is_root: bool) -> Iterator[Protection]:
    """Generate the protections between runs. `abi` is the version of Landlock, 0 without it."""
    own_users = "a user per run" if is_root else ""
    scoped = "Landlock" if abi >= landlock.SCOPES_ABI else ""
    if isolation_error is None:
        yield Protection("temporary_files", "a folder per run")
        yield Protection("shared_memory", "a tmpfs per run")
        yield Protection("files", "namespaces", "" if is_root else "other files of the server's user are shared")
        yield Protection("processes", "namespaces")
    else:
        reason = f"no namespaces ({isolation_error})"
        yield Protection("temporary_files", "", f"/tmp and /var/tmp are shared: {reason}")
        yield Protection("shared_memory", "", f"/dev/shm is shared: {reason}")
        sockets = "Unix sockets in the file system are shared" if abi else "files that all users can read are shared"
        yield Protection("files", "Landlock" if abi else own_users, f"{sockets}: {reason}")
        yield Protection(
            "processes", own_users or scoped, f"a run sees all processes and can slow down those of its user: {reason}"
        )
    yield Protection("users", own_users, "" if own_users else "the server does not run as root")
    # Without Landlock's scopes, runs that use the machine's network can also connect to abstract Unix sockets.
    shared = "addresses, ports and services" if scoped else "addresses, ports, services and abstract Unix sockets"
    yield Protection("network", scoped, f"{shared} of this machine are shared")


def _find_limits(isolation_error: str | None, hierarchies: Hierarchies, *, is_root: bool) -> Iterator[Protection]:
    """Return the limits of memory, swap, CPU and processes."""
    # The files of a run's cgroup belong to the server's user.
    unprotected = "" if is_root or isolation_error is None else "a run can change its own limits"
    memory, pids = hierarchies.mechanism_of("memory"), hierarchies.mechanism_of("pids")
    missing = f" ({hierarchies.error})" if hierarchies.error else ""
    polled = f"brief excess usage, memfd files, /dev/shm and pipe buffers are not detected{missing}"
    yield Protection("memory", memory or "polling", unprotected if memory else polled)
    swap = memory if hierarchies.limits_swap else ""
    yield Protection("swap", swap, unprotected if swap else f"the kernel does not count the swap of a run{missing}")
    quota, cpuset = hierarchies.mechanism_of("cpu"), hierarchies.mechanism_of("cpuset")
    gaps = [
        *([] if quota else ["CPU limits are rounded up to whole cores"]),
        *([] if cpuset else ["a run can change its CPU affinity"]),
    ]
    gap = "; ".join((*gaps, *([unprotected] if unprotected else []))) + (missing if gaps else "")
    yield Protection("cpu", quota or cpuset or "affinity", gap)
    if pids or not is_root:
        yield Protection("process_count", pids, unprotected if pids else hierarchies.error)
    else:
        yield Protection("process_count", "RLIMIT_NPROC")  # works because each run has its own user


def describe_isolation(machine: Machine, *, is_root: bool) -> str:
    """Describe how runs are isolated from each other and from the server."""
    users = "each run as a separate user" if is_root else "as your user, which is also the server's"
    mounts = f"; volumes cannot be mounted ({machine.isolation_error})" if machine.isolation_error else ""
    return f"on this machine, {users}{mounts}\n{' ' * 11}{_describe_mechanisms(machine)}"


def _describe_mechanisms(machine: Machine) -> str:
    """List the mechanisms in use, and the protections that are not enforced."""

    def list_mechanisms(*names: ProtectionName) -> str:
        mechanisms = dict.fromkeys(machine.protections[name].mechanism for name in names)
        return ", ".join(filter(None, mechanisms)) or "nothing"

    limits = list_mechanisms("memory", "swap", "cpu", "process_count")
    isolation = list_mechanisms("files", "processes", "network", "system_calls")
    missing = [name.replace("_", " ") for name, protection in machine.protections.items() if not protection.is_enforced]
    not_enforced = f"; not enforced: {', '.join(missing)}" if missing else ""
    return f"limited by {limits}; isolated by {isolation}{not_enforced}"


def find_gpus() -> tuple[GpuDevice, ...]:
    """Return the GPUs that NVML reports; empty without a driver."""
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
    """Return the memory of this machine, or the memory limit of its container."""
    # In a container, sysconf returns the machine's memory. The files belong to cgroups v2 and v1.
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limit = Path(file).read_text("ascii").strip()
        except OSError:
            continue
        if limit.isdigit():  # if no limit is set, v2 has "max", and v1 has a number larger than any real memory
            return min(total, int(limit))
    return total


def read_boot_id() -> str:
    """Return the ID that the kernel generates at each boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


@functools.cache
def find_isolation_error() -> str | None:
    """Return why runs cannot have namespaces of their own; None if they can."""
    # This runs in a separate process, because a process cannot leave the namespaces that it creates.
    probe = "from fairlead.adapters.local import processes; processes.check_namespaces()"
    completed = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    return None if completed.returncode == 0 else (completed.stderr.strip().splitlines() or ["the check failed"])[-1]


def check_machine(machine: Machine, *, is_root: bool) -> Iterator[Check]:
    """Check this machine's resources and isolation."""
    capacity = {name: show_amount(name, amount) for name, amount in machine.capacity.items()}
    amounts = f"{capacity['cpu']} cores, {capacity['memory']} of memory, {capacity['ephemeral-storage']} of disk"
    yield Check("machine", "ok", f"{machine.name} has {amounts}, and capacity for {capacity['pods']} runs")
    if is_root:
        yield Check("users", "ok", "each run has its own user")
    else:
        message = "runs use the same user as the server"
        yield Check("users", "warning", message, "start the server as root if other people submit runs")
    if machine.isolation_error is None:
        message = "each run has its own namespaces and can mount volumes"
        yield Check("isolation", "ok", f"{message}; {_describe_mechanisms(machine)}")
    else:
        message = f"runs cannot mount volumes: {machine.isolation_error}; {_describe_mechanisms(machine)}"
        yield Check("isolation", "warning", message, "allow user namespaces on this machine, or run the server as root")
    products = sorted({gpu.product for gpu in machine.gpus if gpu.product})
    named = f": {', '.join(products)}" if products else ""
    yield Check("gpus", "ok", f"{capacity[GPU]} GPUs{named}" if machine.gpus else "NVML reports no GPUs")


def choose_port(launch: LaunchSpec, requested: int | None, active: Collection[Spec]) -> int:
    """Return the requested port, or a free one if none is requested. Raises `Unavailable` if it is taken."""
    taken = {spec.port: spec for spec in active if spec.port is not None}
    if requested is not None:
        if requested not in taken and is_port_free(requested):
            return requested
        holder = taken.get(requested)
        # Do not reveal runs of other projects.
        is_visible = holder is not None and holder.project_id == launch.project_id
        by = f"run {holder.run_id}" if holder and is_visible else "another run" if holder else "another program"
        raise Unavailable(f"port {requested} on this machine is in use by {by}")
    first = zlib.crc32(launch.execution_id.encode()) % PORTS
    for number in range(PORTS):
        port = FIRST_PORT + (first + number) % PORTS
        if port not in taken and is_port_free(port):
            return port
    raise Unavailable(f"all ports from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} on this machine are in use")


def is_port_free(port: int) -> bool:
    """Whether no program is listening on a port, on any address."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        socket.create_server(("", port), family=family, dualstack_ipv6=both).close()
    except PermissionError:  # a privileged port; the run will report the error itself
        return True
    except OSError:
        return False
    return True
