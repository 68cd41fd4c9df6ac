"""What is forgotten with time: runs that ended long ago, their logs and files, code and volumes that nothing needs."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

import structlog

from fairlead.controllers.steps import log_failures
from fairlead.core.attempts import number_of, run_of
from fairlead.model.observations import Phase
from fairlead.model.queries import Condition
from fairlead.model.records import (
    AttemptRecord,
    AuditRecord,
    BlobRecord,
    CodeRecord,
    FunctionRecord,
    RunFileRecord,
    RunRecord,
    ScheduleRecord,
    VolumeRecord,
)
from fairlead.ports import Clock, Executor, Executors, Store

log = structlog.get_logger()

EVERY_SECONDS = 600.0
UNUSED_CODE = timedelta(days=1)  # between sending code and submitting a run with it


class Retention:
    """Forgets, every few minutes."""

    def __init__(
        self,
        store: Store,
        executors: Executors,
        *,
        clock: Clock,
        keep_runs: timedelta,
        keep_logs: timedelta,
    ) -> None:
        self.store, self.executors, self.clock = store, executors, clock
        self.keep_runs, self.keep_logs = keep_runs, keep_logs
        self._worked = True

    def sweep(self) -> bool:
        """Forget what is due; whether all of that worked. What did not is tried again next time."""
        now, self._worked = self.clock(), True
        self._attempt(self.executors.refresh)
        self._attempt(lambda: self._forget_runs(now))
        self._attempt(lambda: self._forget_files(now))
        self._attempt(lambda: self._forget_code(now))
        for executor in self.executors.all():
            self._attempt(partial(self._sweep_executor, executor, now))
        return self._worked

    def _attempt(self, step: Callable[[], None]) -> None:
        self._worked = log_failures("sweeping", step, OSError) and self._worked

    def _forget_runs(self, now: datetime) -> None:
        due = (Condition("active", "=", False), Condition("finished_at", "<", now - self.keep_runs))
        with self.store.recording() as tx:
            gone = tx.remove_all(RunRecord, *due)
        if gone:
            log.info("runs forgotten", count=gone)

    def _forget_files(self, now: datetime) -> None:
        """Files in the store come when a run ends: theirs is the time of its end."""
        with self.store.recording() as tx:
            tx.remove_all(RunFileRecord, Condition("modified_at", "<", now - self.keep_logs))

    def _forget_code(self, now: datetime) -> None:
        with self.store.recording(alone=True) as tx:  # or a run that is submitted meanwhile would miss its code
            for code in tx.find(CodeRecord, Condition("created_at", "<", now - UNUSED_CODE)):
                needed = Condition("code", "=", code.digest)
                if not any(tx.find(kind, needed, limit=1) for kind in (RunRecord, FunctionRecord, ScheduleRecord)):
                    tx.remove(code)
                    if not tx.find(CodeRecord, Condition("digest", "=", code.digest), limit=1):
                        tx.remove_all(BlobRecord, Condition("id", "=", code.digest))

    def _sweep_executor(self, executor: Executor, now: datetime) -> None:
        for volume_id in executor.list_volumes():
            self._attempt(partial(self._sweep_volume, executor, volume_id))
        for execution in executor.list_runs():
            self._attempt(partial(self._sweep_run, executor, execution, now))

    def _sweep_volume(self, executor: Executor, volume_id: str) -> None:
        """Remove a shared volume that was deleted. That a database does not know it is no proof of that."""
        deleted = (Condition("object_id", "=", volume_id), Condition("action", "=", "volume.delete"))
        with self.store.reading() as tx:
            gone = tx.get(VolumeRecord, id=volume_id) is None and tx.find(AuditRecord, *deleted, limit=1)
        if gone:
            executor.remove_volume(volume_id)

    def _sweep_run(self, executor: Executor, execution: str, now: datetime) -> None:
        """Remove what nobody needs of a try: all where its run is gone, its log and files where it is old."""
        with self.store.reading() as tx:
            run = tx.get(RunRecord, id=run_of(execution))
            is_past = run is not None and number_of(execution) < run.attempt
            past = tx.get(AttemptRecord, id=execution) if is_past else None
        if run is None:
            delete_if_ended(executor, execution)
            return
        finished_at = run.finished_at if past is None else past.finished_at
        if finished_at is not None and finished_at < now - self.keep_logs:
            executor.delete_run(execution)
        elif past is not None or not run.active:
            executor.clean_up(execution)


def delete_attempts(executor: Executor, run_id: str) -> None:
    """Remove everything of all tries of a run that nobody knows any more, save what still goes on."""
    delete_if_ended(executor, run_id)
    for execution in executor.list_runs():
        if execution != run_id and run_of(execution) == run_id:
            delete_if_ended(executor, execution)


def delete_if_ended(executor: Executor, execution: str) -> None:
    """Remove everything of a try, unless it still goes on."""
    seen = executor.observe(execution)
    if seen is None or seen.phase in (Phase.SUCCEEDED, Phase.FAILED):
        executor.delete_run(execution)
