"""Which nodes keep a run off: taints and cordoned nodes, as kube-scheduler's filters see them."""

from typing import Any

import pytest

from fairlead.core.fitting import evaluation, matching
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.node_tables import NodeTable
from tests.core.nodes import make_node, make_pod_request

CORDON = "node.kubernetes.io/unschedulable"


def takes(taint: str, *tolerations: dict[str, Any]) -> bool:
    """Whether a node with a taint takes what tolerates something."""
    return not list(matching.find_mismatches(make_pod_request(tolerations=tolerations), make_node(taints=[taint])))


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
def test_a_toleration_means_what_it_means_to_kubernetes(
    toleration: dict[str, Any], taint: str, tolerated: bool
) -> None:
    assert takes(taint, toleration) is tolerated


@pytest.mark.parametrize(
    ("effect", "keeps_off"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)]
)
def test_a_taint_keeps_off_by_its_effect(effect: str, keeps_off: bool) -> None:
    assert takes(f"team=b:{effect}") is not keeps_off


def test_one_toleration_for_each_taint_is_enough_and_fewer_are_not() -> None:
    both = [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]
    node = make_node(taints=["a:NoSchedule", "b=x:NoExecute"])
    assert not list(matching.find_mismatches(make_pod_request(tolerations=both), node))
    (reason,) = matching.find_mismatches(make_pod_request(tolerations=both[:1]), node)
    assert (reason.path, reason.message) == ("tolerations", "box has the taint b=x:NoExecute, which is not tolerated")


@pytest.mark.parametrize(
    ("tolerations", "taken"),
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
def test_a_cordoned_node_takes_only_what_tolerates_that(
    tolerations: list[dict[str, Any]], taken: bool, tainted: bool
) -> None:
    node = make_node(cordoned=True, taints=[f"{CORDON}:NoSchedule"] if tainted else [])
    found = evaluation.list_reasons(NodeFilter(make_pod_request(tolerations=tolerations), NodeTable([node])), node)
    assert found == ([] if taken else ["box is cordoned"])


def test_another_taint_of_the_key_of_cordoned_nodes_is_a_taint_like_any() -> None:
    """Tolerating the one that cordoning makes is not tolerating this one."""
    tolerations = [{"key": CORDON, "operator": "Exists", "effect": "NoSchedule"}]
    node = make_node(cordoned=True, taints=[f"{CORDON}:NoExecute"])
    assert list(matching.find_mismatches(make_pod_request(tolerations=tolerations), node))


def test_a_taint_keeps_off_for_ever_and_what_ails_a_node_does_not() -> None:
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


def test_a_refusal_for_a_taint_says_how_to_be_taken() -> None:
    (violation,) = evaluation.explain_never_fits(
        make_pod_request(), NodeTable([make_node(taints=["team=b:NoSchedule"])])
    )
    assert (violation.path, violation.rule) == ("tolerations", "never_fits")
    assert violation.message == "box has the taint team=b:NoSchedule, which is not tolerated"
    assert violation.hint == "add a toleration"
