"""Watches the processes and folders of runs with epoll and inotify instead of polling. Linux only."""

import contextlib
import ctypes
import os
import selectors
import struct
import threading
from collections.abc import Callable
from pathlib import Path

IN_MOVED_TO = 0x80  # files are replaced by renaming, so they are always complete
INOTIFY_EVENT = struct.Struct("iIII")  # watch descriptor, mask, cookie, and length of the name that follows

_libc = ctypes.CDLL(None, use_errno=True)


class RunWatcher:
    """Calls `notify` when a run may have changed. One thread watches all runs."""

    def __init__(self) -> None:
        self.notify: Callable[[str], None] = lambda _run_id: None
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._wake, self._waker = os.pipe()
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        self._folders: dict[int, str] = {}  # run IDs by inotify watch descriptor
        self._inotify = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)  # -1 if the limit on instances is reached
        if self._inotify >= 0:
            self._selector.register(self._inotify, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._loop, name="watch", daemon=True)
        self._thread.start()

    def add(self, run_id: str, fd: int, close: Callable[[], None]) -> None:
        """Notify once when a file descriptor becomes readable."""
        with self._lock:
            self._selector.register(fd, selectors.EVENT_READ, (run_id, close))
        os.write(self._waker, b".")

    def add_process(self, run_id: str, pid: int) -> None:
        """Notify when a process ends, even one that another server started."""
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(pid)
            self.add(run_id, pidfd, lambda: os.close(pidfd))

    def add_folder(self, run_id: str, folder: Path) -> None:
        """Notify each time a file in a folder is replaced, for as long as the folder exists.

        If inotify is not available, the controller's periodic check finds the change later.
        """
        with self._lock:
            descriptor = _libc.inotify_add_watch(self._inotify, os.fsencode(folder), IN_MOVED_TO)
            if descriptor >= 0:
                self._folders[descriptor] = run_id

    def remove_folder(self, run_id: str) -> None:
        """Stop watching a folder."""
        with self._lock:
            for descriptor in [descriptor for descriptor, known in self._folders.items() if known == run_id]:
                del self._folders[descriptor]
                _libc.inotify_rm_watch(self._inotify, descriptor)

    def close(self) -> None:
        """Stop watching."""
        os.write(self._waker, b"x")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                key.data[1]()
        self._selector.close()
        if self._inotify >= 0:
            os.close(self._inotify)
        os.close(self._wake)
        os.close(self._waker)

    def _loop(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fd == self._inotify:
                    self._read_inotify()
                    continue
                if key.data is None:
                    if b"x" in os.read(self._wake, 4096):
                        return
                    continue
                run_id, close = key.data
                # Notify only once, because a pipe at its end and the pidfd of an ended process stay readable.
                with self._lock:
                    self._selector.unregister(key.fd)
                close()
                self.notify(run_id)

    def _read_inotify(self) -> None:
        data, at, descriptors = os.read(self._inotify, 1 << 16), 0, set()
        while at < len(data):
            descriptor, _, _, length = INOTIFY_EVENT.unpack_from(data, at)
            at += INOTIFY_EVENT.size + length
            descriptors.add(descriptor)
        # Send one notification per run, however many files were replaced.
        with self._lock:
            run_ids = [self._folders[descriptor] for descriptor in descriptors & self._folders.keys()]
        for run_id in run_ids:
            self.notify(run_id)
