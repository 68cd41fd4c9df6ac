"""The memory cap for OOM retries: as requested, or lowered by rules and quotas with a warning."""

from typing import Any

import pytest

from tests.making import (
    PYTHON,
    make_cluster,
    make_compute_resource,
    make_policy,
    overridden_values,
    plan,
    setting,
    value,
    violated_rules,
    warning_rules,
)

REQUESTED: dict[str, Any] = {"resources": {"mem": {"requests": "4Gi", "limits": "8Gi"}}, "on_oom": {"max": "64Gi"}}
LOCKED = make_policy(defaults={"resources": {"mem": "4Gi"}}, rules={"resources.mem": {"locked": True}})


def test_the_requested_cap_is_used_if_nothing_limits_it() -> None:
    planned = plan(REQUESTED)
    assert (value(planned, "on_oom.grow"), value(planned, "on_oom.max")) == (1.5, "64Gi")
    assert planned.warnings == ()
    assert value(plan({**REQUESTED, "on_oom": {}}), "on_oom.max") == "absent"


@pytest.mark.parametrize(
    ("policy_fields", "allowed"),
    [
        ({"rules": {"resources.mem.limits": {"max": "32Gi"}}}, "32Gi"),
        ({"rules": {"resources.mem.requests": {"max": "6Gi"}}}, "12Gi"),
        ({"rules": {"resources.mem": {"max": "6Gi"}}}, "12Gi"),
        ({"rules": {"resources.mem.requests": {"max": "6Gi"}, "resources.mem.limits": {"max": "10Gi"}}}, "10Gi"),
        ({"rules": {"resources.mem.requests": {"options": ["4Gi", "16Gi"]}}}, "8Gi"),
        ({"rules": {"resources.mem.limits": {"options": ["8Gi", "16Gi"]}}}, "8Gi"),
        ({"quota": {"mem": "20Gi"}}, "40Gi"),
    ],
)
def test_a_policy_lowers_the_cap_with_a_warning(policy_fields: dict[str, Any], allowed: str) -> None:
    planned = plan(REQUESTED, make_policy("department/vision", **policy_fields))
    cap = setting(planned, "on_oom.max")
    assert (value(planned, "on_oom.max"), str(cap.source)) == (allowed, "department/vision policy")
    assert overridden_values(planned, "on_oom.max") == [("64Gi", "request")]
    warnings = [warning for warning in planned.warnings if warning.path == "on_oom.max"]
    message = f"the request sets 64Gi; the department/vision policy allows at most {allowed}"
    assert [(warning.message, warning.hint) for warning in warnings] == [(message, f"request {allowed}, or remove it")]


def test_a_missing_cap_is_set_by_the_policy_without_a_warning() -> None:
    planned = plan({**REQUESTED, "on_oom": {}}, make_policy(rules={"resources.mem.limits": {"max": "32Gi"}}))
    assert (value(planned, "on_oom.max"), planned.warnings) == ("32Gi", ())
    assert setting(planned, "on_oom.max").reason == "limited by the platform policy"


def test_a_cap_below_the_policy_limit_is_kept() -> None:
    planned = plan(REQUESTED, make_policy(rules={"resources.mem.limits": {"max": "128Gi"}}))
    assert (value(planned, "on_oom.max"), planned.warnings) == ("64Gi", ())


def test_strict_rejects_a_lowered_cap() -> None:
    planned = plan({**REQUESTED, "strict": True}, make_policy(rules={"resources.mem.limits": {"max": "32Gi"}}))
    assert violated_rules(planned) == [("on_oom.max", "strict")]


def test_rules_on_the_cap_reject_larger_values_and_set_missing_ones() -> None:
    policy = make_policy(rules={"on_oom.max": {"max": "32Gi"}, "on_oom.grow": {"max": 1.25}})
    planned = plan(REQUESTED, policy)
    assert violated_rules(planned) == [("on_oom.grow", "max"), ("on_oom.max", "max")]
    hints = [violation.hint for violation in planned.violations]
    assert hints == ["set on_oom.grow to 1.25 or less", "set on_oom.max to 32Gi or less"]
    assert value(plan({**REQUESTED, "on_oom": {"grow": 1.2}}, policy), "on_oom.max") == "32Gi"


def test_a_policy_with_growth_rules_round_trips() -> None:
    policy = make_policy(rules={"on_oom.grow": {"max": 1.5, "options": [1.25, 1.5]}, "retries": {"max": 3}})
    data = policy.to_data()
    assert data["rules"] == {"on_oom.grow": {"max": 1.5, "options": [1.25, 1.5]}, "retries": {"max": 3}}
    assert make_policy(**data) == policy


def test_shared_memory_that_follows_the_limit_lowers_the_cap() -> None:
    policy = make_policy(rules={"resources.shm": {"max": "16Gi"}})
    shared = {**REQUESTED, "resources": {**REQUESTED["resources"], "shm": True}}
    assert value(plan(shared, policy), "on_oom.max") == "16Gi"
    fixed = {**REQUESTED, "resources": {**REQUESTED["resources"], "shm": "1Gi"}}
    assert value(plan(fixed, policy), "on_oom.max") == "64Gi"


def test_a_quota_counts_all_pods() -> None:
    planned = plan({**REQUESTED, "replicas": 2}, make_policy(quota={"mem": "20Gi"}))
    assert value(planned, "on_oom.max") == "20Gi"


@pytest.mark.parametrize(
    ("requested", "objects", "explanation"),
    [
        (
            {"profile": "big", "on_oom": {}},
            (make_compute_resource("big", resources={"mem": "8Gi"}),),
            "the memory is set by the compute resource big",
        ),
        ({"on_oom": {}}, (), "no memory is requested"),
        (
            {"resources": {"mem": "8Gi"}, "on_oom": {"max": "8Gi"}},
            (),
            "the run starts with 8Gi of memory, and at most 8Gi is allowed",
        ),
        (
            {"on_oom": {}},
            (LOCKED,),
            "the run starts with 4Gi of memory, and at most 4Gi is allowed",
        ),
        (
            {"resources": {"mem": "8Gi"}, "on_oom": {}, "action": "serve", "function": PYTHON},
            (),
            "runs with action serve restart with the same memory",
        ),
    ],
    ids=["compute resource", "no memory", "cap reached", "locked", "serve"],
)
def test_on_oom_without_effect_is_a_warning(
    requested: dict[str, Any], objects: tuple[Any, ...], explanation: str
) -> None:
    planned = plan(requested, *objects)
    assert planned.violations == ()
    warnings = [warning for warning in planned.warnings if (warning.path, warning.rule) == ("on_oom", "no_effect")]
    assert [warning.message for warning in warnings] == [f"on_oom has no effect: {explanation}"]
    assert warnings[0].hint


def test_retries_have_no_effect_on_restarted_deployments() -> None:
    serve = {"action": "serve", "function": PYTHON, "retries": 1}
    assert warning_rules(plan(serve)) == [("retries", "no_effect")]
    assert ("retries", "no_effect") not in warning_rules(plan(serve, make_cluster(executor="local")))
    assert warning_rules(plan({**serve, "retries": 0})) == []
    assert warning_rules(plan({"retries": 1})) == []
