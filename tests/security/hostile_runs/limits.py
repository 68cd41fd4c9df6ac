"""Attempts to exceed limits: 64 MiB of memory, 32 MiB of disk, one core or half a core, MAX_PROCESSES processes."""

import contextlib
import ctypes
import fcntl
import mmap
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.security.hostile_runs.attempts import (
    MEBIBYTE,
    Known,
    check,
    exceeds,
    libc,
)

AMOUNT = 256 * MEBIBYTE
BLOCK = b"\xaa" * MEBIBYTE
HOLD_SECONDS = 2.0  # polling would notice it in this time
DISK_SECONDS = 8.0  # disk usage is measured about once per second


def fill(write: Callable[[bytes], Any], amount: int = AMOUNT) -> None:
    """Write an amount in blocks."""
    for _ in range(amount // MEBIBYTE):
        write(BLOCK)


@exceeds("memory")
def allocate_memory(known: Known) -> Any:
    del known
    held = bytearray(AMOUNT)
    held[::4096] = b"x" * len(held[::4096])
    time.sleep(HOLD_SECONDS)
    return len(held)


@exceeds("memory")
def allocate_memory_for_an_instant(known: Known) -> Any:
    """Free the memory before a measurement can notice it."""
    del known
    for _ in range(50):
        with mmap.mmap(-1, 2 * AMOUNT) as memory:
            for start in range(0, len(memory), 16 * MEBIBYTE):
                memory[start : start + 16 * MEBIBYTE] = BLOCK * 16
        time.sleep(0.05)
    return 2 * AMOUNT


@exceeds("memory")
def fill_a_memfd(known: Known) -> Any:
    del known
    with os.fdopen(os.memfd_create("hostile"), "wb", buffering=0) as file:
        fill(file.write)
        time.sleep(HOLD_SECONDS)
    return AMOUNT


@exceeds("memory")
def fill_shared_memory(known: Known) -> Any:
    with open(f"/dev/shm/filled-{known['mark']}", "wb", buffering=0) as file:
        fill(file.write)
        time.sleep(HOLD_SECONDS)
    return AMOUNT


@exceeds("memory")
def fill_shared_anonymous_memory(known: Known) -> Any:
    del known
    memory = mmap.mmap(-1, AMOUNT)
    fill(memory.write)
    time.sleep(HOLD_SECONDS)
    return AMOUNT


@exceeds("memory")
def fill_segments(known: Known) -> Any:
    del known
    for _ in range(8):
        segment = libc.shmget(0, AMOUNT // 8, 0o1600)
        check(segment)
        address = libc.shmat(segment, None, 0)
        ctypes.memset(address, 1, AMOUNT // 8)
    time.sleep(HOLD_SECONDS)
    return AMOUNT


@exceeds("memory")
def fill_pipes(known: Known) -> Any:
    del known
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    held = 0
    pipes = []
    with contextlib.suppress(OSError):
        while held < AMOUNT:
            reading, writing = os.pipe()
            with contextlib.suppress(OSError):
                fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, MEBIBYTE)
            os.set_blocking(writing, False)
            pipes.append((reading, writing))
            with contextlib.suppress(BlockingIOError):
                while True:
                    held += os.write(writing, BLOCK)
    time.sleep(HOLD_SECONDS)
    return held


@exceeds("memory")
def fill_socket_buffers(known: Known) -> Any:
    del known
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    held, pairs = 0, list[tuple[socket.socket, socket.socket]]()
    with contextlib.suppress(OSError):
        while held < AMOUNT:
            left, right = socket.socketpair()
            left.setblocking(False)
            left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MEBIBYTE)
            pairs.append((left, right))
            with contextlib.suppress(BlockingIOError):
                while True:
                    held += left.send(BLOCK)
    time.sleep(HOLD_SECONDS)
    return held


@exceeds("memory")
def fill_tcp_buffers(known: Known) -> Any:
    del known
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    held, pairs = 0, list[tuple[socket.socket, socket.socket]]()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        while held < AMOUNT and len(pairs) < 200:
            client = socket.create_connection(listener.getsockname())
            pairs.append((client, listener.accept()[0]))
            client.setblocking(False)
            for _ in range(20):
                with contextlib.suppress(BlockingIOError):
                    held += client.send(BLOCK)
                time.sleep(0.001)
    time.sleep(HOLD_SECONDS)
    return held if held >= AMOUNT else 0


@exceeds("memory")
def share_memory_among_processes(known: Known) -> Any:
    """Allocate little in each of many processes."""
    del known
    children = []
    for _ in range(16):
        child = os.fork()
        if child == 0:
            held = bytearray(AMOUNT // 16)
            held[::4096] = b"x" * len(held[::4096])
            time.sleep(HOLD_SECONDS)
            os._exit(0)
        children.append(child)
    ended = [os.waitpid(child, 0)[1] for child in children]
    return AMOUNT if ended == [0] * 16 else 0


@exceeds("memory")
def survive_the_end_of_a_child(known: Known) -> Any:
    """Let children be killed for their memory, again and again, while the main process goes on."""
    del known
    for _ in range(4):
        child = os.fork()
        if child == 0:
            held = bytearray(AMOUNT)
            held[::4096] = b"x" * len(held[::4096])
            os._exit(0)
        os.waitpid(child, 0)
    return AMOUNT


@exceeds("disk")
def fill_the_home_folder(known: Known) -> Any:
    del known
    return write_file(os.environ["FAIRLEAD_HOME"])


@exceeds("disk")
def fill_the_output_folder(known: Known) -> Any:
    del known
    return write_file(os.environ["FAIRLEAD_OUTPUT"])


@exceeds("temporary_files")
def fill_the_temporary_folder(known: Known) -> Any:
    del known
    return write_file("/tmp")


@exceeds("temporary_files")
def fill_the_other_temporary_folder(known: Known) -> Any:
    del known
    return write_file("/var/tmp")


@exceeds("disk")
def fill_an_unlinked_file(known: Known) -> Any:
    del known
    return write_file(os.environ["FAIRLEAD_HOME"], unlink=True)


@exceeds("disk")
def fill_a_folder_with_a_long_path(known: Known) -> Any:
    """Write a file whose path is longer than the kernel accepts."""
    del known
    os.chdir(os.environ["FAIRLEAD_HOME"])
    for _ in range(20):
        os.mkdir("d" * 250)
        os.chdir("d" * 250)
    return write_file(".")


@exceeds("temporary_files")
def fill_an_unlinked_temporary_file(known: Known) -> Any:
    del known
    return write_file("/tmp", unlink=True)


def write_file(folder: str, *, unlink: bool = False) -> int:
    """Write a file and hold it open."""
    path = Path(folder, "filled")
    with path.open("wb", buffering=0) as file:
        if unlink:
            path.unlink()
        fill(file.write)
        time.sleep(DISK_SECONDS)
    path.unlink(missing_ok=True)
    return AMOUNT


@exceeds("process_count")
def fork_processes(known: Known) -> Any:
    count = 0
    with contextlib.suppress(OSError):
        while count < known["max_processes"] + 50:
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
            count += 1
    return count if count > known["max_processes"] else 0


@exceeds("process_count")
def start_threads(known: Known) -> Any:
    threading.stack_size(65536)
    done = threading.Event()
    count = 0
    with contextlib.suppress(RuntimeError, OSError):
        while count < known["max_processes"] + 50:
            threading.Thread(target=done.wait, args=(30,), daemon=True).start()
            count += 1
    done.set()
    return count if count > known["max_processes"] else 0


@exceeds("cpu")
def use_other_cores(known: Known) -> Any:
    """With one core: widen the affinity, and keep two processes busy."""
    del known
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    return measure_cores(1.5, 1.3)


@exceeds("cpu_fraction")
def use_more_than_half_a_core(known: Known) -> Any:
    del known
    return measure_cores(2.0, 0.7)


def measure_cores(seconds: float, maximum: float) -> float:
    """Keep two processes busy, and return how many cores they had if that is more than the maximum."""
    started = time.monotonic()
    for _ in range(2):
        if os.fork() == 0:
            while time.monotonic() < started + seconds:
                pass
            os._exit(0)
    for _ in range(2):
        os.wait()
    times = os.times()
    cores = (times.children_user + times.children_system) / (time.monotonic() - started)
    return round(cores, 2) if cores > maximum else 0


@exceeds("processes")
def outlive_the_run(known: Known) -> Any:
    """Leave a process in a new session, without variables, that ignores signals. The test looks for it afterward."""
    name = f"outlives-{known['mark']}"
    program = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(120)"
    for _ in range(3):
        subprocess.Popen([sys.executable, "-S", "-c", program, name], env={}, start_new_session=True)
    time.sleep(0.5)
    return 0
