"""Suggestions: how they are found and described, and the changes that apply them."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.model.assets import ComputeResource, Policy
from fairlead.model.nodes import NodeTable
from fairlead.model.requests import RunRequest, merge_patch
from fairlead.model.scopes import Cluster
from fairlead.planning.suggestions import OtherProject, find_suggestions
from fairlead.resolution.drafts import Snapshot
from fairlead.scheduling.quotas import Allowance, QuotaAmounts, QuotaHolder
from tests.scheduling.nodes import make_node, make_scheduled_pod

GPUS = {"1xa100": 1, "4xa100": 4, "8xa100": 8}


def make_snapshot(*policies: dict[str, Any], cluster: str = "main") -> Snapshot:
    """A project on a cluster, with compute resources for one, four and eight GPUs."""
    compute_resources = {
        name: ComputeResource.model_validate(
            {"name": name, "requirements": {"resources": {"gpu": count, "mem": "8Gi"}}}
        )
        for name, count in GPUS.items()
    }
    parsed_policies = tuple(Policy.model_validate(policy) for policy in policies)
    return Snapshot(
        "forest",
        Cluster(name=cluster, executor="kubernetes"),
        compute_resources=compute_resources,
        policies=parsed_policies,
    )


def make_request(**requested: Any) -> RunRequest:
    """A run of a container."""
    function = {"name": "train", "kind": "container", "image": "registry.example/train:1", "port": 80}
    return RunRequest.model_validate({"function": function, **requested})


HALF_FULL = NodeTable(
    make_node(
        make_scheduled_pod(f"train-{number}", gpu=number, cpu=8), name=f"node-{number}", gpu=8, cpu=32, mem="64Gi"
    )
    for number in (4, 5)
)


def find(nodes: NodeTable = HALF_FULL, snapshot: Snapshot | None = None, **requested: Any) -> list[tuple[str, str]]:
    """Kinds and messages of the suggestions for a request."""
    suggestions = find_suggestions(make_request(**requested), snapshot or make_snapshot(), nodes, profiles=sorted(GPUS))
    return [(suggestion.kind, suggestion.message) for suggestion in suggestions]


def test_a_fitting_request_gets_no_suggestions() -> None:
    assert find(resources={"gpu": 4}) == []


def test_suggestions_are_sorted_with_the_cheapest_first() -> None:
    assert find(resources={"gpu": 8, "mem": "16Gi"}) == [
        ("lower", "request 4 GPUs instead of 8"),
        ("compute_resource", "use compute resource 4xa100 (1 fits now)"),
        ("compute_resource", "use compute resource 1xa100 (7 fit now)"),
        ("wait", "wait for run train-4, which uses 4 GPUs on node-4"),
        ("wait", "wait for run train-5, which uses 5 GPUs on node-5"),
    ]


@pytest.mark.parametrize(
    ("requested", "change"),
    [
        ({"mem": "100Gi"}, {"resources": {"mem": {"requests": "64Gi"}}}),
        ({"mem": {"requests": "100Gi", "limits": "120Gi"}}, {"resources": {"mem": {"requests": "64Gi"}}}),
        ({"cpu": "30"}, {"resources": {"cpu": {"requests": "24"}}}),
        ({"extended": {"example.com/fpga": 3}}, {"resources": {"extended": {"example.com/fpga": "2"}}}),
        ({"gpu": 7}, {"resources": {"gpu": {"devices": 4}}}),
    ],
    ids=str,
)
def test_a_request_is_lowered_to_the_free_amount(requested: dict[str, Any], change: dict[str, Any]) -> None:
    capacity: Any = {"gpu": 8, "cpu": 32, "mem": "64Gi", "example.com/fpga": 2}
    nodes = NodeTable([make_node(make_scheduled_pod(cpu=8, gpu=4), **capacity)])
    (suggestion,) = [
        suggestion
        for suggestion in find_suggestions(make_request(resources=requested), make_snapshot(), nodes)
        if suggestion.kind == "lower"
    ]
    assert suggestion.change == change


def test_suggested_amounts_are_rounded() -> None:
    nodes = NodeTable([make_node(make_scheduled_pod(cpu="7230m", mem="20000Mi"), cpu=8, mem="32Gi")])
    assert ("lower", "request 0.7 CPU cores instead of 4") in find(nodes, resources={"cpu": 4})
    assert ("lower", "request 12 GiB memory instead of 30 GiB") in find(nodes, resources={"mem": "30Gi"})


def test_values_of_a_compute_resource_are_not_lowered() -> None:
    assert [kind for kind, _ in find(profile="8xa100")] == ["compute_resource", "compute_resource", "wait", "wait"]


def test_suggestions_respect_policies() -> None:
    at_least_4 = {"rules": {"resources.gpu": {"min": 4}}}
    assert find(snapshot=make_snapshot(at_least_4), resources={"gpu": 8})[:2] == [
        ("lower", "request 4 GPUs instead of 8"),
        ("compute_resource", "use compute resource 4xa100 (1 fits now)"),
    ]
    at_least_8 = {"rules": {"resources.gpu": {"min": 8}}}
    assert [kind for kind, _ in find(snapshot=make_snapshot(at_least_8), resources={"gpu": 8})] == ["wait", "wait"]


def test_replicas_or_resources_per_pod_are_lowered() -> None:
    suggestions = find(action="serve", replicas=3, resources={"gpu": 3})
    assert suggestions[:2] == [("lower", "request 2 GPUs instead of 3"), ("lower", "use 2 pods instead of 3")]


def test_node_constraints_may_be_removed() -> None:
    requested = {"node_selector": {"zone": "b", "pool": "x"}, "resources": {"gpu": 1}}
    nodes = NodeTable([make_node(labels={"pool": "x"})])
    (suggestion,) = find_suggestions(make_request(**requested), make_snapshot(), nodes)
    assert suggestion.message == "remove node_selector.zone: another node has room now"
    assert suggestion.change == {"node_selector": [{"key": "pool", "value": "x"}]}
    (suggestion,) = find_suggestions(
        make_request(resources={"gpu": {"devices": 1, "type": "h100"}}), make_snapshot(), nodes
    )
    assert suggestion.change == {"resources": {"gpu": {"type": None}}}


def test_runs_invisible_to_the_reader_are_not_suggested() -> None:
    hidden = HALF_FULL.visible_to(lambda _project: False)
    assert "wait" not in [kind for kind, _ in find(hidden, resources={"gpu": 8})]


def test_waiting_is_not_suggested_if_one_run_does_not_free_enough() -> None:
    both = NodeTable([make_node(make_scheduled_pod("a", gpu=1), make_scheduled_pod("b", gpu=1), gpu=2)])
    assert [kind for kind, _ in find(both, resources={"gpu": 2})] == []


def test_a_project_on_another_cluster_is_suggested() -> None:
    other = OtherProject("lake", make_snapshot(cluster="east"), NodeTable([make_node(gpu=8)]))
    full = OtherProject("hill", make_snapshot(cluster="west"), NodeTable([make_node(gpu=2)]))
    suggestions = find_suggestions(
        make_request(resources={"gpu": 8}), make_snapshot(), HALF_FULL, other_projects=[full, other]
    )
    (suggestion,) = [suggestion for suggestion in suggestions if suggestion.kind == "cluster"]
    assert (suggestion.message, suggestion.project) == ("run it in project lake: cluster east has room now", "lake")


def test_changes_are_merged_and_null_removes_values() -> None:
    values: dict[str, Any] = {
        "resources": {"gpu": {"devices": 8, "type": "a100"}, "mem": "6Gi"},
        "node_selector": {"a": "b"},
    }
    change = {"resources": {"gpu": {"type": None}, "mem": {"requests": "4Gi"}}, "node_selector": None, "replicas": 2}
    expected = {"resources": {"gpu": {"devices": 8}, "mem": {"requests": "4Gi"}}, "replicas": 2}
    assert merge_patch(values, change) == expected
    assert values["resources"]["gpu"]["type"] == "a100"


# Quotas


def make_allowance(remaining: int, *usage: int, part: str = "gpu") -> Allowance:
    """A quota with the given remaining amount and usage."""
    holders = tuple(
        QuotaHolder(f"id-train-{gpus}", f"train-{gpus}", QuotaAmounts(runs=1)._replace(**{part: gpus}))
        for gpus in usage
    )
    used = QuotaAmounts(runs=len(usage))._replace(**{part: sum(usage)})
    return Allowance("department/vision", {part: remaining + sum(usage)}, used, holders=holders)


EMPTY_NODES = NodeTable(
    [make_node(name="node-1", gpu=8, cpu=32, mem="64Gi"), make_node(name="node-2", gpu=8, cpu=32, mem="64Gi")]
)


def find_with_quotas(*allowances: Allowance, nodes: NodeTable = EMPTY_NODES, **requested: Any) -> list[tuple[str, str]]:
    """Kinds and messages of the suggestions for a request that is limited by quotas."""
    options: Any = {"profiles": sorted(GPUS), "allowances": allowances}
    return [
        (suggestion.kind, suggestion.message)
        for suggestion in find_suggestions(make_request(**requested), make_snapshot(), nodes, **options)
    ]


def test_requests_are_lowered_to_the_remaining_quota() -> None:
    assert find_with_quotas(make_allowance(3, 1, 5), resources={"gpu": 8}) == [
        ("lower", "request 3 GPUs instead of 8"),
        ("compute_resource", "use compute resource 1xa100 (3 fit now)"),
        ("wait", "wait for run train-5, which uses 5 GPUs of the department/vision quota"),
    ]
    assert find_with_quotas(make_allowance(8, 1, 5), resources={"gpu": 8}) == []


def test_the_remaining_quota_is_divided_among_pods() -> None:
    suggestions = find_with_quotas(make_allowance(7), action="serve", replicas=4, resources={"gpu": 2})
    assert suggestions[:2] == [("lower", "use 3 pods instead of 4"), ("lower", "request 1 GPU instead of 2")]


def test_waiting_is_the_only_suggestion_for_a_quota_of_runs() -> None:
    full = make_allowance(0, 1, 1, part="runs")
    assert find_with_quotas(full, resources={"gpu": 8}) == [
        ("wait", "wait for run train-1, which uses a slot of the department/vision quota")
    ]


def test_waiting_is_suggested_for_runs_that_free_both_node_and_quota() -> None:
    """Either of two runs would free enough of a node, but only one of them enough of the quota."""
    suggestions = find_with_quotas(make_allowance(3, 5, 1), nodes=HALF_FULL, resources={"gpu": 8})
    assert [message for kind, message in suggestions if kind == "wait"] == [
        "wait for run train-5, which uses 5 GPUs on node-5"
    ]


def test_waiting_is_not_suggested_for_runs_required_by_affinity() -> None:
    near = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    cache = replace(make_scheduled_pod("train-5", gpu=5), labels={"app": "cache"}, namespace="forest")
    nodes = NodeTable([make_node(cache, gpu=8, labels={"kubernetes.io/hostname": "box"})])
    requested: Any = {"resources": {"gpu": 2}, "affinity": affinity}
    assert find_with_quotas(make_allowance(8, 5), nodes=nodes, **requested) == []
    assert "wait" not in [kind for kind, _ in find_with_quotas(make_allowance(1, 5), nodes=nodes, **requested)]
