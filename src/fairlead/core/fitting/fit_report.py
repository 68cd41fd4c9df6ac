"""Reports on whether a request fits on a cluster, either as it is or with what-if changes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairlead.core import explanations, quotas
from fairlead.core.fitting import evaluation
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest, read_pod_request
from fairlead.core.fitting.what_if import AddedNodes, WhatIfCluster
from fairlead.core.quotas import Allowance, QuotaAmounts
from fairlead.model.plans import Fit, Plan, Suggestion

MAX_ROOM = 1000


@dataclass(frozen=True)
class WhatIfChanges:
    """Nodes that were added and removed. Pods on removed nodes are not rescheduled."""

    added_nodes: list[AddedNodes] = field(default_factory=list)
    removed_nodes: list[str] = field(default_factory=list)
    removed_pods: int = 0
    sentences: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, cluster: WhatIfCluster) -> "WhatIfChanges":
        return cls(list(cluster.added_nodes), list(cluster.removed_nodes), cluster.removed_pods, cluster.sentences)


@dataclass(frozen=True)
class NodeFit:
    """Whether a node can run one of the run's pods now, and if not, all the reasons."""

    name: str
    fits: bool
    reasons: list[str]


@dataclass(frozen=True)
class FitReport:
    """Whether a request fits: `now`, `later`, `never`, or `unknown` if it is invalid or the cluster is unreachable.

    `room`: how many such runs fit now, up to 1,000.
    """

    verdict: str = "unknown"
    reasons: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    room: int | None = None
    nodes: list[NodeFit] = field(default_factory=list)
    suggestions: list[Suggestion] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)
    what_if: WhatIfChanges = field(default_factory=WhatIfChanges)


def build_report(
    plan: Plan,
    cluster: WhatIfCluster,
    *,
    autoscaled: bool = False,
    all_nodes: bool = False,
    allowances: Sequence[Allowance] = (),
) -> FitReport:
    """The report on a plan, with reasons for the closest nodes or for all nodes."""
    changes = WhatIfChanges.of(cluster)
    if plan.violations:
        return replace(report_violations(plan), what_if=changes)
    pod_request, table = read_pod_request(plan.manifests), cluster.table
    load = QuotaAmounts.of(quotas.count_resources(plan.settings))
    fit = quotas.apply_quotas(evaluation.evaluate(pod_request, table, autoscaled=autoscaled), load, allowances)
    # The verdict includes quotas: a run that would exceed a quota cannot start now, even if nodes are free.
    room = count_fitting_runs(pod_request, table) if fit.verdict == evaluation.NOW else 0
    return FitReport(
        verdict=fit.verdict,
        reasons=list(fit.reasons),
        counts=dict(fit.counts),
        room=quotas.count_fitting_runs(load, allowances, room),
        nodes=_list_all(pod_request, table) if all_nodes else _list_nearest(fit),
        suggestions=list(fit.suggestions),
        what_if=changes,
    )


def report_violations(plan: Plan, *reasons: str) -> FitReport:
    """A report without nodes: the plan's violations, and why the cluster was not checked."""
    return FitReport(reasons=list(reasons), violations=list(map(explanations.finding_data, plan.violations)))


def count_fitting_runs(pod_request: PodRequest, table: NodeTable) -> int:
    """How many such runs fit now, with all of their pods."""
    return NodeFilter(pod_request, table).count_fitting(MAX_ROOM * pod_request.count) // pod_request.count


def _list_nearest(fit: Fit) -> list[NodeFit]:
    return [NodeFit(node["name"], node["fits"], node["reasons"]) for node in fit.nodes]


def _list_all(pod_request: PodRequest, table: NodeTable) -> list[NodeFit]:
    """All nodes: feasible ones, then those that would be feasible when empty, then the others, each group by name."""
    node_filter = NodeFilter(pod_request, table)
    ranks = dict.fromkeys(node_filter.feasible_when_empty, 1) | dict.fromkeys(node_filter.feasible, 0)
    order = sorted(range(len(table)), key=lambda at: (ranks.get(at, 2), table.names[at]))
    reasons_by_node = ((table.names[at], evaluation.list_reasons(node_filter, table.nodes[at])) for at in order)
    return [NodeFit(name, not reasons, reasons) for name, reasons in reasons_by_node]
