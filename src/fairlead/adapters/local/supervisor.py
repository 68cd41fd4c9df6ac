"""Looks after one run: starts it, keeps its log, holds it to its limits, ends it, and writes down what came of it.

A program of its own, so that a run outlives the server: `python -m fairlead.adapters.local.supervisor FOLDER`, with the
run's secrets on its standard input. Standard library only, so that it is small and starts at once.
"""

import fcntl
import json
import os
import selectors
import signal
import sys
import time
from pathlib import Path
from typing import Any

from fairlead.adapters.local import measuring, payloads
from fairlead.adapters.local.lines import Lines
from fairlead.adapters.local.outcomes import Ending, describe_ending
from fairlead.adapters.local.sampling import Sampler
from fairlead.adapters.local.specs import LOCK, LOG, OUTCOME, STATE, Spec, write_json
from fairlead.adapters.logfiles import LogWriter
from fairlead.adapters.masking import Masker

CHUNK = 1 << 16
LOOK_SECONDS = 0.1  # how often memory is looked at: in that time a process takes half a gigabyte at most
DRAIN_SECONDS = 5.0
ATTEMPTS = 10


class Supervisor:
    """One run, from its start to its end."""

    def __init__(self, folder: Path, spec: Spec, secrets: dict[str, str]) -> None:
        self.folder, self.spec, self.secrets = folder, spec, secrets
        self.log = LogWriter(folder / LOG)
        self.masker = Masker(secrets.values())
        self.selector = selectors.DefaultSelector()
        self.ending = Ending()
        self.started_at = time.time()
        self.running, self.running_since = False, 0.0  # not by the clock, which may be set
        self.kill_at: float | None = None
        self.out_of_memory = measuring.count_out_of_memory()

    def run(self) -> None:
        """All of it."""
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self.selector.register(wake, selectors.EVENT_READ, None)
        self._write_state("starting")
        self.payload = payloads.start(self.spec, self.folder, self.secrets)
        self.sampler = Sampler(self.folder, self.spec, self.payload)
        lines = {name: Lines(name, Masker(self.secrets.values()), self.log) for name in self.payload.streams}
        for name, stream in self.payload.streams.items():
            self.selector.register(stream, selectors.EVENT_READ, name)
        self.selector.register(self.payload.report, selectors.EVENT_READ, "report")
        self._watch(wake, lines)
        for each in lines.values():
            each.finish()
        self.log.close()
        self._write_outcome()

    def _watch(self, wake: int, lines: dict[str, Lines]) -> None:
        """Until the run has ended and everything that it wrote is kept."""
        open_streams, ended_at = set(lines), None
        while ended_at is None or (open_streams and time.monotonic() < ended_at + DRAIN_SECONDS):
            for key, _ in self.selector.select(LOOK_SECONDS):
                data = os.read(key.fd, CHUNK)
                if key.fd == wake:
                    self._end("Stopped", "")
                elif key.data == "report":
                    if not self._hear(data):
                        self.selector.unregister(key.fd)
                        ended_at = time.monotonic()
                        self.payload.kill()  # whatever it left behind
                elif data:
                    lines[key.data].feed(data)
                else:
                    self.selector.unregister(key.fd)
                    open_streams.discard(key.data)
            for stream in lines.values():
                stream.flush_old()
            if ended_at is None:
                self._hold_to_limits()

    def _hear(self, data: bytes) -> bool:
        """What the process next to the run tells; False once it tells nothing more."""
        for line in data.decode("utf-8", "replace").splitlines():
            word, _, rest = line.partition(" ")
            if word == "running":
                self.running, self.started_at, self.running_since = True, time.time(), time.monotonic()
                self._write_state("running")
            elif word == "used":
                self.sampler.hear(*map(float, rest.split()))
            elif word == "ended":
                self.ending.status = int(rest)
            else:
                self.ending.trouble = self.masker.mask(rest)
        return bool(data)

    def _hold_to_limits(self) -> None:
        now = time.time()
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self.kill_at = None
            self.payload.kill()
        if not self.running:
            return
        exceeded = self.sampler.look(now)
        if exceeded is not None and self.ending.reason is None:
            self.ending.reason, self.ending.message = exceeded
            self.payload.kill()
        if self.spec.deadline is not None and time.monotonic() - self.running_since > self.spec.deadline:
            self._end("DeadlineExceeded", f"ran for longer than its deadline of {self.spec.deadline:g} s")

    def _end(self, reason: str, message: str) -> None:
        """Ask the run to end; what does not is killed after a while."""
        if self.ending.reason is None and self.ending.status is None:
            self.ending.reason, self.ending.message = reason, message
            self.kill_at = time.monotonic() + self.spec.grace
            self.payload.terminate()

    def _write_state(self, phase: str) -> None:
        state = {"phase": phase, "pid": os.getpid(), "boot_id": self.spec.boot_id, "started_at": self.started_at}
        write_json(self.folder / STATE, state)
        if phase == "running":
            # The server waits for the end of this.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _write_outcome(self) -> None:
        if self.ending.killed and measuring.count_out_of_memory() > self.out_of_memory:
            self.ending.reason, self.ending.message = "OOMKilled", "this machine had no memory left"
        outcome: dict[str, Any] = describe_ending(self.ending, Path(self.spec.home), self.folder / LOG, self.masker)
        outcome |= {"started_at": self.started_at, "finished_at": time.time(), "usage": self.sampler.peaks()}
        write_json(self.folder / OUTCOME, outcome)


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
        Supervisor(folder, spec, secrets).run()
    return 0


def _take(lock: int) -> bool:
    """Take the lock of a run; False where another supervisor has it. Who only looks has it for a moment."""
    for _ in range(ATTEMPTS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOOK_SECONDS / ATTEMPTS)
        else:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
