"""An executor that executes nothing. Each active run uses one pod of its node, and has one log line and one file."""

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO

from fairlead.errors import NotFound
from fairlead.model.nodes import Capabilities, Node, NodeTable, ScheduledPod
from fairlead.model.quantities import NANOS
from fairlead.model.records import RunRecord, ScopeRecord
from fairlead.model.runs import Check, Endpoint, LaunchSpec, LogEntry, LogPage, Observation, OutputFile
from fairlead.ports import Store

AT = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)
FILE = "models/best model.bin"
CONTENT = b"\x00\xff"
LINE = b"epoch 1\n"
RESOURCES = ("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "pods")
LARGE_CAPACITY = dict.fromkeys(RESOURCES, 2**50 * NANOS)


class Machine:
    """An executor with one large node. Its runs are the records of the store."""

    has_scheduler = False
    capabilities = Capabilities()

    def __init__(self, store: Store) -> None:
        self.store = store
        self.scheduled: dict[str, ScheduledPod] = {}
        self.endpoints: dict[str, Endpoint] = {}

    def update_run(self, run_id: str) -> None:
        """Update the scheduled pods after a change to a run."""
        with self.store.reading() as tx:
            run = tx.get(RunRecord, id=run_id)
            project = None if run is None else tx.get(ScopeRecord, scope=run.scope)
        if run is None or project is None or not run.active:
            self.scheduled.pop(run_id, None)
        else:
            self.scheduled[run_id] = ScheduledPod(run_id, run.function, {"pods": NANOS}, project.id)

    def nodes(self) -> NodeTable:
        """The node with its allocations."""
        return NodeTable([Node("machine", LARGE_CAPACITY, {}, tuple(self.scheduled.values()))])

    def read_log(self, run_id: str, cursor: int, max_bytes: int) -> LogPage:
        """One line."""
        del run_id, max_bytes
        entries = [LogEntry(AT, "stdout", LINE, len(LINE))] if cursor == 0 else []
        return LogPage(entries, max(cursor, len(LINE)), complete=True)

    def read_usage(self, run_id: str) -> list[dict[str, Any]]:
        """One sample."""
        del run_id
        return [{"at": AT, "cpu": 0.5, "memory": 1024}]

    def list_files(self, run_id: str) -> list[OutputFile]:
        """One file."""
        del run_id
        return [OutputFile(FILE, len(CONTENT), AT)]

    def open_file(self, run_id: str, path: str) -> BinaryIO:
        """The content of that file."""
        if path != FILE:
            raise NotFound(f"run {run_id} left no such file")
        return io.BytesIO(CONTENT)

    def find_endpoint(self, run_id: str) -> Endpoint:
        """The endpoint of a run, once a test has set it."""
        if run_id not in self.endpoints:
            raise NotFound(f"run {run_id} serves nothing")
        return self.endpoints[run_id]

    def check(self, projects: Sequence[str]) -> list[Check]:
        """One check that passes, and one problem."""
        del projects
        return [Check("machine", "ok", "there is one"), Check("gpus", "problem", "there is none", "buy one")]

    def start(self, launch: LaunchSpec) -> None:
        """Must not be called."""
        raise AssertionError(launch)

    def stop(self, run_id: str) -> None:
        """Must not be called."""
        raise AssertionError(run_id)

    def observe(self, run_id: str) -> Observation | None:
        """Must not be called."""
        raise AssertionError(run_id)

    clean_up = delete_run = remove_volume = stop

    def list_runs(self) -> list[str]:
        """Must not be called."""
        raise AssertionError

    list_volumes = list_runs
