"""What would make a run fit now, of what its caller may see and do."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice

from fairlead.core import suggestions
from fairlead.core.fitting.admission import PATIENCE_SECONDS, WAITING_FOR_TURN
from fairlead.core.fitting.evaluation import LATER, NOW
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.queue_order import WAITING
from fairlead.core.quotas import Allowance
from fairlead.core.suggestions import OtherProject
from fairlead.model.plans import Fit, Suggestion
from fairlead.model.queries import Condition
from fairlead.model.records import RunRecord
from fairlead.model.requests import RunRequest
from fairlead.model.roles import Permission
from fairlead.ports import Executors
from fairlead.services.executions import known_nodes
from fairlead.services.quotas import load_allowances
from fairlead.services.snapshots import PlanningContext, Snapshots, load_profiles
from fairlead.services.unit_of_work import UnitOfWork

MOST_CLUSTERS = 5


class Suggestions:
    """Finds suggestions, for whoever plans or explains a run."""

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
        turn: Sequence[Allowance] | None = None,
    ) -> tuple[Suggestion, ...]:
        """What would make a request fit now; nothing where it fits, or nobody can tell.

        `allowances`: what quotas leave it when it is submitted now; `turn`: what they leave it if it waits already.
        """
        if nodes is None:
            return ()
        profiles = load_profiles(unit.tx, context)
        elsewhere = list(self._find_elsewhere(unit, scope, request))
        return suggestions.find_suggestions(
            request,
            context.snapshot,
            nodes,
            profiles=profiles,
            other_projects=elsewhere,
            allowances=allowances,
            turn=turn,
        )

    def nodes_of(self, unit: UnitOfWork, context: PlanningContext) -> NodeTable | None:
        """The nodes that the runs of a project go to, as the caller may see them."""
        executor = self.executors.find(context.snapshot.cluster)
        return None if executor is None else known_nodes(unit, executor)

    def hold_back(self, unit: UnitOfWork, context: PlanningContext, fit: Fit, turn: str) -> Fit:
        """A fit where one before it has waited for long: on a machine without a scheduler, that comes first."""
        cluster = context.snapshot.cluster
        executor = self.executors.find(cluster)
        if fit.verdict != NOW or executor is None or executor.has_scheduler:
            return fit
        long_ago = unit.now - timedelta(seconds=PATIENCE_SECONDS)
        waiting = unit.tx.find(
            RunRecord,
            *WAITING,
            Condition("cluster", "=", cluster.scope),
            Condition("reason", "=", "Unschedulable"),
            Condition("created_at", "<", long_ago),
            Condition("retry_at", "until", long_ago),  # it may have run since, and wait to be tried again
            Condition("turn", "<", turn),
            limit=1,
        )
        return replace(fit, verdict=LATER, reasons=(WAITING_FOR_TURN,)) if waiting else fit

    def _find_elsewhere(self, unit: UnitOfWork, scope: str, request: RunRequest) -> Iterator[OtherProject]:
        """A project of the caller's on each other cluster."""
        tree = unit.organization.tree
        others = [place for place in unit.organization.clusters if place != tree.cluster_of(scope)]
        projects = ([f"project/{name}" for name in tree.projects_below(cluster)] for cluster in others)
        own = ([place for place in scopes if unit.permissions.may(Permission.RUN, place)] for scopes in projects)
        for place in islice((scopes[0] for scopes in own if scopes), MOST_CLUSTERS):
            context = self.snapshots.load(unit, place, request)
            if (nodes := self.nodes_of(unit, context)) is not None:
                yield OtherProject(context.snapshot.project, context.snapshot, nodes, load_allowances(unit, place))
