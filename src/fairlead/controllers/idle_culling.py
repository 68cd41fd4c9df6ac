"""Idle culling: stops runs that have been idle for longer than their timeout."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from fairlead.controllers.run_state import RunStateWriter
from fairlead.controllers.steps import log_failures
from fairlead.lifecycle import lifecycle
from fairlead.lifecycle.attempts import execution_of
from fairlead.model.columns import Condition
from fairlead.model.records import RunRecord
from fairlead.model.runs import State
from fairlead.ports import Clock, Executor, Store, Transaction

FindExecutor = Callable[[Transaction, RunRecord], Executor | None]


class IdleCuller:
    """Stops one server's idle runs. Needs a `StableClock`, because a stop cannot be undone."""

    def __init__(self, store: Store, state_writer: RunStateWriter, find_executor: FindExecutor, clock: Clock) -> None:
        self.store, self.state_writer, self.find_executor, self.clock = store, state_writer, find_executor, clock
        self._created_at = clock()

    def stop(self) -> list[str]:
        """Stop idle runs and return their IDs."""
        now = self.clock()
        own = (Condition("active", "=", True), Condition("server_id", "=", self.state_writer.server_id))
        with self.store.reading() as tx:
            runs = tx.find(RunRecord, *own, Condition("idle_seconds", "!=", None))
            executors = [self.find_executor(tx, run) for run in runs]
        stopped: list[str] = []
        for run, executor in zip(runs, executors, strict=True):
            if executor is not None and run.started_at is not None and run.state != State.STOPPING:
                # The run could not be used while the server was down.
                since = max(run.started_at, self._created_at)
                step = partial(self._stop_if_idle, run, executor, since, now, stopped)
                log_failures(f"idle check of run {run.id}", step)
        return stopped

    def _stop_if_idle(
        self, run: RunRecord, executor: Executor, since: datetime, now: datetime, stopped: list[str]
    ) -> None:
        usage = (run.idle_seconds or 0, run.last_used_at, since)
        # Usage samples are read from files or the database, so they are loaded only for runs whose URL is unused.
        if not lifecycle.is_unused(*usage, now):
            return
        if lifecycle.is_idle(*usage, executor.read_usage(execution_of(run.id, run.attempt)), now):
            self.state_writer.save(run, lifecycle.decide_idle_stop(run), None, stopped_by=lifecycle.STOPPED_BY)
            stopped.append(run.id)
