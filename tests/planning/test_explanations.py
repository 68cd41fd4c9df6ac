"""A plan as text for people and as JSON for programs."""

import json
from typing import Any

from fairlead.model import explanations
from fairlead.model.plans import Violation
from tests.making import PYTHON, make_compute_resource, make_policy, plan

RESOURCE = make_compute_resource(
    "1xa100", revision=3, scope="department/vision", resources={"gpu": 1, "mem": {"requests": "64Gi", "limits": "80Gi"}}
)
POLICY = make_policy(defaults={"resources": {"cpu": 2}, "fs_group": 5}, limit_factor={"cpu": 2})
REQUESTED = {"profile": "1xa100", "resources": {"mem": "6Gi"}, "envs": {"HF_HOME": "/data", "EMPTY": ""}}


def lines_about(text: str, path: str) -> list[str]:
    """A setting's line and the notes below it."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.split()[:1] == [path])
    rest = lines[start + 1 :]
    notes = next((index for index, line in enumerate(rest) if not line.startswith("      ")), len(rest))
    return lines[start : start + 1 + notes]


def find(data: dict[str, Any], path: str) -> dict[str, Any]:
    """The setting at a path, as JSON."""
    [setting] = [item for item in data["settings"] if item["path"] == path]
    return dict(setting)


def test_text_contains_the_source_of_each_value_and_overridden_values() -> None:
    text = explanations.explain(plan(REQUESTED, RESOURCE, POLICY), "The title")
    assert text.startswith("The title")
    memory = " ".join(lines_about(text, "resources.mem.requests"))
    assert "64Gi" in memory
    assert "compute resource 1xa100" in memory
    assert "6Gi (request)" in memory
    cpu = " ".join(lines_about(text, "resources.cpu.limits"))
    assert "4" in cpu.split()
    assert "platform policy" in cpu
    assert "2x request" in cpu
    assert "request" in " ".join(lines_about(text, "envs.HF_HOME"))
    assert '""' in " ".join(lines_about(text, "envs.EMPTY"))


def test_text_contains_every_setting_and_every_warning_with_its_hint() -> None:
    planned = plan(REQUESTED, RESOURCE, POLICY)
    text = explanations.explain(planned, "title")
    assert all(setting.path in text for setting in planned.settings)
    assert planned.warnings
    for warning in planned.warnings:
        assert warning.message in text
        assert f"-> {warning.hint}" in text


def test_no_line_of_the_text_ends_in_spaces() -> None:
    text = explanations.explain(plan(REQUESTED, RESOURCE, POLICY), "title")
    assert all(line == line.rstrip() for line in text.splitlines())


def test_platform_defaults_are_listed_separately() -> None:
    before, _, after = explanations.explain(plan(), "title").partition("et by the platform")
    assert "security.run_as_non_root" in after
    assert "security.run_as_non_root" not in before
    assert "function.image" in before


def test_a_long_value_is_shortened_in_text_but_not_in_json() -> None:
    long = "x" * 500
    planned = plan({"envs": {"LONG": long}})
    assert long not in explanations.explain(planned, "title")
    assert find(explanations.to_data(planned), "envs.LONG")["value"] == long


def test_a_violation_is_formatted_as_message_and_hint() -> None:
    violation = Violation("resources.gpu", "max", "asks for 9", "set it to 2", location="a.yaml")
    message, hint = explanations.format_finding(violation)
    assert message == "a.yaml: resources.gpu: asks for 9"
    assert hint.endswith("-> set it to 2")
    assert len(explanations.format_finding(Violation("", "yaml", "is empty"))) == 1


def test_the_json_of_a_plan_has_the_shape_of_the_api() -> None:
    data = explanations.to_data(plan(REQUESTED, RESOURCE, POLICY))
    assert list(data) == ["settings", "warnings", "violations", "manifests", "fit"]
    memory = find(data, "resources.mem.requests")
    owner = {"layer": "compute_resource", "name": "1xa100", "scope": "department/vision", "revision": 3}
    user = {"layer": "user", "name": None, "scope": None, "revision": None}
    assert {key: memory[key] for key in ("path", "value", "source", "overridden")} == {
        "path": "resources.mem.requests",
        "value": "64Gi",
        "source": owner,
        "overridden": [{"value": "6Gi", "source": user}],
    }
    [warning] = data["warnings"]
    assert {"path", "message"} <= warning.keys()
    assert warning["requested"] == {"value": "6Gi", "source": user}
    assert data["violations"] == []
    assert [manifest["kind"] for manifest in data["manifests"]] == ["Job"]
    assert {"verdict", "nodes", "reasons", "suggestions"} <= data["fit"].keys()
    assert data["fit"]["verdict"] == "unknown"


def test_violations_in_json_contain_path_rule_message_and_source() -> None:
    data = explanations.to_data(plan({"resources": {"gpu": 9}}, make_policy(rules={"resources.gpu": {"max": 2}})))
    [violation] = data["violations"]
    assert violation["path"] == "resources.gpu.devices"
    assert violation["rule"] == "max"
    assert "9" in violation["message"]
    assert violation["hint"]
    assert violation["source"] == {"layer": "policy", "name": None, "scope": "platform", "revision": None}
    assert data["manifests"] == []


def test_amounts_shares_and_unlimited_are_strings_and_missing_values_null() -> None:
    policy = make_policy(switches={"gpu_memory_limits": True})
    requested = {
        "resources": {
            "cpu": {"requests": "0.5", "limits": "unlimited"},
            "mem": "1024Mi",
            "shm": True,
            "gpu": {"memory": {"request": "50%", "limit": "60%"}},
        }
    }
    data = explanations.to_data(plan(requested, policy))
    assert find(data, "resources.cpu.requests")["value"] == "500m"
    assert find(data, "resources.cpu.limits")["value"] == "unlimited"
    assert find(data, "resources.mem.requests")["value"] == "1Gi"
    assert find(data, "resources.mem.limits")["value"] is None
    assert find(data, "resources.shm")["value"] is True
    assert find(data, "resources.gpu.memory.request")["value"] == "50%"


def test_the_data_of_a_plan_can_be_serialized_as_json() -> None:
    term = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    requested = {"function": PYTHON, "affinity": affinity, "tolerations": [{"operator": "Exists"}], "secrets": ["A"]}
    for planned in (
        plan(requested),
        plan({**requested, "profile": "1xa100"}, RESOURCE, POLICY),
        plan({"profile": "gone"}),
    ):
        data = explanations.to_data(planned)
        assert json.loads(json.dumps(data)) == data


def test_combined_values_are_shown_with_all_their_sources() -> None:
    def require_label(key: str) -> dict[str, Any]:
        terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}

    planned = plan(
        {"profile": "big", "affinity": require_label("a")}, make_compute_resource(affinity=require_label("b"))
    )
    path = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    combined = find(explanations.to_data(planned), path)["combined"]
    assert [value["source"]["layer"] for value in combined] == ["user", "compute_resource"]
    text = explanations.explain(planned, "title")
    assert "request" in text
    assert "compute resource big" in text
