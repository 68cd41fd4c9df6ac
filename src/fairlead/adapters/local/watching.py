"""Hears of the end of processes, and of what they tell, without asking time and again."""

import contextlib
import os
import selectors
import threading
from collections.abc import Callable


class Watch:
    """Tells that something happened to a run: one thread for all of them."""

    def __init__(self) -> None:
        self.tell: Callable[[str], None] = lambda _run_id: None
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._wake, self._waker = os.pipe()
        self._selector.register(self._wake, selectors.EVENT_READ, None)
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

    def close(self) -> None:
        """Hear of nothing any more."""
        os.write(self._waker, b"x")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                key.data[1]()
        self._selector.close()
        os.close(self._wake)
        os.close(self._waker)

    def _look(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    if b"x" in os.read(self._wake, 4096):
                        return
                    continue
                run_id, close = key.data
                with self._lock:
                    self._selector.unregister(key.fd)
                close()
                self.tell(run_id)
