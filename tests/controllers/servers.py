"""Several servers on one platform with access to the same cluster."""

from datetime import timedelta

import pytest

from fairlead.controllers import runs
from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.controllers.runs import RunController, ServerIdentity
from fairlead.controllers.work_queue import Process, log_failures
from fairlead.model.records import RunRecord
from fairlead.run_events import RECORD_EVENTS, RunEvents
from fairlead.services.registry import make_id
from tests.contracts.executors import MemoryExecutor, MemoryRun
from tests.services.executing import Platform


class ClusterExecutor(MemoryExecutor):
    """One server's executor for the shared cluster, which schedules runs itself."""

    has_scheduler = True


class SynchronousQueue:
    """A work queue without threads: it processes a run as soon as it is added."""

    def __init__(self, process: Process, on_failure: Process) -> None:
        self.process, self.on_failure = process, on_failure

    def add(self, run_id: str) -> None:
        """Process a run now."""
        with log_failures(f"reconciling run {run_id}") as failures:
            self.process(run_id)
        if failures:
            self.on_failure(run_id)

    def shut_down(self, *, wait: bool = True) -> None:
        """There is nothing to wait for."""


class Servers:
    """Several servers on one platform that share one cluster."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self.runs = platform, dict[str, MemoryRun]()
        self.executors: dict[str, ClusterExecutor] = {}
        self.controllers: dict[str, RunController] = {}

    def start(self, name: str) -> RunController:
        """Start a server, and return its controller."""
        world, platform = self.platform.world, self.platform
        self.executors[name] = ClusterExecutor(runs=self.runs)
        registry = ExecutorRegistry({"local": platform.executor, "kubernetes": self.executors[name]})
        run_events = RunEvents()
        run_events.subscribe(platform.notified.append, *RECORD_EVENTS)
        self.controllers[name] = RunController(
            world.store,
            world.keyring,
            registry,
            identity=ServerIdentity(name, f"host-{name}", f"http://{name}"),
            clock=world.clock,
            make_id=make_id,
            run_events=run_events,
        )
        return self.controllers[name]

    def advance_and_sync(self, *names: str, after: timedelta = timedelta(seconds=runs.RESYNC_SECONDS + 1)) -> None:
        """Advance the clock, then sync these servers."""
        self.platform.world.clock.pass_by(seconds=after.total_seconds())
        for name in names:
            self.controllers[name].sync(set())

    def end(self, run: RunRecord) -> None:
        """End a run."""
        next(iter(self.executors.values())).end(run.id)

    def count_starts(self, run: RunRecord) -> int:
        """How many times the run was started, across all servers."""
        return sum(executor.count("start", run.id) for executor in self.executors.values())


def create_servers(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Servers:
    """Two servers, called one and two."""
    monkeypatch.setattr(runs, "WorkQueue", SynchronousQueue)
    servers = Servers(platform)
    for name in ("one", "two"):
        servers.start(name)
    return servers
