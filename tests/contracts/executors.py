"""The executor in memory: the contract of executors as plain Python, and benches on which any executor is tried."""

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from fairlead.adapters.local.executors import LocalExecutor
from fairlead.adapters.local.machines import Machine
from fairlead.core.attempts import run_id_of
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import read_pod_request
from fairlead.errors import NotFound, Unavailable
from fairlead.model.nodes import Node, ScheduledPod
from fairlead.model.observations import Check, Endpoint, LaunchSpec, LogEntry, LogPage, Observation, OutputFile, Phase
from fairlead.ports import Executor
from tests.adapters.local.making import make_work, runtime
from tests.contracts.samples import NOW
from tests.core.nodes import make_amounts
from tests.databases import wait_until

ENDED = (Phase.SUCCEEDED, Phase.FAILED)

# The programs of test runs. The executor in memory simulates them.
RETURNS = """
import os, sys
def main():
    print("hello", flush=True)
    print("oops", file=sys.stderr, flush=True)
    out = os.environ["FAIRLEAD_OUTPUT"]
    os.mkdir(f"{out}/deep")
    for name in ("model.bin", "deep/notes.txt"):
        with open(f"{out}/{name}", "a") as file:
            file.write("once")
    return {"n": 7}
"""
SAID: Mapping[str, bytes] = {"stdout": b"hello\n", "stderr": b"oops\n", "platform": b""}
FAILS = """
def main():
    raise ValueError("bad")
"""
WAITS = """
import time
def main():
    print("up", flush=True)
    time.sleep(60)
"""

SERVES = """
import os
def main(code=None):
    if code is not None:
        os._exit(code)
    return os.getpid()
"""


@dataclass
class Kept:
    """The state of one run in the executor in memory."""

    work: LaunchSpec
    seen: Observation
    log: list[LogEntry] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)


class MemoryExecutor:
    """An executor in memory, whose runs advance when a test says so. Several executors can share one machine."""

    has_scheduler = False

    def __init__(self, node: Node | None = None, kept: dict[str, Kept] | None = None) -> None:
        self.node = node or Node("box", make_amounts(cpu=8, mem="32Gi", disk="100Gi", gpu=2, pods=16))
        self.kept: dict[str, Kept] = {} if kept is None else kept
        self.volumes: set[str] = set()
        self.clock: Callable[[], datetime] = lambda: NOW
        self.calls: list[tuple[str, str]] = []  # the calls that change something
        self.broken: dict[str, Exception] = {}  # errors of observe by run
        self.endpoints: dict[str, Endpoint] = {}  # where runs listen
        self.cores = 0.5  # that each run uses

    # The port

    def start(self, work: LaunchSpec) -> None:
        """See to it that a run executes, unless it does or did."""
        self._call("start", work.run_id)
        if work.run_id in self.kept:
            return
        self.volumes |= {volume.id for volume in work.volumes.values()}
        claims = [
            volume["persistentVolumeClaim"]["claimName"]
            for volume in work.manifests[0]["spec"]["template"]["spec"].get("volumes", ())
            if "persistentVolumeClaim" in volume
        ]
        made = [manifest["metadata"]["name"] for manifest in work.manifests]
        missing = [claim for claim in claims if claim not in (*made, *work.volumes)]
        self.kept[work.run_id] = Kept(work, Observation(Phase.STARTING))
        if missing:
            self.end(work.run_id, Phase.FAILED, reason="StartFailed", message=f"volume {missing[0]} does not exist")

    def stop(self, run_id: str) -> None:
        """See to it that a run ends."""
        self._call("stop", run_id)
        if run_id in self.kept and self.kept[run_id].seen.phase not in ENDED:
            self.end(run_id, Phase.FAILED, reason="Stopped", exit_code=143, stopped=True)

    def observe(self, run_id: str) -> Observation | None:
        """The observation of a run."""
        if run_id in self.broken:
            raise self.broken[run_id]
        return self.kept[run_id].seen if run_id in self.kept else None

    def clean_up(self, run_id: str) -> None:
        """There is nothing that is needed no longer."""
        self._call("clean_up", run_id)

    def delete_run(self, run_id: str) -> None:
        """Remove everything of a run."""
        self._call("delete_run", run_id)
        self.kept.pop(run_id, None)

    def list_volumes(self) -> list[str]:
        """The ids of existing shared volumes."""
        return sorted(self.volumes)

    def remove_volume(self, volume_id: str) -> None:
        """Remove a shared volume."""
        self.volumes.discard(volume_id)

    def list_runs(self) -> list[str]:
        """The runs that have objects or files."""
        return sorted(self.kept)

    def nodes(self) -> NodeTable:
        """The one node, with what the runs hold that have not ended."""
        holdings = tuple(
            ScheduledPod(
                run_id_of(kept.work.run_id),
                kept.work.name,
                read_pod_request(kept.work.manifests).amounts,
                kept.work.project,
            )
            for kept in self.kept.values()
            if kept.seen.phase not in ENDED
        )
        return NodeTable([replace(self.node, pods=(*self.node.pods, *holdings))])

    def read_log(self, run_id: str, cursor: int, max_bytes: int) -> LogPage:
        """The log from a cursor on. A cursor is how many entries were read."""
        kept = self._find(run_id)
        if not 0 <= cursor <= len(kept.log):
            raise ValueError("the log is not that long")
        entries: list[LogEntry] = []
        for entry in kept.log[cursor:]:
            if max_bytes > 0:
                entries.append(entry)
                max_bytes -= len(entry.data)
        end = cursor + len(entries)
        return LogPage(entries, end, complete=kept.seen.phase in ENDED and end == len(kept.log))

    def read_usage(self, run_id: str) -> list[dict[str, Any]]:
        """One sample of each run."""
        return [{"at": NOW, "cpu": self.cores, "mem": 1000}] if run_id in self.kept else []

    def list_files(self, run_id: str) -> list[OutputFile]:
        """The files that a run left."""
        files = self.kept[run_id].files if run_id in self.kept else {}
        return [OutputFile(path, len(content), NOW) for path, content in sorted(files.items())]

    def open_file(self, run_id: str, path: str) -> BinaryIO:
        """One of those files."""
        if run_id not in self.kept or path not in self.kept[run_id].files:
            raise NotFound(f"run {run_id} left no file {path!r}")
        return io.BytesIO(self.kept[run_id].files[path])

    def find_endpoint(self, run_id: str) -> Endpoint:
        """The endpoint of a run, once a test has set it."""
        kept = self.kept.get(run_id)
        if kept is None or kept.seen.phase in ENDED or kept.work.manifests[0]["kind"] == "Job":
            raise NotFound(f"run {run_id} serves nothing")
        if run_id not in self.endpoints:
            raise Unavailable(f"run {run_id} does not answer yet")
        return self.endpoints[run_id]

    def check(self, projects: Sequence[str]) -> list[Check]:
        """Memory is always there."""
        del projects
        return [Check("machine", "ok", f"{self.node.name} pretends")]

    # For tests

    def go(self, run_id: str) -> None:
        """Let a run begin."""
        self.kept[run_id].seen = Observation(Phase.RUNNING, started_at=NOW)

    def write(self, run_id: str, data: bytes, stream: str = "stdout") -> None:
        """Let a run write something."""
        kept = self.kept[run_id]
        for secret in kept.work.secrets.values():
            data = data.replace(secret.encode(), b"***")
        kept.log.append(LogEntry(NOW, stream, data, len(kept.log) + 1))

    def end(self, run_id: str, phase: Phase = Phase.SUCCEEDED, **seen: Any) -> None:
        """Let a run end."""
        code = {"exit_code": 0} if phase is Phase.SUCCEEDED else {}
        times = {"started_at": NOW, "finished_at": self.clock() + timedelta(seconds=1)}
        self.kept[run_id].seen = Observation(phase, **{**code, **times, "usage": {"mem": 1000}, **seen})

    def lose(self, run_id: str) -> None:
        """Let a run vanish without a trace."""
        del self.kept[run_id]

    def count(self, call: str, run_id: str) -> int:
        """The number of calls of a kind."""
        return self.calls.count((call, run_id))

    def _call(self, call: str, run_id: str) -> None:
        self.calls.append((call, run_id))

    def _find(self, run_id: str) -> Kept:
        if run_id not in self.kept:
            raise NotFound(f"the log of run {run_id} is not kept any more")
        return self.kept[run_id]


class Bench(Protocol):
    """An executor, and how its runs are made to go on."""

    said: Mapping[str, bytes]  # what a run that returns has written, by stream
    measures: bool  # whether what a run of a moment uses is measured

    @property
    def executor(self) -> Executor:
        """An executor under test, with its programs."""

    def start(self, run_id: str, program: str, **asked: Any) -> LaunchSpec:
        """Start a run that does something."""

    def until(self, run_id: str, *phases: Phase) -> Observation:
        """Wait until a run is in one of these phases, and return its observation."""

    def again(self) -> Executor:
        """Another executor on the same machine, as after a crash of the server."""

    def close(self) -> None:
        """End all runs."""


class MemoryBench:
    """Runs that pretend."""

    said: Mapping[str, bytes] = SAID
    measures = True

    def __init__(self) -> None:
        self.executor = MemoryExecutor()
        self.programs: dict[str, str] = {}

    def start(self, run_id: str, program: str, **asked: Any) -> LaunchSpec:
        """Start a run, and know what it is to do."""
        work = make_work(run_id, program, **asked)
        self.programs.setdefault(run_id, program)
        self.executor.start(work)
        return work

    def until(self, run_id: str, *phases: Phase) -> Observation:
        """Do what the program would do."""
        seen = self.executor.kept[run_id].seen
        if seen.phase in phases or seen.phase in ENDED:
            return seen
        self.executor.go(run_id)
        if self.programs[run_id] == WAITS:
            self.executor.write(run_id, b"up\n")
        elif self.programs[run_id] == SERVES:
            self.executor.endpoints[run_id] = Endpoint("http://pretended")
            self.executor.kept[run_id].seen = Observation(
                Phase.RUNNING, "Ready", "ready to serve requests", started_at=NOW
            )
        elif self.programs[run_id] == FAILS:
            error = {"type": "ValueError", "message": "bad", "traceback": "Traceback: ValueError"}
            told = {"reason": "ExitCode", "message": "ValueError: bad", "exit_code": 1, "error": error}
            self.executor.end(run_id, Phase.FAILED, **told)
        elif self.programs[run_id] == RETURNS:
            self.executor.write(run_id, b"hello\n")
            self.executor.write(run_id, b"oops\n", "stderr")
            self.executor.kept[run_id].files |= {"model.bin": b"once", "deep/notes.txt": b"once"}
            self.executor.end(run_id, result={"kind": "json", "value": {"n": 7}})
        else:
            for word in self.executor.kept[run_id].work.secrets.values():
                self.executor.write(run_id, word.encode())
            self.executor.end(run_id)
        return self.executor.kept[run_id].seen

    def again(self) -> Executor:
        """Another one that knows the same runs."""
        return MemoryExecutor(kept=self.executor.kept)

    def close(self) -> None:
        """There is nothing to end."""


class LocalBench:
    """Real processes, in a folder of their own."""

    said: Mapping[str, bytes] = SAID
    measures = True

    def __init__(self, data: Path, machine: Machine) -> None:
        self.data, self.machine = data, machine
        self.opened: list[LocalExecutor] = []
        self.executor: LocalExecutor = self._open()

    def start(self, run_id: str, program: str, **asked: Any) -> LaunchSpec:
        """Start a run of a program."""
        work = make_work(run_id, program, **asked)
        self.executor.start(work)
        return work

    def until(self, run_id: str, *phases: Phase) -> Observation:
        """Wait for it."""
        return wait_for_phase(self.executor, run_id, *phases)

    def again(self) -> LocalExecutor:
        """Another one on the same folder."""
        return self._open()

    def close(self) -> None:
        """End all runs, and what looks after them."""
        for executor in self.opened:
            for run_id in executor.list_runs():
                executor.stop(run_id)
        for executor in self.opened:
            for run_id in executor.list_runs():
                with contextlib.suppress(AssertionError):
                    wait_until(lambda run=run_id, on=executor: is_over(on, run), seconds=20)  # type: ignore[misc]
            executor.close()

    def _open(self) -> LocalExecutor:
        executor = LocalExecutor(self.data, self.machine, runtime())
        self.opened.append(executor)
        return executor


def find_holdings(executor: Executor) -> list[ScheduledPod]:
    """The resources held by runs on all nodes."""
    return [holding for node in executor.nodes() for holding in node.pods if holding.run_id]


def wait_for_phase(executor: Executor, run_id: str, *phases: Phase) -> Observation:
    """Wait until a run is in one of these phases or has ended, and return its observation."""
    found: list[Observation] = []

    def look() -> bool:
        seen = executor.observe(run_id)
        found[:] = [] if seen is None else [seen]
        return seen is not None and seen.phase in (*phases, *ENDED)

    wait_until(look, seconds=30)
    return found[0]


def is_over(executor: Executor, run_id: str) -> bool:
    """Whether nothing goes on any more."""
    seen = executor.observe(run_id)
    return seen is None or seen.phase in ENDED


def read_all(executor: Executor, run_id: str, max_bytes: int = 1 << 20) -> Mapping[str, bytes]:
    """The output of each stream, read page by page."""
    cursor, found = 0, {"stdout": b"", "stderr": b"", "platform": b""}
    while True:
        page = executor.read_log(run_id, cursor, max_bytes)
        for entry in page.entries:
            found[entry.stream] += entry.data
        if page.complete or page.cursor == cursor:
            return found
        cursor = page.cursor
