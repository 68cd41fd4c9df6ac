"""Parsing requests, functions, compute resources and templates."""

from typing import Any

import pytest

from fairlead.model.assets import ComputeResource, Template
from fairlead.model.requests import RunRequest
from tests.making import CONTAINER, find_violations, make_compute_resource, make_request, make_template, violated_rules

INVALID: list[tuple[Any, str, str]] = [
    (None, "", "mapping"),
    ([], "", "mapping"),
    ("train", "", "mapping"),
    ({}, "function", "required"),
    ({"function": ""}, "function.name", "name"),
    ({"function": "a b"}, "function.name", "name"),
    ({"function": {"name": 5}}, "function.name", "text"),
    ({"function": "a" * 129}, "function.name", "too_long"),
    ({"function": {"name": "a", "kind": "spark"}}, "function.kind", "options"),
    ({"function": {"name": "a", "kind": "container"}}, "function.image", "required"),
    ({"function": {**CONTAINER, "handler": "main"}}, "function.handler", "contradiction"),
    ({"function": {**CONTAINER, "source": "a.py"}}, "function.source", "contradiction"),
    ({"function": {**CONTAINER, "image": ""}}, "function.image", "image"),
    ({"function": {**CONTAINER, "image": "a b"}}, "function.image", "image"),
    ({"function": {**CONTAINER, "pull_policy": "Sometimes"}}, "function.pull_policy", "options"),
    ({"function": {**CONTAINER, "pull_secrets": "REGISTRY"}}, "function.pull_secrets", "list"),
    ({"function": {**CONTAINER, "pull_secrets": ["a b"]}}, "function.pull_secrets.0", "name"),
    ({"function": {**CONTAINER, "port": 0}}, "function.port", "range"),
    ({"function": {**CONTAINER, "port": 65536}}, "function.port", "range"),
    ({"function": {**CONTAINER, "command": "a 'b"}}, "function.command", "command"),
    ({"function": {**CONTAINER, "args": {"a": 1}}}, "function.args", "list"),
    ({"function": "a", "args": [True]}, "args.0", "text"),
    ({"function": "a", "action": "build"}, "action", "options"),
    ({"function": "a", "replicas": 0}, "replicas", "range"),
    ({"function": "a", "replicas": 10_001}, "replicas", "range"),
    ({"function": "a", "replicas": 1.5}, "replicas", "whole_number"),
    ({"function": "a", "deadline": 0}, "deadline", "range"),
    ({"function": "a", "deadline": "soon"}, "deadline", "duration"),
    ({"function": "a", "deadline": "1h1x"}, "deadline", "duration"),
    ({"function": "a", "strict": "yes"}, "strict", "type"),
    ({"function": "a", "retries": 21}, "retries", "range"),
    ({"function": "a", "on_oom": {"grow": 1}}, "on_oom.grow", "range"),
    ({"function": "a", "schedule": {}}, "schedule.cron", "required"),
    ({"function": "a", "priority": 101}, "priority", "range"),
    ({"function": "a", "plan_token": "x" * 201}, "plan_token", "too_long"),
    ({"function": "a", "replica": 5}, "replica", "unknown_field"),
    ({"function": "a", "": 5}, "''", "unknown_field"),
]


@pytest.mark.parametrize(("data", "path", "rule"), INVALID)
def test_invalid_requests_are_rejected(data: Any, path: str, rule: str) -> None:
    assert violated_rules(find_violations(RunRequest, data)) == [(path, rule)]


def test_a_request_needs_only_the_name_of_a_function() -> None:
    request = RunRequest.model_validate({"function": "train"})
    assert (request.function.name, request.function.kind) == ("train", "python")
    assert (request.action, request.replicas, request.strict) == ("job", 1, False)


@pytest.mark.parametrize(
    ("raw", "seconds"), [(90, 90), ("90", 90), ("90s", 90), ("90m", 5400), ("2h", 7200), ("1d12h", 129600)]
)
def test_a_deadline_is_a_number_of_seconds_or_a_text(raw: Any, seconds: int) -> None:
    assert make_request(deadline=raw).deadline == seconds


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("a 'b c' d", ("a", "b c", "d")),
        (["a", "b c"], ("a", "b c")),
        (["--epochs", 3, 0.5], ("--epochs", "3", "0.5")),
        ("", ()),
        ([], ()),
    ],
)
def test_arguments_are_a_string_or_a_list(raw: Any, expected: tuple[str, ...]) -> None:
    assert make_request(args=raw).args == expected


@pytest.mark.parametrize("inputs", [{}, {"a": [1, 2.5, None, {"b": True}]}, {"text": "é$(HOME)"}])
def test_inputs_may_be_any_json_value(inputs: dict[str, Any]) -> None:
    assert make_request(inputs=inputs).inputs == inputs


@pytest.mark.parametrize(
    "inputs",
    [
        {"a": {1, 2}},
        {"a": object()},
        {"a": b"bytes"},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": [{"b": 5j}]},
        {"a": {(1, 2): 3}},
        {5: "a"},
        [1],
        "a",
    ],
)
def test_inputs_that_are_not_json_are_rejected(inputs: Any) -> None:
    violations = find_violations(RunRequest, {"function": "a", "inputs": inputs})
    assert {path.partition(".")[0] for path, _ in violated_rules(violations)} == {"inputs"}


def test_recursive_inputs_are_rejected() -> None:
    recursive: list[Any] = []
    recursive.append(recursive)
    assert {
        path.partition(".")[0]
        for path, _ in violated_rules(find_violations(RunRequest, {"function": "a", "inputs": {"a": recursive}}))
    }


def test_too_deeply_nested_inputs_are_rejected() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert find_violations(RunRequest, {"function": "a", "inputs": {"a": deep}})


@pytest.mark.parametrize("types", [None, ["training"], ["training", "workspace", "inference"]])
def test_a_compute_resource_may_have_workload_types(types: list[str] | None) -> None:
    resource = make_compute_resource(workload_types=types)
    assert resource.workload_types == (None if types is None else tuple(types))


@pytest.mark.parametrize(
    ("change", "path", "rule"),
    [
        ({"workload_types": []}, "workload_types", "required"),
        ({"workload_types": ["batch"]}, "workload_types.0", "options"),
        ({"requirements": {"profile": "a"}}, "requirements.profile", "reference"),
        ({"requirements": {"template": "a"}}, "requirements.template", "reference"),
        ({"requirements": {"resources": {"cpu": "x"}}}, "requirements.resources.cpu.requests", "quantity"),
        ({"name": "a b"}, "name", "name"),
        ({"description": "a" * 1001}, "description", "too_long"),
        ({"scope": "here"}, "scope", "scope"),
        ({"resources": {"cpu": 1}}, "resources", "unknown_field"),
    ],
)
def test_invalid_compute_resources_are_rejected(change: dict[str, Any], path: str, rule: str) -> None:
    assert violated_rules(find_violations(ComputeResource, {"name": "a", **change})) == [(path, rule)]


def test_a_template_may_reference_a_compute_resource_but_no_template() -> None:
    assert make_template(profile="big").requirements.profile == "big"
    violations = find_violations(Template, {"name": "a", "requirements": {"template": "b"}})
    assert violated_rules(violations) == [("requirements.template", "reference")]


@pytest.mark.parametrize("name", ["1xa100", "A.b_c-d", "a" * 63])
def test_names_of_compute_resources_are_valid_labels(name: str) -> None:
    assert make_compute_resource(name).name == name


def test_pull_settings_round_trip() -> None:
    function = {**CONTAINER, "pull_policy": "IfNotPresent", "pull_secrets": ["REGISTRY", "OTHER"]}
    request = make_request(function=function)
    assert request.to_data()["function"] == function
    assert RunRequest.model_validate(request.to_data()).function == request.function
