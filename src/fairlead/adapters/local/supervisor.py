"""Looks after one run: starts it, keeps its log, holds it to its limits, ends it, and writes down what came of it.

A program of its own, so that a run outlives the server: `python -m fairlead.adapters.local.supervisor FOLDER`, with the
run's secrets on its standard input. Standard library only, so that it is small and starts at once.
"""

import errno
import fcntl
import json
import os
import selectors
import signal
import sys
import time
from pathlib import Path
from typing import Any

from fairlead.adapters.exits import describe_exit, describe_times
from fairlead.adapters.local import processes, procfs, readiness_probe
from fairlead.adapters.local.log_lines import LineBuffer
from fairlead.adapters.local.outcomes import ProcessExit, build_outcome
from fairlead.adapters.local.sampling import ProcessSampler
from fairlead.adapters.local.serve_state import ServeState
from fairlead.adapters.local.specs import LOCK, LOG, OUTCOME, STATE, Spec, write_json
from fairlead.adapters.logfiles import LogWriter
from fairlead.adapters.masking import Masker

CHUNK = 1 << 16
POLL_SECONDS = 0.1  # how often memory is looked at: in that time a process takes half a gigabyte at most
DRAIN_SECONDS = 5.0
ATTEMPTS = 10
FULL = "the disk was full while it ran"
NEXT_TO_NOTHING = 1 << 20  # bytes


class Supervisor:
    """One run, from its start to its end. One that serves is started again until it is stopped."""

    def __init__(self, folder: Path, spec: Spec, secrets: dict[str, str], lock: int) -> None:
        self.folder, self.spec, self.secrets, self.lock = folder, spec, secrets, lock
        self.log = LogWriter(folder / LOG)
        self.masker = Masker(secrets.values())
        self.selector = selectors.DefaultSelector()
        self.ending = ProcessExit()
        self.started_at = time.time()
        self.began, self.alive, self.stopping = False, True, False
        self.untold: str | None = None  # a phase that could not be written, because the disk was full
        self.lacked_room = False
        self.running_since = 0.0  # not by the clock, which may be set
        self.kill_at: float | None = None
        self.out_of_memory = procfs.count_oom_kills()
        self.log_from = 0  # where in the log that begins which the process of now has written
        self.served: ServeState | None = None
        if spec.serves:
            place = readiness_probe.describe_address(spec)
            self.served = ServeState(lambda: readiness_probe.find_address(spec, folder), place, time.monotonic())

    def run(self) -> None:
        """All of it."""
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self.selector.register(wake, selectors.EVENT_READ, None)
        self._write_state("starting")
        self.payload = processes.start(self.spec, self.folder, self.secrets, self.lock)
        self.sampler = ProcessSampler(self.folder, self.spec, self.payload)
        self.lines = {name: LineBuffer(name, Masker(self.secrets.values()), self.log) for name in self.payload.streams}
        for name, stream in self.payload.streams.items():
            os.set_blocking(stream, False)  # what it wrote may have been read by the time that its turn comes
            self.selector.register(stream, selectors.EVENT_READ, name)
        self.selector.register(self.payload.report, selectors.EVENT_READ, "report")
        self._watch(wake)
        for each in self.lines.values():
            each.finish()
        self.log.close()
        self._write_outcome()

    def _watch(self, wake: int) -> None:
        """Until the run has ended and everything that it wrote is kept."""
        open_streams, ended_at = set(self.lines), None
        while ended_at is None or (open_streams and time.monotonic() < ended_at + DRAIN_SECONDS):
            for key, _ in self.selector.select(POLL_SECONDS):
                if key.fd == wake:
                    os.read(wake, CHUNK)
                    self._end("Stopped", "")
                elif key.data == "report":
                    if not self._hear(os.read(key.fd, CHUNK)):
                        self.selector.unregister(key.fd)
                        ended_at = time.monotonic()
                        self.payload.kill()  # whatever it left behind
                elif not self._feed(key):
                    open_streams.discard(key.data)
            for stream in self.lines.values():
                stream.flush_stale()
            if ended_at is None:
                self._hold_to_limits()
                self._tend()

    def _feed(self, key: selectors.SelectorKey) -> bool:
        """Keep what a stream has written; False at its end."""
        try:
            data = os.read(key.fd, CHUNK)
        except BlockingIOError:
            return True
        if data:
            self.lines[key.data].feed(data)
        else:
            self.selector.unregister(key.fd)
        return bool(data)

    def _hear(self, data: bytes) -> bool:
        """What the process next to the run tells; False once it tells nothing more."""
        for line in data.decode("utf-8", "replace").splitlines():
            word, _, rest = line.partition(" ")
            if word == "running":
                self._begin()
            elif word == "used":
                self.sampler.hear(*map(float, rest.split()))
            elif word == "ended":
                self.alive, self.ending.status = False, int(rest)
                if self.served is None or self.stopping or not self.began:
                    self.payload.release()
                else:
                    self._pause(self.served)
            else:
                self.ending.start_error = self.masker.mask(rest)
        return bool(data)

    def _begin(self) -> None:
        if self.served is not None:
            again = f" again, after it had ended {describe_times(self.served.ends)}" if self.served.ends else ""
            self._say(f"is started{again}")
        if not self.began:
            self.began, self.started_at, self.running_since = True, time.time(), time.monotonic()
            if self.served is None:
                self._write_state("running")

    def _pause(self, served: ServeState) -> None:
        """Tell how the process of a run that serves ended; it is started again after a while."""
        while keys := [key for key, _ in self.selector.select(0) if key.data in self.lines]:
            for key in keys:  # nobody is left who could write more
                self._feed(key)
        for stream in self.lines.values():
            stream.finish()
        told, status = self._describe(), self.ending.status
        served.end(told["reason"], told["message"] or describe_exit(0), time.monotonic())
        self.ending, self.out_of_memory = ProcessExit(status), procfs.count_oom_kills()
        readiness_probe.clear(self.spec, self.folder)
        self._say(served.message)
        self._write_state(served.phase)

    def _tend(self) -> None:
        """Start a run that serves again when it is time, and look whether it answers."""
        served, now = self.served, time.monotonic()
        if self.untold is not None:
            self._write_state(self.untold)
        if served is None or self.stopping:
            return
        if served.is_restart_due(now):
            self.ending, self.alive = ProcessExit(), True
            self.log_from = (self.folder / LOG).stat().st_size
            served.begin(now)
            self.payload.restart()
            self._write_state(served.phase)
        elif self.began and self.alive and served.look(now):
            self._write_state(served.phase)

    def _hold_to_limits(self) -> None:
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self.kill_at = None
            self.payload.kill()
        if not self.began:
            return
        exceeded = self.sampler.look()
        if exceeded is not None and self.ending.reason is None and self.alive:
            self.ending.reason, self.ending.message = exceeded
            if self.served is None:
                self.payload.kill()
            else:
                self.payload.kill_processes()
        if self.spec.deadline is not None and time.monotonic() - self.running_since > self.spec.deadline:
            self._end("DeadlineExceeded", f"ran for longer than its deadline of {self.spec.deadline:g} s")

    def _end(self, reason: str, message: str) -> None:
        """Ask the run to end; what does not is killed after a while."""
        if self.stopping or (self.served is None and (self.ending.reason or self.ending.status) is not None):
            return
        self.stopping = True
        self.ending.reason, self.ending.message = reason, message
        self.kill_at = time.monotonic() + self.spec.grace
        if self.alive:
            self.payload.terminate()
        else:
            self.payload.release()

    def _say(self, text: str) -> None:
        self.log.write("platform", f"{text}\n".encode("utf-8", "replace"), time.time_ns())

    def _write_state(self, phase: str) -> None:
        state = {"phase": phase, "pid": os.getpid(), "boot_id": self.spec.boot_id, "started_at": self.started_at}
        if (served := self.served) is not None:
            state |= {"reason": served.reason, "message": served.message, "address": served.address}
            state |= {"ends": served.ends}
        try:
            write_json(self.folder / STATE, state)
            self.untold = None
        except OSError:  # the disk is full: a run that goes on does so, and this is told later
            if not self.began:
                raise
            self.untold, self.lacked_room = phase, True
        if phase != "starting":
            # The server waits for the end of this.
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, sys.stdout.fileno())
            os.close(nothing)

    def _write_outcome(self) -> None:
        """As soon as there is room for it: with nothing to tell how it ended, a run would count as lost."""
        outcome = self._describe()
        outcome |= {"started_at": self.started_at, "finished_at": time.time(), "usage": self.sampler.peaks()}
        why = f"{outcome['message']}; {FULL}".removeprefix("; ") if outcome["phase"] == "failed" else outcome["message"]
        lacked_room = self.lacked_room or self.log.has_gaps or _is_full(self.folder)
        while self.folder.exists():
            try:
                write_json(self.folder / OUTCOME, outcome | ({"message": why} if lacked_room else {}))
                return
            except OSError:
                lacked_room = True
                time.sleep(POLL_SECONDS)

    def _describe(self) -> dict[str, Any]:
        """How the process of now ended."""
        if self.ending.killed and procfs.count_oom_kills() > self.out_of_memory:
            self.ending.reason, self.ending.message = "OOMKilled", "this machine had no memory left"
        log = self.folder / LOG
        return build_outcome(self.ending, Path(self.spec.home), log, self.masker, log_from=self.log_from)


def main() -> int:
    """Look after the run of a folder, unless somebody does or did."""
    folder = Path(sys.argv[1])
    os.umask(0o077)
    with (folder / LOCK).open("w") as lock:
        if not _take(lock.fileno()):
            return 0
        if (folder / STATE).exists():
            return 0  # it has run, or was running: nothing runs twice
        spec = Spec.load(folder)
        secrets = json.loads(sys.stdin.buffer.read())
        try:
            Supervisor(folder, spec, secrets, lock.fileno()).run()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return os.EX_TEMPFAIL
    return 0


def _is_full(folder: Path) -> bool:
    """Whether next to nothing can be written to a disk."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < NEXT_TO_NOTHING


def _take(lock: int) -> bool:
    """Take the lock of a run; False where another supervisor has it. Who only looks has it for a moment."""
    for _ in range(ATTEMPTS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(POLL_SECONDS / ATTEMPTS)
        else:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
