"""Stops workspaces that nobody uses, where that was asked for. Whether one is idle, the core decides."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from fairlead.controllers.run_state import RunStateWriter
from fairlead.controllers.steps import log_failures
from fairlead.core import idle_culling, lifecycle
from fairlead.core.attempts import execution_of
from fairlead.model.queries import Condition
from fairlead.model.records import RunRecord
from fairlead.model.states import State
from fairlead.ports import Clock, Executor, Store, Transaction

FindExecutor = Callable[[Transaction, RunRecord], Executor | None]


class IdleCuller:
    """The workspaces of one server that may be stopped: by a clock that is wary, for that cannot be undone."""

    def __init__(self, store: Store, state_writer: RunStateWriter, find_executor: FindExecutor, clock: Clock) -> None:
        self.store, self.state_writer, self.find_executor, self.clock = store, state_writer, find_executor, clock
        self._began_at = clock()

    def stop(self) -> list[str]:
        """Stop those that are idle; which runs these are."""
        now = self.clock()
        mine = (Condition("active", "=", True), Condition("server_id", "=", self.state_writer.server_id))
        with self.store.reading() as tx:
            found = tx.find(RunRecord, *mine, Condition("idle_seconds", "!=", None))
            executors = [self.find_executor(tx, run) for run in found]
        stopped: list[str] = []
        for run, executor in zip(found, executors, strict=True):
            if executor is not None and run.started_at is not None and run.state != State.STOPPING:
                since = max(run.started_at, self._began_at)  # before that, nobody could use it
                doing = f"looking whether run {run.id} is idle"
                log_failures(doing, partial(self._stop_if_idle, run, executor, since, now, stopped))
        return stopped

    def _stop_if_idle(
        self, run: RunRecord, executor: Executor, since: datetime, now: datetime, stopped: list[str]
    ) -> None:
        used = (run.idle_seconds or 0, run.last_used_at, since)
        if not idle_culling.is_unused(*used, now):
            return
        if idle_culling.is_idle(*used, executor.read_usage(execution_of(run.id, run.log_failures)), now):
            self.state_writer.save(run, lifecycle.decide_idle_stop(run), None, stopped_by=idle_culling.BY)
            stopped.append(run.id)
