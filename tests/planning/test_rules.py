"""Policy rules: checked on resolved values, combined across scopes, and reported together."""

from typing import Any

import pytest

from tests.making import (
    SERVED,
    Data,
    make_cluster,
    make_compute_resource,
    make_policy,
    make_template,
    plan,
    violated_rules,
)

KAI = make_cluster(gpu_sharing="kai")


def volume(kind: str = "empty_dir", **spec: Any) -> dict[str, Any]:
    """A request for one volume."""
    return {"volumes": {"data": {"volume_type": kind, "mount_path": "/data", "spec": spec}}}


# Request, path, rule, and the violated rule.
RULES: list[tuple[dict[str, Any], str, dict[str, Any], str | None]] = [
    ({"resources": {"cpu": 2}}, "resources.cpu", {"max": 2}, None),
    ({"resources": {"cpu": "2001m"}}, "resources.cpu", {"max": 2}, "max"),
    ({"resources": {"cpu": 2}}, "resources.cpu.requests", {"max": 1}, "max"),
    ({"resources": {"cpu": {"requests": 1, "limits": 3}}}, "resources.cpu", {"max": 2}, None),
    ({"resources": {"cpu": {"requests": 1, "limits": 3}}}, "resources.cpu.limits", {"max": 2}, "max"),
    ({"resources": {"cpu": {"requests": 1, "limits": 2}}}, "resources.cpu.limits", {"max": 2}, None),
    ({"resources": {"cpu": 1}}, "resources.cpu.limits", {"max": 2}, "max"),
    ({}, "resources.cpu.limits", {"max": 2}, "max"),
    ({"resources": {"cpu": {"limits": "unlimited"}}}, "resources.cpu.limits", {"max": 2}, "max"),
    ({"resources": {"mem": {"limits": "unlimited"}}}, "resources.mem.limits", {"max": "1Ti"}, "max"),
    ({"resources": {"disk": "1Gi"}}, "resources.disk.limits", {"max": "1Ti"}, "max"),
    ({}, "resources.cpu", {"max": 2}, None),
    ({"resources": {"cpu": 2}}, "resources.cpu", {"min": 2}, None),
    ({"resources": {"cpu": 1}}, "resources.cpu", {"min": 2}, "min"),
    ({"resources": {"mem": {"requests": "1Gi", "limits": "unlimited"}}}, "resources.mem.limits", {"min": "2Gi"}, None),
    ({"resources": {"mem": {"limits": "1Gi"}}}, "resources.mem.limits", {"min": "2Gi"}, "min"),
    ({"resources": {"gpu": 2}}, "resources.gpu", {"max": 2}, None),
    ({"resources": {"gpu": 3}}, "resources.gpu", {"max": 2}, "max"),
    ({"resources": {"gpu": 3}}, "resources.gpu.devices", {"options": [1, 2, 4]}, "options"),
    ({"resources": {"gpu": 4}}, "resources.gpu", {"options": [1, 2, 4]}, None),
    ({"resources": {"gpu": {"memory": "50%"}}}, "resources.gpu.memory", {"max": "40%"}, "max"),
    ({"resources": {"gpu": {"memory": "50%"}}}, "resources.gpu.memory.request", {"min": "60%"}, "min"),
    ({"resources": {"gpu": {"memory": "50%"}}}, "resources.gpu.memory", {"max": "10GB"}, "unit"),
    ({"resources": {"gpu": {"memory": "8GB"}}}, "resources.gpu.memory", {"max": "10GB"}, None),
    ({"resources": {"gpu": {"type": "A100"}}}, "resources.gpu.type", {"options": ["H100"]}, "options"),
    ({"resources": {"gpu": {"mig": "1g.5gb"}}}, "resources.gpu.mig", {"options": ["1g.5gb"]}, None),
    ({"resources": {"shm": "2Gi"}}, "resources.shm", {"max": "1Gi"}, "max"),
    ({"resources": {"shm": "1Gi"}}, "resources.shm", {"max": "1Gi"}, None),
    ({"resources": {"shm": True}}, "resources.shm", {"max": "1Gi"}, "max"),
    ({"resources": {"shm": True, "mem": {"limits": "1Gi"}}}, "resources.shm", {"max": "1Gi"}, None),
    ({"resources": {"shm": True, "mem": {"limits": "2Gi"}}}, "resources.shm", {"max": "1Gi"}, "max"),
    ({"resources": {"shm": False}}, "resources.shm", {"max": "1Gi"}, None),
    ({"resources": {"extended": {"v.example/a": 3}}}, "resources.extended.v.example/a", {"max": 2}, "max"),
    ({"resources": {"extended": {"v.example/a": 3}}}, "resources.extended.*", {"max": 2}, "max"),
    ({"resources": {"extended": {"v.example/a": 3}}}, "resources.extended.v.example/b", {"max": 2}, None),
    ({"node_selector": {"a.b/c.d": "x"}}, "node_selector.a.b/c.d", {"options": ["y"]}, "options"),
    ({"node_selector": {"zone": "x"}}, "node_selector.zone", {"options": ["x", "y"]}, None),
    ({"node_selector": {"zone": "x"}}, "node_selector.*", {"options": ["y"]}, "options"),
    ({"envs": {"MODE": "x"}}, "envs.MODE", {"options": ["y"]}, "options"),
    (volume("empty_dir", size="2Gi"), "volumes.*.spec.size", {"max": "1Gi"}, "max"),
    (volume("empty_dir", size="1Gi"), "volumes.*.spec.size", {"max": "1Gi"}, None),
    (volume("empty_dir", size="2Gi"), "volumes.data.spec.size", {"max": "1Gi"}, "max"),
    (volume("empty_dir", size="2Gi"), "volumes.other.spec.size", {"max": "1Gi"}, None),
    (volume("ephemeral", size="2Gi"), "volumes.*.volume_type", {"options": ["empty_dir"]}, "options"),
    ({"priority_class": "mid"}, "priority_class", {"options": ["low", "high"]}, "options"),
    ({"priority_class": "low"}, "priority_class", {"options": ["low", "high"]}, None),
    ({}, "priority_class", {"options": ["low", "high"]}, None),
    ({}, "priority_class", {"options": ["low"], "required": True}, "required"),
    ({"run_as_user": 500}, "run_as_user", {"min": 1000}, "min"),
    ({"replicas": 3}, "replicas", {"max": 2}, "max"),
    ({}, "replicas", {"min": 2}, "min"),
    ({"deadline": "3h"}, "deadline", {"max": "2h"}, "max"),
    ({}, "deadline", {"required": True}, "required"),
    ({"deadline": "3h"}, "deadline", {"required": True}, None),
    ({"action": "serve", "function": SERVED}, "action", {"options": ["job"]}, "options"),
    ({}, "function.kind", {"options": ["python"]}, "options"),
    ({}, "function.image", {"options": ["a:1"]}, "options"),
    ({}, "resources.mem.limits", {"required": True}, "required"),
    ({"resources": {"mem": "1Gi"}}, "resources.mem.limits", {"required": True}, "required"),
    ({"resources": {"mem": {"limits": "1Gi"}}}, "resources.mem.limits", {"required": True}, None),
    ({"resources": {"mem": {"limits": "unlimited"}}}, "resources.mem.limits", {"required": True}, None),
    ({"resources": {"mem": "1Gi"}}, "resources.mem", {"required": True}, None),
    ({}, "resources", {"required": True}, "required"),
    ({}, "volumes", {"required": True}, "required"),
    (volume(), "volumes.data", {"required": True}, None),
    (volume(), "volumes.other", {"required": True}, "required"),
    ({}, "secrets.HF_TOKEN", {"required": True}, "required"),
    ({"secrets": ["HF_TOKEN"]}, "secrets.HF_TOKEN", {"required": True}, None),
    ({"resources": {"cpu": 1}}, "resources.cpu", {"locked": True}, "locked"),
    ({"resources": {"cpu": 1}}, "resources", {"locked": True}, "locked"),
    ({"resources": {"cpu": 1}}, "resources.mem", {"locked": True}, None),
    ({"resources": {"cpu": {"limits": 1}}}, "resources.cpu.requests", {"locked": True}, None),
    ({"resources": {"gpu": {"type": "A"}}}, "resources.gpu.type", {"locked": True}, "locked"),
    ({"tolerations": [{"operator": "Exists"}]}, "tolerations", {"locked": True}, "locked"),
    ({"affinity": {"podAffinity": {}}}, "affinity", {"locked": True}, None),
    ({"node_selector": {"a": "b"}}, "node_selector", {"locked": True}, "locked"),
    ({"envs": {"A": "b"}}, "envs", {"locked": True}, "locked"),
    ({"envs": {"A": "b"}}, "envs.B", {"locked": True}, None),
    ({"envs": {"AB": "b"}}, "envs.A", {"locked": True}, None),
    ({}, "run_as_user", {"locked": True}, None),
    ({"run_as_user": 1000}, "run_as_user", {"locked": True}, "locked"),
    ({}, "replicas", {"locked": True}, None),
    ({"replicas": 1}, "replicas", {"locked": True}, "locked"),
    ({}, "action", {"locked": True}, None),
]


@pytest.mark.parametrize(("requested", "path", "rule", "violated"), RULES)
def test_a_rule_is_satisfied_or_violated(
    requested: dict[str, Any], path: str, rule: dict[str, Any], violated: str | None
) -> None:
    planned = plan(requested, KAI, make_policy("department/vision", rules={path: rule}))
    assert {name for _, name in violated_rules(planned)} == ({violated} if violated else set())
    for violation in planned.violations:
        assert violation.source is not None
        assert violation.source.scope == "department/vision"
        assert "department/vision" in violation.message
        assert violation.hint
        assert planned.manifests == ()


@pytest.mark.parametrize(
    ("requested", "rules", "texts"),
    [
        ({"resources": {"gpu": 9}}, {"resources.gpu": {"max": 2}}, ("9", "2")),
        ({"resources": {"mem": "1Gi"}}, {"resources.mem": {"min": "2Gi"}}, ("1Gi", "2Gi")),
        ({"priority_class": "mid"}, {"priority_class": {"options": ["low", "high"]}}, ("mid", "low, high")),
        ({"resources": {"cpu": 3}}, {"resources.cpu": {"locked": True}}, ("3", "request")),
    ],
)
def test_a_violation_contains_the_actual_and_the_allowed_value(
    requested: dict[str, Any], rules: Data, texts: tuple[str, ...]
) -> None:
    [violation] = plan(requested, make_policy(rules=rules)).violations
    assert all(text in violation.message for text in texts)


def test_a_violation_has_the_path_of_the_value() -> None:
    rules = {"resources.cpu": {"max": 1}, "volumes.*.spec.size": {"max": "1Gi"}, "node_selector.*": {"options": ["x"]}}
    requested = {"resources": {"cpu": 2}, "node_selector": {"a.b": "y"}, **volume("empty_dir", size="2Gi")}
    assert sorted(violated_rules(plan(requested, make_policy(rules=rules)))) == [
        ("node_selector.a.b", "options"),
        ("resources.cpu.requests", "max"),
        ("volumes.data.spec.size", "max"),
    ]


def test_all_violated_rules_are_reported_together() -> None:
    rules = {
        "resources.cpu": {"max": 1},
        "resources.mem": {"min": "2Gi"},
        "priority_class": {"options": ["low"]},
        "deadline": {"required": True},
        "envs": {"locked": True},
    }
    requested = {"resources": {"cpu": 2, "mem": "1Gi"}, "priority_class": "high", "envs": {"A": "b", "C": "d"}}
    assert sorted(violated_rules(plan(requested, make_policy(rules=rules)))) == [
        ("deadline", "required"),
        ("envs.A", "locked"),
        ("envs.C", "locked"),
        ("priority_class", "options"),
        ("resources.cpu.requests", "max"),
        ("resources.mem.requests", "min"),
    ]


@pytest.mark.parametrize(
    ("path", "platform", "project", "requested", "violated", "scope"),
    [
        ("resources.gpu", {"max": 4}, {"max": 2}, {"resources": {"gpu": 3}}, "max", "project/forest"),
        ("resources.gpu", {"max": 2}, {"max": 4}, {"resources": {"gpu": 3}}, "max", "platform"),
        ("resources.gpu", {"max": 4}, {"max": 2}, {"resources": {"gpu": 2}}, None, ""),
        ("resources.gpu", {"min": 1}, {"min": 2}, {"resources": {"gpu": 1}}, "min", "project/forest"),
        ("resources.gpu", {"min": 2}, {"min": 1}, {"resources": {"gpu": 1}}, "min", "platform"),
        ("resources.gpu", {"max": 2}, {"required": True}, {"resources": {"gpu": 3}}, "max", "platform"),
        ("priority_class", {"options": ["a", "b"]}, {"options": ["b", "c"]}, {"priority_class": "b"}, None, ""),
        (
            "priority_class",
            {"options": ["a", "b"]},
            {"options": ["b", "c"]},
            {"priority_class": "c"},
            "options",
            "platform",
        ),
        (
            "priority_class",
            {"options": ["a", "b"]},
            {"options": ["b", "c"]},
            {"priority_class": "a"},
            "options",
            "project/forest",
        ),
        ("priority_class", {"options": ["a"]}, {"options": ["b"]}, {"priority_class": "b"}, "options", "platform"),
        ("deadline", {"required": True}, {"required": False}, {}, "required", "platform"),
        ("envs.A", {"locked": True}, {"locked": False}, {"envs": {"A": "b"}}, "locked", "platform"),
        ("envs.A", {"locked": False}, {"locked": True}, {"envs": {"A": "b"}}, "locked", "project/forest"),
    ],
)
def test_rules_of_several_scopes_are_combined_and_cannot_be_loosened(
    path: str, platform: Data, project: Data, requested: dict[str, Any], violated: str | None, scope: str
) -> None:
    planned = plan(requested, make_policy(rules={path: platform}), make_policy("project/forest", rules={path: project}))
    assert [name for _, name in violated_rules(planned)] == ([violated] if violated else [])
    for violation in planned.violations:
        assert violation.source is not None
        assert violation.source.scope == scope


def test_disjoint_options_allow_no_value() -> None:
    policies = (
        make_policy(rules={"priority_class": {"options": ["a"]}}),
        make_policy("project/forest", rules={"priority_class": {"options": ["b"]}}),
    )
    [violation] = plan({"priority_class": "a"}, *policies).violations
    assert "no value is allowed" in f"{violation.message} {violation.hint}"


def test_a_rule_on_a_resource_applies_to_its_request() -> None:
    policies = (
        make_policy(rules={"resources.cpu": {"max": 4}}),
        make_policy("project/forest", rules={"resources.cpu.requests": {"max": 2}}),
    )
    assert violated_rules(plan({"resources": {"cpu": 3}}, *policies)) == [("resources.cpu.requests", "max")]
    assert violated_rules(plan({"resources": {"cpu": 2}}, *policies)) == []


def test_limits_in_different_units_are_checked_separately() -> None:
    policies = (
        make_policy(rules={"resources.gpu.memory": {"max": "50%"}}),
        make_policy("project/forest", rules={"resources.gpu.memory": {"max": "10GB"}}),
    )
    planned = plan({"resources": {"gpu": {"memory": "60%"}}}, KAI, *policies)
    assert sorted(name for _, name in violated_rules(planned)) == ["max", "unit"]


def test_rules_apply_to_the_resolved_values() -> None:
    policy = make_policy(rules={"resources.gpu": {"max": 2}})
    assert (
        violated_rules(
            plan({"profile": "big", "resources": {"gpu": 9}}, policy, make_compute_resource(resources={"gpu": 1}))
        )
        == []
    )
    assert violated_rules(plan({"profile": "big"}, policy, make_compute_resource(resources={"gpu": 3}))) == [
        ("resources.gpu.devices", "max")
    ]


def test_rules_apply_to_computed_limits() -> None:
    policy = make_policy(limit_factor={"mem": 2}, rules={"resources.mem.limits": {"max": "3Gi", "required": True}})
    assert violated_rules(plan({"resources": {"mem": "1Gi"}}, policy)) == []
    assert violated_rules(plan({"resources": {"mem": "2Gi"}}, policy)) == [("resources.mem.limits", "max")]


@pytest.mark.parametrize(
    ("layer", "rejected"), [("user", True), ("template", True), ("policy", False), ("resource", False)]
)
def test_locked_applies_to_template_and_user_only(layer: str, rejected: bool) -> None:
    values: dict[str, Any] = {"resources": {"cpu": 1}}
    planned = plan(
        {"profile": "big", "template": "start", **(values if layer == "user" else {})},
        make_policy(rules={"resources": {"locked": True}}, defaults=values if layer == "policy" else {}),
        make_template(**(values if layer == "template" else {})),
        make_compute_resource(**(values if layer == "resource" else {})),
    )
    assert [name for _, name in violated_rules(planned)] == (["locked"] if rejected else [])


@pytest.mark.parametrize("requested", ["60%", "100%", None])
def test_a_limit_on_gpu_shares_applies_to_whole_gpus(requested: str | None) -> None:
    policy = make_policy(rules={"resources.gpu.memory": {"max": "50%"}})
    gpu: Any = 1 if requested is None else {"memory": requested}
    planned = plan({"resources": {"gpu": gpu}}, policy, make_cluster(gpu_sharing="kai"))
    assert ("resources.gpu.memory.request", "max") in violated_rules(planned)


def test_the_hint_for_a_violation_of_a_compute_resource_is_to_choose_another() -> None:
    policy = make_policy(rules={"resources.mem": {"max": "1Gi"}})
    planned = plan({"profile": "big"}, policy, make_compute_resource(resources={"mem": "2Gi"}))
    assert planned.violations[0].hint == "choose another compute resource, or ask an administrator"
