"""What time does to schedules: those that are due are submitted. What that means is not decided here."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from fairlead.controllers.steps import log_failures
from fairlead.core.cron import LATE, find_due
from fairlead.model.queries import Condition
from fairlead.model.records import ScheduleRecord
from fairlead.ports import Clock, Store

EVERY_SECONDS = 1.0


class Scheduler:
    """Looks for schedules that are due, every second. Several servers may: each time is submitted once."""

    def __init__(self, store: Store, occur: Callable[[str], None], clock: Clock) -> None:
        self.store, self.occur, self.clock = store, occur, clock
        self._looked_at: datetime | None = None

    def look(self) -> None:
        """Submit what is due by now. What fails keeps nothing else from being done, and is tried again."""
        now = self.clock()
        # Where the clock may have been set back, a next time may be too far away.
        set_back = self._looked_at is None or now < self._looked_at - LATE
        asked = Condition("next_at", "!=", None) if set_back else Condition("next_at", "<=", now)
        found: list[ScheduleRecord] = []
        if not log_failures("looking for schedules", lambda: found.extend(self._find(asked))):
            return
        self._looked_at = now
        for schedule in found:
            log_failures(f"submitting a run of schedule {schedule.name}", partial(self._occur_if_due, schedule, now))

    def _find(self, asked: Condition) -> list[ScheduleRecord]:
        with self.store.reading() as tx:
            return tx.find(ScheduleRecord, asked)

    def _occur_if_due(self, schedule: ScheduleRecord, now: datetime) -> None:
        if find_due(schedule, now).next_at != schedule.next_at:
            self.occur(schedule.id)
