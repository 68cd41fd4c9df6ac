"""Retention: deletes old runs with their logs and files, and unused code and volumes."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

import structlog

from fairlead.controllers.work_queue import log_failures
from fairlead.errors import Unavailable
from fairlead.lifecycle.attempts import attempt_of, run_id_of
from fairlead.model.columns import Condition
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
from fairlead.model.runs import Phase
from fairlead.ports import Clock, Executor, Executors, Store

log = structlog.get_logger()

EVERY_SECONDS = 600.0  # retention periods are in days, so a few extra minutes do not matter
UNUSED_CODE = timedelta(days=1)  # time allowed for submitting a run after uploading its code


class Retention:
    """Deletes expired data. Call `sweep` periodically."""

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
        self._succeeded = True

    def sweep(self) -> bool:
        """Delete expired data and return whether everything succeeded. Failures are logged and retried next time."""
        now, self._succeeded = self.clock(), True
        self._step(self.executors.refresh)
        # Runs are deleted first: that may leave their code unused, and executors can then delete their data.
        self._step(lambda: self._delete_runs(now))
        self._step(lambda: self._delete_files(now))
        self._step(lambda: self._delete_code(now))
        for executor in self.executors.all():
            self._step(partial(self._sweep_executor, executor, now))
        return self._succeeded

    def _step(self, step: Callable[[], None]) -> None:
        with log_failures("retention", OSError) as failures:
            step()
        self._succeeded = self._succeeded and not failures

    def _delete_runs(self, now: datetime) -> None:
        due = (Condition("active", "=", False), Condition("finished_at", "<", now - self.keep_runs))
        with self.store.recording() as tx:
            # Cascading foreign keys also delete the runs' plans, events, attempts, outcomes and files.
            count = tx.remove_all(RunRecord, *due)
        if count:
            log.info("runs deleted", count=count)

    def _delete_files(self, now: datetime) -> None:
        # Files are stored when a run ends, so their age counts from the end of the run.
        with self.store.recording() as tx:
            tx.remove_all(RunFileRecord, Condition("modified_at", "<", now - self.keep_logs))

    def _delete_code(self, now: datetime) -> None:
        # The transaction is exclusive, because a run submitted in the meantime could need the code.
        with self.store.recording(exclusive=True) as tx:
            for code in tx.find(CodeRecord, Condition("created_at", "<", now - UNUSED_CODE)):
                # Ended runs also count as using the code, because they can be repeated.
                uses_code = Condition("code", "=", code.digest)
                if not any(tx.find(kind, uses_code, limit=1) for kind in (RunRecord, FunctionRecord, ScheduleRecord)):
                    tx.remove(code)
                    # Projects share the content of identical archives.
                    if not tx.find(CodeRecord, Condition("digest", "=", code.digest), limit=1):
                        tx.remove_all(BlobRecord, Condition("id", "=", code.digest))

    def _sweep_executor(self, executor: Executor, now: datetime) -> None:
        for volume_id in executor.list_volumes():
            self._step(partial(self._sweep_volume, executor, volume_id))
        for execution in executor.list_runs():
            self._step(partial(self._sweep_run, executor, execution, now))

    def _sweep_volume(self, executor: Executor, volume_id: str) -> None:
        """Remove a shared volume that a user deleted.

        A missing record does not prove this, because the database may have been restored from an older backup. The
        audit log must also contain the deletion.
        """
        deleted = (Condition("object_id", "=", volume_id), Condition("action", "=", "volume.delete"))
        with self.store.reading() as tx:
            is_deleted = tx.get(VolumeRecord, id=volume_id) is None and tx.find(AuditRecord, *deleted, limit=1)
        if is_deleted:
            executor.remove_volume(volume_id)

    def _sweep_run(self, executor: Executor, execution: str, now: datetime) -> None:
        """Delete an attempt if its run was deleted or its logs expired; otherwise clean up if it has ended."""
        with self.store.reading() as tx:
            run = tx.get(RunRecord, id=run_id_of(execution))
            is_previous = run is not None and attempt_of(execution) < run.attempt
            previous = tx.get(AttemptRecord, id=execution) if is_previous else None
        if run is None:
            # Only ended runs can be deleted. If this one is still running, the database may be from an older backup.
            delete_if_ended(executor, execution)
            return
        finished_at = run.finished_at if previous is None else previous.finished_at
        if finished_at is not None and finished_at < now - self.keep_logs:
            executor.delete_run(execution)
        elif previous is not None or not run.active:
            # Repeats a cleanup that was interrupted by a server shutdown. Usually there is nothing left to do.
            executor.clean_up(execution)


def delete_attempts(executor: Executor, run_id: str) -> None:
    """Delete all data of a deleted run's ended attempts. Raises `Unavailable` if one has not ended yet."""
    executions = {run_id, *(execution for execution in executor.list_runs() if run_id_of(execution) == run_id)}
    # On a cluster, an ended attempt can look active while its objects are being removed: its outcome is deleted with
    # the run. In that case, the caller retries, because no event would follow.
    deleted = [delete_if_ended(executor, execution) for execution in sorted(executions)]
    if not all(deleted):
        raise Unavailable(f"an attempt of the deleted run {run_id} has not ended yet")


def delete_if_ended(executor: Executor, execution: str) -> bool:
    """Delete all data of an attempt, unless it is still running. Returns whether it was deleted."""
    observation = executor.observe(execution)
    if observation is None or observation.phase in (Phase.SUCCEEDED, Phase.FAILED):
        executor.delete_run(execution)
        return True
    return False
