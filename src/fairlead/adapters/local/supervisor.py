"""The supervisor of one run: starts it, writes its log, enforces its limits, stops it and writes its outcome.

It is a separate program, so that a run survives server restarts: `python -m fairlead.adapters.local.supervisor
FOLDER`, with the run's secrets on standard input. Standard library only, so that it is small and starts quickly.
"""

import contextlib
import errno
import fcntl
import json
import os
import selectors
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fairlead.adapters.local.outcomes import ProcessExit, build_outcome
from fairlead.adapters.local.processes import start_process
from fairlead.adapters.local.sampling import ProcessSampler
from fairlead.adapters.local.specs import LOCK, LOG, OUTCOME, SOCKET, STATE, Spec, write_json
from fairlead.adapters.logs import LogWriter, Masker
from fairlead.adapters.outcomes import describe_exit, describe_times
from fairlead.backoff import Backoff

BACKOFF = Backoff(1.0, 60.0)
BACKOFF_RESET_SECONDS = 60.0  # after being ready for this long, a run restarts with the shortest backoff again
PROBE_SECONDS = 5.0  # how often a ready run is probed
FIRST_PROBE_SECONDS, SHARE = 0.1, 20  # the longer a run takes to become ready, the less often it is probed
FAILURE_THRESHOLD = 2  # a single probe can fail because the run is busy and its backlog is full
FOLDER_DELETED = "FolderDeleted"
ENFORCED_REASONS = ("OOMKilled", "Evicted")  # the supervisor killed it; otherwise it exited on its own

CONNECT_SECONDS = 0.05  # a local listener accepts at once, or its backlog is full
PROC_SELF_FD = "/proc/self/fd"
STAGED_SOCKET = f".{SOCKET}"
OPEN_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
LOOPBACK = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}

MAX_LINE = 1 << 16  # longer lines are written in parts, so that output without line breaks does not fill memory
WAIT_SECONDS = 0.1  # how long to wait for the rest of a line, because programs may write it in several pieces

CHUNK = 1 << 16
POLL_SECONDS = 0.1  # how often memory is measured; a process can allocate up to half a gigabyte in that time
DRAIN_SECONDS = 5.0  # without a PID namespace, a process that survives the run may keep the run's output open
LOCK_ATTEMPTS = 10
DISK_FULL = "the disk was full during the run"
MIN_FREE_BYTES = 1 << 20  # a disk with less than this counts as full, although a small file may still fit


class ServeState:
    """The state of a served run. `find_address` returns the address that accepts connections, or None."""

    def __init__(self, find_address: Callable[[], str | None], address_text: str, now: float) -> None:
        self.find_address, self.address_text = find_address, address_text
        self.phase, self.reason = "starting", ""
        self.message = f"starting: not accepting connections on {address_text} yet"
        self.address: str | None = None
        self.exits = 0
        self.restart_at: float | None = None
        self._restarts = 0  # since the run was last ready for BACKOFF_RESET_SECONDS
        self._started, self._probe_at, self._failures = now, now, 0
        self._ready_since: float | None = None

    def probe(self, now: float) -> bool:
        """Probe the run if due; return whether its state changed."""
        if self.restart_at is not None or now < self._probe_at:
            return False
        if (address := self.find_address()) is not None:
            changed = self.phase != "running" or address != self.address
            self._ready_since = now if self._ready_since is None else self._ready_since
            self._probe_at, self._failures, self.address = now + PROBE_SECONDS, 0, address
            self.phase, self.reason, self.message = "running", "Ready", "ready to serve requests"
            return changed
        if self.phase != "running":
            self._probe_at = now + min(max((now - self._started) / SHARE, FIRST_PROBE_SECONDS), PROBE_SECONDS)
            return False
        self._failures, self._probe_at = self._failures + 1, now + PROBE_SECONDS
        failed = self._failures >= FAILURE_THRESHOLD
        address_lost = self.address is not None and (failed or ":" in self.address)
        if address_lost:
            self.address = None  # another program may now be listening on the port and must not get the run's requests
        if not failed:
            return address_lost
        self.phase, self.reason = "degraded", "NotReady"
        self.message = f"running, but no longer accepting connections on {self.address_text}"
        self._ready_since, self._started = None, now  # probe often again, as after a start
        return True

    def record_exit(self, reason: str, message: str, now: float) -> None:
        """Record that the process exited, and schedule its restart with exponential backoff."""
        if self._ready_since is not None and now - self._ready_since >= BACKOFF_RESET_SECONDS:
            self._restarts = 0
        pause = BACKOFF.pause(self._restarts)
        self.exits, self._restarts = self.exits + 1, self._restarts + 1
        self.restart_at, self.address, self._ready_since = now + pause, None, None
        self.phase, self.reason = "degraded", reason if reason in ENFORCED_REASONS else "CrashLoopBackOff"
        self._exit_message = f"{message}; it has exited {describe_times(self.exits)}"
        self.message = f"{self._exit_message} and will restart in {pause:g} s"

    def is_restart_due(self, now: float) -> bool:
        """Whether the process should be restarted now."""
        return self.restart_at is not None and now >= self.restart_at

    def record_restart(self, now: float) -> None:
        """Record that the process was restarted."""
        self.restart_at, self._started, self._probe_at = None, now, now
        self.message = f"{self._exit_message} and was restarted: not accepting connections on {self.address_text} yet"


def find_address(spec: Spec, folder: Path) -> str | None:
    """Return the address that accepts connections: the name of the socket, or host:port. None if there is none yet."""
    uid = os.getuid() if spec.identity.outer_uid is None else spec.identity.outer_uid
    if spec.port is not None:
        return _find_host(spec.port, uid)
    with contextlib.suppress(OSError), _open(folder, OPEN_FOLDER) as run_folder:
        with contextlib.suppress(OSError), _open(spec.home, OPEN_FOLDER) as home:
            if _is_own_socket(home, uid):
                # Move the socket to a folder that the run cannot write to, so that the run cannot replace it with a
                # symbolic link. It may already have done so, so check again before the socket gets its final name.
                os.rename(SOCKET, STAGED_SOCKET, src_dir_fd=home, dst_dir_fd=run_folder)
                if _is_own_socket(run_folder, uid, STAGED_SOCKET):
                    os.rename(STAGED_SOCKET, SOCKET, src_dir_fd=run_folder, dst_dir_fd=run_folder)
        if _is_own_socket(run_folder, uid):
            return SOCKET
    return None


def remove_socket(spec: Spec, folder: Path) -> None:
    """Remove the socket of a process that has ended."""
    for path in (folder, spec.home):
        with contextlib.suppress(OSError), _open(path, OPEN_FOLDER) as fd:
            os.unlink(SOCKET, dir_fd=fd)


def describe_address(spec: Spec) -> str:
    """Describe the address on which a run should listen."""
    return f"port {spec.port} ($PORT)" if spec.port is not None else "its socket"


def _is_own_socket(folder: int, uid: int, name: str = SOCKET) -> bool:
    """Whether a file is the user's socket and accepts connections. All checks use the same open file."""
    with contextlib.suppress(OSError), _open(name, os.O_PATH | os.O_NOFOLLOW, folder) as fd:
        status = os.fstat(fd)
        is_socket = stat.S_ISSOCK(status.st_mode) and status.st_uid == uid
        # Connect to the file that was checked, even if its name now belongs to a different file.
        return is_socket and _accepts_connections(socket.AF_UNIX, f"{PROC_SELF_FD}/{fd}")
    return False


def _find_host(port: int, uid: int) -> str | None:
    from fairlead.socket_owners import find_owners  # here, because few runs have a port

    for host, family in LOOPBACK.items():
        # There are no owners if /proc cannot be read.
        if _accepts_connections(family, (host, port)) and {each.uid for each in find_owners(host, port)} <= {uid}:
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return None


def _accepts_connections(family: int, address: str | tuple[str, int]) -> bool:
    try:
        with socket.socket(family) as client:
            client.settimeout(CONNECT_SECONDS)
            client.connect(address)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _open(path: str | Path, flags: int, folder: int | None = None) -> Iterator[int]:
    fd = os.open(path, flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


class LineBuffer:
    """The buffer of one output stream."""

    def __init__(self, stream: str, masker: Masker, log: LogWriter) -> None:
        self.stream, self.masker, self.log = stream, masker, log
        self.pending, self.since = b"", 0.0

    def feed(self, data: bytes) -> None:
        """Add output; write complete lines to the log."""
        self.since = self.since if self.pending else time.monotonic()
        self.pending += self.masker.feed(data)
        if len(self.pending) >= MAX_LINE:
            self._write(len(self.pending))
        else:
            self._write(self.pending.rfind(b"\n") + 1)

    def flush_stale(self) -> None:
        """Write a partial line that has waited long enough."""
        if self.pending and time.monotonic() - self.since > WAIT_SECONDS:
            self._write(len(self.pending))

    def finish(self) -> None:
        """Write all remaining output."""
        self.pending += self.masker.finish()
        self._write(len(self.pending))

    def _write(self, length: int) -> None:
        if length:
            self.log.write(self.stream, self.pending[:length], time.time_ns())
            self.pending, self.since = self.pending[length:], time.monotonic()


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
        self.log_offset = 0  # where the current process's log begins
        self.serve_state: ServeState | None = None
        if spec.serves:
            address = describe_address(spec)
            self.serve_state = ServeState(lambda: find_address(spec, folder), address, time.monotonic())

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
        self.process = start_process(self.spec, self.folder, self.secrets, self.lock)
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
        self.process.cgroup.remove()

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
        self.process_exit = ProcessExit(status)
        remove_socket(self.spec, self.folder)
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
            self.sampler.reset_ooms()
            self.process.restart()
            self._write_state(serve_state.phase)
        elif self.started and self.alive and serve_state.probe(now):
            self._write_state(serve_state.phase)

    def _enforce_limits(self) -> None:
        if self.process_exit.reason != FOLDER_DELETED and not self._has_folder():
            # Without the folder, nobody could see the log or the outcome, and the server could start the run again.
            self.stopping, self.process_exit.reason = True, FOLDER_DELETED
            self.process.kill()
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

    def _has_folder(self) -> bool:
        """Whether the run's folder still exists. It may have been replaced: a later start creates a new one."""
        try:
            return os.path.samestat(os.stat(self.folder / LOCK), os.fstat(self.lock))
        except (FileNotFoundError, NotADirectoryError):
            return False

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
            # Close the stdout pipe, because the server waits for EOF on it.
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
        while self._has_folder():
            try:
                write_json(self.folder / OUTCOME, outcome | ({"message": message} if disk_was_full else {}))
                return
            except OSError:
                disk_was_full = True
                time.sleep(POLL_SECONDS)

    def _describe_exit(self) -> dict[str, Any]:
        """Build the outcome of the current process."""
        oom = self.sampler.check_oom(killed=self.process_exit.killed)
        if oom is not None and self.process_exit.reason is None:
            self.process_exit.reason, self.process_exit.message = oom
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
