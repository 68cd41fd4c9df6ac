"""What would become of a request on the nodes of a cluster, as they are or as they are supposed to be."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairlead.core import explanations, quotas
from fairlead.core.fitting import evaluation
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest, read_pod_request
from fairlead.core.fitting.what_if import AddedNodes, WhatIfCluster
from fairlead.core.quotas import Allowance, Load
from fairlead.model.plans import Fit, Plan, Suggestion

MOST_ROOM = 1000


@dataclass(frozen=True)
class WhatIfChanges:
    """Which nodes were added and left out, and how many pods were on those: they are not placed anew."""

    added: list[AddedNodes] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    pods_left_out: int = 0
    sentences: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, supposed: WhatIfCluster) -> "WhatIfChanges":
        """What was supposed, to be told."""
        return cls(list(supposed.added), list(supposed.left_out), supposed.pods_left_out, supposed.sentences)


@dataclass(frozen=True)
class NodeFit:
    """A node: whether it takes the run now, and every reason why not."""

    name: str
    fits: bool
    reasons: list[str]


@dataclass(frozen=True)
class FitReport:
    """Whether it would run: `now`, `later`, `never`, or `unknown` where it is refused or nobody can tell.

    `room`: how many such runs there is room for now, up to 1,000.
    """

    verdict: str = "unknown"
    reasons: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    room: int | None = None
    nodes: list[NodeFit] = field(default_factory=list)
    suggestions: list[Suggestion] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)
    supposed: WhatIfChanges = field(default_factory=WhatIfChanges)


def build_report(
    plan: Plan,
    supposed: WhatIfCluster,
    *,
    autoscaled: bool = False,
    all_nodes: bool = False,
    allowances: Sequence[Allowance] = (),
) -> FitReport:
    """The verdict on a plan that was made without nodes: of the nearest ones every reason, or of all of them."""
    told = WhatIfChanges.of(supposed)
    if plan.violations:
        return replace(report_violations(plan), supposed=told)
    pod_request, table = read_pod_request(plan.manifests), supposed.table
    load = Load.of(quotas.count(plan.settings))
    fit = quotas.hold(evaluation.evaluate(pod_request, table, autoscaled=autoscaled), load, allowances)
    room = count_room(pod_request, table) if fit.verdict == evaluation.NOW else 0
    return FitReport(
        verdict=fit.verdict,
        reasons=list(fit.reasons),
        counts=dict(fit.counts),
        room=quotas.count_room(load, allowances, room),
        nodes=_list_all(pod_request, table) if all_nodes else _list_nearest(fit),
        suggestions=list(fit.suggestions),
        supposed=told,
    )


def report_violations(plan: Plan, *reasons: str) -> FitReport:
    """What can be told without nodes: what the plan breaks, and why nothing more is known."""
    return FitReport(reasons=list(reasons), violations=list(map(explanations.found_data, plan.violations)))


def count_room(pod_request: PodRequest, table: NodeTable) -> int:
    """For how many such runs, with all of their pods, there is room now."""
    return NodeFilter(pod_request, table).count_fitting(MOST_ROOM * pod_request.count) // pod_request.count


def _list_nearest(fit: Fit) -> list[NodeFit]:
    return [NodeFit(node["name"], node["fits"], node["reasons"]) for node in fit.nodes]


def _list_all(pod_request: PodRequest, table: NodeTable) -> list[NodeFit]:
    """Every node: those that take it, then those that could, then the others, by name."""
    node_filter = NodeFilter(pod_request, table)
    ranks = dict.fromkeys(node_filter.feasible_when_empty, 1) | dict.fromkeys(node_filter.feasible, 0)
    order = sorted(range(len(table)), key=lambda at: (ranks.get(at, 2), table.names[at]))
    told = ((table.names[at], evaluation.list_reasons(node_filter, table.nodes[at])) for at in order)
    return [NodeFit(name, not reasons, reasons) for name, reasons in told]
