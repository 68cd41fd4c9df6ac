"""An executor in memory, and test benches that run the contract tests on any executor."""

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from fairlead.adapters.local.executor import LocalExecutor
from fairlead.adapters.local.machines import Machine
from fairlead.errors import NotFound, Unavailable
from fairlead.lifecycle.attempts import run_id_of
from fairlead.model.nodes import Capabilities, Node, NodeTable, ScheduledPod
from fairlead.model.runs import Check, Endpoint, LaunchSpec, LogEntry, LogPage, Observation, OutputFile, Phase
from fairlead.ports import Executor
from fairlead.run_events import RunEvents
from fairlead.scheduling.pod_requests import read_pod_request
from tests.adapters.local.making import make_launch_spec, runtime
from tests.contracts.samples import NOW
from tests.databases import wait_until
from tests.scheduling.nodes import make_amounts

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
OUTPUT: Mapping[str, bytes] = {"stdout": b"hello\n", "stderr": b"oops\n", "platform": b""}
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
class MemoryRun:
    """The state of one run in the executor in memory."""

    launch: LaunchSpec
    observation: Observation
    log: list[LogEntry] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)


class MemoryExecutor:
    """An executor in memory, whose runs advance on request. Several executors can share one machine."""

    has_scheduler = False
    capabilities = Capabilities()

    def __init__(self, node: Node | None = None, runs: dict[str, MemoryRun] | None = None) -> None:
        self.node = node or Node("box", make_amounts(cpu=8, mem="32Gi", disk="100Gi", gpu=2, pods=16))
        self.runs: dict[str, MemoryRun] = {} if runs is None else runs
        self.volumes: set[str] = set()
        self.clock: Callable[[], datetime] = lambda: NOW
        self.calls: list[tuple[str, str]] = []  # the calls that change something
        self.observe_errors: dict[str, Exception] = {}  # errors that observe raises, by run
        self.endpoints: dict[str, Endpoint] = {}  # endpoints of served runs
        self.cores = 0.5  # CPU usage of each run

    # The port

    def start(self, launch: LaunchSpec) -> None:
        """Start the run. Idempotent."""
        self._call("start", launch.execution_id)
        if launch.execution_id in self.runs:
            return
        self.volumes |= {volume.id for volume in launch.volumes.values()}
        claims = [
            volume["persistentVolumeClaim"]["claimName"]
            for volume in launch.manifests[0]["spec"]["template"]["spec"].get("volumes", ())
            if "persistentVolumeClaim" in volume
        ]
        manifest_names = [manifest["metadata"]["name"] for manifest in launch.manifests]
        missing = [claim for claim in claims if claim not in (*manifest_names, *launch.volumes)]
        self.runs[launch.execution_id] = MemoryRun(launch, Observation(Phase.STARTING))
        if missing:
            self.end(
                launch.execution_id, Phase.FAILED, reason="StartFailed", message=f"volume {missing[0]} does not exist"
            )

    def stop(self, run_id: str) -> None:
        """Stop the run. Idempotent."""
        self._call("stop", run_id)
        if run_id in self.runs and self.runs[run_id].observation.phase not in ENDED:
            self.end(run_id, Phase.FAILED, reason="Stopped", exit_code=143, stopped=True)

    def observe(self, run_id: str) -> Observation | None:
        """A run's observation."""
        if run_id in self.observe_errors:
            raise self.observe_errors[run_id]
        return self.runs[run_id].observation if run_id in self.runs else None

    def clean_up(self, run_id: str) -> None:
        """Record the call; there is nothing to remove."""
        self._call("clean_up", run_id)

    def delete_run(self, run_id: str) -> None:
        """Remove everything that belongs to a run."""
        self._call("delete_run", run_id)
        self.runs.pop(run_id, None)

    def list_volumes(self) -> list[str]:
        """The IDs of existing shared volumes."""
        return sorted(self.volumes)

    def remove_volume(self, volume_id: str) -> None:
        """Remove a shared volume."""
        self.volumes.discard(volume_id)

    def list_runs(self) -> list[str]:
        """The runs that have objects or files."""
        return sorted(self.runs)

    def nodes(self) -> NodeTable:
        """The single node, with the resources of runs that have not ended."""
        scheduled_pods = tuple(
            ScheduledPod(
                run_id_of(run.launch.execution_id),
                run.launch.name,
                read_pod_request(run.launch.manifests).amounts,
                run.launch.project_id,
            )
            for run in self.runs.values()
            if run.observation.phase not in ENDED
        )
        return NodeTable([replace(self.node, pods=(*self.node.pods, *scheduled_pods))])

    def read_log(self, run_id: str, cursor: int, max_bytes: int) -> LogPage:
        """The log starting at a cursor. A cursor is the number of entries read so far."""
        run = self._find(run_id)
        if not 0 <= cursor <= len(run.log):
            raise ValueError("the log is shorter")
        entries: list[LogEntry] = []
        for entry in run.log[cursor:]:
            if max_bytes > 0:
                entries.append(entry)
                max_bytes -= len(entry.data)
        end = cursor + len(entries)
        return LogPage(entries, end, complete=run.observation.phase in ENDED and end == len(run.log))

    def read_usage(self, run_id: str) -> list[dict[str, Any]]:
        """One sample per run."""
        return [{"at": NOW, "cpu": self.cores, "mem": 1000}] if run_id in self.runs else []

    def list_files(self, run_id: str) -> list[OutputFile]:
        """A run's output files."""
        files = self.runs[run_id].files if run_id in self.runs else {}
        return [OutputFile(path, len(content), NOW) for path, content in sorted(files.items())]

    def open_file(self, run_id: str, path: str) -> BinaryIO:
        """An output file of a run."""
        if run_id not in self.runs or path not in self.runs[run_id].files:
            raise NotFound(f"run {run_id} has no output file {path!r}")
        return io.BytesIO(self.runs[run_id].files[path])

    def find_endpoint(self, run_id: str) -> Endpoint:
        """The endpoint of a run, once a test has set it."""
        run = self.runs.get(run_id)
        if run is None or run.observation.phase in ENDED or run.launch.manifests[0]["kind"] == "Job":
            raise NotFound(f"run {run_id} serves nothing")
        if run_id not in self.endpoints:
            raise Unavailable(f"run {run_id} does not answer yet")
        return self.endpoints[run_id]

    def check(self, projects: Sequence[str]) -> list[Check]:
        """A check that always succeeds."""
        del projects
        return [Check("machine", "ok", f"{self.node.name} is simulated")]

    # For tests

    def set_running(self, run_id: str) -> None:
        """Set a run to running."""
        self.runs[run_id].observation = Observation(Phase.RUNNING, started_at=NOW)

    def write(self, run_id: str, data: bytes, stream: str = "stdout") -> None:
        """Write to a run's log."""
        run = self.runs[run_id]
        for secret in run.launch.secrets.values():
            data = data.replace(secret.encode(), b"***")
        run.log.append(LogEntry(NOW, stream, data, len(run.log) + 1))

    def end(self, run_id: str, phase: Phase = Phase.SUCCEEDED, **observation: Any) -> None:
        """End a run."""
        code = {"exit_code": 0} if phase is Phase.SUCCEEDED else {}
        times = {"started_at": NOW, "finished_at": self.clock() + timedelta(seconds=1)}
        self.runs[run_id].observation = Observation(phase, **{**code, **times, "usage": {"mem": 1000}, **observation})

    def drop_run(self, run_id: str) -> None:
        """Remove a run, so that it is no longer observed."""
        del self.runs[run_id]

    def count(self, call: str, run_id: str) -> int:
        """The number of calls of a given kind."""
        return self.calls.count((call, run_id))

    def _call(self, call: str, run_id: str) -> None:
        self.calls.append((call, run_id))

    def _find(self, run_id: str) -> MemoryRun:
        if run_id not in self.runs:
            raise NotFound(f"the log of run {run_id} no longer exists")
        return self.runs[run_id]


class Bench(Protocol):
    """Runs test programs on one kind of executor."""

    output: Mapping[str, bytes]  # the output of RETURNS, by stream
    measures_usage: bool  # whether a short run's usage is measured

    @property
    def executor(self) -> Executor:
        """The executor under test."""

    def start(self, run_id: str, program: str, **requested: Any) -> LaunchSpec:
        """Start a run of a program."""

    def until(self, run_id: str, *phases: Phase) -> Observation:
        """Wait until a run is in one of these phases, and return its observation."""

    def another_executor(self) -> Executor:
        """Another executor on the same machine, as after a server crash."""

    def close(self) -> None:
        """End all runs."""


class MemoryBench:
    """Simulated runs in memory."""

    output: Mapping[str, bytes] = OUTPUT
    measures_usage = True

    def __init__(self) -> None:
        self.executor = MemoryExecutor()
        self.programs: dict[str, str] = {}

    def start(self, run_id: str, program: str, **requested: Any) -> LaunchSpec:
        """Start a run, and remember its program."""
        launch = make_launch_spec(run_id, program, **requested)
        self.programs.setdefault(run_id, program)
        self.executor.start(launch)
        return launch

    def until(self, run_id: str, *phases: Phase) -> Observation:
        """Simulate the program."""
        observation = self.executor.runs[run_id].observation
        if observation.phase in phases or observation.phase in ENDED:
            return observation
        self.executor.set_running(run_id)
        if self.programs[run_id] == WAITS:
            self.executor.write(run_id, b"up\n")
        elif self.programs[run_id] == SERVES:
            self.executor.endpoints[run_id] = Endpoint("http://simulated")
            self.executor.runs[run_id].observation = Observation(
                Phase.RUNNING, "Ready", "ready to serve requests", started_at=NOW
            )
        elif self.programs[run_id] == FAILS:
            error = {"type": "ValueError", "message": "bad", "traceback": "Traceback: ValueError"}
            outcome = {"reason": "ExitCode", "message": "ValueError: bad", "exit_code": 1, "error": error}
            self.executor.end(run_id, Phase.FAILED, **outcome)
        elif self.programs[run_id] == RETURNS:
            self.executor.write(run_id, b"hello\n")
            self.executor.write(run_id, b"oops\n", "stderr")
            self.executor.runs[run_id].files |= {"model.bin": b"once", "deep/notes.txt": b"once"}
            self.executor.end(run_id, result={"kind": "json", "value": {"n": 7}})
        else:
            for secret in self.executor.runs[run_id].launch.secrets.values():
                self.executor.write(run_id, secret.encode())
            self.executor.end(run_id)
        return self.executor.runs[run_id].observation

    def another_executor(self) -> Executor:
        """Another executor with the same runs."""
        return MemoryExecutor(runs=self.executor.runs)

    def close(self) -> None:
        """There is nothing to end."""


class LocalBench:
    """Real processes in a separate folder."""

    output: Mapping[str, bytes] = OUTPUT
    measures_usage = True

    def __init__(self, data: Path, machine: Machine) -> None:
        self.data, self.machine, self.run_events = data, machine, RunEvents()
        self.opened: list[LocalExecutor] = []
        self.executor: LocalExecutor = self._open()

    def start(self, run_id: str, program: str, **requested: Any) -> LaunchSpec:
        """Start a run of a program."""
        launch = make_launch_spec(run_id, program, **requested)
        self.executor.start(launch)
        return launch

    def until(self, run_id: str, *phases: Phase) -> Observation:
        """Wait until a run is in one of these phases."""
        return wait_for_phase(self.executor, run_id, *phases)

    def another_executor(self) -> LocalExecutor:
        """Another executor on the same folder."""
        return self._open()

    def close(self) -> None:
        """End all runs and their supervisors."""
        for executor in self.opened:
            for run_id in executor.list_runs():
                executor.stop(run_id)
        for executor in self.opened:
            for run_id in executor.list_runs():
                with contextlib.suppress(AssertionError):
                    wait_until(lambda run=run_id, on=executor: is_over(on, run), seconds=20)  # type: ignore[misc]
            # A failed test may have deleted the folder of a run whose supervisor this process has not waited for.
            for supervisor in executor._supervisors.values():
                supervisor.kill()
                supervisor.wait()
            executor.close()

    def _open(self) -> LocalExecutor:
        executor = LocalExecutor(self.data, self.machine, runtime(), self.run_events)
        self.opened.append(executor)
        return executor


def find_scheduled_pods(executor: Executor) -> list[ScheduledPod]:
    """The scheduled run pods on all nodes."""
    return [pod for node in executor.nodes() for pod in node.pods if pod.run_id]


def wait_for_phase(executor: Executor, run_id: str, *phases: Phase) -> Observation:
    """Wait until a run is in one of these phases or has ended, and return its observation."""
    observations: list[Observation] = []

    def has_reached() -> bool:
        observation = executor.observe(run_id)
        observations[:] = [] if observation is None else [observation]
        return observation is not None and observation.phase in (*phases, *ENDED)

    wait_until(has_reached, seconds=30)
    return observations[0]


def is_over(executor: Executor, run_id: str) -> bool:
    """Whether a run has ended or does not exist."""
    observation = executor.observe(run_id)
    return observation is None or observation.phase in ENDED


def read_all(executor: Executor, run_id: str, max_bytes: int = 1 << 20) -> Mapping[str, bytes]:
    """The output of each stream, read page by page."""
    cursor, output = 0, {"stdout": b"", "stderr": b"", "platform": b""}
    while True:
        page = executor.read_log(run_id, cursor, max_bytes)
        for entry in page.entries:
            output[entry.stream] += entry.data
        if page.complete or page.cursor == cursor:
            return output
        cursor = page.cursor
