"""Runs: previewed, submitted, listed, explained, stopped. Preview is submit without the write."""

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from fairlead.core import explaining
from fairlead.core.planning import plan_run
from fairlead.errors import Conflict, NotFound, RequestRejected
from fairlead.model.parsing import show
from fairlead.model.plans import Plan, Violation
from fairlead.model.queries import Condition, Page
from fairlead.model.records import JSON, AuditRecord, PlanRecord, RunRecord
from fairlead.model.requests import RunRequest
from fairlead.model.roles import Deed
from fairlead.model.states import State
from fairlead.services.calls import Call
from fairlead.services.listing import Listing, load_page
from fairlead.services.snapshots import Ground, Snapshots
from fairlead.services.units import Unit, Units

WAITING = "waits for an executor: this version of Fairlead keeps runs and does not execute them yet"
TOKEN = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True)
class Planned:
    """A plan, the ground that it was made on, and the token with which exactly this is submitted."""

    plan: Plan
    data: JSON
    ground: Ground
    run_id: str
    token: str | None


class Runs:
    """The use cases of runs."""

    def __init__(self, units: Units, snapshots: Snapshots) -> None:
        self.units, self.snapshots = units, snapshots

    def preview(self, call: Call, scope: str, request: RunRequest) -> JSON:
        """What would run, with which values and why. Nothing is kept."""
        with self.units.reading(call) as unit:
            unit.require(Deed.SEE, scope, scope)
            planned = self._plan(unit, scope, request, unit.make_id())
            return {**planned.data, "token": planned.token}

    def submit(self, call: Call, scope: str, request: RunRequest) -> RunRecord:
        """Keep a queued run, or raise `RequestRejected`. Nothing starts here."""
        with self.units.recording(call) as unit:
            if (before := unit.recall(RunRecord)) is not None:
                return before
            unit.require(Deed.WORK, scope, scope)
            planned = self._plan_as_previewed(unit, scope, request)
            if planned.plan.violations:
                raise RequestRejected(planned.plan.violations)
            record = _record_of(unit, scope, request, planned)
            unit.add(record, "run", record.id, scope)
            unit.tx.add(PlanRecord(id=record.id, request=request.to_data(), plan=planned.data))
            return unit.remember(record)

    def page(self, call: Call, asked: Listing, scope: str | None = None) -> Page[RunRecord]:
        """The runs that the caller sees, the newest first."""
        with self.units.reading(call) as unit:
            within = unit.in_sight()
            if scope is not None:
                unit.require(Deed.SEE, scope, scope)
                within = [Condition("scope", "=", scope)]
            return load_page(unit.tx, RunRecord, asked, sort="-created_at", within=within)

    def get(self, call: Call, run_id: str) -> RunRecord:
        """One run."""
        with self.units.reading(call) as unit:
            return self._find(unit, run_id, Deed.SEE)

    def plan(self, call: Call, run_id: str) -> PlanRecord:
        """What was asked for in a run, and what was decided."""
        with self.units.reading(call) as unit:
            self._find(unit, run_id, Deed.SEE)
            kept = unit.tx.get(PlanRecord, id=run_id)
            if kept is None:
                raise NotFound(f"there is no run {show(run_id)}")
            return kept

    def stop(self, call: Call, run_id: str) -> RunRecord:
        """End a run. One that has ended stays as it is."""
        with self.units.recording(call) as unit:
            record = self._find(unit, run_id, Deed.WORK)
            unit.check_revision(record)
            if not record.live:
                return record
            message = f"stopped by {unit.principal.user}"
            ended: JSON = {"state": str(State.STOPPED), "reason": "Stopped", "message": message, "live": False}
            after = replace(record, **ended, finished_at=unit.now, **unit.next(record))
            return unit.save(record, after, "run.stop", record.id, record.scope)

    def delete(self, call: Call, run_id: str) -> None:
        """Forget a run that has ended."""
        with self.units.recording(call) as unit:
            record = self._find(unit, run_id, Deed.WORK)
            unit.check_revision(record)
            if record.live:
                raise Conflict(f"run {run_id} is {record.state}, and only what has ended is deleted", "stop it first")
            unit.remove(record, "run", record.id, record.scope)

    def _plan(self, unit: Unit, scope: str, request: RunRequest, run_id: str) -> Planned:
        ground = self.snapshots.load(unit, scope, request)
        plan = plan_run(request, ground.snapshot, run_id)
        data = explaining.to_data(plan)
        token = None if plan.violations else f"{run_id}.{_fingerprint(scope, request, data)}"
        return Planned(plan, data, ground, run_id, token)

    def _plan_as_previewed(self, unit: Unit, scope: str, request: RunRequest) -> Planned:
        """The plan of a request; with a token the very one that was previewed, or `Conflict`."""
        if request.plan_token is None:
            return self._plan(unit, scope, request, unit.make_id())
        match = TOKEN.fullmatch(request.plan_token)
        if match is None:
            violation = Violation(
                "plan_token", "plan_token", "is none that a preview gave out", "preview again and send its token"
            )
            raise RequestRejected([violation])
        token, request = request.plan_token, request.model_copy(update={"plan_token": None})
        planned = self._plan(unit, scope, request, match[1])
        if planned.token != token:
            message = "what would run now is not what was previewed: the request or what it rests on has changed"
            raise Conflict(message, "preview again, and submit with the new token")
        # In the audit: a run that was deleted since was submitted all the same.
        if unit.tx.find(AuditRecord, Condition("object_id", "=", match[1]), limit=1):
            raise Conflict("what was previewed is submitted already", f"see run {match[1]}, or preview again")
        return planned

    def _find(self, unit: Unit, run_id: str, deed: Deed) -> RunRecord:
        record = unit.tx.get(RunRecord, id=run_id)
        if record is None or not unit.permissions.sees(record.scope):
            raise NotFound(f"there is no run {show(run_id)}")
        unit.require(deed, record.scope, f"run {show(run_id)}")
        return record


def _record_of(unit: Unit, scope: str, request: RunRequest, planned: Planned) -> RunRecord:
    values = {setting.path: setting.value for setting in planned.plan.settings}
    profile, template = values.get("profile"), values.get("template")
    resource = planned.ground.records.get(("profile", profile)) if profile else None
    started_from = planned.ground.records.get(("template", template)) if template else None
    return RunRecord(
        **{**unit.stamps(), "id": planned.run_id},
        scope=scope,
        function=request.function.name,
        action=request.action,
        state=str(State.QUEUED),
        reason="NoExecutor",
        message=WAITING,
        compute_resource=profile,
        compute_resource_id=None if resource is None else resource.id,
        compute_resource_revision=None if resource is None else resource.revision,
        template=template,
        template_id=None if started_from is None else started_from.id,
        uses=sorted(_uses_of(values)),
    )


def _uses_of(values: dict[str, Any]) -> set[str]:
    """The project's volumes and secrets that a run is given."""
    used = {f"secret/{path.removeprefix('secrets.')}" for path in values if path.startswith("secrets.")}
    for path, value in values.items():
        section, _, part = path.partition(".")
        if section == "volumes" and part.endswith(".spec.claim_name"):
            used.add(f"volume/{value}")
        elif section == "volumes" and value == "secret" and part.endswith(".volume_type"):
            used.add(f"secret/{values[path.removesuffix('volume_type') + 'spec.name']}")
    return used


def _fingerprint(scope: str, request: RunRequest, plan: JSON) -> str:
    return hashlib.sha256(msgspec.json.encode([scope, request.to_data(), plan])).hexdigest()
