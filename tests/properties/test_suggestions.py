"""Property of suggestions: applying one makes the run fit now."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.nodes import Node, NodeTable, ScheduledPod
from fairlead.model.plans import Plan, Suggestion
from fairlead.model.requests import RunRequest, merge_patch
from fairlead.planning.plan import plan_run
from fairlead.planning.suggestions import OtherProject, find_suggestions
from fairlead.scheduling import quotas
from fairlead.scheduling.quotas import Allowance, QuotaAmounts, QuotaHolder
from tests.planning.test_suggestions import GPUS, make_request, make_snapshot
from tests.scheduling.nodes import make_amounts, make_node

CAPACITY: Any = {"cpu": 32, "mem": "64Gi", "example.com/fpga": 2}
SIZES = st.fixed_dictionaries(
    {"cpu": st.sampled_from(["500m", "2", "7300m", "30"]), "mem": st.sampled_from(["100Mi", "3Gi", "40Gi"])},
    optional={"gpu": st.integers(0, 8), "example.com/fpga": st.integers(1, 3)},
)
SCHEDULED_PODS = st.builds(
    lambda run, size: ScheduledPod(
        f"id-{run}", run, {**make_amounts(**size), **make_amounts(pods=1)}, project_id="forest"
    ),
    st.sampled_from(["a", "b", "c"]),
    SIZES,
)
NODES = st.builds(
    lambda scheduled_pods, gpus, labels, cordoned: make_node(
        *scheduled_pods, labels=labels, cordoned=cordoned, gpu=gpus, **CAPACITY
    ),
    st.lists(SCHEDULED_PODS, max_size=3),
    st.integers(0, 8),
    st.sampled_from([{}, {"zone": "a"}, {"zone": "b", "pool": "x"}]),
    st.sampled_from([False, False, False, True]),
)
CLUSTERS = st.lists(NODES, max_size=4).map(
    lambda nodes: NodeTable(replace(node, name=f"node-{number}") for number, node in enumerate(nodes))
)
CLUSTERS_WITH_ROOM = CLUSTERS.map(
    lambda nodes: NodeTable([*nodes, make_node(name="roomy", labels={"zone": "a"}, gpu=8, **CAPACITY)])
)
REQUESTS = st.builds(
    lambda size, more, pods: make_request(
        resources={
            **{name: amount for name, amount in size.items() if "/" not in name},
            **({"extended": {"example.com/fpga": size["example.com/fpga"]}} if "example.com/fpga" in size else {}),
        },
        **more,
        **({"action": "serve", "replicas": pods} if pods > 1 else {}),
    ),
    SIZES,
    st.sampled_from([{}, {"profile": "8xa100"}, {"node_selector": {"zone": "a"}}, {"node_selector": {"pool": "y"}}]),
    st.sampled_from([1, 1, 1, 2, 5]),
)


GI = 2**30
STEPS = {"gpu": 1, "cpu": 1000, "mem": 2 * GI, "runs": 1}
LOADS = st.builds(
    QuotaAmounts, st.integers(0, 8), st.sampled_from([0, 500, 30_000]), st.sampled_from([0, 3 * GI, 40 * GI])
)


def make_allowance(
    usage_by_run: dict[str, QuotaAmounts], others: QuotaAmounts, reserved: QuotaAmounts, remaining: dict[str, int]
) -> Allowance:
    """A quota with limited remaining amounts. Some of its holders are not visible."""
    holders = tuple(QuotaHolder(f"id-{run}", run, load._replace(runs=1)) for run, load in usage_by_run.items())
    used = others
    for holder in holders:
        used = used.plus(holder.usage)
    limits = {part: max(getattr(used, part) + steps * STEPS[part], 0) for part, steps in remaining.items()}
    return Allowance("department/vision", limits, used, reserved, holders)


NO_USAGE = st.just(quotas.NOTHING)
ALLOWANCE = st.builds(
    make_allowance,
    st.dictionaries(st.sampled_from(["a", "b", "c"]), LOADS, min_size=1, max_size=3),
    st.one_of(NO_USAGE, LOADS),
    st.one_of(NO_USAGE, NO_USAGE, LOADS),
    st.dictionaries(st.sampled_from(list(STEPS)), st.integers(-1, 4), min_size=1, max_size=2),
)
ALLOWANCES = st.lists(ALLOWANCE, max_size=2)


def plan(request: RunRequest, nodes: NodeTable, allowances: Sequence[Allowance], cluster: str = "main") -> Plan:
    """The plan for a request, with quotas applied to its fit."""
    planned = plan_run(request, make_snapshot(cluster=cluster), "x", nodes=nodes)
    assert planned.demand is not None, planned.violations
    fit = quotas.apply_quotas(planned.fit, QuotaAmounts.of(planned.demand.resources), allowances)
    return replace(planned, fit=fit)


def apply_suggestion(
    suggestion: Suggestion,
    request: RunRequest,
    nodes: NodeTable,
    *,
    allowances_at_end: list[Allowance],
    queued_allowances: list[Allowance],
) -> Plan:
    """The plan after applying a suggestion: waiting keeps the queue position, and a change moves the run to the end."""
    if suggestion.kind == "wait":
        remaining = NodeTable(_without_run(node, suggestion.run_id) for node in nodes)
        return plan(request, remaining, [allowance.without(suggestion.run_id) for allowance in queued_allowances])
    return plan(RunRequest.model_validate(merge_patch(request.to_data(), suggestion.change)), nodes, allowances_at_end)


def _without_run(node: Node, run_id: str | None) -> Node:
    return replace(node, pods=tuple(pod for pod in node.pods if pod.run_id != run_id))


@given(REQUESTS, CLUSTERS, CLUSTERS, ALLOWANCES, ALLOWANCES)
def test_each_suggestion_makes_the_run_fit_now(
    request: RunRequest,
    nodes: NodeTable,
    others: NodeTable,
    allowances: list[Allowance],
    other_allowances: list[Allowance],
) -> None:
    other = OtherProject("lake", make_snapshot(cluster="east"), others, other_allowances)
    options: Any = {"profiles": sorted(GPUS), "other_projects": [other], "allowances": allowances}
    suggestions = find_suggestions(request, make_snapshot(), nodes, **options)
    assert not suggestions or plan(request, nodes, allowances).fit.verdict != "now"
    for suggestion in suggestions:
        after = apply_suggestion(suggestion, request, nodes, allowances_at_end=allowances, queued_allowances=allowances)
        if suggestion.project is not None:
            after = plan(request, others, other_allowances, "east")
        assert (after.fit.verdict, after.violations) == ("now", ()), suggestion


@given(REQUESTS, CLUSTERS_WITH_ROOM, st.lists(ALLOWANCE, min_size=1, max_size=2), st.one_of(NO_USAGE, LOADS))
def test_waiting_keeps_the_queue_position_and_changes_go_to_the_end(
    request: RunRequest, nodes: NodeTable, queued_allowances: list[Allowance], reserved_later: QuotaAmounts
) -> None:
    allowances_at_end = [
        replace(allowance, reserved=allowance.reserved.plus(reserved_later)) for allowance in queued_allowances
    ]
    for suggestion in find_suggestions(
        request,
        make_snapshot(),
        nodes,
        profiles=sorted(GPUS),
        allowances=allowances_at_end,
        queued_allowances=queued_allowances,
    ):
        assert (
            apply_suggestion(
                suggestion, request, nodes, allowances_at_end=allowances_at_end, queued_allowances=queued_allowances
            ).fit.verdict
            == "now"
        ), suggestion
