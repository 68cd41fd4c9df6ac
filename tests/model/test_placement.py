"""Tolerations and affinity are accepted and rejected as in Kubernetes."""

from typing import Any

import pytest

from fairlead.model.placement import Affinity, Toleration
from tests.making import find_violations, make_requirements, violated_rules

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

TOLERATIONS: list[tuple[dict[str, Any], str]] = [
    ({"operator": "Exists"}, "*:*"),
    ({"operator": "Exists", "effect": "NoSchedule"}, "*:NoSchedule"),
    ({"key": "gpu", "operator": "Exists"}, "gpu:*"),
    ({"key": "gpu", "value": "a100"}, "gpu=a100:*"),
    ({"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoSchedule"}, "gpu=a100:NoSchedule"),
    ({"key": "gpu", "operator": "Equal", "effect": "PreferNoSchedule"}, "gpu=:PreferNoSchedule"),
    ({"key": "nvidia.com/gpu", "operator": "Exists", "value": ""}, "nvidia.com/gpu:*"),
    (
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        "a:NoExecute@300s",
    ),
    ({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}, "a:NoExecute@0s"),
]

INVALID_TOLERATIONS: list[tuple[Any, str, str]] = [
    ("gpu", "", "mapping"),
    ({}, "key", "required"),
    ({"value": "a"}, "key", "required"),
    ({"key": "a b", "operator": "Exists"}, "key", "label"),
    ({"key": "a/b/c", "operator": "Exists"}, "key", "label"),
    ({"key": "A.B/c", "operator": "Exists"}, "key", "label"),
    ({"key": "a", "value": "b c"}, "value", "label"),
    ({"key": "a", "operator": "Exists", "value": "b"}, "value", "contradiction"),
    ({"key": "a", "operator": "In"}, "operator", "options"),
    ({"key": "a", "operator": "Exists", "effect": "NoRun"}, "effect", "options"),
    ({"key": "a", "operator": "Exists", "tolerationSeconds": 5}, "tolerationSeconds", "contradiction"),
    (
        {"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5},
        "tolerationSeconds",
        "contradiction",
    ),
    (
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": "soon"},
        "tolerationSeconds",
        "whole_number",
    ),
    ({"key": "a", "operators": "Exists"}, "operators", "unknown_field"),
]


def require_nodes(*conditions: Any, fields: Any = None) -> dict[str, Any]:
    """An affinity that requires nodes with these conditions."""
    term = {"matchExpressions": list(conditions)} | ({} if fields is None else {"matchFields": fields})
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def require_pods(**term: Any) -> dict[str, Any]:
    """An affinity that requires pods matching this term."""
    return {"podAffinity": {REQUIRED: [term]}}


AFFINITIES: list[dict[str, Any]] = [
    {},
    {"nodeAffinity": {}},
    require_nodes({"key": "a", "operator": "In", "values": ["b", "c"]}),
    require_nodes({"key": "a", "operator": "In", "values": [""]}),
    require_nodes({"key": "a", "operator": "NotIn", "values": ["b"]}),
    require_nodes({"key": "a.b/c", "operator": "Exists"}),
    require_nodes({"key": "a", "operator": "DoesNotExist", "values": []}),
    require_nodes({"key": "a", "operator": "Gt", "values": ["5"]}),
    require_nodes({"key": "a", "operator": "Lt", "values": ["0"]}),
    require_nodes(fields=[{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]),
    {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}},
    {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": {"matchExpressions": []}}]}},
    require_pods(topologyKey="zone"),
    require_pods(
        topologyKey="zone", labelSelector={"matchLabels": {"app": "a"}}, namespaces=["b"], namespaceSelector={}
    ),
    require_pods(topologyKey="zone", labelSelector={}, matchLabelKeys=["a"], mismatchLabelKeys=["b"]),
    require_pods(
        topologyKey="zone", labelSelector={"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}
    ),
    {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}]}},
]

INVALID_AFFINITIES: list[tuple[Any, str, str]] = [
    ([], "", "mapping"),
    ({"nodeAfinity": {}}, "nodeAfinity", "unknown_field"),
    ({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}, "nodeSelectorTerms", "length"),
    ({"nodeAffinity": {REQUIRED: {}}}, "nodeSelectorTerms", "required"),
    ({"nodeAffinity": {REQUIRED: []}}, REQUIRED, "mapping"),
    (require_nodes({"operator": "Exists"}), "key", "required"),
    (require_nodes({"key": "a"}), "operator", "required"),
    (require_nodes({"key": "a b", "operator": "Exists"}), "key", "label"),
    (require_nodes({"key": "a", "operator": "Is"}), "operator", "options"),
    (require_nodes({"key": "a", "operator": "In"}), "values", "required"),
    (require_nodes({"key": "a", "operator": "In", "values": []}), "values", "required"),
    (require_nodes({"key": "a", "operator": "NotIn", "values": []}), "values", "required"),
    (require_nodes({"key": "a", "operator": "In", "values": ["b c"]}), "values.0", "label"),
    (require_nodes({"key": "a", "operator": "In", "values": ["b", 5]}), "1", "text"),
    (require_nodes({"key": "a", "operator": "Exists", "values": ["b"]}), "values", "contradiction"),
    (require_nodes({"key": "a", "operator": "DoesNotExist", "values": ["b"]}), "values", "contradiction"),
    (require_nodes({"key": "a", "operator": "Gt", "values": ["5", "6"]}), "values", "range"),
    (require_nodes({"key": "a", "operator": "Gt"}), "values", "range"),
    (require_nodes({"key": "a", "operator": "Lt", "values": ["five"]}), "values", "range"),
    (require_nodes({"key": "a", "operator": "Lt", "values": ["-5"]}), "values", "range"),
    (require_nodes({"key": "a", "operator": "Lt", "values": ["-5"]}), "values", "range"),
    (require_nodes(fields=[{"key": "spec.x", "operator": "In", "values": ["a"]}]), "key", "options"),
    (require_nodes(fields=[{"key": "metadata.name", "operator": "Exists", "values": ["a"]}]), "operator", "options"),
    (require_nodes(fields=[{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]), "values", "range"),
    (require_nodes(fields=[{"key": "metadata.name", "operator": "In", "values": ["Not A Node"]}]), "values.0", "name"),
    ({"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {}}]}}, "weight", "range"),
    ({"nodeAffinity": {PREFERRED: [{"weight": 101, "preference": {}}]}}, "weight", "range"),
    ({"nodeAffinity": {PREFERRED: [{"weight": 1}]}}, "preference", "required"),
    (require_pods(), "topologyKey", "required"),
    (require_pods(topologyKey=""), "topologyKey", "label"),
    (require_pods(topologyKey="a b"), "topologyKey", "label"),
    (require_pods(topologyKey="a", namespaces=["A"]), "0", "name"),
    (require_pods(topologyKey="a", matchLabelKeys=["b"]), "labelSelector", "required"),
    (require_pods(topologyKey="a", labelSelector={}, matchLabelKeys=["b", "b"]), "matchLabelKeys", "duplicate"),
    (
        require_pods(topologyKey="a", labelSelector={}, matchLabelKeys=["b"], mismatchLabelKeys=["b"]),
        "matchLabelKeys",
        "duplicate",
    ),
    (require_pods(topologyKey="a", labelSelector={"matchLabels": {"a": "b c"}}), "a", "label"),
    (
        require_pods(
            topologyKey="a", labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}
        ),
        "operator",
        "options",
    ),
    ({"podAntiAffinity": {PREFERRED: [{"weight": 1}]}}, "podAffinityTerm", "required"),
]


@pytest.mark.parametrize(("raw", "printed"), TOLERATIONS)
def test_a_toleration_is_printed_in_the_format_of_kubectl(raw: dict[str, Any], printed: str) -> None:
    assert str(Toleration.model_validate(raw)) == printed
    assert make_requirements(tolerations=[raw]).to_data() == {"tolerations": [{"operator": "Equal", **raw}]}


@pytest.mark.parametrize(("raw", "path", "rule"), INVALID_TOLERATIONS)
def test_tolerations_that_kubernetes_rejects_are_rejected(raw: Any, path: str, rule: str) -> None:
    assert violated_rules(find_violations(Toleration, raw)) == [(path, rule)]


@pytest.mark.parametrize("raw", AFFINITIES)
def test_an_affinity_that_kubernetes_accepts_is_accepted(raw: dict[str, Any]) -> None:
    affinity = Affinity.model_validate(raw)
    printed = affinity.model_dump(by_alias=True, exclude_none=True, mode="json")
    assert printed == raw


@pytest.mark.parametrize(("raw", "path", "rule"), INVALID_AFFINITIES)
def test_affinities_that_kubernetes_rejects_are_rejected(raw: Any, path: str, rule: str) -> None:
    [(actual_path, actual_rule)] = violated_rules(find_violations(Affinity, raw))
    assert actual_rule == rule
    assert actual_path == path or actual_path.endswith(f".{path}")


def test_an_affinity_may_be_written_in_snake_case() -> None:
    snake: dict[str, Any] = {
        "node_affinity": {"required_during_scheduling_ignored_during_execution": {"node_selector_terms": [{}]}}
    }
    assert Affinity.model_validate(snake) == Affinity.model_validate(nodes_without_conditions())


def test_too_many_terms_are_rejected() -> None:
    terms: dict[str, Any] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}] * 65}}}
    assert [rule for _, rule in violated_rules(find_violations(Affinity, terms))] == ["length"]


def nodes_without_conditions() -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}
