"""Suggestions that would make a run fit now, limited to what the caller may see and do."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice

from fairlead.model.columns import Condition
from fairlead.model.plans import Fit, Suggestion
from fairlead.model.records import RunRecord
from fairlead.model.requests import RunRequest
from fairlead.model.scopes import Permission
from fairlead.planning import suggestions
from fairlead.planning.suggestions import OtherProject
from fairlead.ports import Executors
from fairlead.scheduling.evaluation import LATER, NOW
from fairlead.scheduling.node_tables import NodeTable
from fairlead.scheduling.queue_order import PATIENCE_SECONDS, WAITING, WAITING_FOR_TURN
from fairlead.scheduling.quotas import Allowance
from fairlead.services.executions import find_visible_nodes
from fairlead.services.quotas import load_allowances
from fairlead.services.snapshots import PlanningContext, Snapshots, load_profiles
from fairlead.services.unit_of_work import UnitOfWork

MAX_CLUSTERS = 5  # for each one, the request is planned again and evaluated on all nodes


class Suggestions:
    """Finds suggestions for runs that do not fit now."""

    def __init__(self, snapshots: Snapshots, executors: Executors) -> None:
        self.snapshots, self.executors = snapshots, executors

    def find(
        self,
        unit: UnitOfWork,
        scope: str,
        request: RunRequest,
        context: PlanningContext,
        nodes: NodeTable | None,
        *,
        allowances: Sequence[Allowance] = (),
        queued_allowances: Sequence[Allowance] | None = None,
    ) -> tuple[Suggestion, ...]:
        """Return changes to a request that would make it fit now. Empty if it already fits or the nodes are unknown.

        `allowances` are the quotas for a run submitted now, and `queued_allowances` those for the run that is already
        waiting.
        """
        if nodes is None:
            return ()
        profiles = load_profiles(unit.tx, context)
        elsewhere = list(self._find_other_projects(unit, scope, request))
        return suggestions.find_suggestions(
            request,
            context.snapshot,
            nodes,
            profiles=profiles,
            other_projects=elsewhere,
            allowances=allowances,
            queued_allowances=queued_allowances,
        )

    def nodes_of(self, unit: UnitOfWork, context: PlanningContext) -> NodeTable | None:
        """Return the nodes of the project's cluster with the names of visible runs only; None if they are unknown."""
        executor = self.executors.find(context.snapshot.cluster)
        return None if executor is None else find_visible_nodes(unit, executor)

    def apply_queue_order(self, unit: UnitOfWork, context: PlanningContext, fit: Fit, queue_key: str) -> Fit:
        """Change the verdict "now" to "later" if an earlier run has waited a long time and must start first.

        This applies only to executors without a scheduler, which start runs in queue order.
        """
        cluster = context.snapshot.cluster
        executor = self.executors.find(cluster)
        if fit.verdict != NOW or executor is None or executor.has_scheduler:
            return fit
        threshold = unit.now - timedelta(seconds=PATIENCE_SECONDS)
        waiting = unit.tx.find(
            RunRecord,
            *WAITING,
            Condition("cluster", "=", cluster.scope),
            Condition("reason", "=", "Unschedulable"),  # it was considered and did not fit, so it blocks later runs
            Condition("created_at", "<", threshold),
            Condition("retry_at", "until", threshold),  # a retried attempt has been waiting only since then
            Condition("queue_key", "<", queue_key),
            limit=1,
        )
        return replace(fit, verdict=LATER, reasons=(WAITING_FOR_TURN,)) if waiting else fit

    def _find_other_projects(self, unit: UnitOfWork, scope: str, request: RunRequest) -> Iterator[OtherProject]:
        """Yield one project from each other cluster where the caller may run workloads."""
        tree = unit.organization.tree
        others = [cluster for cluster in unit.organization.clusters if cluster != tree.cluster_of(scope)]
        projects = ([f"project/{name}" for name in tree.projects_in(cluster)] for cluster in others)
        allowed = (
            [project for project in scopes if unit.permissions.may(Permission.RUN, project)] for scopes in projects
        )
        for project in islice((scopes[0] for scopes in allowed if scopes), MAX_CLUSTERS):
            context = self.snapshots.load(unit, project, request)
            if (nodes := self.nodes_of(unit, context)) is not None:
                yield OtherProject(context.snapshot.project, context.snapshot, nodes, load_allowances(unit, project))
