"""Attempts on other processes: reading, changing and signaling them."""

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import time
from pathlib import Path
from typing import Any

from tests.security.hostile_runs.attempts import (
    F_SETSIG,
    PREVENTED,
    PTRACE_ATTACH,
    PTRACE_SEIZE,
    Known,
    contains,
    foreign_pids,
    libc,
    system_call,
    targets,
)


@targets("processes")
def see_other_processes(known: Known) -> Any:
    names = [name for name in os.listdir("/proc") if name.isdigit()]
    return [name for name in names if contains(f"/proc/{name}/cmdline", known["bystander"])]


@targets("processes")
def read_the_environment_of_other_processes(known: Known) -> Any:
    return [pid for pid in known["pids"] if contains(f"/proc/{pid}/environ", known["mark"])]


@targets("processes")
def trace_other_processes(known: Known) -> Any:
    return [
        (pid, request)
        for pid in foreign_pids(known)
        for request in (PTRACE_SEIZE, PTRACE_ATTACH)
        if libc.ptrace(request, pid, None, None) == 0
    ]


@targets("processes")
def read_the_memory_of_other_processes(known: Known) -> Any:
    opened = []
    for pid in foreign_pids(known):
        with contextlib.suppress(OSError):
            os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
            opened.append(pid)
    return opened


@targets("processes")
def copy_the_memory_of_other_processes(known: Known) -> Any:
    own = (ctypes.c_void_p * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    other = (ctypes.c_void_p * 2)(1 << 30, 8)
    results = []
    for pid in foreign_pids(known):
        ctypes.set_errno(0)
        libc.process_vm_readv(pid, own, 1, other, 1, 0)
        if ctypes.get_errno() not in {*PREVENTED, errno.ESRCH}:
            results.append(pid)
    return results


@targets("processes")
def take_files_of_other_processes(known: Known) -> Any:
    taken = []
    for pid in foreign_pids(known):
        with contextlib.suppress(OSError):
            if (call := system_call("pidfd_getfd", os.pidfd_open(pid), 0, 0)) is not None:
                taken.append((pid, call))
    return taken


@targets("processes")
def list_open_files_of_other_processes(known: Known) -> Any:
    listed = []
    for pid in foreign_pids(known):
        with contextlib.suppress(OSError):
            listed += [f"{pid}/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    return listed


@targets("processes")
def change_limits_of_other_processes(known: Known) -> Any:
    changed = []
    for pid in foreign_pids(known):
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
            changed.append(pid)
    return changed


@targets("processes")
def change_priorities_of_other_processes(known: Known) -> Any:
    changed = []
    for pid in foreign_pids(known):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, pid, 19)
            changed.append(pid)
    return changed


@targets("processes")
def move_other_processes_to_another_core(known: Known) -> Any:
    changed = []
    for pid in foreign_pids(known):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(pid, os.sched_getaffinity(pid))
            changed.append(pid)
    return changed


@targets("processes")
def let_other_processes_be_killed_first(known: Known) -> Any:
    changed = []
    for pid in foreign_pids(known):
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000", "ascii")
            changed.append(pid)
    return changed


@targets("users")
def be_killed_last(known: Known) -> Any:
    del known
    Path("/proc/self/oom_score_adj").write_text("-900", "ascii")
    return "oom_score_adj is -900"


@targets("users")
def get_a_higher_priority(known: Known) -> Any:
    del known
    os.setpriority(os.PRIO_PROCESS, 0, -10)
    return "niceness is -10"


@targets("users")
def get_a_real_time_priority(known: Known) -> Any:
    del known
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    return "scheduler is FIFO"


@targets("processes")
def send_signals_to_other_processes(known: Known) -> Any:
    reached = []
    for pid in foreign_pids(known):
        with contextlib.suppress(OSError):
            os.kill(pid, 0)
            reached.append(pid)
    return reached


@targets("processes")
def send_signals_to_process_groups(known: Known) -> Any:
    reached = []
    for pid in foreign_pids(known):
        with contextlib.suppress(OSError):
            os.killpg(pid, 0)
            reached.append(pid)
    return reached


@targets("processes")
def send_signals_through_descriptors(known: Known) -> Any:
    reached = []
    for pid in foreign_pids(known):
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(os.pidfd_open(pid), 0)
            reached.append(pid)
    return reached


@targets("processes")
def send_signals_to_threads(known: Known) -> Any:
    return [pid for pid in foreign_pids(known) if libc.tgkill(pid, pid, 0) == 0]


@targets("processes")
def send_signals_through_file_owners(known: Known) -> Any:
    """Let the kernel send SIGWINCH, which is ignored by default, to the owner of a socket."""
    sent = []
    for pid in foreign_pids(known):
        left, right = socket.socketpair()
        with left, right, contextlib.suppress(OSError):
            fcntl.fcntl(left, fcntl.F_SETOWN, pid)
            fcntl.fcntl(left, F_SETSIG, signal.SIGWINCH)
            fcntl.fcntl(left, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
            if pid == known["bystander_pid"]:
                right.send(b"x")
                time.sleep(0.2)
                if contains(known["bystander_file"], "signal"):
                    sent.append(pid)
    return sent
