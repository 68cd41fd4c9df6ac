"""Landlock rules of runs: the files that a run may access, and the processes and sockets that it may reach.

Standard library only. Without user namespaces, Landlock restricts which files a run can access. On every machine, it
keeps a run's signals and its connections to abstract Unix sockets within the run.
"""

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from fairlead.adapters.local.specs import SHARED_MEMORY, TEMPORARY_FOLDERS, Spec

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on all architectures
GET_VERSION, RULE_PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
DEVICE = READ_FILE | WRITE_FILE | READ_DIR | IOCTL_DEV
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the rights that a rule for a file may have
# All rights, by the first ABI version that has them.
RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
ABSTRACT_SOCKETS, SIGNALS = 1, 2
SCOPES_ABI = 6

SYSTEM_FOLDERS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/snap", "/proc", "/sys"),
    *("/var/lib/ca-certificates", "/var/cache/fontconfig"),
)

_libc = ctypes.CDLL(None, use_errno=True)


def find_abi() -> int:
    """Return the version of Landlock; 0 if the kernel does not have it, or if it is disabled."""
    return max(0, _call(CREATE_RULESET, None, 0, GET_VERSION))


def restrict(spec: Spec) -> None:
    """Restrict this process and its descendants. Needs NO_NEW_PRIVS. Without Landlock, nothing is restricted."""
    abi = find_abi()
    rights = 0 if spec.isolated else next((RIGHTS[since] for since in sorted(RIGHTS, reverse=True) if since <= abi), 0)
    scopes = ABSTRACT_SOCKETS | SIGNALS if abi >= SCOPES_ABI else 0
    if not rights and not scopes:
        return
    attributes = struct.pack("=QQQ", rights, 0, scopes)
    ruleset = _check(_call(CREATE_RULESET, attributes, len(attributes), 0))
    if rights:
        for path, access in _list_rules(spec):
            _allow(ruleset, path, access & rights)
    _check(_call(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _list_rules(spec: Spec) -> Iterator[tuple[str, int]]:
    """List the paths that the run may access, with the rights."""
    everything = max(RIGHTS.values())
    code = str(Path(spec.home).with_name("code"))
    for path in (*SYSTEM_FOLDERS, code, *spec.revealed):
        yield from ((allowed, READ) for allowed in _exclude(path, spec.hidden))
    for path in (*TEMPORARY_FOLDERS, SHARED_MEMORY):
        yield from ((allowed, everything) for allowed in _exclude(path, spec.hidden))
    for name in spec.list_devices():
        yield f"/dev/{name}", DEVICE
    yield spec.home, everything


def _exclude(path: str, hidden: Iterable[str]) -> list[str]:
    """Return a path, or its other contents if it has hidden folders, because a rule cannot exclude part of a folder."""
    path = os.path.realpath(path)
    folders = [os.path.realpath(folder) for folder in hidden]
    if path in folders:
        return []
    if not any(Path(folder).is_relative_to(path) for folder in folders):
        return [path]
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        children = [entry.path for entry in entries if not entry.is_symlink()]
        return [allowed for child in children for allowed in _exclude(child, folders)]
    return []


def _allow(ruleset: int, path: str, access: int) -> None:
    # Skip paths that this process cannot open. It already has the run's user, so the run could not open them either.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= OF_FILES
        rule = struct.pack("=Qi", access, descriptor)
        _check(_call(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0))
        os.close(descriptor)


def _call(number: int, *arguments: int | bytes | None) -> int:
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return int(_libc.syscall(ctypes.c_long(number), *values))


def _check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno()).lower()}")
    return result
