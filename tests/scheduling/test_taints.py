"""Taints and cordoned nodes, by kube-scheduler's rules."""

from typing import Any

import pytest

from fairlead.model.nodes import NodeTable
from fairlead.scheduling import evaluation, selectors
from fairlead.scheduling.filters import NodeFilter
from tests.scheduling.nodes import make_node, make_pod_request

CORDON = "node.kubernetes.io/unschedulable"


def accepts(taint: str, *tolerations: dict[str, Any]) -> bool:
    """Whether a node with a taint accepts a pod with tolerations."""
    return not list(selectors.find_mismatches(make_pod_request(tolerations=tolerations), make_node(taints=[taint])))


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerated"),
    [
        ({"key": "team", "operator": "Equal", "value": "b"}, "team=b:NoSchedule", True),
        ({"key": "team", "value": "b"}, "team=b:NoSchedule", True),  # Equal is the default operator
        ({"key": "team", "operator": "", "value": "b"}, "team=b:NoSchedule", True),
        ({"key": "team", "operator": "Equal", "value": "c"}, "team=b:NoSchedule", False),
        ({"key": "team", "operator": "Equal"}, "team=b:NoSchedule", False),
        ({"key": "team", "operator": "Equal"}, "team:NoSchedule", True),
        ({"key": "team", "operator": "Equal", "value": ""}, "team:NoSchedule", True),
        ({"key": "team", "operator": "Exists"}, "team=b:NoSchedule", True),
        ({"key": "team", "operator": "Exists"}, "team:NoExecute", True),
        ({"key": "pool", "operator": "Exists"}, "team=b:NoSchedule", False),
        ({"operator": "Exists"}, "team=b:NoSchedule", True),
        ({"key": "", "operator": "Exists"}, "team=b:NoSchedule", True),
        ({"operator": "Exists", "effect": "NoSchedule"}, "team=b:NoSchedule", True),
        ({"operator": "Exists", "effect": "NoSchedule"}, "team=b:NoExecute", False),
        ({"operator": "Exists", "effect": "NoExecute"}, "team=b:NoExecute", True),
        ({"operator": "Exists", "effect": ""}, "team=b:NoExecute", True),
        ({"operator": "Exists", "effect": "PreferNoSchedule"}, "team=b:NoSchedule", False),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, "team:NoExecute", True),
        ({"key": "team", "operator": "Gt", "value": "b"}, "team=b:NoSchedule", False),
    ],
)
def test_tolerations_behave_as_in_kubernetes(toleration: dict[str, Any], taint: str, tolerated: bool) -> None:
    assert accepts(taint, toleration) is tolerated


@pytest.mark.parametrize(
    ("effect", "excluded"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)]
)
def test_the_effect_of_a_taint_determines_exclusion(effect: str, excluded: bool) -> None:
    assert accepts(f"team=b:{effect}") is not excluded


def test_every_taint_needs_a_toleration() -> None:
    both = [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]
    node = make_node(taints=["a:NoSchedule", "b=x:NoExecute"])
    assert not list(selectors.find_mismatches(make_pod_request(tolerations=both), node))
    (reason,) = selectors.find_mismatches(make_pod_request(tolerations=both[:1]), node)
    assert (reason.path, reason.message) == ("tolerations", "box has the taint b=x:NoExecute, which is not tolerated")


@pytest.mark.parametrize(
    ("tolerations", "accepted"),
    [
        ([], False),
        ([{"key": CORDON, "operator": "Exists"}], True),
        ([{"key": CORDON, "operator": "Exists", "effect": "NoSchedule"}], True),
        ([{"key": CORDON, "operator": "Exists", "effect": "NoExecute"}], False),
        ([{"key": CORDON, "operator": "Equal"}], True),
        ([{"key": CORDON, "operator": "Equal", "value": "x"}], False),
        ([{"operator": "Exists"}], True),
        ([{"key": "team", "operator": "Exists"}], False),
    ],
)
@pytest.mark.parametrize("tainted", [False, True])
def test_a_cordoned_node_accepts_only_pods_that_tolerate_it(
    tolerations: list[dict[str, Any]], accepted: bool, tainted: bool
) -> None:
    node = make_node(cordoned=True, taints=[f"{CORDON}:NoSchedule"] if tainted else [])
    reasons = evaluation.list_reasons(NodeFilter(make_pod_request(tolerations=tolerations), NodeTable([node])), node)
    assert reasons == ([] if accepted else ["box is cordoned"])


def test_other_effects_of_the_cordon_taint_are_checked_separately() -> None:
    """Tolerating the taint that cordoning adds does not mean tolerating this one."""
    tolerations = [{"key": CORDON, "operator": "Exists", "effect": "NoSchedule"}]
    node = make_node(cordoned=True, taints=[f"{CORDON}:NoExecute"])
    assert list(selectors.find_mismatches(make_pod_request(tolerations=tolerations), node))


def test_taints_exclude_permanently_and_node_conditions_temporarily() -> None:
    assert (
        evaluation.evaluate(make_pod_request(), NodeTable([make_node(taints=["team=b:NoSchedule"])])).verdict == "never"
    )
    for node in (
        make_node(cordoned=True),
        make_node(taints=["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"]),
        make_node(taints=["node.kubernetes.io/memory-pressure:NoSchedule"]),
        make_node(taints=["node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule"]),
    ):
        fit = evaluation.evaluate(make_pod_request(), NodeTable([node]))
        assert (fit.verdict, bool(fit.reasons)) == ("later", True)


def test_the_hint_for_a_taint_is_to_add_a_toleration() -> None:
    (violation,) = evaluation.explain_never_fits(
        make_pod_request(), NodeTable([make_node(taints=["team=b:NoSchedule"])])
    )
    assert (violation.path, violation.rule) == ("tolerations", "never_fits")
    assert violation.message == "box has the taint team=b:NoSchedule, which is not tolerated"
    assert violation.hint == "add a toleration"
