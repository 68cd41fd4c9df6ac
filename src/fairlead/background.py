"""What a server does beside serving: it looks after runs, forgets old ones, follows its folder, and ends when idle."""

import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable

import anyio

from fairlead.controllers.folders import WatchedFolder
from fairlead.controllers.retention import EVERY_SECONDS, Retention
from fairlead.controllers.runs import RunController
from fairlead.model.queries import Condition
from fairlead.model.records import RunRecord
from fairlead.ports import Store

LOOK_SECONDS = 5.0
SOON_SECONDS = 1.0


@contextlib.asynccontextmanager
async def beside(folder: WatchedFolder | None, controller: RunController, retention: Retention) -> AsyncIterator[None]:
    """Everything that goes on while the server serves, and ends with it. Runs go on."""
    looking_after = threading.Thread(target=controller.live, name="runs", daemon=True)
    looking_after.start()
    try:
        async with anyio.create_task_group() as tasks:
            if folder is not None:
                await anyio.to_thread.run_sync(folder.apply)
                tasks.start_soon(folder.watch)
            tasks.start_soon(_sweep, retention)
            yield
            tasks.cancel_scope.cancel()
    finally:
        controller.end()
        looking_after.join()


def end_when_idle(end: Callable[[], None], silent_seconds: Callable[[], float], store: Store, seconds: float) -> None:
    """End the server once nothing runs and nobody has asked for a while."""

    def look() -> None:
        while True:
            time.sleep(min(seconds / 4, LOOK_SECONDS))
            if silent_seconds() > seconds and not _count_live(store):
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


def _count_live(store: Store) -> int:
    with store.reading() as tx:
        return tx.count(RunRecord, Condition("live", "=", True))
