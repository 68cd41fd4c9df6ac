"""Selecting the compute resource and template, and unknown names."""

from typing import Any

import pytest

from tests.making import (
    SERVED,
    make_compute_resource,
    make_policy,
    make_template,
    plan,
    setting,
    value,
    violated_rules,
    warning_rules,
)

CHOICES: list[tuple[dict[str, str], str, str]] = [
    ({}, "absent", ""),
    ({"platform": "a"}, "a", "platform default"),
    ({"platform": "a", "policy": "b"}, "b", "platform policy"),
    ({"policy": "a", "project_policy": "b"}, "b", "project/forest policy"),
    ({"policy": "a"}, "a", "platform policy"),
    ({"project_policy": "a", "template": "b"}, "b", "template start"),
    ({"template": "a", "user": "b"}, "b", "request"),
    ({"platform": "a", "policy": "b", "project_policy": "c", "template": "d", "user": "e"}, "e", "request"),
]


@pytest.mark.parametrize(("layers", "chosen", "source"), CHOICES)
def test_user_template_policy_and_platform_choose_the_compute_resource_in_that_order(
    layers: dict[str, str], chosen: str, source: str
) -> None:
    values = {name: {"profile": profile} for name, profile in layers.items()}
    planned = plan(
        {"template": "start", **values.get("user", {})},
        make_policy(defaults=values.get("policy", {})),
        make_policy("project/forest", defaults=values.get("project_policy", {})),
        make_template(**values.get("template", {})),
        *(make_compute_resource(name, envs={"CHOSEN": name}) for name in "abcde"),
        platform=values.get("platform"),
    )
    assert value(planned, "profile") == chosen
    assert value(planned, "envs.CHOSEN") == chosen
    if source:
        assert str(setting(planned, "profile").source) == source
        assert str(setting(planned, "envs.CHOSEN").source) == f"compute resource {chosen}"


def test_the_source_contains_revision_and_scope_of_the_compute_resource() -> None:
    resource = make_compute_resource(revision=7, scope="department/vision", resources={"cpu": 1})
    source = setting(plan({"profile": "big"}, resource), "resources.cpu.requests").source
    assert (source.name, source.scope, source.revision) == ("big", "department/vision", 7)


def test_overriding_the_compute_resource_of_a_template_is_a_warning() -> None:
    planned = plan(
        {"template": "start", "profile": "b"},
        make_template(profile="a"),
        make_compute_resource("a"),
        make_compute_resource("b"),
    )
    assert warning_rules(planned) == [("profile", "overridden")]


@pytest.mark.parametrize(
    ("requested", "path", "rule", "hint"),
    [
        ({"profile": "bg"}, "profile", "unknown_profile", "big"),
        ({"template": "strat"}, "template", "unknown_template", "start"),
        ({"profile": "zzzzz"}, "profile", "unknown_profile", "big"),
    ],
)
def test_an_unknown_name_is_a_violation_that_lists_the_nearest_names(
    requested: dict[str, Any], path: str, rule: str, hint: str
) -> None:
    planned = plan(requested, make_compute_resource(), make_template())
    assert violated_rules(planned) == [(path, rule)]
    assert hint in str(planned.violations[0].hint)
    assert planned.manifests == ()


def test_the_hint_mentions_that_no_compute_resources_exist() -> None:
    planned = plan({"profile": "big"})
    assert violated_rules(planned) == [("profile", "unknown_profile")]
    assert "there are none yet" in str(planned.violations[0].hint)


def test_an_unknown_name_does_not_fall_back_to_a_default() -> None:
    planned = plan({"profile": "c"}, make_policy(defaults={"profile": "a"}), make_compute_resource("a", fs_group=5))
    assert violated_rules(planned) == [("profile", "unknown_profile")]
    assert value(planned, "fs_group") == 1000


@pytest.mark.parametrize("layer", ["policy", "template", "platform"])
def test_an_unknown_compute_resource_of_any_layer_is_a_violation_with_its_source(layer: str) -> None:
    values = {"profile": "gone"}
    planned = plan(
        {"template": "start"},
        make_policy(defaults=values if layer == "policy" else {}),
        make_template(**(values if layer == "template" else {})),
        platform=values if layer == "platform" else None,
    )
    assert violated_rules(planned) == [("profile", "unknown_profile")]
    assert planned.violations[0].source is not None
    assert planned.violations[0].source.layer == layer


@pytest.mark.parametrize(
    ("action", "types", "allowed"),
    [
        ("job", None, True),
        ("job", ["training"], True),
        ("job", ["workspace", "inference"], False),
        ("serve", ["inference"], True),
        ("serve", ["training"], False),
        ("workspace", ["workspace", "training"], True),
        ("workspace", ["training"], False),
    ],
)
def test_a_compute_resource_accepts_only_its_workload_types(
    action: str, types: list[str] | None, allowed: bool
) -> None:
    resource = make_compute_resource(workload_types=types)
    planned = plan({"action": action, "profile": "big", "function": SERVED}, resource)
    assert violated_rules(planned) == ([] if allowed else [("profile", "workload_types")])


def test_users_may_override_values_of_a_template() -> None:
    planned = plan(
        {"template": "start", "resources": {"disk": "1Gi"}}, make_template(resources={"disk": "50Gi", "cpu": 1})
    )
    assert value(planned, "resources.disk.requests") == "1Gi"
    assert value(planned, "resources.cpu.requests") == "1"
    assert value(planned, "template") == "start"
