"""Plans runs again that wait for a cluster, after their project has got one or has moved to another one."""

from collections.abc import Sequence
from dataclasses import replace

import structlog

from fairlead.errors import Changed, FairleadError, Unavailable
from fairlead.model.columns import Condition
from fairlead.model.plans import Violation
from fairlead.model.records import PlanRecord, RunRecord
from fairlead.ports import Generation, Principal
from fairlead.run_events import RunEvent, RunEvents
from fairlead.scheduling.queue_order import NO_EXECUTOR, WAITING, waits_for_executor
from fairlead.services.runs.runs import (
    PlannedRun,
    Runs,
    add_event,
    build_run_record,
    parse_request,
    without_fit,
)
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

# Trusted, because the users who submitted the runs may no longer have a role.
CALL = Call(principal=Principal("fairlead", via="cluster-change"), trusted=True)


class ClusterChanges:
    """Moves waiting runs to the cluster of their project. Safe with several servers: each run is saved once."""

    def __init__(self, units: UnitOfWorkFactory, runs: Runs, run_events: RunEvents) -> None:
        self.units, self.runs, self.run_events = units, runs, run_events
        self._generation: Generation | None = None  # of the configuration, when all runs were last checked

    def follow(self) -> None:
        """If the configuration has changed, plan the runs again that wait for a cluster other than their project's."""
        with self.units.reading(CALL) as unit:
            generation = unit.tx.generation
            run_ids = [] if generation == self._generation else _find_outdated(unit)
        is_complete = True
        for run_id in run_ids:
            try:
                self._plan_again(run_id)
            except FairleadError as error:
                log.info("run not planned again", run=run_id, problem=str(error))
                is_complete = is_complete and not isinstance(error, Changed | Unavailable)
        self._generation = generation if is_complete else None

    def _plan_again(self, run_id: str) -> None:
        with self.units.recording(CALL) as unit:
            run, stored = unit.tx.get(RunRecord, id=run_id), unit.tx.get(PlanRecord, id=run_id)
            if run is None or stored is None or not _is_outdated(unit, run):
                return
            planned = self.runs.plan_request(unit, run.scope, parse_request(stored.request), run_id)
            after = self._replace_plan(unit, run, stored, planned)
            if (after.cluster, after.message) == (run.cluster, run.message):
                return
            unit.tx.save(after)
            add_event(unit, after)
        self.run_events.publish(RunEvent.CHANGED, run_id)

    def _replace_plan(self, unit: UnitOfWork, run: RunRecord, stored: PlanRecord, planned: PlannedRun) -> RunRecord:
        """Replace a run's stored plan, and return the run. If the plan has violations, the run waits with a reason."""
        demand, cluster = planned.plan.demand, planned.context.snapshot.cluster.scope
        if planned.plan.violations or demand is None:
            message = _describe_violations(cluster, planned.plan.violations)
            return replace(run, message=message, **unit.update_fields(run))
        unit.tx.remove(stored)
        unit.tx.add(replace(stored, plan=without_fit(planned.data), demand=demand))
        request = parse_request(stored.request)
        fresh = build_run_record(unit, run.id, run.scope, request, planned.plan, demand, planned.context)
        # The run keeps its place in the queue.
        kept = {name: getattr(run, name) for name in ("created_by", "created_at", "queue_key", "schedule")}
        return self.runs.describe_wait(replace(fresh, **kept, **unit.update_fields(run)), planned)


def _find_outdated(unit: UnitOfWork) -> list[str]:
    """Find the IDs of the runs that wait for a cluster other than their project's."""
    # Counted first, because an index contains the scope and the cluster, but not the reason.
    pairs = unit.tx.tally(RunRecord, ("scope", "cluster"), *WAITING)
    outdated = [pair for pair in pairs if _has_other_cluster(unit, *pair)]
    waiting = (*WAITING, Condition("reason", "=", NO_EXECUTOR))
    conditions = ((Condition("scope", "=", scope), Condition("cluster", "=", cluster)) for scope, cluster in outdated)
    return [run.id for pair in conditions for run in unit.tx.find(RunRecord, *waiting, *pair)]


def _is_outdated(unit: UnitOfWork, run: RunRecord) -> bool:
    """Whether a run waits for a cluster other than its project's."""
    return waits_for_executor(run) and _has_other_cluster(unit, run.scope, run.cluster)


def _has_other_cluster(unit: UnitOfWork, scope: str, cluster: str | None) -> bool:
    current = unit.organization.cluster_of(scope)
    return current is not None and current.scope != cluster


def _describe_violations(cluster: str, violations: Sequence[Violation]) -> str:
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return f"cannot run on {cluster}, the cluster of its project: {violations[0]}{more}; change the run, or stop it"
