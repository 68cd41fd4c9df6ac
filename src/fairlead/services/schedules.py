"""Schedules: kept, listed, paused; and at each of their times a run, planned anew as whoever wrote them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from fairlead.core import cron_times
from fairlead.core.cron_times import DueTimes
from fairlead.errors import Changed, Conflict, FairleadError, NotFound, RequestRejected, Unavailable
from fairlead.model.parsing import short_repr, suggest_names, violations_of
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition, Page
from fairlead.model.records import JSON, RunRecord, ScheduleRecord
from fairlead.model.requests import RunRequest
from fairlead.model.roles import Permission
from fairlead.model.schedules import Schedule
from fairlead.ports import Notify, Principal
from fairlead.services.calls import Call
from fairlead.services.pages import Listing, load_page
from fairlead.services.runs import Runs
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory, insist

VIA = "schedule"
LONGEST_PROBLEM = 2000
PARTS = ("cron", "timezone", "missed", "overlap")  # what can be changed of a schedule


class Schedules:
    """The use cases of schedules."""

    def __init__(self, units: UnitOfWorkFactory, runs: Runs, tell: Notify = lambda _run_id: None) -> None:
        self.units, self.runs, self.tell = units, runs, tell

    def create(self, call: Call, scope: str, request: RunRequest) -> ScheduleRecord:
        """Keep a schedule. Raise `RequestRejected` where a run of it would be refused now."""
        if request.schedule is None:
            hint = "say a line of cron, such as 0 6 * * *"
            raise RequestRejected([Violation("schedule", "required", "is missing: when is it to run?", hint)])
        with self.units.recording(call, alone=True) as unit:
            if (before := unit.recall(ScheduleRecord)) is not None:
                return before
            record = self._make(unit, scope, request, request.schedule)
            if unit.tx.get(ScheduleRecord, scope=scope, name=record.name) is not None:
                hint = "say another name in the schedule, or delete that one first"
                raise Conflict(f"{scope} has a schedule {record.name} already", hint)
            return unit.remember(unit.add(record, "schedule", record.name, scope))

    def page(self, call: Call, asked: Listing, scope: str | None = None) -> Page[ScheduleRecord]:
        """The schedules that the caller sees, of all projects or of one."""
        with self.units.reading(call) as unit:
            return load_page(unit.tx, ScheduleRecord, asked, sort="name", within=unit.within(scope))

    def get(self, call: Call, scope: str, name: str) -> ScheduleRecord:
        """One schedule."""
        with self.units.reading(call) as unit:
            return _find(unit, scope, name)

    def change(self, call: Call, scope: str, name: str, change: Mapping[str, Any]) -> ScheduleRecord:
        """Say other times, or what becomes of missed ones. From then on it runs as whoever changed it."""
        return insist(call, lambda: self._change(call, scope, name, change))

    def _change(self, call: Call, scope: str, name: str, change: Mapping[str, Any]) -> ScheduleRecord:
        with self.units.recording(call) as unit:
            before = _find(unit, scope, name, Permission.RUN)
            unit.check_revision(before)
            if not change:
                hint = f"say what is to be different: {', '.join(PARTS)}"
                raise RequestRejected([Violation("cron", "required", "nothing is to be changed", hint)])
            schedule = _read({part: getattr(before, part) for part in PARTS} | dict(change))
            if mistakes := list(cron_times.find_mistakes(schedule)):
                raise RequestRejected([replace(found, path=found.path.partition(".")[2]) for found in mistakes])
            told = {part: getattr(schedule, part) for part in PARTS}
            after = _planned(replace(before, **told, **_by(unit), **unit.next(before)), unit.now)
            return unit.save(before, after, "schedule.edit", after.name, scope)

    def pause(self, call: Call, scope: str, name: str) -> ScheduleRecord:
        """Submit nothing until it is resumed."""
        return insist(call, lambda: self._switch(call, scope, name, paused=True))

    def resume(self, call: Call, scope: str, name: str) -> ScheduleRecord:
        """Go on with the next time. Those that went by meanwhile were not missed."""
        return insist(call, lambda: self._switch(call, scope, name, paused=False))

    def run(self, call: Call, scope: str, name: str) -> RunRecord:
        """Submit a run of it now, as the caller. Its times stay as they are."""
        with self.units.recording(call) as unit:
            if (before := unit.recall(RunRecord)) is not None:
                return before
            run = unit.remember(self.runs.submit_for(unit, _find(unit, scope, name, Permission.RUN)))
        self.tell(run.id)
        return run

    def delete(self, call: Call, scope: str, name: str) -> None:
        """Forget a schedule. Runs of it stay."""
        insist(call, lambda: self._delete(call, scope, name))

    def _delete(self, call: Call, scope: str, name: str) -> None:
        with self.units.recording(call) as unit:
            record = _find(unit, scope, name, Permission.RUN)
            unit.check_revision(record)
            unit.remove(record, "schedule", name, scope)

    def occur(self, schedule_id: str) -> None:
        """Submit what is due of a schedule, and keep when it is due next: both, or nothing, whichever server does it.

        What is refused is kept as its problem, and does not come back until the next time.
        """
        record = self._load(schedule_id)
        if record is None:
            return
        whoever = Call(principal=Principal(record.user, tuple(record.groups), via=VIA))
        submitted: list[RunRecord] = []
        try:
            with self.units.recording(whoever) as unit:
                due = cron_times.find_due(record, unit.now)
                if due.times and not (skipped := _find_overlap(unit, record)):
                    submitted = [self.runs.submit_for(unit, record) for _ in due.times]
                    _advance(unit, record, due, last_run_id=submitted[-1].id, last_problem=None)
                elif due.times:
                    _advance(unit, record, due, last_run_id=record.last_run_id, last_problem=skipped)
                elif due.next_at != record.next_at:
                    _advance(unit, record, due)
        except (Changed, Unavailable):  # by its user or another server; or it is tried again
            return
        except FairleadError as error:
            self._refuse(record, error)
        for run in submitted:
            self.tell(run.id)

    def _load(self, schedule_id: str) -> ScheduleRecord | None:
        with self.units.reading(Call(principal=Principal("fairlead", via=VIA), trusted=True)) as unit:
            return unit.tx.get(ScheduleRecord, id=schedule_id)

    def _refuse(self, record: ScheduleRecord, error: FairleadError) -> None:
        problem = "; ".join(map(str, error.violations)) if isinstance(error, RequestRejected) else str(error)
        trusted = Call(principal=Principal(record.user, tuple(record.groups), via=VIA), trusted=True)
        try:
            with self.units.recording(trusted) as unit:
                due = cron_times.find_due(record, unit.now)
                after = _advance(unit, record, due, last_run_id=None, last_problem=problem[:LONGEST_PROBLEM])
                unit.audit("schedule.refuse", after, after.name, after.scope, after=after)
        except Changed:
            return

    def _make(self, unit: UnitOfWork, scope: str, request: RunRequest, schedule: Schedule) -> ScheduleRecord:
        self.runs.check(unit, scope, request)
        asked = request.to_data()
        asked.pop("schedule")
        told = schedule.model_dump() | {"name": schedule.name or request.function.name}
        record = ScheduleRecord(
            **unit.stamps(),
            **told,
            **_by(unit),
            scope=scope,
            function=request.function.name,
            request=asked,
            code=request.function.code,
        )
        return _planned(record, unit.now)

    def _switch(self, call: Call, scope: str, name: str, *, paused: bool) -> ScheduleRecord:
        with self.units.recording(call) as unit:
            before = _find(unit, scope, name, Permission.RUN)
            unit.check_revision(before)
            if before.paused == paused:
                return before
            after = _planned(replace(before, paused=paused, **unit.next(before)), unit.now)
            return unit.save(before, after, f"schedule.{'pause' if paused else 'resume'}", name, scope)


def _find(unit: UnitOfWork, scope: str, name: str, permission: Permission = Permission.VIEW) -> ScheduleRecord:
    unit.require(permission, scope, scope)
    record = unit.tx.get(ScheduleRecord, scope=scope, name=name)
    if record is None:
        known = [kept.name for kept in unit.tx.find(ScheduleRecord, Condition("scope", "=", scope), limit=500)]
        hint = suggest_names(name, known, "it has {known}") if known else "it has none: submit a run with a schedule"
        raise NotFound(f"{scope} has no schedule {short_repr(name)}", hint)
    return record


def _read(said: JSON) -> Schedule:
    try:
        return Schedule.model_validate(said)
    except ValidationError as error:
        raise RequestRejected(violations_of(error, Schedule)) from error


def _by(unit: UnitOfWork) -> JSON:
    """On whose behalf its runs are submitted."""
    return {"user": unit.principal.user, "groups": list(unit.principal.groups)}


def _planned(record: ScheduleRecord, now: datetime) -> ScheduleRecord:
    """The schedule with its next time after now."""
    next_at = None if record.paused else cron_times.next_after(record.cron, record.timezone, now)
    return replace(record, next_at=next_at)


def _find_overlap(unit: UnitOfWork, record: ScheduleRecord) -> str:
    """Why a time is left out: the run before has not ended, and that is not allowed."""
    of_it = (Condition("scope", "=", record.scope), Condition("schedule", "=", record.name))
    going = unit.tx.find(RunRecord, Condition("active", "=", True), *of_it, limit=1) if record.overlap == "skip" else []
    return f"left out: run {going[0].id} is {going[0].state}" if going else ""


def _advance(unit: UnitOfWork, record: ScheduleRecord, due: DueTimes, **more: Any) -> ScheduleRecord:
    """Keep when a schedule was due, and when it is next. That is no change of its user's."""
    last_at = due.times[-1] if due.times else record.last_at
    after = replace(
        record, next_at=due.next_at, last_at=last_at, revision=record.revision + 1, updated_at=unit.now, **more
    )
    unit.tx.save(after)
    return after
