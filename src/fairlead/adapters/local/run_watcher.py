"""Hears of the end of processes, and of what they tell, without asking time and again. Linux only."""

import contextlib
import ctypes
import os
import selectors
import struct
import threading
from collections.abc import Callable
from pathlib import Path

IN_MOVED_TO = 0x80  # a file that is written aside and put in its place is whole
EVENT = struct.Struct("iIII")

_libc = ctypes.CDLL(None, use_errno=True)


class RunWatcher:
    """Tells that something happened to a run: one thread for all of them."""

    def __init__(self) -> None:
        self.notify: Callable[[str], None] = lambda _run_id: None
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._wake, self._waker = os.pipe()
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        self._folders: dict[int, str] = {}  # runs, by what the kernel calls their folders
        self._notes = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)  # -1 where there are too many of them
        if self._notes >= 0:
            self._selector.register(self._notes, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
        self._thread.start()

    def add(self, run_id: str, fd: int, close: Callable[[], None]) -> None:
        """Tell of a run when a file descriptor can be read, once."""
        with self._lock:
            self._selector.register(fd, selectors.EVENT_READ, (run_id, close))
        os.write(self._waker, b".")

    def add_process(self, run_id: str, pid: int) -> None:
        """Tell of a run when a process ends, also one that another server started."""
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(pid)
            self.add(run_id, pidfd, lambda: os.close(pidfd))

    def add_folder(self, run_id: str, folder: Path) -> None:
        """Tell of a run each time that a file in a folder is replaced, for as long as the folder is there.

        Where the kernel does not tell, whoever looks from time to time finds it later.
        """
        with self._lock:
            number = _libc.inotify_add_watch(self._notes, os.fsencode(folder), IN_MOVED_TO)
            if number >= 0:
                self._folders[number] = run_id

    def remove_folder(self, run_id: str) -> None:
        """Tell no more of a folder."""
        with self._lock:
            for number in [number for number, known in self._folders.items() if known == run_id]:
                del self._folders[number]
                _libc.inotify_rm_watch(self._notes, number)

    def close(self) -> None:
        """Hear of nothing any more."""
        os.write(self._waker, b"x")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                key.data[1]()
        self._selector.close()
        if self._notes >= 0:
            os.close(self._notes)
        os.close(self._wake)
        os.close(self._waker)

    def _look(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fd == self._notes:
                    self._read_notes()
                    continue
                if key.data is None:
                    if b"x" in os.read(self._wake, 4096):
                        return
                    continue
                run_id, close = key.data
                with self._lock:
                    self._selector.unregister(key.fd)
                close()
                self.notify(run_id)

    def _read_notes(self) -> None:
        data, at, found = os.read(self._notes, 1 << 16), 0, set()
        while at < len(data):
            number, _, _, length = EVENT.unpack_from(data, at)
            at += EVENT.size + length
            found.add(number)
        with self._lock:
            known = [self._folders[number] for number in found & self._folders.keys()]
        for run_id in known:
            self.notify(run_id)
