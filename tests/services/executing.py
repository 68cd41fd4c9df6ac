"""A platform that executes runs with an in-memory executor and a controller without threads."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairlead import source_code
from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.controllers.runs import RunController, ServerIdentity
from fairlead.model.columns import Condition
from fairlead.model.records import EventRecord, OutcomeRecord, RunRecord
from fairlead.model.scopes import Cluster, Project
from fairlead.ports import Store
from fairlead.run_events import RECORD_EVENTS, RunEvent, RunEvents
from fairlead.services import registry
from fairlead.services.transactions.unit_of_work import Call
from fairlead.source_code import ArchiveEntry
from tests.contracts.executors import MemoryExecutor
from tests.making import PYTHON
from tests.services.worlds import World, initialize_world

HERE, HOME, OTHER, FAR = "cluster/here", "project/home", "project/other", "project/far"
# Two projects on this machine, and one on a cluster without an executor.
TREE = (
    Cluster(name="here", executor="local"),
    Cluster(name="far"),
    Project(name="home", parent=HERE),
    Project(name="other", parent=HERE),
    Project(name="far", parent="cluster/far"),
)
SERVER = "s1"
CODE = source_code.pack_entries([ArchiveEntry("train.py", b"def main():\n    pass\n")])
DIGEST = f"sha256:{hashlib.sha256(CODE).hexdigest()}"


@dataclass
class Platform:
    """A platform with an in-memory executor."""

    world: World
    executor: MemoryExecutor
    notified: list[str] = field(default_factory=list)

    def control(self, server: str = SERVER, executor: MemoryExecutor | None = None) -> RunController:
        """A controller that has just been started."""
        run_events = RunEvents()
        run_events.subscribe(self.notified.append, *RECORD_EVENTS)
        return RunController(
            self.world.store,
            self.world.keyring,
            ExecutorRegistry({"local": executor or self.executor}, server_id=server),
            identity=ServerIdentity(server, f"host-{server}", f"http://{server}"),
            clock=self.world.clock,
            make_id=registry.make_id,
            run_events=run_events,
        )

    def submit(self, scope: str = HOME, *, call: Call | None = None, **request: Any) -> RunRecord:
        """Submit a run of a Python function."""
        return self.world.submit(scope, call=call, **{"function": PYTHON, **request})

    def run(self, run_id: str) -> RunRecord:
        """The stored run."""
        with self.world.store.reading() as tx:
            run = tx.get(RunRecord, id=run_id)
        assert run is not None
        return run

    def state(self, run_id: str) -> tuple[str, str]:
        """The state and the reason of a run."""
        run = self.run(run_id)
        return run.state, run.reason

    def events(self, run_id: str) -> list[tuple[str, str]]:
        """The states and reasons of a run's events."""
        with self.world.store.reading() as tx:
            return [(event.state, event.reason) for event in tx.find(EventRecord, Condition("run_id", "=", run_id))]

    def outcome(self, run_id: str) -> OutcomeRecord | None:
        """The outcome of a run."""
        with self.world.store.reading() as tx:
            return tx.get(OutcomeRecord, id=run_id)

    def stop(self, run_id: str) -> RunRecord:
        """Request that a run be stopped."""
        return self.world.services.runs.stop(self.world.root, run_id)


def initialize_platform(store: Store, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A platform with an organization over a new store."""
    executor, notified = MemoryExecutor(), list[str]()
    run_events = RunEvents()
    run_events.subscribe(notified.append, RunEvent.CHANGED)
    execution = registry.ExecutionOptions(ExecutorRegistry({"local": executor}, server_id=SERVER), run_events, SERVER)
    world = initialize_world(store, monkeypatch, execution=execution, tree=TREE)
    executor.clock = world.clock
    return Platform(world, executor, notified)
