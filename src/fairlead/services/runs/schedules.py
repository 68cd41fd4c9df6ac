"""Schedules that submit runs at cron times, with their owner's permissions."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from fairlead.errors import Changed, Conflict, FairleadError, NotFound, RequestRejected, Unavailable
from fairlead.lifecycle import cron_times
from fairlead.lifecycle.cron_times import DueTimes
from fairlead.model.columns import Condition, Page
from fairlead.model.parsing import short_repr, suggest_names, violations_of
from fairlead.model.plans import Violation
from fairlead.model.records import JSON, RunRecord, ScheduleRecord
from fairlead.model.requests import RunRequest, Schedule
from fairlead.model.scopes import Permission
from fairlead.ports import Principal
from fairlead.run_events import RunEvent, RunEvents
from fairlead.services.runs.runs import Runs
from fairlead.services.runs.waiting_limits import is_limited
from fairlead.services.transactions.pages import ListQuery, load_page
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory, retry_on_conflict

VIA = "schedule"
MAX_PROBLEM_LENGTH = 2000  # it is shown in lists, and a request can have many violations
EDITABLE_FIELDS = ("cron", "timezone", "missed", "overlap")


class Schedules:
    """Manages schedules and submits their runs."""

    def __init__(self, units: UnitOfWorkFactory, runs: Runs, run_events: RunEvents) -> None:
        self.units, self.runs, self.run_events = units, runs, run_events

    def create(self, call: Call, scope: str, request: RunRequest) -> ScheduleRecord:
        """Create a schedule. Raises `RequestRejected` if its run could not be submitted now."""
        if request.schedule is None:
            hint = "set a cron expression, for example 0 6 * * *"
            raise RequestRejected([Violation("schedule", "required", "is missing", hint)])
        with self.units.recording(call, exclusive=True) as unit:
            if (before := unit.find_response(ScheduleRecord)) is not None:
                return before
            record = self._build_record(unit, scope, request, request.schedule)
            if unit.tx.get(ScheduleRecord, scope=scope, name=record.name) is not None:
                hint = "choose a different name for the schedule, or delete the existing one first"
                raise Conflict(f"schedule {record.name} already exists in {scope}", hint)
            return unit.store_response(unit.add(record, "schedule", record.name, scope))

    def page(self, call: Call, query: ListQuery, scope: str | None = None) -> Page[ScheduleRecord]:
        """List the visible schedules of one project or of all projects."""
        with self.units.reading(call) as unit:
            return load_page(unit.tx, ScheduleRecord, query, sort="name", within=unit.scope_conditions(scope))

    def get(self, call: Call, scope: str, name: str) -> ScheduleRecord:
        """Return one schedule."""
        with self.units.reading(call) as unit:
            return _find(unit, scope, name)

    def change(self, call: Call, scope: str, name: str, change: Mapping[str, Any]) -> ScheduleRecord:
        """Change the times or options of a schedule. The caller becomes its owner."""
        return retry_on_conflict(call, lambda: self._change(call, scope, name, change))

    def _change(self, call: Call, scope: str, name: str, change: Mapping[str, Any]) -> ScheduleRecord:
        with self.units.recording(call) as unit:
            before = _find(unit, scope, name, Permission.RUN)
            unit.check_revision(before)
            if not change:
                hint = f"set at least one of {', '.join(EDITABLE_FIELDS)}"
                raise RequestRejected([Violation("cron", "required", "the change is empty", hint)])
            schedule = _parse({field: getattr(before, field) for field in EDITABLE_FIELDS} | dict(change))
            if mistakes := list(cron_times.find_violations(schedule)):
                # A change has these fields at the top level, not inside `schedule`.
                raise RequestRejected([replace(mistake, path=mistake.path.partition(".")[2]) for mistake in mistakes])
            values = {field: getattr(schedule, field) for field in EDITABLE_FIELDS}
            changed = replace(before, **values, **_owner_fields(unit), **unit.update_fields(before))
            after = _with_next_time(changed, unit.now)
            return unit.save(before, after, "schedule.edit", after.name, scope)

    def pause(self, call: Call, scope: str, name: str) -> ScheduleRecord:
        """Pause a schedule: it submits no runs until it is resumed."""
        return retry_on_conflict(call, lambda: self._set_paused(call, scope, name, paused=True))

    def resume(self, call: Call, scope: str, name: str) -> ScheduleRecord:
        """Resume a schedule from its next due time. Times during the pause do not count as missed."""
        return retry_on_conflict(call, lambda: self._set_paused(call, scope, name, paused=False))

    def run(self, call: Call, scope: str, name: str) -> RunRecord:
        """Submit a schedule's run now, as the caller. The schedule's next time does not change."""
        with self.units.recording(call, exclusive=is_limited(self.units, scope)) as unit:
            if (before := unit.find_response(RunRecord)) is not None:
                return before
            run = unit.store_response(self.runs.submit_scheduled(unit, _find(unit, scope, name, Permission.RUN)))
        self.run_events.publish(RunEvent.CHANGED, run.id)
        return run

    def delete(self, call: Call, scope: str, name: str) -> None:
        """Delete a schedule. Its runs remain."""
        retry_on_conflict(call, lambda: self._delete(call, scope, name))

    def _delete(self, call: Call, scope: str, name: str) -> None:
        with self.units.recording(call) as unit:
            record = _find(unit, scope, name, Permission.RUN)
            unit.check_revision(record)
            unit.remove(record, "schedule", name, scope)

    def submit_due_runs(self, schedule_id: str) -> None:
        """Submit a schedule's due runs and set its next time, atomically, even if several servers do so at once.

        If a run is rejected, the reason is stored as the schedule's problem, and the run is not retried.
        """
        record = self._load(schedule_id)
        if record is None:
            return
        # Not trusted: the owner needs permission at the scheduled time, not just when creating the schedule.
        owner = Call(principal=Principal(record.user, tuple(record.groups), via=VIA))
        submitted: list[RunRecord] = []
        try:
            with self.units.recording(owner, exclusive=is_limited(self.units, record.scope)) as unit:
                due = cron_times.find_due(record, unit.now)
                if due.times and not (skipped := _find_overlap(unit, record)):
                    # Submits one run for each due time, including missed times that the schedule makes up for.
                    submitted = [self.runs.submit_scheduled(unit, record) for _ in due.times]
                    _advance(unit, record, due, last_run_id=submitted[-1].id, last_problem=None)
                elif due.times:
                    _advance(unit, record, due, last_run_id=record.last_run_id, last_problem=skipped)
                elif due.next_at != record.next_at:
                    _advance(unit, record, due)
        except (Changed, Unavailable):  # changed by a user or another server, or the controller will retry
            return
        except FairleadError as error:
            self._record_rejection(record, error)
        for run in submitted:
            self.run_events.publish(RunEvent.CHANGED, run.id)

    def _load(self, schedule_id: str) -> ScheduleRecord | None:
        # Trusted, because the owner may no longer have any role.
        with self.units.reading(Call(principal=Principal("fairlead", via=VIA), trusted=True)) as unit:
            return unit.tx.get(ScheduleRecord, id=schedule_id)

    def _record_rejection(self, record: ScheduleRecord, error: FairleadError) -> None:
        problem = "; ".join(map(str, error.violations)) if isinstance(error, RequestRejected) else str(error)
        # The run may have been rejected because the owner no longer has permission.
        trusted = Call(principal=Principal(record.user, tuple(record.groups), via=VIA), trusted=True)
        try:
            with self.units.recording(trusted) as unit:
                due = cron_times.find_due(record, unit.now)
                after = _advance(unit, record, due, last_run_id=None, last_problem=problem[:MAX_PROBLEM_LENGTH])
                unit.audit("schedule.refuse", after, after.name, after.scope, after=after)
        except Changed:
            return

    def _build_record(self, unit: UnitOfWork, scope: str, request: RunRequest, schedule: Schedule) -> ScheduleRecord:
        # The user should see mistakes now, not after the first scheduled time.
        self.runs.check(unit, scope, request)
        run_request = request.to_data()
        run_request.pop("schedule")
        values = schedule.model_dump() | {"name": schedule.name or request.function.name}
        record = ScheduleRecord(
            **unit.creation_fields(),
            **values,
            **_owner_fields(unit),
            scope=scope,
            function=request.function.name,
            request=run_request,
            code=request.function.code,
        )
        return _with_next_time(record, unit.now)

    def _set_paused(self, call: Call, scope: str, name: str, *, paused: bool) -> ScheduleRecord:
        with self.units.recording(call) as unit:
            before = _find(unit, scope, name, Permission.RUN)
            unit.check_revision(before)
            if before.paused == paused:
                return before
            after = _with_next_time(replace(before, paused=paused, **unit.update_fields(before)), unit.now)
            return unit.save(before, after, f"schedule.{'pause' if paused else 'resume'}", name, scope)


def _find(unit: UnitOfWork, scope: str, name: str, permission: Permission = Permission.VIEW) -> ScheduleRecord:
    unit.require(permission, scope, scope)
    record = unit.tx.get(ScheduleRecord, scope=scope, name=name)
    if record is None:
        known = [other.name for other in unit.tx.find(ScheduleRecord, Condition("scope", "=", scope), limit=500)]
        hint = suggest_names(name, known, "available: {known}") if known else "submit a run with a schedule"
        raise NotFound(f"schedule {short_repr(name)} does not exist in {scope}", hint)
    return record


def _parse(data: JSON) -> Schedule:
    try:
        return Schedule.model_validate(data)
    except ValidationError as error:
        raise RequestRejected(violations_of(error, Schedule)) from error


def _owner_fields(unit: UnitOfWork) -> JSON:
    """Return the user and groups whose permissions a schedule uses to submit runs."""
    return {"user": unit.principal.user, "groups": list(unit.principal.groups)}


def _with_next_time(record: ScheduleRecord, now: datetime) -> ScheduleRecord:
    """Return the schedule with its next time set to the first one after `now`."""
    next_at = None if record.paused else cron_times.next_after(record.cron, record.timezone, now)
    return replace(record, next_at=next_at)


def _find_overlap(unit: UnitOfWork, record: ScheduleRecord) -> str:
    """Return why a scheduled time is skipped (a run is still active and must not overlap); empty if it is not."""
    if record.overlap != "skip":
        return ""
    of_schedule = (Condition("scope", "=", record.scope), Condition("schedule", "=", record.name))
    active = unit.tx.find(RunRecord, Condition("active", "=", True), *of_schedule, limit=1)
    return f"skipped: run {active[0].id} is {active[0].state}" if active else ""


def _advance(unit: UnitOfWork, record: ScheduleRecord, due: DueTimes, **more: Any) -> ScheduleRecord:
    """Store the last and next times of a schedule. Not audited, because no user made the change."""
    last_at = due.times[-1] if due.times else record.last_at
    after = replace(
        record, next_at=due.next_at, last_at=last_at, revision=record.revision + 1, updated_at=unit.now, **more
    )
    unit.tx.save(after)
    return after
