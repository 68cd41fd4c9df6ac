"""Previews, submits, changes, stops and deletes runs. Controllers start the submitted runs."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from fairlead.errors import Conflict, FairleadError, NotFound, RequestRejected
from fairlead.lifecycle import lifecycle
from fairlead.manifests.attempts import manifests_of
from fairlead.model import explanations
from fairlead.model.columns import Page
from fairlead.model.nodes import NodeTable
from fairlead.model.parsing import short_repr, violations_of
from fairlead.model.plans import Demand, Fit, Plan, Suggestion, Violation
from fairlead.model.records import JSON, EventRecord, PlanRecord, RunRecord, ScheduleRecord
from fairlead.model.requests import Function, RunRequest, merge_patch
from fairlead.model.runs import FINAL, State
from fairlead.model.scopes import Permission
from fairlead.planning.checks import check_stored_code
from fairlead.planning.plan import NO_RUN, plan_run
from fairlead.ports import Executors, Keyring
from fairlead.run_events import RunEvent, RunEvents
from fairlead.scheduling import quotas
from fairlead.scheduling.queue_order import NO_EXECUTOR, queue_key, request_key
from fairlead.scheduling.quotas import QuotaAmounts
from fairlead.services.catalog.snapshots import PlanningContext, Snapshots, check_cluster
from fairlead.services.runs.executions import find_run, find_visible_nodes, is_unscheduled
from fairlead.services.runs.fit import Suggestions
from fairlead.services.runs.functions import (
    copy_code,
    find_code,
    find_function,
    function_content,
    is_new_content,
    resolve_function,
    store_function,
    suggest_functions,
)
from fairlead.services.runs.plan_tokens import PlanTokens, digest_of_plan
from fairlead.services.runs.queue import load_allowances, load_reservation, next_entry
from fairlead.services.runs.waiting_limits import check_waiting_limit, is_limited
from fairlead.services.transactions.pages import ListQuery, load_page
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory, retry_on_conflict

QUEUED_MESSAGE = "waiting in the queue"


def build_run_record(
    unit: UnitOfWork,
    run_id: str,
    scope: str,
    request: RunRequest,
    plan: Plan,
    demand: Demand,
    context: PlanningContext,
) -> RunRecord:
    """Build the record of a planned run."""
    values = {setting.path: setting.value for setting in plan.settings}
    profile, template = values.get("profile"), values.get("template")
    resource = context.records.get(("profile", profile)) if profile else None
    started_from = context.records.get(("template", template)) if template else None
    # The database's time, so that servers whose clocks differ agree on the order.
    submitted_at = unit.tx.now(unit.now)
    return RunRecord(
        # The manifests contain the ID.
        **{**unit.creation_fields(), "id": run_id, "created_at": submitted_at},
        scope=scope,
        function=request.function.name,
        action=request.action,
        state=str(State.QUEUED),
        reason="Queued",
        message=QUEUED_MESSAGE,
        code=request.function.code,
        cluster=context.snapshot.cluster.scope,
        # The names are those that the plan used. The IDs are used to find an asset's runs after it is renamed.
        compute_resource=profile,
        compute_resource_id=None if resource is None else resource.id,
        compute_resource_revision=None if resource is None else resource.revision,
        template=template,
        template_id=None if started_from is None else started_from.id,
        uses=sorted(demand.uses),  # a volume cannot be deleted while an active run uses it
        priority=request.priority or 0,
        queue_key=queue_key(submitted_at, run_id, request.priority or 0),
        request_key=request_key(demand.pod_request, demand.deadline_seconds),
        idle_seconds=None if (idle := values.get("idle_timeout")) is None else int(idle),
        **demand.resources._asdict(),
    )


@dataclass(frozen=True)
class PlannedRun:
    """A plan with its context."""

    plan: Plan
    data: JSON  # the plan as JSON, converted once for the response, the token and the database
    context: PlanningContext
    run_id: str


class Runs:
    """Previews, submits, changes, stops and deletes runs."""

    def __init__(
        self,
        units: UnitOfWorkFactory,
        snapshots: Snapshots,
        executors: Executors,
        keyring: Keyring,
        run_events: RunEvents,
    ) -> None:
        self.units, self.snapshots, self.executors, self.run_events = units, snapshots, executors, run_events
        self.plan_tokens = PlanTokens(keyring)
        self.suggestions = Suggestions(snapshots, executors)

    def preview(self, call: Call, scope: str, request: RunRequest) -> JSON:
        """Plan a run without submitting it. The result includes a token for submitting exactly this plan."""
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, scope, scope)
            resolved = resolve_function(unit, scope, request)
            # Without an ID: a run gets its ID when it is submitted, so that nobody can choose it in advance.
            planned = self.plan_request(unit, scope, resolved, NO_RUN, with_suggestions=True)
            if planned.plan.violations:
                return {**planned.data, "token": None}
            digest = digest_of_plan(scope, resolved, without_fit(planned.data))
            return {**planned.data, "token": self.plan_tokens.issue(unit, scope, digest)}

    def submit(self, call: Call, scope: str, request: RunRequest) -> RunRecord:
        """Store a run in the queue. Raises `RequestRejected` with all violations, `QueueFull` if too many runs wait."""
        try:
            with self.units.recording(call, exclusive=is_limited(self.units, scope)) as unit:
                if (before := unit.find_response(RunRecord)) is not None:
                    return before
                unit.require(Permission.RUN, scope, scope)
                reject_schedule(scope, request)
                check_waiting_limit(unit, scope)
                request = resolve_function(unit, scope, request)
                record = self._store(unit, scope, request, self._plan_as_previewed(unit, scope, request))
                unit.store_response(record)
                has_new_function = is_new_content(unit, scope, request.function)
        except RequestRejected as rejection:  # finding suggestions takes time, so it happens after the transaction
            raise self._add_hint(call, scope, request, rejection) from None
        # This must come after the commit, because the controller reads the run.
        self.run_events.publish(RunEvent.CHANGED, record.id)
        if has_new_function:
            self._store_function(call, scope, request.function)
        return record

    def check(self, unit: UnitOfWork, scope: str, request: RunRequest) -> RunRequest:
        """Return the request with its stored function. Raises `RequestRejected` if it could not be submitted now."""
        unit.require(Permission.RUN, scope, scope)
        resolved = resolve_function(unit, scope, request)
        planned = self.plan_request(unit, scope, resolved, unit.make_id())
        if planned.plan.violations:
            raise RequestRejected(planned.plan.violations)
        return resolved

    def submit_scheduled(self, unit: UnitOfWork, schedule: ScheduleRecord) -> RunRecord:
        """Submit a scheduled run as the caller, in a unit of work."""
        unit.require(Permission.RUN, schedule.scope, schedule.scope)
        check_waiting_limit(unit, schedule.scope)
        request = resolve_function(unit, schedule.scope, parse_request(schedule.request))
        planned = self.plan_request(unit, schedule.scope, request, unit.make_id())
        return self._store(unit, schedule.scope, request, planned, schedule=schedule.name)

    def change(self, call: Call, run_id: str, change: JSON, project: str | None = None) -> RunRecord:
        """Atomically replace a waiting run with one that has a changed request."""
        moves_to = None if project is None else f"project/{project}"
        exclusive = moves_to is not None and is_limited(self.units, moves_to)
        with self.units.recording(call, exclusive=exclusive) as unit:
            if (response := unit.find_response(RunRecord)) is not None:
                return response
            before = find_run(unit, run_id, Permission.RUN)
            unit.check_revision(before)
            if not is_unscheduled(before):
                message = f"run {run_id} is {before.state}; only waiting runs can be changed"
                raise Conflict(message, "submit it again with different values")
            scope = moves_to or before.scope
            unit.require(Permission.RUN, scope, scope)
            if scope != before.scope:  # otherwise, the new run takes the place of the old one
                check_waiting_limit(unit, scope)
            plan = unit.tx.get(PlanRecord, id=run_id)
            old_request: JSON = {} if plan is None else plan.request
            request = parse_request(merge_patch(old_request, change))
            _check_change(old_request, change, request, moves=scope != before.scope)
            # Code is stored separately for each project.
            copy_code(unit, before.scope, scope, request.function.code)
            # Schedules belong to a project. Within it, the new run still counts in the schedule's overlap check.
            schedule = before.schedule if scope == before.scope else None
            planned = self.plan_request(unit, scope, request, unit.make_id())
            record = self._store(unit, scope, request, planned, schedule=schedule)
            self._request_stop(unit, before, f"replaced by run {record.id}")
            unit.store_response(record)
        self.run_events.publish(RunEvent.CHANGED, run_id)
        self.run_events.publish(RunEvent.CHANGED, record.id)
        return record

    def page(self, call: Call, query: ListQuery, scope: str | None = None) -> Page[RunRecord]:
        """List the visible runs, newest first."""
        with self.units.reading(call) as unit:
            return load_page(unit.tx, RunRecord, query, sort="-created_at", within=unit.scope_conditions(scope))

    def get(self, call: Call, run_id: str) -> RunRecord:
        """Return one run."""
        with self.units.reading(call) as unit:
            return find_run(unit, run_id)

    def plan(self, call: Call, run_id: str) -> PlanRecord:
        """Return a run's request and plan."""
        with self.units.reading(call) as unit:
            find_run(unit, run_id)
            plan = unit.tx.get(PlanRecord, id=run_id)
            if plan is None:
                raise NotFound(f"run {short_repr(run_id)} does not exist")
            return plan

    def manifests(self, call: Call, run_id: str) -> list[JSON]:
        """Return the manifests of a run's current attempt."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
        return list(manifests_of(run, self.plan(call, run_id)))

    def stop(self, call: Call, run_id: str) -> RunRecord:
        """Stop a run. Does nothing if it has ended or is already stopping."""
        return retry_on_conflict(call, lambda: self._stop(call, run_id))

    def delete(self, call: Call, run_id: str) -> None:
        """Delete a run that has ended."""
        with self.units.recording(call) as unit:
            record = find_run(unit, run_id, Permission.RUN)
            unit.check_revision(record)
            if record.active:
                raise Conflict(
                    f"run {run_id} is {record.state}; only runs that have ended can be deleted", "stop it first"
                )
            unit.remove(record, "run", record.id, record.scope)
        self.run_events.publish(RunEvent.CHANGED, run_id)

    def _stop(self, call: Call, run_id: str) -> RunRecord:
        with self.units.recording(call) as unit:
            record = find_run(unit, run_id, Permission.RUN)
            unit.check_revision(record)
            if not record.active or record.state == State.STOPPING:
                return record
            after = self._request_stop(unit, record)
        self.run_events.publish(RunEvent.CHANGED, run_id)
        return after

    def _store_function(self, call: Call, scope: str, function: Function) -> None:
        """Store a submitted run's function. Failures are ignored, because the function's next run tries again.

        Uses a separate transaction, so that concurrent submissions of the same function do not conflict.
        """
        with contextlib.suppress(FairleadError), self.units.recording(replace(call, key=None), exclusive=True) as unit:
            store_function(unit, scope, function, find_function(unit, scope, function.name))

    def _store(
        self, unit: UnitOfWork, scope: str, request: RunRequest, planned: PlannedRun, *, schedule: str | None = None
    ) -> RunRecord:
        """Store a planned run. Raises `RequestRejected` if the plan has violations."""
        demand = planned.plan.demand
        if planned.plan.violations or demand is None:
            raise RequestRejected(planned.plan.violations)
        record = self.describe_wait(
            build_run_record(unit, planned.run_id, scope, request, planned.plan, demand, planned.context), planned
        )
        record = replace(record, schedule=schedule)
        unit.add(record, "run", record.id, scope)
        plan = without_fit(planned.data)
        unit.tx.add(PlanRecord(id=record.id, request=request.to_data(), plan=plan, demand=demand))
        add_event(unit, record)
        return record

    def _request_stop(self, unit: UnitOfWork, record: RunRecord, reason: str = "") -> RunRecord:
        """Store the caller's request to stop a run. A run without a server ends immediately."""
        by = unit.principal.user
        decision = lifecycle.decide_stop(record, by)
        message = f"{decision.message}: {reason}" if reason else decision.message
        changed: JSON = {"state": str(decision.state), "reason": decision.reason, "message": message}
        if decision.state in FINAL:
            changed |= {"active": False, "finished_at": unit.now}
        after = replace(record, **changed, stopped_by=by, **unit.update_fields(record))
        unit.save(record, after, "run.stop", record.id, record.scope)
        add_event(unit, after)
        return after

    def plan_request(
        self, unit: UnitOfWork, scope: str, request: RunRequest, run_id: str, *, with_suggestions: bool = False
    ) -> PlannedRun:
        """Plan a request in a unit of work. The plan also has the violations that only the server can find."""
        context = self.snapshots.load(unit, scope, request)
        nodes = find_visible_nodes(unit, self.executors.find(context.snapshot.cluster))
        plan = plan_run(request, context.snapshot, run_id, nodes=nodes)
        # Suggestions are about free capacity, so they do not help a request with other violations.
        if with_suggestions and plan.demand is not None:
            plan = self._add_suggestions(unit, scope, request, plan, plan.demand, context, nodes)
        violations = [_report_unknown_function(unit, scope, request, violation) for violation in plan.violations]
        violations += [*check_cluster(unit.organization, scope), *_check_code(unit, scope, request, plan, context)]
        plan = replace(plan, violations=tuple(violations))
        return PlannedRun(plan, explanations.to_data(plan), context, run_id)

    def _add_suggestions(
        self,
        unit: UnitOfWork,
        scope: str,
        request: RunRequest,
        plan: Plan,
        demand: Demand,
        context: PlanningContext,
        nodes: NodeTable | None,
    ) -> Plan:
        """Apply quotas and the queue to the plan's fit, and add suggestions if the run cannot start now."""
        requested = QuotaAmounts.of(demand.resources)
        allowances = load_allowances(unit, scope, requested, own=next_entry(unit, scope, request.priority or 0))
        fit = quotas.apply_quotas(plan.fit, requested, allowances)
        executor = self.executors.find(context.snapshot.cluster)
        reservation = load_reservation(unit, self.executors, executor)
        if reservation is not None and nodes is not None:
            fit = reservation.apply(fit, demand, nodes)
            nodes = reservation.left(nodes)
        if fit.verdict == "now":
            return plan
        suggestions = self.suggestions.find(unit, scope, request, context, nodes, allowances=allowances)
        violations = _add_first_suggestion(plan.violations, suggestions)
        return replace(plan, fit=replace(fit, suggestions=suggestions), violations=violations)

    def _add_hint(self, call: Call, scope: str, request: RunRequest, rejection: RequestRejected) -> RequestRejected:
        """Add the first suggestion to a rejection if its only reason is that the run never fits."""
        if {violation.rule for violation in rejection.violations} != {"never_fits"}:
            return rejection
        with self.units.reading(call) as unit:
            plan = self.plan_request(unit, scope, request, unit.make_id(), with_suggestions=True).plan
        return RequestRejected(_add_first_suggestion(rejection.violations, plan.fit.suggestions))

    def _plan_as_previewed(self, unit: UnitOfWork, scope: str, request: RunRequest) -> PlannedRun:
        """Plan a request. If it has a plan token, raises an error unless the plan matches the previewed one."""
        run_id = unit.make_id()
        if request.plan_token is not None:
            # Previews have no token in the request and no run ID in the manifests. Planning is pure, so the plan with
            # the ID differs from this one only in the ID.
            token, request = request.plan_token, request.model_copy(update={"plan_token": None})
            plan = without_fit(self.plan_request(unit, scope, request, NO_RUN).data)
            self.plan_tokens.redeem(unit, scope, token, digest_of_plan(scope, request, plan), run_id)
        return self.plan_request(unit, scope, request, run_id)

    def describe_wait(self, record: RunRecord, planned: PlannedRun) -> RunRecord:
        """Return a new run, with the reason `NoExecutor` if no server executes its cluster's runs."""
        cluster = planned.context.snapshot.cluster
        # A server without executors (execute = false) does not know which clusters the other servers are connected to.
        if self.executors.find(cluster) is not None or not self.executors.all():
            return record
        message = f"no server executes the runs of {cluster.scope} yet"
        if cluster.executor == "kubernetes" and cluster.connection == "kubeconfig":
            message += f": connect it with `fairlead clusters connect {cluster.name}`"
        return replace(record, reason=NO_EXECUTOR, message=message)


def reject_schedule(scope: str, request: RunRequest) -> None:
    """Raise `RequestRejected` if a request for a single run includes a schedule."""
    if request.schedule is not None:
        path = f"/projects/{scope.partition('/')[2]}/schedules"
        message = f"is not allowed for a single run, found {short_repr(request.schedule.cron)}"
        hint = f"send the request to {path}, or remove the schedule"
        raise RequestRejected([Violation("schedule", "schedule", message, hint)])


def _check_change(old_request: JSON, change: JSON, request: RunRequest, *, moves: bool) -> None:
    """Raise `RequestRejected` if nothing changes, or if the change removes a field that is not set."""
    violations = [
        Violation(f"change.{path}", "unknown_field", "is not set, so it cannot be removed", "omit it from the change")
        for path in _find_missing(old_request, change)
    ]
    if not violations and not moves and request.to_data() == parse_request(old_request).to_data():
        violations = [Violation("change", "required", "changes nothing", "set a field to another value")]
    if violations:
        raise RequestRejected(violations)


def _find_missing(old_request: Any, change: JSON, prefix: str = "") -> Iterator[str]:
    """Yield the paths of fields that the change removes although they are not set."""
    for name, value in change.items():
        old_value = old_request.get(name) if isinstance(old_request, dict) else None
        if value is None and old_value is None:
            yield f"{prefix}{name}"
        elif isinstance(value, dict):
            yield from _find_missing(old_value, value, f"{prefix}{name}.")


def parse_request(data: JSON) -> RunRequest:
    """Parse a stored or changed request. Raises `RequestRejected` with all violations."""
    try:
        return RunRequest.model_validate(data)
    except ValidationError as error:
        raise RequestRejected(violations_of(error, RunRequest)) from error


def _add_first_suggestion(violations: Sequence[Violation], suggestions: Sequence[Suggestion]) -> tuple[Violation, ...]:
    """Add the first suggestion to the hint of a request that never fits."""
    hint = f"to run now, {suggestions[0].message}" if suggestions else None
    return tuple(
        replace(violation, hint="; ".join(filter(None, (violation.hint, hint))))
        if violation.rule == "never_fits" and hint
        else violation
        for violation in violations
    )


def _check_code(
    unit: UnitOfWork, scope: str, request: RunRequest, plan: Plan, context: PlanningContext
) -> Iterator[Violation]:
    digest = request.function.code
    code = None if digest is None else find_code(unit, scope, digest)
    if code is not None:
        yield from check_stored_code(plan.manifests, context.snapshot.cluster, code.size)
    elif digest is not None:
        message = f"code {digest} does not exist in {scope}"
        hint = f"upload it first: PUT /projects/{scope.partition('/')[2]}/code/{digest}"
        yield Violation("function.code", "unknown_code", message, hint)


def _report_unknown_function(unit: UnitOfWork, scope: str, request: RunRequest, violation: Violation) -> Violation:
    """Replace the "no source" violation if the request only names a function, and the function does not exist."""
    if (violation.path, violation.rule) != ("function.source", "required") or function_content(request.function):
        return violation
    name = request.function.name
    message = f"function {short_repr(name)} does not exist in {scope}"
    return Violation("function", "unknown", message, suggest_functions(unit, scope, name))


def add_event(unit: UnitOfWork, run: RunRecord) -> None:
    """Store the new state of a run as an event."""
    unit.tx.add(EventRecord.of(run, unit.make_id(), unit.now))


def without_fit(plan: JSON) -> JSON:
    """Return a plan, as JSON, without its fit, which depends on the current nodes and on what the caller sees."""
    warnings = [warning for warning in plan["warnings"] if warning["rule"] != "never_fits"]
    return {**plan, "warnings": warnings, "fit": explanations.fit_data(Fit())}
