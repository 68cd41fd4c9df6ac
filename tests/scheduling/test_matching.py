"""Node selectors and node affinity, by kube-scheduler's rules."""

from typing import Any

import pytest

from fairlead.model.nodes import NodeTable
from fairlead.scheduling import evaluation, selectors
from tests.scheduling.nodes import make_node, make_pod_request

LABELS = {"zone": "a", "cores": "8", "odd": "1_0", "empty": ""}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """One condition on a node's labels."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def matches(*terms: dict[str, Any]) -> bool:
    """Whether a node with LABELS matches one of the terms."""
    return not list(selectors.find_mismatches(make_pod_request(terms=terms), make_node(labels=LABELS)))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (("zone", "In", "a", "b"), True),
        (("zone", "In", "b"), False),
        (("none", "In", "a"), False),
        (("empty", "In", ""), True),
        (("zone", "NotIn", "b"), True),
        (("zone", "NotIn", "a"), False),
        (("none", "NotIn", "a"), True),
        (("zone", "Exists"), True),
        (("empty", "Exists"), True),
        (("none", "Exists"), False),
        (("none", "DoesNotExist"), True),
        (("zone", "DoesNotExist"), False),
        (("cores", "Gt", "7"), True),
        (("cores", "Gt", "8"), False),
        (("cores", "Lt", "9"), True),
        (("cores", "Lt", "8"), False),
        (("none", "Gt", "1"), False),
        (("none", "Lt", "1"), False),
        (("zone", "Gt", "1"), False),
        (("zone", "Lt", "1"), False),
        (("empty", "Lt", "1"), False),
        (("odd", "Gt", "5"), False),  # Go does not accept underscores in numbers
    ],
)
def test_operators_behave_as_in_kubernetes(condition: tuple[str, ...], expected: bool) -> None:
    assert matches({"matchExpressions": [expression(*condition)]}) is expected


def test_terms_are_ored_and_their_expressions_anded() -> None:
    true, false = expression("zone", "In", "a"), expression("zone", "In", "b")
    assert matches({"matchExpressions": [true, true]})
    assert not matches({"matchExpressions": [true, false]})
    assert matches({"matchExpressions": [false]}, {"matchExpressions": [true]})
    assert not matches({"matchExpressions": [false]}, {"matchExpressions": [false]})


@pytest.mark.parametrize("term", [{}, {"matchExpressions": []}, {"matchExpressions": None, "matchFields": None}])
def test_an_empty_term_matches_no_node(term: dict[str, Any]) -> None:
    assert not matches(term)


def test_missing_terms_match_every_node_and_an_empty_list_matches_none() -> None:
    assert not list(selectors.find_mismatches(make_pod_request(), make_node()))
    assert not matches()


@pytest.mark.parametrize(
    ("operator", "name", "expected"),
    [("In", "box", True), ("In", "other", False), ("NotIn", "box", False), ("NotIn", "other", True)],
)
def test_match_fields_select_a_node_by_name(operator: str, name: str, expected: bool) -> None:
    assert matches({"matchFields": [expression("metadata.name", operator, name)]}) is expected


def test_fields_and_labels_are_not_mixed_up() -> None:
    assert not matches({"matchExpressions": [expression("metadata.name", "In", "box")]})
    assert not matches({"matchFields": [expression("zone", "In", "a")]})


def test_each_mismatched_label_is_reported() -> None:
    pod_request = make_pod_request(selector={"zone": "b", "disk": "ssd", "cores": "8"})
    reasons = list(selectors.find_mismatches(pod_request, make_node(labels=LABELS)))
    assert [(reason.path, reason.message) for reason in reasons] == [
        ("node_selector.zone", "needs a node with zone=b; box has zone=a"),
        ("node_selector.disk", "needs a node with disk=ssd; box has no such label"),
    ]


def test_a_run_that_needs_another_label_never_fits() -> None:
    assert (
        evaluation.evaluate(make_pod_request(selector={"zone": "b"}), NodeTable([make_node(labels=LABELS)])).verdict
        == "never"
    )
    affinity = make_pod_request(terms=[{"matchExpressions": [expression("zone", "In", "b")]}])
    fit = evaluation.evaluate(affinity, NodeTable([make_node(labels=LABELS)]))
    assert (fit.verdict, fit.reasons) == ("never", ("needs a node with zone In b; box has a",))
