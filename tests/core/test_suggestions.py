"""Suggestions: found, described, and applicable with one call."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.core.drafts import Snapshot
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.quotas import Allowance, QuotaAmounts, QuotaHolder
from fairlead.core.suggestions import OtherProject, find_suggestions
from fairlead.model.compute_resources import ComputeResource
from fairlead.model.policies import Policy
from fairlead.model.requests import RunRequest, merge
from fairlead.model.scopes import Cluster
from tests.core.nodes import make_holding, make_node

GPUS = {"1xa100": 1, "4xa100": 4, "8xa100": 8}


def make_snapshot(*policies: dict[str, Any], cluster: str = "main") -> Snapshot:
    """A project on a cluster, with compute resources for one GPU, four and eight."""
    offered = {
        name: ComputeResource.model_validate(
            {"name": name, "requirements": {"resources": {"gpu": count, "mem": "8Gi"}}}
        )
        for name, count in GPUS.items()
    }
    said = tuple(Policy.model_validate(policy) for policy in policies)
    return Snapshot("forest", Cluster(name=cluster, executor="kubernetes"), compute_resources=offered, policies=said)


def make_request(**asked: Any) -> RunRequest:
    """A run of a container."""
    function = {"name": "train", "kind": "container", "image": "registry.example/train:1", "port": 80}
    return RunRequest.model_validate({"function": function, **asked})


HALF_FULL = NodeTable(
    make_node(make_holding(f"train-{number}", gpu=number, cpu=8), name=f"node-{number}", gpu=8, cpu=32, mem="64Gi")
    for number in (4, 5)
)


def find(nodes: NodeTable = HALF_FULL, snapshot: Snapshot | None = None, **asked: Any) -> list[tuple[str, str]]:
    """The suggestions of a request, in words."""
    ways = find_suggestions(make_request(**asked), snapshot or make_snapshot(), nodes, profiles=sorted(GPUS))
    return [(way.kind, way.message) for way in ways]


def test_what_fits_now_needs_no_suggestion() -> None:
    assert find(resources={"gpu": 4}) == []


def test_ask_for_less_another_compute_resource_or_wait_for_a_run_the_cheapest_first() -> None:
    assert find(resources={"gpu": 8, "mem": "16Gi"}) == [
        ("lower", "request 4 GPUs instead of 8"),
        ("compute_resource", "use compute resource 4xa100 (1 fits now)"),
        ("compute_resource", "use compute resource 1xa100 (7 fit now)"),
        ("wait", "wait for run train-4, which uses 4 GPUs on node-4"),
        ("wait", "wait for run train-5, which uses 5 GPUs on node-5"),
    ]


@pytest.mark.parametrize(
    ("asked", "change"),
    [
        ({"mem": "100Gi"}, {"resources": {"mem": {"requests": "64Gi"}}}),
        ({"mem": {"requests": "100Gi", "limits": "120Gi"}}, {"resources": {"mem": {"requests": "64Gi"}}}),
        ({"cpu": "30"}, {"resources": {"cpu": {"requests": "24"}}}),
        ({"extended": {"example.com/fpga": 3}}, {"resources": {"extended": {"example.com/fpga": "2"}}}),
        ({"gpu": 7}, {"resources": {"gpu": {"devices": 4}}}),
    ],
    ids=str,
)
def test_what_is_asked_for_is_lowered_to_what_is_free(asked: dict[str, Any], change: dict[str, Any]) -> None:
    has: Any = {"gpu": 8, "cpu": 32, "mem": "64Gi", "example.com/fpga": 2}
    nodes = NodeTable([make_node(make_holding(cpu=8, gpu=4), **has)])
    (way,) = [
        way for way in find_suggestions(make_request(resources=asked), make_snapshot(), nodes) if way.kind == "lower"
    ]
    assert way.change == change


def test_an_amount_is_one_that_people_would_write() -> None:
    nodes = NodeTable([make_node(make_holding(cpu="7230m", mem="20000Mi"), cpu=8, mem="32Gi")])
    assert ("lower", "request 0.7 CPU cores instead of 4") in find(nodes, resources={"cpu": 4})
    assert ("lower", "request 12 GiB memory instead of 30 GiB") in find(nodes, resources={"mem": "30Gi"})


def test_what_a_compute_resource_says_is_not_for_the_user_to_lower() -> None:
    assert [kind for kind, _ in find(profile="8xa100")] == ["compute_resource", "compute_resource", "wait", "wait"]


def test_what_a_policy_forbids_is_no_suggestion() -> None:
    least = {"rules": {"resources.gpu": {"min": 4}}}
    assert find(snapshot=make_snapshot(least), resources={"gpu": 8})[:2] == [
        ("lower", "request 4 GPUs instead of 8"),
        ("compute_resource", "use compute resource 4xa100 (1 fits now)"),
    ]
    must = {"rules": {"resources.gpu": {"min": 8}}}
    assert [kind for kind, _ in find(snapshot=make_snapshot(must), resources={"gpu": 8})] == ["wait", "wait"]


def test_several_pods_are_fewer_or_smaller() -> None:
    ways = find(action="serve", replicas=3, resources={"gpu": 3})
    assert ways[:2] == [("lower", "request 2 GPUs instead of 3"), ("lower", "use 2 pods instead of 3")]


def test_what_keeps_it_to_certain_nodes_can_be_left_out() -> None:
    asked = {"node_selector": {"zone": "b", "pool": "x"}, "resources": {"gpu": 1}}
    nodes = NodeTable([make_node(labels={"pool": "x"})])
    (way,) = find_suggestions(make_request(**asked), make_snapshot(), nodes)
    assert way.message == "remove node_selector.zone: another node has room now"
    assert way.change == {"node_selector": [{"key": "pool", "value": "x"}]}
    (way,) = find_suggestions(make_request(resources={"gpu": {"devices": 1, "type": "h100"}}), make_snapshot(), nodes)
    assert way.change == {"resources": {"gpu": {"type": None}}}


def test_a_run_that_the_reader_may_not_know_is_not_named() -> None:
    hidden = HALF_FULL.visible_to(lambda _project: False)
    assert "wait" not in [kind for kind, _ in find(hidden, resources={"gpu": 8})]


def test_a_run_whose_end_is_not_enough_is_not_waited_for() -> None:
    both = NodeTable([make_node(make_holding("a", gpu=1), make_holding("b", gpu=1), gpu=2)])
    assert [kind for kind, _ in find(both, resources={"gpu": 2})] == []


def test_another_project_on_another_cluster() -> None:
    other = OtherProject("lake", make_snapshot(cluster="east"), NodeTable([make_node(gpu=8)]))
    full = OtherProject("hill", make_snapshot(cluster="west"), NodeTable([make_node(gpu=2)]))
    ways = find_suggestions(
        make_request(resources={"gpu": 8}), make_snapshot(), HALF_FULL, other_projects=[full, other]
    )
    (way,) = [way for way in ways if way.kind == "cluster"]
    assert (way.message, way.project) == ("run it in project lake: cluster east has room now", "lake")


def test_a_change_is_merged_and_null_leaves_out() -> None:
    said: dict[str, Any] = {
        "resources": {"gpu": {"devices": 8, "type": "a100"}, "mem": "6Gi"},
        "node_selector": {"a": "b"},
    }
    change = {"resources": {"gpu": {"type": None}, "mem": {"requests": "4Gi"}}, "node_selector": None, "replicas": 2}
    expected = {"resources": {"gpu": {"devices": 8}, "mem": {"requests": "4Gi"}}, "replicas": 2}
    assert merge(said, change) == expected
    assert said["resources"]["gpu"]["type"] == "a100"


# Where quotas hold it


def make_allowance(left: int, *held: int, part: str = "gpu") -> Allowance:
    """A quota with the given remaining and held amounts."""
    holders = tuple(
        QuotaHolder(f"id-train-{gpus}", f"train-{gpus}", QuotaAmounts(runs=1)._replace(**{part: gpus})) for gpus in held
    )
    used = QuotaAmounts(runs=len(held))._replace(**{part: sum(held)})
    return Allowance("department/vision", {part: left + sum(held)}, used, holders=holders)


EMPTY = NodeTable(
    [make_node(name="node-1", gpu=8, cpu=32, mem="64Gi"), make_node(name="node-2", gpu=8, cpu=32, mem="64Gi")]
)


def find_held(*allowances: Allowance, nodes: NodeTable = EMPTY, **asked: Any) -> list[tuple[str, str]]:
    """The suggestions of a request that quotas bound, in words."""
    offered: Any = {"profiles": sorted(GPUS), "allowances": allowances}
    return [
        (way.kind, way.message) for way in find_suggestions(make_request(**asked), make_snapshot(), nodes, **offered)
    ]


def test_what_a_quota_has_left_is_what_can_be_asked_for() -> None:
    assert find_held(make_allowance(3, 1, 5), resources={"gpu": 8}) == [
        ("lower", "request 3 GPUs instead of 8"),
        ("compute_resource", "use compute resource 1xa100 (3 fit now)"),
        ("wait", "wait for run train-5, which uses 5 GPUs of the department/vision quota"),
    ]
    assert find_held(make_allowance(8, 1, 5), resources={"gpu": 8}) == []


def test_several_pods_share_what_a_quota_has_left() -> None:
    ways = find_held(make_allowance(7), action="serve", replicas=4, resources={"gpu": 2})
    assert ways[:2] == [("lower", "use 3 pods instead of 4"), ("lower", "request 1 GPU instead of 2")]


def test_where_a_number_of_runs_is_used_up_only_an_end_helps() -> None:
    full = make_allowance(0, 1, 1, part="runs")
    assert find_held(full, resources={"gpu": 8}) == [
        ("wait", "wait for run train-1, which uses a slot of the department/vision quota")
    ]


def test_a_run_is_waited_for_whose_end_helps_on_the_node_and_in_the_quota() -> None:
    """Two runs hold enough of a node, and one of them enough of the quota."""
    ways = find_held(make_allowance(3, 5, 1), nodes=HALF_FULL, resources={"gpu": 8})
    assert [message for kind, message in ways if kind == "wait"] == [
        "wait for run train-5, which uses 5 GPUs on node-5"
    ]


def test_a_run_that_others_are_to_be_near_is_not_waited_for() -> None:
    near = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    cache = replace(make_holding("train-5", gpu=5), labels={"app": "cache"}, namespace="forest")
    nodes = NodeTable([make_node(cache, gpu=8, labels={"kubernetes.io/hostname": "box"})])
    asked: Any = {"resources": {"gpu": 2}, "affinity": affinity}
    assert find_held(make_allowance(8, 5), nodes=nodes, **asked) == []
    assert "wait" not in [kind for kind, _ in find_held(make_allowance(1, 5), nodes=nodes, **asked)]
