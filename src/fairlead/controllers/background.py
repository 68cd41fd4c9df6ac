"""A server's background tasks: runs, schedules, the watched folder, retention and idle shutdown.

Also the clock for decisions that cannot be undone, such as deleting data.
"""

import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import structlog
import watchfiles

from fairlead.backoff import Backoff
from fairlead.controllers.retention import EVERY_SECONDS, Retention
from fairlead.controllers.runs import RunController
from fairlead.controllers.work_queue import log_failures
from fairlead.errors import FairleadError, RequestRejected
from fairlead.files.documents import Library, load_library
from fairlead.lifecycle.cron_times import GRACE_PERIOD, find_due
from fairlead.model.columns import Condition
from fairlead.model.explanations import format_finding
from fairlead.model.records import RunRecord, ScheduleRecord
from fairlead.ports import Clock, Store

log = structlog.get_logger()

SCHEDULES_EVERY_SECONDS = 1.0  # the longest possible delay of a scheduled run
FOLLOW_EVERY_SECONDS = 2.0  # the longest time until a run that waits for a cluster follows its project

RETRY_MILLISECONDS = 5_000  # the pause before a retry, and the longest time until a replaced folder is noticed

CHECK_SECONDS = 5.0  # the longest pause between two checks
BACKOFF = Backoff(1.0, EVERY_SECONDS)

STEP = timedelta(minutes=1)  # ordinary clock corrections are smaller
# A clock that was behind stays ahead of the counter once it is corrected, so it must be trusted eventually. A day
# leaves enough time to notice and correct a wrong clock before data is deleted.
TRUSTED_AFTER = timedelta(days=1)


class Scheduler:
    """Submits the due runs of all schedules. Safe with several servers: each occurrence is submitted once."""

    def __init__(self, store: Store, submit_due_runs: Callable[[str], None], clock: Clock) -> None:
        self.store, self.submit_due_runs, self.clock = store, submit_due_runs, clock
        self._checked_at: datetime | None = None

    def submit_due(self) -> None:
        """Submit the runs that are due. A failure is logged, retried next time, and does not affect other schedules."""
        now = self.clock()
        # If the clock may have been set back, check all schedules: their next time may be too far ahead.
        set_back = self._checked_at is None or now < self._checked_at - GRACE_PERIOD
        condition = Condition("next_at", "!=", None) if set_back else Condition("next_at", "<=", now)
        with log_failures("listing schedules") as failures, self.store.reading() as tx:
            schedules = tx.find(ScheduleRecord, condition)
        if failures:
            return
        # Not set after a failure, so that the check of all schedules is repeated.
        self._checked_at = now
        for schedule in schedules:
            with log_failures(f"submitting a run of schedule {schedule.name}"):
                self._occur_if_due(schedule, now)

    def _occur_if_due(self, schedule: ScheduleRecord, now: datetime) -> None:
        # A check of all schedules finds many that are not due. These must not each cause a transaction.
        if find_due(schedule, now).next_at != schedule.next_at:
            self.submit_due_runs(schedule.id)


@dataclass(frozen=True)
class ApplyStatus:
    """When the folder was last applied, and what went wrong in the last attempt."""

    at: datetime | None = None  # time of the last successful apply; failures do not change it
    problem: str | None = None


class WatchedFolder:
    """Applies the documents in a folder: all of them, or none if any is invalid."""

    def __init__(self, folder: Path, apply: Callable[[Library], Any], clock: Clock) -> None:
        self.folder, self._apply, self._clock = folder, apply, clock
        self.status = ApplyStatus()
        self._lock = threading.Lock()

    def apply(self) -> None:
        """Apply the folder once and record the result in `status`."""
        with self._lock:
            problem = self._apply_documents()
            self.status = ApplyStatus(self._clock() if problem is None else self.status.at, problem)
            if problem is None:
                log.info("folder applied", folder=str(self.folder))
            else:
                log.error("folder rejected", folder=str(self.folder), problem=problem)

    async def watch(self) -> None:
        """Apply the folder after each change, and retry until it succeeds."""
        while True:
            # Read before the watch begins, so that we notice if the folder is replaced in the meantime.
            identity = self._identity()
            # Also yields after a timeout: a replaced folder causes no event, and rejected documents can become valid
            # without a change, for example when the last run that uses a removed object ends.
            changes = watchfiles.awatch(
                self.folder,
                recursive=True,
                ignore_permission_denied=True,  # an unreadable subfolder must not end the watch
                rust_timeout=RETRY_MILLISECONDS,
                yield_on_timeout=True,
            )
            with contextlib.suppress(OSError):  # the folder was removed and may reappear
                async for changed in changes:
                    if changed or self.status.problem is not None:
                        await anyio.to_thread.run_sync(self.apply)
                    if self._identity() != identity:
                        break  # the folder was replaced, and this watch does not see the new one
            # Changes between two watches cause no event, so the folder is always applied here.
            await anyio.sleep(RETRY_MILLISECONDS / 1000)
            await anyio.to_thread.run_sync(self.apply)

    def _identity(self) -> tuple[int, int] | None:
        """Device and inode of the folder."""
        try:
            status = self.folder.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def describe(self) -> dict[str, Any]:
        """Return the folder's path, when it was last applied, and any problem, for the settings."""
        return {"path": str(self.folder), "applied_at": self.status.at, "problem": self.status.problem}

    def _apply_documents(self) -> str | None:
        try:
            library = load_library([(self.folder, "ComputeResource")])
            if not library.documents and not library.violations:
                # A folder that is not mounted also looks empty. That must not delete everything.
                return "the folder contains no documents, so nothing was changed"
            self._apply(library)
        except RequestRejected as error:
            return "\n".join(line for violation in error.violations for line in format_finding(violation))
        except FairleadError as error:
            return f"{error}" + (f" ({error.hint})" if error.hint else "")
        except Exception as error:  # the watch must continue
            log.error("folder failed", folder=str(self.folder), exc_info=error)
            return "internal error: see the server log"
        return None


@contextlib.asynccontextmanager
async def run_background_tasks(
    folder: WatchedFolder | None,
    controller: RunController,
    retention: Retention,
    scheduler: Scheduler,
    follow_clusters: Callable[[], None],
) -> AsyncIterator[None]:
    """Run all background tasks until the server stops. Runs continue after that.

    `follow_clusters` moves runs that wait for a cluster to the cluster of their project.
    """
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
            tasks.start_soon(_follow_clusters, follow_clusters)
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
    failures = 0
    while True:
        succeeded = await anyio.to_thread.run_sync(retention.sweep)
        await anyio.sleep(EVERY_SECONDS if succeeded else BACKOFF.pause(failures))
        failures = 0 if succeeded else failures + 1


async def _submit_schedules(scheduler: Scheduler) -> None:
    while True:
        await anyio.to_thread.run_sync(scheduler.submit_due)
        await anyio.sleep(SCHEDULES_EVERY_SECONDS)


async def _follow_clusters(follow: Callable[[], None]) -> None:
    def follow_once() -> None:
        with log_failures("moving runs that wait for a cluster"):
            follow()

    while True:
        await anyio.to_thread.run_sync(follow_once)
        await anyio.sleep(FOLLOW_EVERY_SECONDS)


def _count_active(store: Store) -> int:
    """Count active runs, and schedules that have a next occurrence."""
    with store.reading() as tx:
        # A server must be running when a schedule is next due.
        scheduled = tx.count(ScheduleRecord, Condition("next_at", "!=", None))
        return tx.count(RunRecord, Condition("active", "=", True)) + scheduled


def boot_seconds() -> float:
    """Return the seconds since boot, including time asleep. Setting the clock does not affect them."""
    # On Linux, CLOCK_MONOTONIC stops during suspend: after waking up, the correct time would look like a jump ahead.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class StableClock:
    """A clock that follows forward jumps of the system clock only after a day, and backward jumps immediately.

    Without it, retention would delete everything if the system clock were a year ahead for a moment.
    """

    def __init__(self, clock: Clock, read_counter: Callable[[], float] = boot_seconds) -> None:
        self._clock, self._read_counter = clock, read_counter
        self._time, self._counter = clock(), read_counter()
        self._ahead_since: float | None = None  # counter value when the clock was first found to be ahead

    def __call__(self) -> datetime:
        now, counted = self._clock(), self._read_counter()
        expected = self._time + timedelta(seconds=counted - self._counter)
        if now - expected > STEP:
            self._ahead_since = counted if self._ahead_since is None else self._ahead_since
            if timedelta(seconds=counted - self._ahead_since) < TRUSTED_AFTER:
                return expected
        # Each trusted reading becomes the reference, so that small differences between clock and counter do not add up.
        self._time, self._counter, self._ahead_since = now, counted, None
        return now
