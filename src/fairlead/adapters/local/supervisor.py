"""The supervisor of one run: starts it, writes its log, enforces its limits, stops it and writes its outcome.

It is a separate program, so that a run survives server restarts: `python -m fairlead.adapters.local.supervisor
FOLDER`, with the run's secrets on standard input. Standard library only, so that it is small and starts quickly.
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
from fairlead.adapters.log_files import LogWriter
from fairlead.adapters.masking import Masker

CHUNK = 1 << 16
POLL_SECONDS = 0.1  # how often memory is measured; a process can allocate up to half a gigabyte in that time
DRAIN_SECONDS = 5.0  # without a PID namespace, a process that survives the run may keep the run's output open
LOCK_ATTEMPTS = 10
DISK_FULL = "the disk was full during the run"
MIN_FREE_BYTES = 1 << 20  # a disk with less than this counts as full, although a small file may still fit


class Supervisor:
    """Supervises a run from start to end. A served run is restarted until it is stopped."""

    def __init__(self, folder: Path, spec: Spec, secrets: dict[str, str], lock: int) -> None:
        self.folder, self.spec, self.secrets, self.lock = folder, spec, secrets, lock
        self.log = LogWriter(folder / LOG)
        self.masker = Masker(secrets.values())
        self.selector = selectors.DefaultSelector()
        self.process_exit = ProcessExit()
        self.started_at = time.time()
        self.started, self.alive, self.stopping = False, True, False
        self.unsaved_phase: str | None = None  # not written because the disk was full
        self.disk_was_full = False
        self.running_since = 0.0  # monotonic: the system clock may be changed
        self.kill_at: float | None = None  # end of the grace period
        self.oom_kills = procfs.count_oom_kills()
        self.log_offset = 0  # where the current process's log begins
        self.serve_state: ServeState | None = None
        if spec.serves:
            address = readiness_probe.describe_address(spec)
            self.serve_state = ServeState(lambda: readiness_probe.find_address(spec, folder), address, time.monotonic())

    def run(self) -> None:
        """Start the run and supervise it until it has ended."""
        # Signals only wake up the loop, which then stops the run: a handler could interrupt any line. The pipe is
        # non-blocking, because many signals could fill it before it is read.
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self.selector.register(wake, selectors.EVENT_READ, None)
        # Write the state first: once the file exists, no supervisor starts the run again, even after a crash.
        self._write_state("starting")
        self.process = processes.start(self.spec, self.folder, self.secrets, self.lock)
        self.sampler = ProcessSampler(self.folder, self.spec, self.process)
        self.buffers = {
            name: LineBuffer(name, Masker(self.secrets.values()), self.log) for name in self.process.streams
        }
        for name, stream in self.process.streams.items():
            os.set_blocking(stream, False)  # the data may already have been read when its event is handled
            self.selector.register(stream, selectors.EVENT_READ, name)
        self.selector.register(self.process.report, selectors.EVENT_READ, "report")
        self._loop(wake)
        for buffer in self.buffers.values():
            buffer.finish()
        self.log.close()
        self._write_outcome()

    def _loop(self, wake: int) -> None:
        """Handle events until the run has ended and all of its output is in the log."""
        open_streams, ended_at = set(self.buffers), None
        while ended_at is None or (open_streams and time.monotonic() < ended_at + DRAIN_SECONDS):
            for key, _ in self.selector.select(POLL_SECONDS):
                if key.fd == wake:
                    os.read(wake, CHUNK)
                    self._stop("Stopped", "")
                elif key.data == "report":
                    if not self._read_report(os.read(key.fd, CHUNK)):  # the pipe is closed: init has ended
                        self.selector.unregister(key.fd)
                        ended_at = time.monotonic()
                        self.process.kill()  # remaining processes
                elif not self._read_stream(key):
                    open_streams.discard(key.data)
            for buffer in self.buffers.values():
                buffer.flush_stale()
            if ended_at is None:
                self._enforce_limits()
                self._supervise_serving()

    def _read_stream(self, key: selectors.SelectorKey) -> bool:
        """Write a stream's output to the log; return False at its end."""
        try:
            data = os.read(key.fd, CHUNK)
        except BlockingIOError:
            return True
        if data:
            self.buffers[key.data].feed(data)
        else:
            self.selector.unregister(key.fd)
        return bool(data)

    def _read_report(self, data: bytes) -> bool:
        """Handle reports from the init process; return False at their end."""
        for line in data.decode("utf-8", "replace").splitlines():
            word, _, rest = line.partition(" ")
            if word == "running":
                self._on_started()
            elif word == "used":
                self.sampler.record_rusage(*map(float, rest.split()))
            elif word == "ended":
                self.alive, self.process_exit.status = False, int(rest)
                # A run whose program was never executed is not restarted: a restart would fail the same way.
                if self.serve_state is None or self.stopping or not self.started:
                    self.process.release()
                else:
                    self._on_exit(self.serve_state)
            else:
                self.process_exit.start_error = self.masker.mask(rest)
        return bool(data)

    def _on_started(self) -> None:
        if (serve_state := self.serve_state) is not None:
            exits = serve_state.exits
            self._log_event(f"restarted after exiting {describe_times(exits)}" if exits else "started")
        if not self.started:
            self.started, self.started_at, self.running_since = True, time.time(), time.monotonic()
            if self.serve_state is None:
                self._write_state("running")

    def _on_exit(self, serve_state: ServeState) -> None:
        """Record that a served run exited. It is restarted later."""
        while keys := [key for key, _ in self.selector.select(0) if key.data in self.buffers]:
            for key in keys:  # all its processes have ended, so this terminates
                self._read_stream(key)
        for buffer in self.buffers.values():
            buffer.finish()
        outcome, status = self._describe_exit(), self.process_exit.status
        serve_state.record_exit(outcome["reason"], outcome["message"] or describe_exit(0), time.monotonic())
        self.process_exit, self.oom_kills = ProcessExit(status), procfs.count_oom_kills()
        readiness_probe.remove_socket(self.spec, self.folder)
        self._log_event(serve_state.message)
        self._write_state(serve_state.phase)

    def _supervise_serving(self) -> None:
        """Restart a served run when due, and probe whether it is ready."""
        serve_state, now = self.serve_state, time.monotonic()
        if self.unsaved_phase is not None:
            self._write_state(self.unsaved_phase)
        if serve_state is None or self.stopping:
            return
        if serve_state.is_restart_due(now):
            self.process_exit, self.alive = ProcessExit(), True
            self.log_offset = (self.folder / LOG).stat().st_size
            serve_state.record_restart(now)
            self.process.restart()
            self._write_state(serve_state.phase)
        elif self.started and self.alive and serve_state.probe(now):
            self._write_state(serve_state.phase)

    def _enforce_limits(self) -> None:
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self.kill_at = None
            self.process.kill()
        if not self.started:
            return
        exceeded = self.sampler.check()
        if exceeded is not None and self.process_exit.reason is None and self.alive:
            self.process_exit.reason, self.process_exit.message = exceeded
            if self.serve_state is None:
                self.process.kill()
            else:
                self.process.kill_processes()  # init stays, so that it can restart the run
        if self.spec.deadline is not None and time.monotonic() - self.running_since > self.spec.deadline:
            self._stop("DeadlineExceeded", f"exceeded its deadline of {self.spec.deadline:g} s")

    def _stop(self, reason: str, message: str) -> None:
        """Send SIGTERM to the run; after the grace period it is killed."""
        # A job that has ended, or was killed because of a limit, keeps that outcome. A served run is then waiting for
        # its restart, and can still be stopped.
        if self.stopping or (
            self.serve_state is None and (self.process_exit.reason or self.process_exit.status) is not None
        ):
            return
        self.stopping = True
        self.process_exit.reason, self.process_exit.message = reason, message
        self.kill_at = time.monotonic() + self.spec.grace
        if self.alive:
            self.process.terminate()
        else:
            self.process.release()

    def _log_event(self, text: str) -> None:
        self.log.write("platform", f"{text}\n".encode("utf-8", "replace"), time.time_ns())

    def _write_state(self, phase: str) -> None:
        state = {"phase": phase, "pid": os.getpid(), "boot_id": self.spec.boot_id, "started_at": self.started_at}
        if (serve_state := self.serve_state) is not None:
            state |= {"reason": serve_state.reason, "message": serve_state.message, "address": serve_state.address}
            state |= {"ends": serve_state.exits}
        try:
            write_json(self.folder / STATE, state)
            self.unsaved_phase = None
        except OSError:  # the disk is full: the run continues, and the state is written later
            if not self.started:
                raise
            self.unsaved_phase, self.disk_was_full = phase, True
        if phase != "starting":
            # Close stdout, because the server waits for its end of file.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)

    def _write_outcome(self) -> None:
        """Write the outcome, retrying while the disk is full: a run without an outcome would count as lost."""
        outcome = self._describe_exit()
        outcome |= {"started_at": self.started_at, "finished_at": time.time(), "usage": self.sampler.peaks()}
        message = outcome["message"]
        if outcome["phase"] == "failed":
            message = f"{message}; {DISK_FULL}".removeprefix("; ")
        disk_was_full = self.disk_was_full or self.log.has_gaps or _is_full(self.folder)
        while self.folder.exists():
            try:
                write_json(self.folder / OUTCOME, outcome | ({"message": message} if disk_was_full else {}))
                return
            except OSError:
                disk_was_full = True
                time.sleep(POLL_SECONDS)

    def _describe_exit(self) -> dict[str, Any]:
        """Build the outcome of the current process."""
        if self.process_exit.killed and procfs.count_oom_kills() > self.oom_kills:
            self.process_exit.reason, self.process_exit.message = "OOMKilled", "this machine ran out of memory"
        log = self.folder / LOG
        return build_outcome(self.process_exit, Path(self.spec.home), log, self.masker, log_offset=self.log_offset)


def main() -> int:
    """Supervise the run in a folder, unless it has or had a supervisor."""
    folder = Path(sys.argv[1])
    os.umask(0o077)  # the log and the outcome are private; other users can traverse the folder
    with (folder / LOCK).open("w") as lock:
        if not _acquire(lock.fileno()):
            return 0
        if (folder / STATE).exists():
            return 0  # the run was started before: never start it twice
        spec = Spec.load(folder)
        secrets = json.loads(sys.stdin.buffer.read())
        try:
            Supervisor(folder, spec, secrets, lock.fileno()).run()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return os.EX_TEMPFAIL  # not even the first state could be written, so the run can be started again later
    return 0


def _is_full(folder: Path) -> bool:
    """Whether a disk has almost no free space."""
    try:
        file_system = os.statvfs(folder)
    except OSError:
        return False
    return file_system.f_bavail * file_system.f_frsize < MIN_FREE_BYTES


def _acquire(lock: int) -> bool:
    """Lock the run; return False if another supervisor holds the lock. The server holds it only for a moment."""
    for _ in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(POLL_SECONDS / LOCK_ATTEMPTS)
        else:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
