"""What a server does beside serving: it looks after runs and schedules, follows its folder, forgets, ends when idle."""

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
from fairlead.model.queries import Condition
from fairlead.model.records import RunRecord, ScheduleRecord
from fairlead.ports import Store

LOOK_SECONDS = 5.0
SOON_SECONDS = 1.0


@contextlib.asynccontextmanager
async def beside(
    folder: WatchedFolder | None, controller: RunController, retention: Retention, scheduler: Scheduler
) -> AsyncIterator[None]:
    """Everything that goes on while the server serves, and ends with it. Runs go on."""
    looking_after = threading.Thread(target=controller.run_forever, name="runs", daemon=True)
    looking_after.start()
    try:
        async with anyio.create_task_group() as tasks:
            if folder is not None:
                await anyio.to_thread.run_sync(folder.apply)
                tasks.start_soon(folder.watch)
            tasks.start_soon(_sweep, retention)
            tasks.start_soon(_look, scheduler)
            yield
            tasks.cancel_scope.cancel()
    finally:
        controller.shut_down()
        looking_after.join()


def end_when_idle(end: Callable[[], None], idle_seconds: Callable[[], float], store: Store, seconds: float) -> None:
    """End the server once nothing runs, nothing is scheduled, and nobody has asked for a while."""

    def look() -> None:
        while True:
            time.sleep(min(seconds / 4, LOOK_SECONDS))
            if idle_seconds() > seconds and not _count_live(store):
                end()
                return

    threading.Thread(target=look, name="idle", daemon=True).start()


async def _sweep(retention: Retention) -> None:
    """Sweep now and then; soon again where something did not work, such as a cluster that was not seen yet."""
    soon = SOON_SECONDS
    while True:
        worked = await anyio.to_thread.run_sync(retention.sweep)
        await anyio.sleep(EVERY_SECONDS if worked else soon)
        soon = SOON_SECONDS if worked else min(soon * 2, EVERY_SECONDS)


async def _look(scheduler: Scheduler) -> None:
    while True:
        await anyio.to_thread.run_sync(scheduler.submit_due)
        await anyio.sleep(schedules.EVERY_SECONDS)


def _count_live(store: Store) -> int:
    """How many runs have not ended, and how many schedules wait for their time."""
    with store.reading() as tx:
        waiting = tx.count(ScheduleRecord, Condition("next_at", "!=", None))
        return tx.count(RunRecord, Condition("active", "=", True)) + waiting
