"""Which layer owns what, what is remembered of the losers, and how values combine."""

from typing import Any

import pytest

from tests.making import (
    broken,
    container,
    lost,
    make_cluster,
    make_compute_resource,
    make_policy,
    make_template,
    plan,
    pod,
    setting,
    value,
    warned,
)
from tests.validity import check_manifests

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODES = f"affinity.nodeAffinity.{REQUIRED}"


def has(key: str, *values: str) -> dict[str, Any]:
    """A condition on a label of nodes."""
    return {"key": key, "operator": "In", "values": list(values)} if values else {"key": key, "operator": "Exists"}


def needs(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    """An affinity that requires nodes that suit one of the terms."""
    listed = [{"matchExpressions": conditions} if conditions else {} for conditions in terms]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": listed}}}


def wishes(*keys: str, kind: str = "nodeAffinity") -> dict[str, Any]:
    """An affinity that prefers nodes with these labels, or to be near to pods on these topologies."""
    if kind == "nodeAffinity":
        return {kind: {PREFERRED: [{"weight": 5, "preference": {"matchExpressions": [has(key)]}} for key in keys]}}
    return {kind: {REQUIRED: [{"topologyKey": key} for key in keys]}}


def conditions(planned: Any) -> list[list[dict[str, Any]]]:
    """The conditions of each required term of the rendered pod."""
    terms = pod(planned)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return [list(term["matchExpressions"]) for term in terms]


def test_every_layer_wins_over_all_weaker_ones_and_remembers_them_strongest_first() -> None:
    planned = plan(
        {"resources": {"mem": "4Gi"}, "template": "start", "profile": "big"},
        make_policy(defaults={"resources": {"mem": "2Gi"}}),
        make_policy("department/vision", defaults={"resources": {"mem": "3Gi"}}),
        make_template(resources={"mem": "3500Mi"}),
        make_compute_resource(resources={"mem": "5Gi"}),
        platform={"resources": {"mem": "1Gi"}},
    )
    assert value(planned, "resources.mem.requests") == "5Gi"
    assert str(setting(planned, "resources.mem.requests").source) == "compute resource big"
    assert lost(planned, "resources.mem.requests") == [
        ("4Gi", "request"),
        ("3500Mi", "template start"),
        ("3Gi", "department/vision policy"),
        ("2Gi", "platform policy"),
        ("1Gi", "platform default"),
    ]


@pytest.mark.parametrize(
    ("layers", "winner"),
    [
        ({"platform": "a"}, "platform default"),
        ({"platform": "a", "policy": "b"}, "platform policy"),
        ({"policy": "a", "nearer": "b"}, "project/forest policy"),
        ({"nearer": "a", "template": "b"}, "template start"),
        ({"template": "a", "user": "b"}, "request"),
        ({"user": "a", "resource": "b"}, "compute resource big"),
        ({"platform": "a", "resource": "b"}, "compute resource big"),
    ],
)
def test_a_scalar_is_the_strongest_layers(layers: dict[str, str], winner: str) -> None:
    said = {name: {"priority_class": text} for name, text in layers.items()}
    planned = plan(
        {"template": "start", "profile": "big", **said.get("user", {})},
        make_policy(defaults=said.get("policy", {})),
        make_policy("project/forest", defaults=said.get("nearer", {})),
        make_template(**said.get("template", {})),
        make_compute_resource(**said.get("resource", {})),
        platform=said.get("platform"),
    )
    assert str(setting(planned, "priority_class").source) == winner
    assert value(planned, "priority_class") == max(layers.values())
    assert pod(planned)["priorityClassName"] == max(layers.values())


def test_request_and_limit_are_owned_together() -> None:
    resource = make_compute_resource(resources={"mem": {"requests": "64Gi", "limits": "80Gi"}})
    planned = plan({"profile": "big", "resources": {"mem": {"limits": "70Gi"}}}, resource)
    assert container(planned)["resources"] == {"requests": {"memory": "64Gi"}, "limits": {"memory": "80Gi"}}
    assert lost(planned, "resources.mem.limits") == [("70Gi", "request")]
    assert lost(planned, "resources.mem.requests") == []


def test_a_default_limit_never_clashes_with_a_larger_request() -> None:
    policy = make_policy(defaults={"resources": {"mem": {"requests": "1Gi", "limits": "2Gi"}}})
    planned = plan({"resources": {"mem": "8Gi"}}, policy)
    assert container(planned)["resources"] == {"requests": {"memory": "8Gi"}}
    assert value(planned, "resources.mem.limits") is None
    assert lost(planned, "resources.mem.limits") == [("2Gi", "platform policy")]
    assert planned.warnings == ()


def test_an_owner_without_a_limit_leaves_the_setting_without_a_value() -> None:
    planned = plan({"resources": {"cpu": 2}})
    assert value(planned, "resources.cpu.limits") is None
    assert container(planned)["resources"] == {"requests": {"cpu": "2"}}


def test_a_limit_without_a_request_makes_the_request_equal_to_it() -> None:
    planned = plan({"resources": {"cpu": {"limits": 3}, "mem": {"limits": "1Gi"}, "disk": {"limits": "5Gi"}}})
    amounts = {"cpu": "3", "memory": "1Gi", "ephemeral-storage": "5Gi"}
    assert container(planned)["resources"] == {"requests": amounts, "limits": amounts}
    assert str(setting(planned, "resources.cpu.requests").source) == "request"
    assert "limit" in str(setting(planned, "resources.cpu.requests").reason)


def test_a_request_that_follows_from_a_limit_is_checked_like_any_other() -> None:
    planned = plan({"resources": {"cpu": {"limits": 3}}}, make_policy(rules={"resources.cpu": {"max": 2}}))
    assert broken(planned) == [("resources.cpu.requests", "max")]


@pytest.mark.parametrize(
    ("resource", "asked", "factor", "limit"),
    [
        ("mem", "10Gi", 1.1, "11Gi"),
        ("mem", "1Gi", "1.1", "1181116007"),
        ("mem", "3", 1.5, "5"),
        ("mem", "1000", 1, "1k"),
        ("cpu", "1", 1.1, "1100m"),
        ("cpu", "1m", 1.1, "2m"),
        ("cpu", "1500m", 2, "3"),
        ("cpu", "3", "1.0001", "3001m"),
        ("disk", "10Gi", 2, "20Gi"),
    ],
)
def test_a_limit_factor_multiplies_the_request_and_rounds_up(
    resource: str, asked: str, factor: Any, limit: str
) -> None:
    planned = plan({"resources": {resource: asked}}, make_policy(limit_factor={resource: factor}))
    assert value(planned, f"resources.{resource}.limits") == limit
    assert str(setting(planned, f"resources.{resource}.limits").source) == "platform policy"


def test_the_nearest_scopes_limit_factor_wins() -> None:
    policies = (
        make_policy(limit_factor={"mem": 2, "cpu": 2}),
        make_policy("department/a", limit_factor={"mem": 3}),
        make_policy("project/a"),
    )
    planned = plan({"resources": {"mem": "1Gi", "cpu": 1}}, *policies)
    assert value(planned, "resources.mem.limits") == "3Gi"
    assert str(setting(planned, "resources.mem.limits").source) == "department/a policy"
    assert value(planned, "resources.cpu.limits") == "2"


def test_unlimited_refuses_the_limit_factor_and_wins_like_any_value() -> None:
    factor = make_policy(limit_factor={"mem": 2}, defaults={"resources": {"mem": {"requests": "1Gi", "limits": "4Gi"}}})
    planned = plan({"resources": {"mem": {"requests": "2Gi", "limits": "unlimited"}}}, factor)
    assert value(planned, "resources.mem.limits") == "unlimited"
    assert lost(planned, "resources.mem.limits") == [("4Gi", "platform policy")]
    assert container(planned)["resources"] == {"requests": {"memory": "2Gi"}}


@pytest.mark.parametrize("asked", [{"requests": "1Gi", "limits": "3Gi"}, {"limits": "3Gi"}, "0"])
def test_a_limit_factor_leaves_alone_what_has_a_limit_or_asks_for_nothing(asked: Any) -> None:
    planned = plan({"resources": {"mem": asked}}, make_policy(limit_factor={"mem": 2}))
    assert value(planned, "resources.mem.limits") == (None if asked == "0" else "3Gi")


def test_a_limit_factor_never_gives_more_than_the_largest_amount() -> None:
    planned = plan({"resources": {"mem": "7Ei"}}, make_policy(limit_factor={"mem": 1000}))
    assert planned.violations or value(planned, "resources.mem.limits") == str(2**63 - 1)


def test_gpus_are_owned_whole() -> None:
    resource = make_compute_resource(resources={"gpu": 2})
    planned = plan({"profile": "big", "resources": {"gpu": {"devices": 1, "type": "A100", "memory": "50%"}}}, resource)
    assert value(planned, "resources.gpu.devices") == 2
    assert value(planned, "resources.gpu.type") is None
    assert value(planned, "resources.gpu.memory.request") == "100%"
    assert container(planned)["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert sorted(warned(planned)) == [
        ("resources.gpu.devices", "overridden"),
        ("resources.gpu.memory.request", "overridden"),
        ("resources.gpu.type", "overridden"),
    ]


def test_extended_resources_and_shared_memory_are_owned_one_by_one() -> None:
    resource = make_compute_resource(resources={"shm": "1Gi", "extended": {"v.example/nic": 1}})
    asked = {"shm": True, "extended": {"v.example/nic": 4, "v.example/fpga": 2}}
    planned = plan({"profile": "big", "resources": asked}, resource)
    assert value(planned, "resources.shm") == "1Gi"
    assert value(planned, "resources.extended.v.example/nic") == "1"
    assert value(planned, "resources.extended.v.example/fpga") == "2"
    amounts = {"v.example/fpga": "2", "v.example/nic": "1"}
    assert container(planned)["resources"] == {"requests": amounts, "limits": amounts}


def test_mappings_unite_by_key_and_the_stronger_layer_wins_a_key() -> None:
    planned = plan(
        {"profile": "big", "node_selector": {"a": "user", "b": "user"}, "envs": {"A": "user", "B": "user"}},
        make_policy(defaults={"node_selector": {"a": "policy", "c": "policy"}, "envs": {"C": "policy"}}),
        make_compute_resource(node_selector={"b": "resource"}, envs={"B": "resource", "D": "resource"}),
    )
    assert pod(planned)["nodeSelector"] == {"a": "user", "b": "resource", "c": "policy"}
    envs = {env["name"]: env["value"] for env in container(planned)["env"]}
    assert {"A": "user", "B": "resource", "C": "policy", "D": "resource"}.items() <= envs.items()
    assert lost(planned, "node_selector.b") == [("user", "request")]
    assert lost(planned, "envs.B") == [("user", "request")]
    assert sorted(warned(planned)) == [("envs.B", "overridden"), ("node_selector.b", "overridden")]


def test_volumes_unite_by_name_and_are_owned_whole() -> None:
    claim = {"volume_type": "persistent_volume_claim", "spec": {"size": "1Gi", "storage_class": "fast"}}
    resource = make_compute_resource(volumes={"data": {"volume_type": "empty_dir", "mount_path": "/scratch"}})
    asked = {"data": {**claim, "mount_path": "/data"}, "mine": {**claim, "mount_path": "/mine"}}
    planned = plan({"profile": "big", "volumes": asked}, resource)
    assert value(planned, "volumes.data.volume_type") == "empty_dir"
    assert value(planned, "volumes.data.spec.size") is None
    assert value(planned, "volumes.mine.spec.size") == "1Gi"
    mounts = {mount["name"]: mount["mountPath"] for mount in container(planned)["volumeMounts"]}
    assert {"data": "/scratch", "mine": "/mine"}.items() <= mounts.items()
    assert ("volumes.data.spec.size", "overridden") in warned(planned)


def test_secrets_unite_without_duplicates() -> None:
    planned = plan(
        {"profile": "big", "secrets": ["A", "B", "A"]},
        make_compute_resource(secrets=["B", "C"]),
        make_policy(defaults={"secrets": ["A"]}),
    )
    assert [env["name"] for env in container(planned)["env"] if "valueFrom" in env] == ["A", "B", "C"]
    assert planned.warnings == ()


def test_tolerations_unite_without_duplicates() -> None:
    gpu = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    spot = {"key": "spot", "operator": "Equal", "value": "yes"}
    planned = plan(
        {"profile": "big", "tolerations": [gpu, spot, gpu]},
        make_compute_resource(tolerations=[gpu, {"key": "spot", "operator": "Exists"}]),
    )
    found = pod(planned)["tolerations"]
    assert len(found) == 3
    assert all(toleration in found for toleration in (gpu, spot, {"key": "spot", "operator": "Exists"}))
    assert planned.warnings == ()


def test_required_node_affinity_of_two_layers_must_both_hold() -> None:
    resource = make_compute_resource(affinity=needs([has("gpu", "a100")], [has("gpu", "h100")]))
    planned = plan({"profile": "big", "affinity": needs([has("zone", "a")], [has("zone", "b")])}, resource)
    found = conditions(planned)
    assert len(found) == 4
    for zone in ("a", "b"):
        for gpu in ("a100", "h100"):
            assert any(has("zone", zone) in term and has("gpu", gpu) in term and len(term) == 2 for term in found)
    assert [str(said.source) for said in setting(planned, NODES).combined] == ["request", "compute resource big"]


def test_required_node_affinity_of_many_layers_must_all_hold() -> None:
    planned = plan(
        {"profile": "big", "template": "start", "affinity": needs([has("d")])},
        make_policy(defaults={"affinity": needs([has("a")])}),
        make_policy("project/forest", defaults={"affinity": needs([has("b")])}),
        make_template(affinity=needs([has("c")])),
        make_compute_resource(affinity=needs([has("e")])),
    )
    [found] = conditions(planned)
    assert sorted(condition["key"] for condition in found) == ["a", "b", "c", "d", "e"]


def test_the_same_required_node_affinity_of_two_layers_is_not_doubled() -> None:
    same = needs([has("gpu", "a100")])
    planned = plan({"profile": "big", "affinity": same}, make_compute_resource(affinity=same))
    assert conditions(planned) == [[has("gpu", "a100")]]


def test_a_term_without_conditions_matches_no_node_and_is_no_escape() -> None:
    resource = make_compute_resource(affinity=needs([has("gpu", "a100")]))
    alone = plan({"profile": "big", "affinity": needs([])}, resource)
    assert broken(alone) == [(NODES, "contradiction")]
    beside = plan({"profile": "big", "affinity": needs([], [has("zone", "a")])}, resource)
    [found] = conditions(beside)
    assert has("gpu", "a100") in found
    assert has("zone", "a") in found


def test_conditions_on_names_of_nodes_are_crossed_as_well() -> None:
    node = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    user = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [node]}]}}}
    planned = plan({"profile": "big", "affinity": user}, make_compute_resource(affinity=needs([has("gpu")])))
    [term] = pod(planned)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert list(term["matchExpressions"]) == [has("gpu")]
    assert [dict(field) for field in term["matchFields"]] == [{**node, "values": term["matchFields"][0]["values"]}]


def test_preferred_terms_add_up() -> None:
    planned = plan({"profile": "big", "affinity": wishes("a", "b")}, make_compute_resource(affinity=wishes("c")))
    found = pod(planned)["affinity"]["nodeAffinity"][PREFERRED]
    assert [term["preference"]["matchExpressions"][0]["key"] for term in found] == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_terms_about_pods_add_up(kind: str) -> None:
    resource = make_compute_resource(affinity=wishes("zone", kind=kind))
    planned = plan({"profile": "big", "affinity": wishes("rack", kind=kind)}, resource)
    assert [term["topologyKey"] for term in pod(planned)["affinity"][kind][REQUIRED]] == ["rack", "zone"]


def test_a_gpu_type_narrows_the_placement_that_is_asked_for() -> None:
    planned = plan({"affinity": needs([has("zone", "a")]), "resources": {"gpu": {"type": "A100"}}})
    [found] = conditions(planned)
    assert has("zone", "a") in found
    assert [condition for condition in found if condition["key"] == "nvidia.com/gpu.product"]


def test_more_crossed_terms_than_a_cluster_can_store_are_refused() -> None:
    def many(prefix: str) -> dict[str, Any]:
        domain = ".".join([prefix * 60] * 4)
        return needs(*([has(f"{domain}/{prefix * 60}{index}")] for index in range(64)))

    planned = plan({"profile": "big", "affinity": many("a")}, make_compute_resource(affinity=many("b")))
    assert planned.violations or check_manifests(planned.manifests) == []


def test_nothing_of_a_compute_resource_that_is_not_named_reaches_a_run() -> None:
    planned = plan({"resources": {"cpu": 1}}, make_compute_resource(resources={"cpu": 9}, envs={"A": "b"}))
    assert value(planned, "resources.cpu.requests") == "1"
    assert value(planned, "envs.A") == "absent"


def test_settings_are_sorted_and_each_path_is_there_once() -> None:
    planned = plan(
        {"profile": "big", "resources": {"cpu": 1, "gpu": 1}, "envs": {"B": "", "A": ""}, "secrets": ["S"]},
        make_compute_resource(resources={"mem": "1Gi", "gpu": {"type": "A100"}}),
    )
    paths = [item.path for item in planned.settings]
    assert paths == sorted(set(paths))


@pytest.mark.parametrize("part", [{"memory": "50%"}, {"mig": "1g.5gb"}])
@pytest.mark.parametrize("whole", [1, {"memory": "100%"}])
def test_losing_a_whole_gpu_to_a_part_of_one_is_told(part: dict[str, str], whole: Any) -> None:
    resource = make_compute_resource(resources={"gpu": part})
    planned = plan({"profile": "big", "resources": {"gpu": whole}}, resource, make_cluster(gpu_sharing="hami"))
    assert ("resources.gpu.memory.request", "overridden") in warned(planned)


def test_a_volume_that_may_be_written_loses_loudly() -> None:
    volume = {"volume_type": "empty_dir", "mount_path": "/v"}
    resource = make_compute_resource(volumes={"v": volume | {"read_only": True}})
    planned = plan({"profile": "big", "volumes": {"v": volume | {"read_only": False}}}, resource)
    assert warned(planned) == [("volumes.v.read_only", "overridden")]


def test_a_toleration_that_means_the_same_is_the_same() -> None:
    toleration = {"key": "k", "value": "a", "effect": "NoSchedule"}
    resource = make_compute_resource(tolerations=[toleration | {"operator": "Equal"}])
    assert warned(plan({"profile": "big", "tolerations": [toleration]}, resource)) == []


def test_a_limit_that_a_factor_gives_is_not_said_to_beat_the_user() -> None:
    resource, policy = make_compute_resource(resources={"mem": "8Gi"}), make_policy(limit_factor={"mem": 2})
    planned = plan({"profile": "big", "resources": {"mem": {"limits": "9Gi"}}}, resource, policy)
    [message] = [found.message for found in planned.warnings if found.path == "resources.mem.limits"]
    assert (
        message == "the request sets 9Gi; the layer that overrides it has no limit, and the platform policy sets 16Gi"
    )
