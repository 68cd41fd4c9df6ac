"""Submits scheduled runs that are due."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from fairlead.controllers.steps import log_failures
from fairlead.lifecycle.cron_times import GRACE_PERIOD, find_due
from fairlead.model.columns import Condition
from fairlead.model.records import ScheduleRecord
from fairlead.ports import Clock, Store

EVERY_SECONDS = 1.0  # the longest possible delay of a scheduled run


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
        schedules: list[ScheduleRecord] = []
        if not log_failures("listing schedules", lambda: schedules.extend(self._find(condition))):
            return
        # Not set after a failure, so that the check of all schedules is repeated.
        self._checked_at = now
        for schedule in schedules:
            log_failures(f"submitting a run of schedule {schedule.name}", partial(self._occur_if_due, schedule, now))

    def _find(self, condition: Condition) -> list[ScheduleRecord]:
        with self.store.reading() as tx:
            return tx.find(ScheduleRecord, condition)

    def _occur_if_due(self, schedule: ScheduleRecord, now: datetime) -> None:
        # A check of all schedules finds many that are not due. These must not each cause a transaction.
        if find_due(schedule, now).next_at != schedule.next_at:
            self.submit_due_runs(schedule.id)
