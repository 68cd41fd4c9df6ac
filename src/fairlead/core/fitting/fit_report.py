"""What would become of a request on the nodes of a cluster, as they are or as they are supposed to be."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairlead.core import explaining, quotas
from fairlead.core.fitting import evaluation
from fairlead.core.fitting.pod_requests import Ask, read_ask
from fairlead.core.fitting.node_tables import Grid
from fairlead.core.fitting.filtering import Sieve
from fairlead.core.fitting.what_if import Added, Supposed
from fairlead.core.quotas import Allowance, Load
from fairlead.model.plans import Fit, Plan, Suggestion

MOST_ROOM = 1000


@dataclass(frozen=True)
class Supposition:
    """Which nodes were added and left out, and how many pods were on those: they are not placed anew."""

    added: list[Added] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    pods_left_out: int = 0
    sentences: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, supposed: Supposed) -> "Supposition":
        """What was supposed, to be told."""
        return cls(list(supposed.added), list(supposed.left_out), supposed.pods_left_out, supposed.sentences)


@dataclass(frozen=True)
class NodeFit:
    """A node: whether it takes the run now, and every reason why not."""

    name: str
    fits: bool
    reasons: list[str]


@dataclass(frozen=True)
class Survey:
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
    supposed: Supposition = field(default_factory=Supposition)


def survey(
    plan: Plan,
    supposed: Supposed,
    *,
    autoscaled: bool = False,
    all_nodes: bool = False,
    allowances: Sequence[Allowance] = (),
) -> Survey:
    """The verdict on a plan that was made without nodes: of the nearest ones every reason, or of all of them."""
    told = Supposition.of(supposed)
    if plan.violations:
        return replace(refuse(plan), supposed=told)
    ask, grid = read_ask(plan.manifests), supposed.grid
    load = Load.of(quotas.count(plan.settings))
    fit = quotas.hold(evaluation.judge(ask, grid, autoscaled=autoscaled), load, allowances)
    room = count_room(ask, grid) if fit.verdict == evaluation.NOW else 0
    return Survey(
        verdict=fit.verdict,
        reasons=list(fit.reasons),
        counts=dict(fit.counts),
        room=quotas.count_room(load, allowances, room),
        nodes=_list_all(ask, grid) if all_nodes else _list_nearest(fit),
        suggestions=list(fit.suggestions),
        supposed=told,
    )


def refuse(plan: Plan, *reasons: str) -> Survey:
    """What can be told without nodes: what the plan breaks, and why nothing more is known."""
    return Survey(reasons=list(reasons), violations=list(map(explaining.found_data, plan.violations)))


def count_room(ask: Ask, grid: Grid) -> int:
    """For how many such runs, with all of their pods, there is room now."""
    return Sieve(ask, grid).count_now(MOST_ROOM * ask.count) // ask.count


def _list_nearest(fit: Fit) -> list[NodeFit]:
    return [NodeFit(node["name"], node["fits"], node["reasons"]) for node in fit.nodes]


def _list_all(ask: Ask, grid: Grid) -> list[NodeFit]:
    """Every node: those that take it, then those that could, then the others, by name."""
    sieve = Sieve(ask, grid)
    ranks = dict.fromkeys(sieve.best, 1) | dict.fromkeys(sieve.now, 0)
    order = sorted(range(len(grid)), key=lambda at: (ranks.get(at, 2), grid.names[at]))
    told = ((grid.names[at], evaluation.tell(sieve, grid.nodes[at])) for at in order)
    return [NodeFit(name, not reasons, reasons) for name, reasons in told]
