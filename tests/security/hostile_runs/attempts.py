"""Registers and makes the attempts of hostile runs, and has what several of them need. Standard library only.

An attempt returns what it achieved, or nothing if it was prevented. `TARGETS` and `LIMITS` map each attempt to the
protection that must prevent it (see model/nodes.py).
"""

import contextlib
import ctypes
import errno
import json
import os
import platform
import signal
import socket
from collections.abc import Callable
from typing import Any

Known = dict[str, Any]
Attempt = Callable[[Known], Any]

SECONDS = 20  # for one attempt, in a child process
MEBIBYTE = 1 << 20
PREVENTED = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT}
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_BIND, MNT_DETACH = 4096, 2
F_SETSIG, TIOCSTI, TIOCSCTTY, SIOCSIFFLAGS = 10, 0x5412, 0x540E, 0x8914
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206

# Numbers of system calls without a wrapper in libc: x86_64, arm64.
NUMBERS = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "add_key": (248, 217),
    "keyctl": (250, 219),
    "perf_event_open": (298, 241),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "pidfd_getfd": (438, 438),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "swapon": (167, 224),
    "acct": (163, 89),
    "process_vm_readv": (310, 270),
    "mount_setattr": (442, 442),
}
MACHINE = 0 if platform.machine() == "x86_64" else 1

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p

TARGETS: dict[str, tuple[str, Attempt]] = {}
LIMITS: dict[str, tuple[str, Attempt]] = {}


def targets(protection: str) -> Callable[[Attempt], Attempt]:
    """Register an attempt on something outside the run. All of them are made by one run."""

    def register(attempt: Attempt) -> Attempt:
        TARGETS[attempt.__name__] = (protection, attempt)
        return attempt

    return register


def exceeds(protection: str) -> Callable[[Attempt], Attempt]:
    """Register an attempt to exceed a limit. Each is made by a run of its own, which may be killed."""

    def register(attempt: Attempt) -> Attempt:
        LIMITS[attempt.__name__] = (protection, attempt)
        return attempt

    return register


def main(attempts: list[str], known: Known) -> dict[str, Any]:
    """Make attempts on targets, each in a child process; return what each achieved."""
    _join_mark(known)
    return {name: in_child_process(lambda name=name: TARGETS[name][1](known)) for name in attempts}  # type: ignore[misc]


def exceed(attempt: str, known: Known) -> Any:
    """Make one attempt to exceed a limit."""
    _join_mark(known)
    return LIMITS[attempt][1](known)


def _join_mark(known: Known) -> None:
    known["mark"] = "".join(known["pieces"])  # in two pieces, so that the attacker does not find itself


def in_child_process(attempt: Callable[[], Any]) -> Any:
    """Make an attempt in a child process, so that its side effects end with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        achieved: Any
        try:
            achieved = attempt()
        except OSError as error:
            achieved = None if error.errno in {*PREVENTED, errno.ENOENT, errno.ESRCH, errno.EROFS} else repr(error)
        except BaseException as error:  # report it, because an empty result means that the attempt was prevented
            achieved = repr(error)
        os.write(writing, json.dumps(achieved).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None  # killed, for example by a seccomp filter


def system_call(name: str, *arguments: Any) -> str | None:
    """Make a system call with arguments that change nothing; return its result unless it was prevented."""
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(NUMBERS[name][MACHINE]), *values)
    number = ctypes.get_errno()
    if result >= 0 or number not in PREVENTED:
        return f"{name}: {result} ({errno.errorcode.get(number, '')})"
    return None


def check(result: int) -> None:
    """Raise the error of a function of libc."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def contains(path: str, mark: str) -> bool:
    """Whether a file is readable and contains the mark."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            return mark.encode() in file.read(16 * MEBIBYTE)
    return False


def visible_pids(known: Known) -> list[int]:
    """All other processes that can be seen, and those whose IDs are known."""
    own = {os.getpid(), os.getppid()}
    visible = {int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"}
    # In a namespace of its own, a run sees only its own processes, and known IDs mean nothing.
    return sorted(({*known["pids"]} & visible if is_alone(known) else {*visible, *known["pids"]}) - own)


def is_alone(known: Known) -> bool:
    """Whether the run has a PID namespace of its own, in which the IDs of other processes mean nothing."""
    with contextlib.suppress(OSError):
        return bool(os.readlink("/proc/self/ns/pid") != known["pid_namespace"])
    return False


def foreign_pids(known: Known) -> list[int]:
    """Known processes that are not the run's own."""
    return [] if is_alone(known) else [pid for pid in known["pids"] if pid not in (os.getpid(), os.getppid())]


def connect(family: int, address: Any) -> str | None:
    """Connect to an address and return what it answers."""
    with socket.socket(family) as client:
        client.settimeout(3)
        client.connect(address)
        return client.recv(100).decode("utf-8", "replace") or "connected"
