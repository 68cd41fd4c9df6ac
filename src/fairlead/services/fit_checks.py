"""Checks whether a request would fit now, later or never, optionally on hypothetical nodes."""

from collections.abc import Sequence
from dataclasses import replace

from fairlead.model.plans import Fit
from fairlead.model.requests import RunRequest
from fairlead.model.scopes import Permission
from fairlead.planning import fit_reports
from fairlead.planning.fit_reports import FitReport
from fairlead.planning.plan import plan_run
from fairlead.ports import Executors
from fairlead.scheduling import quotas
from fairlead.scheduling.quotas import QuotaAmounts
from fairlead.services.calls import Call
from fairlead.services.executions import find_visible_nodes
from fairlead.services.functions import resolve_function
from fairlead.services.quotas import load_allowances
from fairlead.services.snapshots import Snapshots
from fairlead.services.suggestions import Suggestions
from fairlead.services.unit_of_work import UnitOfWorkFactory


class FitChecks:
    """Checks whether requests fit, without submitting them."""

    def __init__(self, units: UnitOfWorkFactory, snapshots: Snapshots, executors: Executors) -> None:
        self.units, self.snapshots, self.executors = units, snapshots, executors
        self.suggestions = Suggestions(snapshots, executors)

    def check(
        self,
        call: Call,
        project: str,
        request: RunRequest,
        add_nodes: Sequence[str] = (),
        without: Sequence[str] = (),
        *,
        all_nodes: bool = False,
    ) -> FitReport:
        """Check whether a request fits. Raises `RequestRejected` if a node in `without` or `add_nodes` is invalid."""
        scope = f"project/{project}"
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, scope, scope)
            request = resolve_function(unit, scope, request)
            context = self.snapshots.load(unit, scope, request)
            # The request is planned without nodes, so that "never fits" is a result, not a violation.
            plan = plan_run(request, context.snapshot, unit.make_id())
            requested = QuotaAmounts.of(quotas.count_resources(plan.settings))
            allowances = () if plan.violations else load_allowances(unit, scope, requested)
            cluster = context.snapshot.cluster
            executor = self.executors.find(cluster)
            table = None if executor is None else find_visible_nodes(unit, executor)
            if table is None:
                reason = f"no server executes the runs of {cluster.scope}"
                if executor is not None:
                    reason = f"the nodes of {cluster.scope} are currently unavailable"
                quota_reasons = quotas.apply_quotas(Fit(), requested, allowances).reasons
                return fit_reports.report_violations(plan, *quota_reasons, reason)
            hypothetical = fit_reports.simulate(table, add_nodes, without, cluster=cluster)
            report = fit_reports.build_report(
                plan, hypothetical, autoscaled=cluster.autoscaled, all_nodes=all_nodes, allowances=allowances
            )
            nodes = hypothetical.table
            suggestions = self.suggestions.find(unit, scope, request, context, nodes, allowances=allowances)
            return replace(report, suggestions=list(suggestions))
