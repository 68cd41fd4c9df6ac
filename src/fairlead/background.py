"""A server's background tasks: runs, schedules, the watched folder, retention and idle shutdown."""

import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable

import anyio

from fairlead.controllers import schedules
from fairlead.controllers.folders import WatchedFolder
from fairlead.controllers.retention import EVERY_SECONDS, Retention
from fairlead.controllers.runs import RunController
from fairlead.controllers.schedules import Scheduler
from fairlead.model.columns import Condition
from fairlead.model.records import RunRecord, ScheduleRecord
from fairlead.ports import Store

CHECK_SECONDS = 5.0  # the longest pause between two checks
FIRST_RETRY_SECONDS = 1.0


@contextlib.asynccontextmanager
async def run_background_tasks(
    folder: WatchedFolder | None, controller: RunController, retention: Retention, scheduler: Scheduler
) -> AsyncIterator[None]:
    """Run all background tasks until the server stops. Runs continue after that."""
    # The controller runs in a thread, because it blocks on the database and on executors.
    controller_thread = threading.Thread(target=controller.run_forever, name="runs", daemon=True)
    controller_thread.start()
    try:
        async with anyio.create_task_group() as tasks:
            if folder is not None:
                # Apply the folder now, so that its configuration is in effect at the first request.
                await anyio.to_thread.run_sync(folder.apply)
                tasks.start_soon(folder.watch)
            tasks.start_soon(_apply_retention, retention)
            tasks.start_soon(_submit_schedules, scheduler)
            yield
            tasks.cancel_scope.cancel()
    finally:
        # Wait for the step in progress, so that the database is not closed before it ends.
        controller.shut_down()
        controller_thread.join()


def shut_down_when_idle(
    shut_down: Callable[[], None], idle_seconds: Callable[[], float], store: Store, seconds: float
) -> None:
    """Shut the server down after a period without requests, active runs or schedules."""

    def check() -> None:
        while True:
            time.sleep(min(seconds / 4, CHECK_SECONDS))
            if idle_seconds() > seconds and not _count_active(store):
                shut_down()
                return

    threading.Thread(target=check, name="idle", daemon=True).start()


async def _apply_retention(retention: Retention) -> None:
    """Delete expired data periodically. Retry with backoff after a failure, such as a disconnected cluster."""
    retry_seconds = FIRST_RETRY_SECONDS
    while True:
        succeeded = await anyio.to_thread.run_sync(retention.sweep)
        await anyio.sleep(EVERY_SECONDS if succeeded else retry_seconds)
        retry_seconds = FIRST_RETRY_SECONDS if succeeded else min(retry_seconds * 2, EVERY_SECONDS)


async def _submit_schedules(scheduler: Scheduler) -> None:
    while True:
        await anyio.to_thread.run_sync(scheduler.submit_due)
        await anyio.sleep(schedules.EVERY_SECONDS)


def _count_active(store: Store) -> int:
    """Count active runs, and schedules that have a next occurrence."""
    with store.reading() as tx:
        # A server must be running when a schedule is next due.
        scheduled = tx.count(ScheduleRecord, Condition("next_at", "!=", None))
        return tx.count(RunRecord, Condition("active", "=", True)) + scheduled
