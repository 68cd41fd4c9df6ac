"""Whether a request would run now, later or never: on the nodes of its cluster, or on those that somebody imagines."""

from collections.abc import Sequence
from dataclasses import replace

from fairlead.core import quotas
from fairlead.core.fitting import fit_report, what_if
from fairlead.core.fitting.fit_report import FitReport
from fairlead.core.planning import plan_run
from fairlead.core.quotas import QuotaAmounts
from fairlead.model.plans import Fit
from fairlead.model.requests import RunRequest
from fairlead.model.roles import Permission
from fairlead.ports import Executors
from fairlead.services.calls import Call
from fairlead.services.executions import known_nodes
from fairlead.services.functions import name_whole
from fairlead.services.quotas import load_allowances
from fairlead.services.snapshots import Snapshots
from fairlead.services.suggestions import Suggestions
from fairlead.services.unit_of_work import UnitOfWorkFactory


class FitChecks:
    """The use case of asking before one submits, and of planning for nodes that are not there."""

    def __init__(self, units: UnitOfWorkFactory, snapshots: Snapshots, executors: Executors) -> None:
        self.units, self.snapshots, self.executors = units, snapshots, executors
        self.suggestions = Suggestions(snapshots, executors)

    def judge(
        self,
        call: Call,
        project: str,
        request: RunRequest,
        add_nodes: Sequence[str] = (),
        without: Sequence[str] = (),
        *,
        all_nodes: bool = False,
    ) -> FitReport:
        """What would become of a request. Nothing is kept. Raise `RequestRejected` where a node is not known."""
        scope = f"project/{project}"
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, scope, scope)
            request = name_whole(unit, scope, request)
            context = self.snapshots.load(unit, scope, request)
            # Without nodes: what never fits is an answer here, and no violation.
            plan = plan_run(request, context.snapshot, unit.make_id())
            asked = QuotaAmounts.of(quotas.count_resources(plan.settings))
            allowances = () if plan.violations else load_allowances(unit, scope, asked)
            cluster = context.snapshot.cluster
            executor = self.executors.find(cluster)
            table = None if executor is None else known_nodes(unit, executor)
            if table is None:
                why = f"no server executes the runs of {cluster.scope}"
                if executor is not None:
                    why = f"the nodes of {cluster.scope} cannot be seen now"
                return fit_report.report_violations(plan, *quotas.apply_quotas(Fit(), asked, allowances).reasons, why)
            hypothetical = what_if.simulate(table, add_nodes, without, cluster=cluster)
            found = fit_report.build_report(
                plan, hypothetical, autoscaled=cluster.autoscaled, all_nodes=all_nodes, allowances=allowances
            )
            ways = self.suggestions.find(unit, scope, request, context, hypothetical.table, allowances=allowances)
            return replace(found, suggestions=list(ways))
