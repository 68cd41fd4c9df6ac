"""The memory cap of OOM retries: as requested, lowered by rules and quotas with a warning."""

from typing import Any

import pytest

from tests.making import (
    PYTHON,
    broken,
    lost,
    make_cluster,
    make_compute_resource,
    make_policy,
    plan,
    setting,
    value,
    warned,
)

ASKED: dict[str, Any] = {"resources": {"mem": {"requests": "4Gi", "limits": "8Gi"}}, "on_oom": {"max": "64Gi"}}
LOCKED = make_policy(defaults={"resources": {"mem": "4Gi"}}, rules={"resources.mem": {"locked": True}})


def test_what_is_asked_for_stays_where_nothing_bounds_it() -> None:
    planned = plan(ASKED)
    assert (value(planned, "on_oom.grow"), value(planned, "on_oom.max")) == (1.5, "64Gi")
    assert planned.warnings == ()
    assert value(plan({**ASKED, "on_oom": {}}), "on_oom.max") == "absent"


@pytest.mark.parametrize(
    ("said", "allowed"),
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
def test_the_most_is_lowered_to_what_is_allowed_and_that_is_told(said: dict[str, Any], allowed: str) -> None:
    planned = plan(ASKED, make_policy("department/vision", **said))
    found = setting(planned, "on_oom.max")
    assert (value(planned, "on_oom.max"), str(found.source)) == (allowed, "department/vision policy")
    assert lost(planned, "on_oom.max") == [("64Gi", "request")]
    told = [warning for warning in planned.warnings if warning.path == "on_oom.max"]
    message = f"the request sets 64Gi; the department/vision policy allows at most {allowed}"
    assert [(warning.message, warning.hint) for warning in told] == [(message, f"request {allowed}, or remove it")]


def test_who_asks_for_no_most_gets_what_is_allowed_without_a_warning() -> None:
    planned = plan({**ASKED, "on_oom": {}}, make_policy(rules={"resources.mem.limits": {"max": "32Gi"}}))
    assert (value(planned, "on_oom.max"), planned.warnings) == ("32Gi", ())
    assert setting(planned, "on_oom.max").reason == "limited by the platform policy"


def test_who_asks_for_less_than_is_allowed_gets_that() -> None:
    planned = plan(ASKED, make_policy(rules={"resources.mem.limits": {"max": "128Gi"}}))
    assert (value(planned, "on_oom.max"), planned.warnings) == ("64Gi", ())


def test_strict_refuses_a_most_that_was_lowered() -> None:
    planned = plan({**ASKED, "strict": True}, make_policy(rules={"resources.mem.limits": {"max": "32Gi"}}))
    assert broken(planned) == [("on_oom.max", "strict")]


def test_a_rule_on_the_most_itself_is_a_rule_and_bounds_who_says_none() -> None:
    bounded = make_policy(rules={"on_oom.max": {"max": "32Gi"}, "on_oom.grow": {"max": 1.25}})
    planned = plan(ASKED, bounded)
    assert broken(planned) == [("on_oom.grow", "max"), ("on_oom.max", "max")]
    hints = [violation.hint for violation in planned.violations]
    assert hints == ["set on_oom.grow to 1.25 or less", "set on_oom.max to 32Gi or less"]
    assert value(plan({**ASKED, "on_oom": {"grow": 1.2}}, bounded), "on_oom.max") == "32Gi"


def test_a_policy_that_bounds_growth_is_read_back_as_it_was_written() -> None:
    policy = make_policy(rules={"on_oom.grow": {"max": 1.5, "options": [1.25, 1.5]}, "retries": {"max": 3}})
    data = policy.to_data()
    assert data["rules"] == {"on_oom.grow": {"max": 1.5, "options": [1.25, 1.5]}, "retries": {"max": 3}}
    assert make_policy(**data) == policy


def test_shared_memory_that_follows_the_limit_bounds_it_too() -> None:
    bounded = make_policy(rules={"resources.shm": {"max": "16Gi"}})
    shared = {**ASKED, "resources": {**ASKED["resources"], "shm": True}}
    assert value(plan(shared, bounded), "on_oom.max") == "16Gi"
    fixed = {**ASKED, "resources": {**ASKED["resources"], "shm": "1Gi"}}
    assert value(plan(fixed, bounded), "on_oom.max") == "64Gi"


def test_a_quota_counts_all_pods() -> None:
    planned = plan({**ASKED, "replicas": 2}, make_policy(quota={"mem": "20Gi"}))
    assert value(planned, "on_oom.max") == "20Gi"


@pytest.mark.parametrize(
    ("asked", "objects", "told"),
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
            "action serve restarts with the same memory",
        ),
    ],
    ids=["a compute resource", "no memory", "the most", "locked", "serve"],
)
def test_what_can_never_grow_is_told(asked: dict[str, Any], objects: tuple[Any, ...], told: str) -> None:
    planned = plan(asked, *objects)
    assert planned.violations == ()
    found = [warning for warning in planned.warnings if (warning.path, warning.rule) == ("on_oom", "no_effect")]
    assert [warning.message for warning in found] == [f"on_oom has no effect: {told}"]
    assert found[0].hint


def test_what_a_cluster_starts_anew_by_itself_is_not_tried_again() -> None:
    serve = {"action": "serve", "function": PYTHON, "retries": 1}
    assert warned(plan(serve)) == [("retries", "no_effect")]
    assert ("retries", "no_effect") not in warned(plan(serve, make_cluster(executor="local")))
    assert warned(plan({**serve, "retries": 0})) == []
    assert warned(plan({"retries": 1})) == []
