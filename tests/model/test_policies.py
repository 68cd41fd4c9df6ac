"""Policies: rules by path, with values of the right type."""

from typing import Any

import pytest

from fairlead.model.assets import Policy
from fairlead.model.quantities import Duration, GpuMemory, Percent, Quantity
from tests.making import find_violations, make_policy, violated_rules

VALUES: list[tuple[str, Any, Any]] = [
    ("resources.cpu", "500m", Quantity.parse("500m")),
    ("resources.cpu.requests", 2, Quantity.of(2)),
    ("resources.cpu.limits", 2.5, Quantity.parse("2.5")),
    ("resources.mem", "1Gi", Quantity.of(2**30)),
    ("resources.mem.limits", "128Gi", Quantity.of(2**37)),
    ("resources.disk", "1G", Quantity.of(10**9)),
    ("resources.shm", "1Gi", Quantity.of(2**30)),
    ("resources.gpu", "2", 2),
    ("resources.gpu.devices", 2, 2),
    ("resources.gpu.memory", "50%", Percent(50)),
    ("resources.gpu.memory.request", "10GB", GpuMemory.of(10**10)),
    ("resources.gpu.memory.limit", "50%", Percent(50)),
    ("resources.extended.vendor.example/nic", 4, Quantity.of(4)),
    ("resources.extended.*", 4, Quantity.of(4)),
    ("volumes.*.spec.size", "1Ti", Quantity.of(2**40)),
    ("volumes.data.spec.size", "1Ti", Quantity.of(2**40)),
    ("fs_group", "1000", 1000),
    ("run_as_user", 1000, 1000),
    ("run_as_group", 1000, 1000),
    ("replicas", 3, 3),
    ("deadline", "2h", Duration(7200)),
]

OPTIONS: list[tuple[str, list[Any]]] = [
    ("priority_class", ["low", "high"]),
    ("runtime_class", ["nvidia"]),
    ("profile", ["1xa100"]),
    ("template", ["finetune"]),
    ("action", ["job"]),
    ("function.kind", ["python"]),
    ("function.image", ["a:1"]),
    ("resources.gpu.type", ["A100"]),
    ("resources.gpu.mig", ["1g.5gb"]),
    ("node_selector.zone", ["a", "b"]),
    ("node_selector.nvidia.com/gpu.product", ["A100"]),
    ("node_selector.*", ["a"]),
    ("envs.MODE", ["x"]),
    ("volumes.*.volume_type", ["empty_dir"]),
    ("volumes.*.read_only", [True]),
    ("volumes.*.spec.storage_class", ["fast"]),
]

SECTIONS = [
    "resources",
    "resources.cpu",
    "resources.gpu",
    "resources.gpu.memory",
    "resources.extended",
    "node_selector",
    "tolerations",
    "affinity",
    "volumes",
    "volumes.*",
    "volumes.data",
    "secrets",
    "secrets.HF_TOKEN",
    "envs",
    "envs.HF_HOME",
]

INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({"resources.gpus": {"max": 1}}, "resources.gpus", "unknown_field"),
    ({"cpu": {"max": 1}}, "cpu", "unknown_field"),
    ({"": {"max": 1}}, "", "unknown_field"),
    ({"volumes.data.size": {"max": "1Gi"}}, "volumes.data.size", "unknown_field"),
    ({"resources.cpu": {"max": "a lot"}}, "resources.cpu.max", "quantity"),
    ({"resources.cpu": {"min": -1}}, "resources.cpu.min", "range"),
    ({"resources.gpu": {"max": 0.5}}, "resources.gpu.max", "whole_number"),
    ({"resources.mem": {"max": "100m"}}, "resources.mem.max", "precision"),
    ({"resources.gpu.memory": {"max": 50}}, "resources.gpu.memory.max", "unit"),
    ({"resources.extended.*": {"max": 1.5}}, "resources.extended.*.max", "whole_number"),
    ({"run_as_user": {"min": "root"}}, "run_as_user.min", "whole_number"),
    ({"deadline": {"max": "soon"}}, "deadline.max", "duration"),
    ({"priority_class": {"max": "high"}}, "priority_class", "rule"),
    ({"volumes": {"options": ["a"]}}, "volumes.options", "rule"),
    ({"affinity": {"min": 1}}, "affinity", "rule"),
    ({"priority_class": {"options": []}}, "priority_class.options", "required"),
    ({"priority_class": {"options": [5]}}, "priority_class.options.0", "text"),
    ({"volumes.*.read_only": {"options": ["yes"]}}, "volumes.*.read_only.options.0", "type"),
    ({"resources.gpu.mig": {"options": ["1g.5gb", "x"]}}, "resources.gpu.mig.options.1", "mig_profile"),
    ({"resources.cpu": {"min": 2, "max": 1}}, "resources.cpu.min", "range"),
    ({"resources.cpu": {"required": "yes"}}, "resources.cpu.required", "type"),
    ({"resources.cpu": {"most": 1}}, "resources.cpu.most", "unknown_field"),
]


@pytest.mark.parametrize(("path", "raw", "value"), VALUES)
def test_rule_values_have_the_type_of_the_path(path: str, raw: Any, value: Any) -> None:
    rule = make_policy(rules={path: {"min": raw, "max": raw, "options": [raw]}}).rules[path]
    assert (rule.min, rule.max, rule.options) == (value, value, (value,))
    assert type(rule.max) is type(value)


@pytest.mark.parametrize(("path", "options"), OPTIONS)
def test_values_without_an_order_can_have_options(path: str, options: list[Any]) -> None:
    assert make_policy(rules={path: {"options": options}}).rules[path].options == tuple(options)


@pytest.mark.parametrize("path", SECTIONS)
def test_sections_can_be_required_and_locked(path: str) -> None:
    rule = make_policy(rules={path: {"required": True, "locked": True}}).rules[path]
    assert rule.required
    assert rule.locked


@pytest.mark.parametrize(("rules", "path", "rule"), INVALID)
def test_invalid_rules_are_rejected(rules: dict[str, Any], path: str, rule: str) -> None:
    assert violated_rules(find_violations(Policy, {"rules": rules})) == [(f"rules.{path}".rstrip("."), rule)]


def test_all_invalid_rules_are_reported_together() -> None:
    violations = find_violations(
        Policy, {"rules": {"cpu": {"max": 1}, "resources.mem": {"max": "x"}, "fs_group": {"min": "y"}}}
    )
    assert violated_rules(violations) == [
        ("rules.cpu", "unknown_field"),
        ("rules.resources.mem.max", "quantity"),
        ("rules.fs_group.min", "whole_number"),
    ]


def test_an_unknown_path_names_the_nearest_known_one() -> None:
    [violation] = find_violations(Policy, {"rules": {"resource.cpu": {"max": 1}}})
    assert "resources.cpu" in str(violation.hint)


@pytest.mark.parametrize("factor", [1, 1.1, "1.1", 2.5, 1000])
def test_a_limit_factor_is_at_least_one(factor: Any) -> None:
    assert make_policy(limit_factor={"mem": factor}).limit_factor.mem is not None


@pytest.mark.parametrize(
    "factor",
    [0, 0.9, -1, 1001, "a", "", True, [1], "1/0", "3/0", "1e999999999", "٣", "nan", "inf", float("nan")],
)
def test_invalid_limit_factors_are_rejected(factor: Any) -> None:
    assert violated_rules(find_violations(Policy, {"limit_factor": {"mem": factor}})) == [("limit_factor.mem", "range")]


@pytest.mark.parametrize(("weight", "value"), [(1, 1), (0.5, 0.5), ("2.5", 2.5), (0.001, 0.001), (1000, 1000)])
def test_weights_are_numbers_up_to_a_thousand(weight: Any, value: float) -> None:
    policy = make_policy(queue={"weight": weight})
    assert policy.to_data() == {"queue": {"weight": value}}


@pytest.mark.parametrize(
    ("queue", "path", "rule"),
    [
        *(
            ({"weight": weight}, "queue.weight", "range")
            for weight in (0, -1, 1000.5, 0.0005, "much", True, float("inf"), "1e3", [2])
        ),
        ({"weight": None}, "queue.weight", "required"),
        ({"max_waiting_runs": 0}, "queue.max_waiting_runs", "range"),
        ({"max_waiting_runs": 2**31}, "queue.max_waiting_runs", "range"),
        ({"max_waiting_runs": 1.5}, "queue.max_waiting_runs", "whole_number"),
        ({"max_waiting_runs": None}, "queue.max_waiting_runs", "required"),
        ({"max_runs": 5}, "queue.max_runs", "unknown_field"),
    ],
)
def test_invalid_queue_policies_are_rejected(queue: dict[str, Any], path: str, rule: str) -> None:
    assert violated_rules(find_violations(Policy, {"queue": queue})) == [(path, rule)]


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"limit_factor": {"mem": None}}, "limit_factor.mem"),
        ({"rules": {"resources.gpu": {"max": None}}}, "rules.resources.gpu.max"),
        ({"switches": {"existing_volumes": None}}, "switches.existing_volumes"),
        ({"quota": {"gpu": None}}, "quota.gpu"),
    ],
)
def test_null_is_not_a_valid_limit(data: dict[str, Any], path: str) -> None:
    assert violated_rules(find_violations(Policy, data)) == [(path, "required")]


@pytest.mark.parametrize(
    ("data", "path", "rule"),
    [
        ({"limit_factor": {"gpu": 2}}, "limit_factor.gpu", "unknown_field"),
        ({"switches": {"allow_rot": True}}, "switches.allow_rot", "unknown_field"),
        ({"switches": {"allow_root": "yes"}}, "switches.allow_root", "type"),
        ({"switches": {"existing_volumes": "maybe"}}, "switches.existing_volumes", "options"),
        ({"switches": {"never_fits": "allow"}}, "switches.never_fits", "options"),
        ({"switches": {"storage_classes": ["A B"]}}, "switches.storage_classes.0", "name"),
        ({"quota": {"gpu": 1.5}}, "quota.gpu", "whole_number"),
        ({"quota": {"mem": "x"}}, "quota.mem", "quantity"),
        ({"defaults": {"template": "a"}}, "defaults.template", "reference"),
        ({"defaults": {"cpu": 1}}, "defaults.cpu", "unknown_field"),
        ({"scope": "everywhere"}, "scope", "scope"),
    ],
)
def test_invalid_policies_are_rejected(data: dict[str, Any], path: str, rule: str) -> None:
    assert violated_rules(find_violations(Policy, data)) == [(path, rule)]
