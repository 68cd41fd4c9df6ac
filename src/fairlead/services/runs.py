"""Runs: previewed, submitted, listed, explained, stopped. Preview is submit without the write; nothing starts here."""

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from pydantic import ValidationError

from fairlead.core import explanations, lifecycle, quotas
from fairlead.core.actions import check_kept_code
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.manifests.attempts import manifests_of
from fairlead.core.planning import plan_run
from fairlead.core.queue_order import queue_key
from fairlead.core.quotas import QuotaAmounts
from fairlead.errors import Conflict, FairleadError, NotFound, RequestRejected
from fairlead.model.parsing import short_repr, violations_of
from fairlead.model.plans import Fit, Plan, Suggestion, Violation
from fairlead.model.queries import Condition, Page
from fairlead.model.records import JSON, AuditRecord, EventRecord, PlanRecord, RunRecord, ScheduleRecord
from fairlead.model.requests import Function, RunRequest, merge
from fairlead.model.roles import Permission
from fairlead.model.states import FINAL, State
from fairlead.ports import Executors, Notify
from fairlead.services.calls import Call
from fairlead.services.executions import find_run, has_no_place
from fairlead.services.functions import content_of, find_function, is_news, keep_function, name_whole, suggest
from fairlead.services.pages import Listing, load_page
from fairlead.services.quotas import load_allowances
from fairlead.services.snapshots import PlanningContext, Snapshots
from fairlead.services.stored_code import find_code, lend_code
from fairlead.services.submissions import make_record
from fairlead.services.suggestions import Suggestions
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory, insist

TOKEN = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True)
class Planned:
    """A plan, the ground that it was made on, and the token with which exactly this is submitted."""

    plan: Plan
    data: JSON
    context: PlanningContext
    run_id: str
    token: str | None


class Runs:
    """The use cases of runs."""

    def __init__(
        self,
        units: UnitOfWorkFactory,
        snapshots: Snapshots,
        executors: Executors,
        tell: Notify = lambda _run_id: None,
    ) -> None:
        self.units, self.snapshots, self.executors, self.tell = units, snapshots, executors, tell
        self.suggestions = Suggestions(snapshots, executors)

    def preview(self, call: Call, scope: str, request: RunRequest) -> JSON:
        """What would run, with which values and why. Nothing is kept."""
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, scope, scope)
            whole = name_whole(unit, scope, request)
            planned = self._plan(unit, scope, whole, unit.make_id(), advise=True)
            return {**planned.data, "token": planned.token}

    def submit(self, call: Call, scope: str, request: RunRequest) -> RunRecord:
        """Keep a queued run, or raise `RequestRejected`. Nothing starts here."""
        try:
            with self.units.recording(call) as unit:
                if (before := unit.recall(RunRecord)) is not None:
                    return before
                unit.require(Permission.RUN, scope, scope)
                refuse_schedule(scope, request)
                request = name_whole(unit, scope, request)
                record = self._keep(unit, scope, request, self._plan_as_previewed(unit, scope, request))
                unit.remember(record)
                news = is_news(unit, scope, request.function)
        except RequestRejected as refused:  # what would help is found while nobody waits to write
            raise self._hint(call, scope, request, refused) from None
        self.tell(record.id)
        if news:
            self._keep_function(call, scope, request.function)
        return record

    def check(self, unit: UnitOfWork, scope: str, request: RunRequest) -> RunRequest:
        """A request with the function that it names, where a run of it could be kept now; else `RequestRejected`."""
        unit.require(Permission.RUN, scope, scope)
        whole = name_whole(unit, scope, request)
        planned = self._plan(unit, scope, whole, unit.make_id())
        if planned.plan.violations:
            raise RequestRejected(planned.plan.violations)
        return whole

    def submit_for(self, unit: UnitOfWork, schedule: ScheduleRecord) -> RunRecord:
        """Keep a queued run for a schedule, as whoever wrote it would submit it now."""
        unit.require(Permission.RUN, schedule.scope, schedule.scope)
        request = name_whole(unit, schedule.scope, _read(schedule.request))
        planned = self._plan(unit, schedule.scope, request, unit.make_id())
        return self._keep(unit, schedule.scope, request, planned, schedule=schedule.name)

    def change(self, call: Call, run_id: str, change: JSON, project: str | None = None) -> RunRecord:
        """Put a run with another request in the place of one that waits: both happen, or nothing."""
        with self.units.recording(call) as unit:
            if (done := unit.recall(RunRecord)) is not None:
                return done
            before = find_run(unit, run_id, Permission.RUN)
            unit.check_revision(before)
            if not has_no_place(before):
                message = f"run {run_id} is {before.state}, and only one that waits for a place is changed"
                raise Conflict(message, "submit it again with other values")
            scope = before.scope if project is None else f"project/{project}"
            unit.require(Permission.RUN, scope, scope)
            kept = unit.tx.get(PlanRecord, id=run_id)
            asked: JSON = {} if kept is None else kept.request
            request = _read(merge(asked, change))
            _check_change(asked, change, request, moves=scope != before.scope)
            lend_code(unit, before.scope, scope, request.function.code)
            schedule = before.schedule if scope == before.scope else None
            planned = self._plan(unit, scope, request, unit.make_id())
            record = self._keep(unit, scope, request, planned, schedule=schedule)
            self._end(unit, before, f"run {record.id} is in its place")
            unit.remember(record)
        self.tell(run_id)
        self.tell(record.id)
        return record

    def page(self, call: Call, asked: Listing, scope: str | None = None) -> Page[RunRecord]:
        """The runs that the caller sees, the newest first."""
        with self.units.reading(call) as unit:
            return load_page(unit.tx, RunRecord, asked, sort="-created_at", within=unit.within(scope))

    def get(self, call: Call, run_id: str) -> RunRecord:
        """One run."""
        with self.units.reading(call) as unit:
            return find_run(unit, run_id)

    def plan(self, call: Call, run_id: str) -> PlanRecord:
        """What was asked for in a run, and what was decided."""
        with self.units.reading(call) as unit:
            find_run(unit, run_id)
            kept = unit.tx.get(PlanRecord, id=run_id)
            if kept is None:
                raise NotFound(f"there is no run {short_repr(run_id)}")
            return kept

    def manifests(self, call: Call, run_id: str) -> list[JSON]:
        """The objects of the present try of a run."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
        return list(manifests_of(run, self.plan(call, run_id)))

    def stop(self, call: Call, run_id: str) -> RunRecord:
        """Say that a run is to end. One that has ended, or is about to, stays as it is."""
        return insist(call, lambda: self._stop(call, run_id))

    def delete(self, call: Call, run_id: str) -> None:
        """Forget a run that has ended."""
        with self.units.recording(call) as unit:
            record = find_run(unit, run_id, Permission.RUN)
            unit.check_revision(record)
            if record.active:
                raise Conflict(f"run {run_id} is {record.state}, and only what has ended is deleted", "stop it first")
            unit.remove(record, "run", record.id, record.scope)
        self.tell(run_id)

    def _stop(self, call: Call, run_id: str) -> RunRecord:
        with self.units.recording(call) as unit:
            record = find_run(unit, run_id, Permission.RUN)
            unit.check_revision(record)
            if not record.active or record.state == State.STOPPING:
                return record
            after = self._end(unit, record)
        self.tell(run_id)
        return after

    def _keep_function(self, call: Call, scope: str, function: Function) -> None:
        """Keep the function that a run brought with it, where that works: if not, the next run of it tries again.

        In a transaction of its own: two at once that bring the same function must not refuse each other.
        """
        with contextlib.suppress(FairleadError), self.units.recording(replace(call, key=None), alone=True) as unit:
            keep_function(unit, scope, function, find_function(unit, scope, function.name))

    def _keep(
        self, unit: UnitOfWork, scope: str, request: RunRequest, planned: Planned, *, schedule: str | None = None
    ) -> RunRecord:
        """Keep a run as it was planned. Raise `RequestRejected` where it cannot be."""
        if planned.plan.violations:
            raise RequestRejected(planned.plan.violations)
        record = self._describe_wait(
            make_record(unit, planned.run_id, scope, request, planned.plan, planned.context), planned
        )
        record = replace(record, schedule=schedule)
        unit.add(record, "run", record.id, scope)
        unit.tx.add(PlanRecord(id=record.id, request=request.to_data(), plan=_without_nodes(planned.data)))
        _note(unit, record)
        return record

    def _end(self, unit: UnitOfWork, record: RunRecord, why: str = "") -> RunRecord:
        """Say that a run is to end, and by whom."""
        by = unit.principal.user
        decision = lifecycle.decide_stop(record, by)
        message = f"{decision.message}: {why}" if why else decision.message
        changed: JSON = {"state": str(decision.state), "reason": decision.reason, "message": message}
        if decision.state in FINAL:
            changed |= {"active": False, "finished_at": unit.now}
        after = replace(record, **changed, stopped_by=by, **unit.next(record))
        unit.save(record, after, "run.stop", record.id, record.scope)
        _note(unit, after)
        return after

    def _plan(self, unit: UnitOfWork, scope: str, request: RunRequest, run_id: str, *, advise: bool = False) -> Planned:
        """The plan of a request; where that is asked, with what would make it run now."""
        context = self.snapshots.load(unit, scope, request)
        nodes = self.suggestions.nodes_of(unit, context)
        plan = plan_run(request, context.snapshot, run_id, nodes=nodes)
        if advise and (plan.manifests or plan.fit.verdict == "never"):
            plan = self._advise(unit, scope, request, plan, context, nodes)
        violations = [_name_function(unit, scope, request, found) for found in plan.violations]
        plan = replace(plan, violations=(*violations, *_check_code(unit, scope, request, plan, context)))
        data = explanations.to_data(plan)
        token = None if plan.violations else f"{run_id}.{_fingerprint(scope, request, data)}"
        return Planned(plan, data, context, run_id, token)

    def _advise(
        self,
        unit: UnitOfWork,
        scope: str,
        request: RunRequest,
        plan: Plan,
        context: PlanningContext,
        nodes: NodeTable | None,
    ) -> Plan:
        """The plan with what quotas make of its fit, and with what would make it run now."""
        asked, turn = (
            QuotaAmounts.of(quotas.count_resources(plan.settings)),
            queue_key(unit.make_id(), request.priority or 0),
        )
        allowances = load_allowances(unit, scope, asked, before=turn)
        fit = self.suggestions.hold_back(unit, context, quotas.apply_quotas(plan.fit, asked, allowances), turn)
        if fit.verdict == "now":
            return plan
        ways = self.suggestions.find(unit, scope, request, context, nodes, allowances=allowances)
        return replace(plan, fit=replace(fit, suggestions=ways), violations=_hint(plan.violations, ways))

    def _hint(self, call: Call, scope: str, request: RunRequest, refused: RequestRejected) -> RequestRejected:
        """A refusal, with what would fit where nothing else is wrong."""
        if {found.rule for found in refused.violations} != {"never_fits"}:
            return refused
        with self.units.reading(call) as unit:
            plan = self._plan(unit, scope, request, unit.make_id(), advise=True).plan
        return RequestRejected(_hint(refused.violations, plan.fit.suggestions))

    def _plan_as_previewed(self, unit: UnitOfWork, scope: str, request: RunRequest) -> Planned:
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

    def _describe_wait(self, record: RunRecord, planned: Planned) -> RunRecord:
        """The run, with what it waits for where nobody executes the runs of its cluster."""
        cluster = planned.context.snapshot.cluster
        if record.cluster is not None and (self.executors.find(cluster) is not None or not self.executors.all()):
            return record
        message = "its project is on no cluster"
        if record.cluster is not None:
            message = f"no server executes the runs of {record.cluster} yet"
            if cluster.executor == "kubernetes" and cluster.connection == "kubeconfig":
                message += f": `fairlead clusters connect {cluster.name}` tells this one how to reach it"
        return replace(record, reason="NoExecutor", message=message)


def refuse_schedule(scope: str, request: RunRequest) -> None:
    """A run is submitted once; what is submitted again and again is kept elsewhere."""
    if request.schedule is not None:
        path = f"/projects/{scope.partition('/')[2]}/schedules"
        message = f"is no part of one run, found {short_repr(request.schedule.cron)}"
        raise RequestRejected([Violation("schedule", "schedule", message, f"send it to {path}, or leave it out")])


def _check_change(asked: JSON, change: JSON, request: RunRequest, *, moves: bool) -> None:
    """Raise `RequestRejected` where nothing would be different, or what is left out is not there."""
    missing = [
        Violation(f"change.{path}", "unknown_field", "there is nothing to leave out", "leave it out of the change")
        for path in _find_missing(asked, change)
    ]
    if not missing and not moves and request.to_data() == _read(asked).to_data():
        missing = [Violation("change", "required", "changes nothing", "say what is to be different")]
    if missing:
        raise RequestRejected(missing)


def _find_missing(asked: Any, change: JSON, above: str = "") -> Iterator[str]:
    """The paths that are to be left out, and are not said."""
    for name, value in change.items():
        there = asked.get(name) if isinstance(asked, dict) else None
        if value is None and there is None:
            yield f"{above}{name}"
        elif isinstance(value, dict):
            yield from _find_missing(there, value, f"{above}{name}.")


def _read(data: JSON) -> RunRequest:
    try:
        return RunRequest.model_validate(data)
    except ValidationError as error:
        raise RequestRejected(violations_of(error, RunRequest)) from error


def _hint(violations: Sequence[Violation], ways: Sequence[Suggestion]) -> tuple[Violation, ...]:
    """What never fits, with the first thing that would."""
    told = f"to run now, {ways[0].message}" if ways else None
    return tuple(
        replace(found, hint="; ".join(filter(None, (found.hint, told))))
        if found.rule == "never_fits" and told
        else found
        for found in violations
    )


def _check_code(
    unit: UnitOfWork, scope: str, request: RunRequest, plan: Plan, context: PlanningContext
) -> Iterator[Violation]:
    digest = request.function.code
    kept = None if digest is None else find_code(unit, scope, digest)
    if kept is not None:
        yield from check_kept_code(plan.manifests, context.snapshot.cluster, kept.size)
    elif digest is not None:
        message, path = f"there is no code {digest} in {scope}", f"/projects/{scope.partition('/')[2]}/code/{digest}"
        hint = f"send it first: PUT it to {path}"
        yield Violation("function.code", "unknown_code", message, hint)


def _name_function(unit: UnitOfWork, scope: str, request: RunRequest, found: Violation) -> Violation:
    """That there is nothing to run, told as what it is where a function was only named: nobody knows that name."""
    if (found.path, found.rule) != ("function.source", "required") or content_of(request.function):
        return found
    name = request.function.name
    return Violation("function", "unknown", f"{scope} has no function {short_repr(name)}", suggest(unit, scope, name))


def _note(unit: UnitOfWork, run: RunRecord) -> None:
    """Keep in the run's history that it came to a state."""
    unit.tx.add(EventRecord.of(run, unit.make_id(), unit.now))


def _without_nodes(plan: JSON) -> JSON:
    """A plan without what is of this moment, and of what its caller may see: whether nodes have room for it."""
    warnings = [found for found in plan["warnings"] if found["rule"] != "never_fits"]
    return {**plan, "warnings": warnings, "fit": explanations.fit_data(Fit())}


def _fingerprint(scope: str, request: RunRequest, plan: JSON) -> str:
    plan = _without_nodes(plan)
    return hashlib.sha256(msgspec.json.encode([scope, request.to_data(), plan])).hexdigest()
