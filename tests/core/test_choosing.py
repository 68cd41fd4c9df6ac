"""Selection of the compute resource and template, and unknown names."""

from typing import Any

import pytest

from tests.making import SERVED, broken, make_compute_resource, make_policy, make_template, plan, setting, value, warned

CHOICES: list[tuple[dict[str, str], str, str]] = [
    ({}, "absent", ""),
    ({"platform": "a"}, "a", "platform default"),
    ({"platform": "a", "policy": "b"}, "b", "platform policy"),
    ({"policy": "a", "nearer": "b"}, "b", "project/forest policy"),
    ({"policy": "a"}, "a", "platform policy"),
    ({"nearer": "a", "template": "b"}, "b", "template start"),
    ({"template": "a", "user": "b"}, "b", "request"),
    ({"platform": "a", "policy": "b", "nearer": "c", "template": "d", "user": "e"}, "e", "request"),
]


@pytest.mark.parametrize(("layers", "chosen", "source"), CHOICES)
def test_a_compute_resource_is_the_users_the_templates_the_nearest_policys_or_the_platforms(
    layers: dict[str, str], chosen: str, source: str
) -> None:
    said = {name: {"profile": profile} for name, profile in layers.items()}
    planned = plan(
        {"template": "start", **said.get("user", {})},
        make_policy(defaults=said.get("policy", {})),
        make_policy("project/forest", defaults=said.get("nearer", {})),
        make_template(**said.get("template", {})),
        *(make_compute_resource(name, envs={"CHOSEN": name}) for name in "abcde"),
        platform=said.get("platform"),
    )
    assert value(planned, "profile") == chosen
    assert value(planned, "envs.CHOSEN") == chosen
    if source:
        assert str(setting(planned, "profile").source) == source
        assert str(setting(planned, "envs.CHOSEN").source) == f"compute resource {chosen}"


def test_the_revision_and_scope_of_what_was_chosen_are_remembered() -> None:
    resource = make_compute_resource(revision=7, scope="department/vision", resources={"cpu": 1})
    source = setting(plan({"profile": "big"}, resource), "resources.cpu.requests").source
    assert (source.name, source.scope, source.revision) == ("big", "department/vision", 7)


def test_the_compute_resource_of_a_template_is_overruled_with_a_warning() -> None:
    planned = plan(
        {"template": "start", "profile": "b"},
        make_template(profile="a"),
        make_compute_resource("a"),
        make_compute_resource("b"),
    )
    assert warned(planned) == [("profile", "overridden")]


@pytest.mark.parametrize(
    ("asked", "path", "rule", "hint"),
    [
        ({"profile": "bg"}, "profile", "unknown_profile", "big"),
        ({"template": "strat"}, "template", "unknown_template", "start"),
        ({"profile": "zzzzz"}, "profile", "unknown_profile", "big"),
    ],
)
def test_an_unknown_name_is_a_violation_that_lists_the_nearest_names(
    asked: dict[str, Any], path: str, rule: str, hint: str
) -> None:
    planned = plan(asked, make_compute_resource(), make_template())
    assert broken(planned) == [(path, rule)]
    assert hint in str(planned.violations[0].hint)
    assert planned.manifests == ()


def test_an_unknown_name_where_there_are_none_says_so() -> None:
    planned = plan({"profile": "big"})
    assert broken(planned) == [("profile", "unknown_profile")]
    assert "there are none yet" in str(planned.violations[0].hint)


def test_nothing_falls_back_from_an_unknown_name() -> None:
    planned = plan({"profile": "c"}, make_policy(defaults={"profile": "a"}), make_compute_resource("a", fs_group=5))
    assert broken(planned) == [("profile", "unknown_profile")]
    assert value(planned, "fs_group") == 1000


@pytest.mark.parametrize("layer", ["policy", "template", "platform"])
def test_an_unknown_compute_resource_of_any_layer_is_a_violation_with_its_source(layer: str) -> None:
    named = {"profile": "gone"}
    planned = plan(
        {"template": "start"},
        make_policy(defaults=named if layer == "policy" else {}),
        make_template(**(named if layer == "template" else {})),
        platform=named if layer == "platform" else None,
    )
    assert broken(planned) == [("profile", "unknown_profile")]
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
def test_a_compute_resource_is_for_its_kinds_of_workload(action: str, types: list[str] | None, allowed: bool) -> None:
    resource = make_compute_resource(workload_types=types)
    planned = plan({"action": action, "profile": "big", "function": SERVED}, resource)
    assert broken(planned) == ([] if allowed else [("profile", "workload_types")])


def test_templates_are_a_starting_point_that_users_may_change() -> None:
    planned = plan(
        {"template": "start", "resources": {"disk": "1Gi"}}, make_template(resources={"disk": "50Gi", "cpu": 1})
    )
    assert value(planned, "resources.disk.requests") == "1Gi"
    assert value(planned, "resources.cpu.requests") == "1"
    assert value(planned, "template") == "start"
