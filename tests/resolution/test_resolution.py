"""Resolution: which layer sets each value, which values it overrides, and how values combine."""

from typing import Any

import pytest

from tests.making import (
    container,
    make_cluster,
    make_compute_resource,
    make_policy,
    make_template,
    overridden_values,
    plan,
    pod,
    setting,
    value,
    violated_rules,
    warning_rules,
)
from tests.validity import check_manifests

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED_NODE_AFFINITY = f"affinity.nodeAffinity.{REQUIRED}"


def label_condition(key: str, *values: str) -> dict[str, Any]:
    """A condition on a node label."""
    return {"key": key, "operator": "In", "values": list(values)} if values else {"key": key, "operator": "Exists"}


def require_nodes(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    """A node affinity with required terms."""
    node_selector_terms = [{"matchExpressions": conditions} if conditions else {} for conditions in terms]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": node_selector_terms}}}


def make_affinity(*keys: str, kind: str = "nodeAffinity") -> dict[str, Any]:
    """An affinity that prefers nodes with labels, or requires pods in the same topologies."""
    if kind == "nodeAffinity":
        return {
            kind: {
                PREFERRED: [{"weight": 5, "preference": {"matchExpressions": [label_condition(key)]}} for key in keys]
            }
        }
    return {kind: {REQUIRED: [{"topologyKey": key} for key in keys]}}


def conditions(planned: Any) -> list[list[dict[str, Any]]]:
    """The conditions in each of the rendered pod's required terms."""
    terms = pod(planned)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return [list(term["matchExpressions"]) for term in terms]


def test_each_layer_overrides_weaker_ones_and_lists_them_strongest_first() -> None:
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
    assert overridden_values(planned, "resources.mem.requests") == [
        ("4Gi", "request"),
        ("3500Mi", "template start"),
        ("3Gi", "department/vision policy"),
        ("2Gi", "platform policy"),
        ("1Gi", "platform default"),
    ]


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ({"platform": "a"}, "platform default"),
        ({"platform": "a", "policy": "b"}, "platform policy"),
        ({"policy": "a", "project_policy": "b"}, "project/forest policy"),
        ({"project_policy": "a", "template": "b"}, "template start"),
        ({"template": "a", "user": "b"}, "request"),
        ({"user": "a", "resource": "b"}, "compute resource big"),
        ({"platform": "a", "resource": "b"}, "compute resource big"),
    ],
)
def test_a_scalar_comes_from_the_strongest_layer(layers: dict[str, str], expected: str) -> None:
    values = {name: {"priority_class": text} for name, text in layers.items()}
    planned = plan(
        {"template": "start", "profile": "big", **values.get("user", {})},
        make_policy(defaults=values.get("policy", {})),
        make_policy("project/forest", defaults=values.get("project_policy", {})),
        make_template(**values.get("template", {})),
        make_compute_resource(**values.get("resource", {})),
        platform=values.get("platform"),
    )
    assert str(setting(planned, "priority_class").source) == expected
    assert value(planned, "priority_class") == max(layers.values())
    assert pod(planned)["priorityClassName"] == max(layers.values())


def test_request_and_limit_are_owned_together() -> None:
    resource = make_compute_resource(resources={"mem": {"requests": "64Gi", "limits": "80Gi"}})
    planned = plan({"profile": "big", "resources": {"mem": {"limits": "70Gi"}}}, resource)
    assert container(planned)["resources"] == {"requests": {"memory": "64Gi"}, "limits": {"memory": "80Gi"}}
    assert overridden_values(planned, "resources.mem.limits") == [("70Gi", "request")]
    assert overridden_values(planned, "resources.mem.requests") == []


def test_a_default_limit_does_not_apply_to_a_larger_request() -> None:
    policy = make_policy(defaults={"resources": {"mem": {"requests": "1Gi", "limits": "2Gi"}}})
    planned = plan({"resources": {"mem": "8Gi"}}, policy)
    assert container(planned)["resources"] == {"requests": {"memory": "8Gi"}}
    assert value(planned, "resources.mem.limits") is None
    assert overridden_values(planned, "resources.mem.limits") == [("2Gi", "platform policy")]
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
    assert violated_rules(planned) == [("resources.cpu.requests", "max")]


@pytest.mark.parametrize(
    ("resource", "requested", "factor", "limit"),
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
    resource: str, requested: str, factor: Any, limit: str
) -> None:
    planned = plan({"resources": {resource: requested}}, make_policy(limit_factor={resource: factor}))
    assert value(planned, f"resources.{resource}.limits") == limit
    assert str(setting(planned, f"resources.{resource}.limits").source) == "platform policy"


def test_the_limit_factor_of_the_nearest_scope_applies() -> None:
    policies = (
        make_policy(limit_factor={"mem": 2, "cpu": 2}),
        make_policy("department/a", limit_factor={"mem": 3}),
        make_policy("project/a"),
    )
    planned = plan({"resources": {"mem": "1Gi", "cpu": 1}}, *policies)
    assert value(planned, "resources.mem.limits") == "3Gi"
    assert str(setting(planned, "resources.mem.limits").source) == "department/a policy"
    assert value(planned, "resources.cpu.limits") == "2"


def test_unlimited_disables_the_limit_factor_and_overrides_other_limits() -> None:
    factor = make_policy(limit_factor={"mem": 2}, defaults={"resources": {"mem": {"requests": "1Gi", "limits": "4Gi"}}})
    planned = plan({"resources": {"mem": {"requests": "2Gi", "limits": "unlimited"}}}, factor)
    assert value(planned, "resources.mem.limits") == "unlimited"
    assert overridden_values(planned, "resources.mem.limits") == [("4Gi", "platform policy")]
    assert container(planned)["resources"] == {"requests": {"memory": "2Gi"}}


@pytest.mark.parametrize("requested", [{"requests": "1Gi", "limits": "3Gi"}, {"limits": "3Gi"}, "0"])
def test_a_limit_factor_does_not_apply_to_explicit_limits_or_zero_requests(requested: Any) -> None:
    planned = plan({"resources": {"mem": requested}}, make_policy(limit_factor={"mem": 2}))
    assert value(planned, "resources.mem.limits") == (None if requested == "0" else "3Gi")


def test_a_limit_factor_never_gives_more_than_the_largest_amount() -> None:
    planned = plan({"resources": {"mem": "7Ei"}}, make_policy(limit_factor={"mem": 1000}))
    assert planned.violations or value(planned, "resources.mem.limits") == str(2**63 - 1)


def test_all_gpu_settings_are_owned_by_one_layer() -> None:
    resource = make_compute_resource(resources={"gpu": 2})
    planned = plan({"profile": "big", "resources": {"gpu": {"devices": 1, "type": "A100", "memory": "50%"}}}, resource)
    assert value(planned, "resources.gpu.devices") == 2
    assert value(planned, "resources.gpu.type") is None
    assert value(planned, "resources.gpu.memory.request") == "100%"
    assert container(planned)["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert sorted(warning_rules(planned)) == [
        ("resources.gpu.devices", "overridden"),
        ("resources.gpu.memory.request", "overridden"),
        ("resources.gpu.type", "overridden"),
    ]


def test_extended_resources_and_shared_memory_are_owned_separately() -> None:
    resource = make_compute_resource(resources={"shm": "1Gi", "extended": {"v.example/nic": 1}})
    requested = {"shm": True, "extended": {"v.example/nic": 4, "v.example/fpga": 2}}
    planned = plan({"profile": "big", "resources": requested}, resource)
    assert value(planned, "resources.shm") == "1Gi"
    assert value(planned, "resources.extended.v.example/nic") == "1"
    assert value(planned, "resources.extended.v.example/fpga") == "2"
    amounts = {"v.example/fpga": "2", "v.example/nic": "1"}
    assert container(planned)["resources"] == {"requests": amounts, "limits": amounts}


def test_mappings_are_merged_by_key_and_the_stronger_layer_overrides() -> None:
    planned = plan(
        {"profile": "big", "node_selector": {"a": "user", "b": "user"}, "envs": {"A": "user", "B": "user"}},
        make_policy(defaults={"node_selector": {"a": "policy", "c": "policy"}, "envs": {"C": "policy"}}),
        make_compute_resource(node_selector={"b": "resource"}, envs={"B": "resource", "D": "resource"}),
    )
    assert pod(planned)["nodeSelector"] == {"a": "user", "b": "resource", "c": "policy"}
    envs = {env["name"]: env["value"] for env in container(planned)["env"]}
    assert {"A": "user", "B": "resource", "C": "policy", "D": "resource"}.items() <= envs.items()
    assert overridden_values(planned, "node_selector.b") == [("user", "request")]
    assert overridden_values(planned, "envs.B") == [("user", "request")]
    assert sorted(warning_rules(planned)) == [("envs.B", "overridden"), ("node_selector.b", "overridden")]


def test_volumes_are_merged_by_name_and_each_is_owned_by_one_layer() -> None:
    claim = {"volume_type": "persistent_volume_claim", "spec": {"size": "1Gi", "storage_class": "fast"}}
    resource = make_compute_resource(volumes={"data": {"volume_type": "empty_dir", "mount_path": "/scratch"}})
    requested = {"data": {**claim, "mount_path": "/data"}, "mine": {**claim, "mount_path": "/mine"}}
    planned = plan({"profile": "big", "volumes": requested}, resource)
    assert value(planned, "volumes.data.volume_type") == "empty_dir"
    assert value(planned, "volumes.data.spec.size") is None
    assert value(planned, "volumes.mine.spec.size") == "1Gi"
    mounts = {mount["name"]: mount["mountPath"] for mount in container(planned)["volumeMounts"]}
    assert {"data": "/scratch", "mine": "/mine"}.items() <= mounts.items()
    assert ("volumes.data.spec.size", "overridden") in warning_rules(planned)


def test_secrets_are_merged_without_duplicates() -> None:
    planned = plan(
        {"profile": "big", "secrets": ["A", "B", "A"]},
        make_compute_resource(secrets=["B", "C"]),
        make_policy(defaults={"secrets": ["A"]}),
    )
    assert [env["name"] for env in container(planned)["env"] if "valueFrom" in env] == ["A", "B", "C"]
    assert planned.warnings == ()


def test_tolerations_are_merged_without_duplicates() -> None:
    gpu = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    spot = {"key": "spot", "operator": "Equal", "value": "yes"}
    planned = plan(
        {"profile": "big", "tolerations": [gpu, spot, gpu]},
        make_compute_resource(tolerations=[gpu, {"key": "spot", "operator": "Exists"}]),
    )
    tolerations = pod(planned)["tolerations"]
    assert len(tolerations) == 3
    assert all(toleration in tolerations for toleration in (gpu, spot, {"key": "spot", "operator": "Exists"}))
    assert planned.warnings == ()


def test_required_node_affinity_of_two_layers_is_combined() -> None:
    resource = make_compute_resource(
        affinity=require_nodes([label_condition("gpu", "a100")], [label_condition("gpu", "h100")])
    )
    planned = plan(
        {"profile": "big", "affinity": require_nodes([label_condition("zone", "a")], [label_condition("zone", "b")])},
        resource,
    )
    terms = conditions(planned)
    assert len(terms) == 4
    for zone in ("a", "b"):
        for gpu in ("a100", "h100"):
            assert any(
                label_condition("zone", zone) in term and label_condition("gpu", gpu) in term and len(term) == 2
                for term in terms
            )
    assert [str(value.source) for value in setting(planned, REQUIRED_NODE_AFFINITY).combined] == [
        "request",
        "compute resource big",
    ]


def test_required_node_affinity_of_many_layers_is_combined() -> None:
    planned = plan(
        {"profile": "big", "template": "start", "affinity": require_nodes([label_condition("d")])},
        make_policy(defaults={"affinity": require_nodes([label_condition("a")])}),
        make_policy("project/forest", defaults={"affinity": require_nodes([label_condition("b")])}),
        make_template(affinity=require_nodes([label_condition("c")])),
        make_compute_resource(affinity=require_nodes([label_condition("e")])),
    )
    [term] = conditions(planned)
    assert sorted(condition["key"] for condition in term) == ["a", "b", "c", "d", "e"]


def test_equal_node_affinity_of_two_layers_is_not_duplicated() -> None:
    same = require_nodes([label_condition("gpu", "a100")])
    planned = plan({"profile": "big", "affinity": same}, make_compute_resource(affinity=same))
    assert conditions(planned) == [[label_condition("gpu", "a100")]]


def test_a_term_without_conditions_matches_no_node() -> None:
    resource = make_compute_resource(affinity=require_nodes([label_condition("gpu", "a100")]))
    only_empty = plan({"profile": "big", "affinity": require_nodes([])}, resource)
    assert violated_rules(only_empty) == [(REQUIRED_NODE_AFFINITY, "contradiction")]
    with_other = plan({"profile": "big", "affinity": require_nodes([], [label_condition("zone", "a")])}, resource)
    [term] = conditions(with_other)
    assert label_condition("gpu", "a100") in term
    assert label_condition("zone", "a") in term


def test_conditions_on_node_names_are_combined() -> None:
    node = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    user = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [node]}]}}}
    planned = plan(
        {"profile": "big", "affinity": user}, make_compute_resource(affinity=require_nodes([label_condition("gpu")]))
    )
    [term] = pod(planned)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert list(term["matchExpressions"]) == [label_condition("gpu")]
    assert [dict(field) for field in term["matchFields"]] == [{**node, "values": term["matchFields"][0]["values"]}]


def test_preferred_terms_are_concatenated() -> None:
    planned = plan(
        {"profile": "big", "affinity": make_affinity("a", "b")}, make_compute_resource(affinity=make_affinity("c"))
    )
    terms = pod(planned)["affinity"]["nodeAffinity"][PREFERRED]
    assert [term["preference"]["matchExpressions"][0]["key"] for term in terms] == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_pod_affinity_terms_are_concatenated(kind: str) -> None:
    resource = make_compute_resource(affinity=make_affinity("zone", kind=kind))
    planned = plan({"profile": "big", "affinity": make_affinity("rack", kind=kind)}, resource)
    assert [term["topologyKey"] for term in pod(planned)["affinity"][kind][REQUIRED]] == ["rack", "zone"]


def test_a_gpu_type_narrows_the_requested_node_affinity() -> None:
    planned = plan({"affinity": require_nodes([label_condition("zone", "a")]), "resources": {"gpu": {"type": "A100"}}})
    [term] = conditions(planned)
    assert label_condition("zone", "a") in term
    assert [condition for condition in term if condition["key"] == "nvidia.com/gpu.product"]


def test_too_many_combined_terms_are_rejected() -> None:
    def many_terms(prefix: str) -> dict[str, Any]:
        domain = ".".join([prefix * 60] * 4)
        return require_nodes(*([label_condition(f"{domain}/{prefix * 60}{index}")] for index in range(64)))

    planned = plan({"profile": "big", "affinity": many_terms("a")}, make_compute_resource(affinity=many_terms("b")))
    assert planned.violations or check_manifests(planned.manifests) == []


def test_a_compute_resource_that_is_not_selected_has_no_effect() -> None:
    planned = plan({"resources": {"cpu": 1}}, make_compute_resource(resources={"cpu": 9}, envs={"A": "b"}))
    assert value(planned, "resources.cpu.requests") == "1"
    assert value(planned, "envs.A") == "absent"


def test_settings_are_sorted_and_paths_unique() -> None:
    planned = plan(
        {"profile": "big", "resources": {"cpu": 1, "gpu": 1}, "envs": {"B": "", "A": ""}, "secrets": ["S"]},
        make_compute_resource(resources={"mem": "1Gi", "gpu": {"type": "A100"}}),
    )
    paths = [item.path for item in planned.settings]
    assert paths == sorted(set(paths))


@pytest.mark.parametrize("part", [{"memory": "50%"}, {"mig": "1g.5gb"}])
@pytest.mark.parametrize("whole_gpu", [1, {"memory": "100%"}])
def test_overriding_a_whole_gpu_with_a_share_is_a_warning(part: dict[str, str], whole_gpu: Any) -> None:
    resource = make_compute_resource(resources={"gpu": part})
    planned = plan({"profile": "big", "resources": {"gpu": whole_gpu}}, resource, make_cluster(gpu_sharing="hami"))
    assert ("resources.gpu.memory.request", "overridden") in warning_rules(planned)


def test_overriding_a_writable_volume_is_a_warning() -> None:
    volume = {"volume_type": "empty_dir", "mount_path": "/v"}
    resource = make_compute_resource(volumes={"v": volume | {"read_only": True}})
    planned = plan({"profile": "big", "volumes": {"v": volume | {"read_only": False}}}, resource)
    assert warning_rules(planned) == [("volumes.v.read_only", "overridden")]


def test_equivalent_tolerations_produce_no_warning() -> None:
    toleration = {"key": "k", "value": "a", "effect": "NoSchedule"}
    resource = make_compute_resource(tolerations=[toleration | {"operator": "Equal"}])
    assert warning_rules(plan({"profile": "big", "tolerations": [toleration]}, resource)) == []


def test_the_warning_names_the_policy_whose_factor_sets_the_limit() -> None:
    resource, policy = make_compute_resource(resources={"mem": "8Gi"}), make_policy(limit_factor={"mem": 2})
    planned = plan({"profile": "big", "resources": {"mem": {"limits": "9Gi"}}}, resource, policy)
    [message] = [warning.message for warning in planned.warnings if warning.path == "resources.mem.limits"]
    assert (
        message == "the request sets 9Gi; the layer that overrides it has no limit, and the platform policy sets 16Gi"
    )
