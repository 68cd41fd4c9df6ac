"""Several servers of one platform, before one cluster that any of them reaches."""

from datetime import timedelta
from functools import partial

import pytest

from fairlead import composition
from fairlead.controllers import runs
from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.controllers.runs import RunController, ServerIdentity
from fairlead.controllers.steps import log_failures
from fairlead.controllers.work_queue import Process
from fairlead.model.records import RunRecord
from tests.contracts.executors import MemoryExecutor, MemoryRun
from tests.services.executing import Platform


class Remote(MemoryExecutor):
    """A cluster as one server sees it. It places runs by itself."""

    has_scheduler = True


class SynchronousQueue:
    """A work queue without threads: it processes a run as soon as it is added."""

    def __init__(self, process: Process, on_failure: Process) -> None:
        self.process, self.on_failure = process, on_failure

    def add(self, run_id: str) -> None:
        """Process a run now."""
        if not log_failures(f"reconciling run {run_id}", partial(self.process, run_id)):
            self.on_failure(run_id)

    def shut_down(self, *, wait: bool = True) -> None:
        """There is nothing to wait for."""


class Servers:
    """Several servers of one platform, before one cluster."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self.runs = platform, dict[str, MemoryRun]()
        self.executors: dict[str, Remote] = {}
        self.controllers: dict[str, RunController] = {}

    def start(self, name: str) -> RunController:
        """A server that has just been started."""
        world, platform = self.platform.world, self.platform
        self.executors[name] = Remote(runs=self.runs)
        registry = ExecutorRegistry({"local": platform.executor, "kubernetes": self.executors[name]})
        self.controllers[name] = RunController(
            world.store,
            world.keyring,
            registry,
            identity=ServerIdentity(name, f"host-{name}", f"http://{name}"),
            clock=world.clock,
            make_id=composition.make_id,
            publish=platform.told.append,
        )
        return self.controllers[name]

    def look(self, *names: str, after: timedelta = timedelta(seconds=runs.RESYNC_SECONDS + 1)) -> None:
        """Let time pass, and then these servers look."""
        self.platform.world.clock.pass_by(seconds=after.total_seconds())
        for name in names:
            self.controllers[name].sync(set())

    def end(self, run: RunRecord) -> None:
        """Let a run end."""
        next(iter(self.executors.values())).end(run.id)

    def starts_of(self, run: RunRecord) -> int:
        """How often it was started by any of them."""
        return sum(executor.count("start", run.id) for executor in self.executors.values())


def found_servers(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Servers:
    """Two servers, called one and two."""
    monkeypatch.setattr(runs, "WorkQueue", SynchronousQueue)
    made = Servers(platform)
    for name in ("one", "two"):
        made.start(name)
    return made
