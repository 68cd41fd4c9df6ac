"""Linting compute resources: each is planned as if it were used."""

from collections.abc import Sequence
from typing import Any

import pytest

from fairlead.model.assets import ComputeResource, Policy
from fairlead.model.plans import Finding, PlanWarning, Violation
from fairlead.model.scopes import Cluster
from fairlead.planning.linting import lint_compute_resource, lint_template
from tests.making import (
    make_cluster,
    make_compute_resource,
    make_policy,
    make_requirements,
    make_snapshot,
    make_template,
)

KAI = make_cluster(name="west", gpu_sharing="kai")
PLAIN = make_cluster(name="east")


def lint(
    resource: ComputeResource, policies: Sequence[Policy], clusters: Sequence[Cluster], **more: Any
) -> tuple[Finding, ...]:
    """The findings for a compute resource."""
    return lint_compute_resource(resource, policies, clusters, **more).findings


def rules(findings: tuple[Finding, ...], kind: type) -> list[str]:
    """The rules of all findings of one type."""
    return [item.rule for item in findings if isinstance(item, kind)]


def test_a_valid_compute_resource_has_no_findings() -> None:
    resource = make_compute_resource(resources={"gpu": 1, "mem": {"requests": "64Gi", "limits": "80Gi"}})
    assert lint(resource, [], []) == ()
    assert lint(resource, [make_policy(rules={"resources.gpu": {"max": 2}})], [PLAIN]) == ()


def test_a_broken_rule_is_a_violation() -> None:
    findings = lint(make_compute_resource(resources={"gpu": 4}), [make_policy(rules={"resources.gpu": {"max": 2}})], [])
    assert rules(findings, Violation) == ["max"]


def test_disabled_features_are_violations_and_unmentioned_ones_warnings() -> None:
    root = make_compute_resource(run_as_user=0)
    assert rules(lint(root, [], []), PlanWarning) == ["allow_root"]
    assert rules(lint(root, [], []), Violation) == []
    assert rules(lint(root, [make_policy(switches={"allow_root": False})], []), Violation) == ["allow_root"]
    assert lint(root, [make_policy(switches={"allow_root": True})], []) == ()


def test_a_contradiction_is_a_violation() -> None:
    term = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    assert rules(lint(make_compute_resource(node_selector={"a": "c"}, affinity=affinity), [], []), Violation) == [
        "contradiction"
    ]


def test_a_gpu_share_needs_a_cluster_that_supports_it() -> None:
    share = make_compute_resource(resources={"gpu": {"memory": "50%"}})
    assert rules(lint(share, [], [PLAIN]), Violation) == ["gpu_sharing"]
    assert rules(lint(share, [], []), Violation) == []
    assert rules(lint(share, [], [PLAIN, KAI]), Violation) == []
    assert rules(lint(share, [], [KAI, PLAIN]), Violation) == []


@pytest.mark.parametrize("types", [["training"], ["workspace"], ["inference"], None])
def test_each_finding_is_reported_once_for_all_workload_types(types: list[str] | None) -> None:
    resource = make_compute_resource(resources={"mem": 5}, workload_types=types)
    assert rules(lint(resource, [], []), PlanWarning) == ["tiny"]


@pytest.mark.parametrize(
    "policy",
    [
        {"switches": {"registries": ["ghcr.io"]}},
        {"rules": {"function.image": {"options": ["ghcr.io/a"]}}},
        {"rules": {"function.kind": {"options": ["python"]}}},
        {"rules": {"action": {"options": ["job"]}}},
        {"rules": {"deadline": {"required": True}}},
    ],
)
def test_rules_about_user_programs_do_not_apply_to_compute_resources(policy: dict[str, Any]) -> None:
    assert lint(make_compute_resource(resources={"cpu": 1}), [make_policy(**policy)], []) == ()


def test_platform_defaults_are_taken_into_account() -> None:
    platform = make_requirements(resources={"gpu": 4})
    policy = make_policy(rules={"resources.gpu": {"max": 2}})
    assert rules(lint(make_compute_resource(), [policy], [], platform=platform), Violation) == ["max"]


def test_a_template_is_linted_with_its_compute_resource() -> None:
    policy = make_policy(rules={"resources.gpu": {"max": 2}})
    snapshot = make_snapshot(make_compute_resource("many", resources={"gpu": 4}), policy)
    assert rules(lint_template(make_template(profile="many"), snapshot, [PLAIN]).findings, Violation) == ["max"]
    assert lint_template(make_template(resources={"gpu": 1}), snapshot, [PLAIN]).findings == ()
