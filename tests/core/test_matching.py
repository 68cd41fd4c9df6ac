"""Which nodes a run may be on: selectors and node affinity, as kube-scheduler sees them."""

from typing import Any

import pytest

from fairlead.core.fitting import evaluation, matching
from fairlead.core.fitting.node_tables import NodeTable
from tests.core.nodes import make_node, make_pod_request

LABELS = {"zone": "a", "cores": "8", "odd": "1_0", "empty": ""}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """One condition on a node's labels."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def takes(*terms: dict[str, Any]) -> bool:
    """Whether a node with labels suits one of the terms."""
    return not list(matching.find_mismatches(make_pod_request(terms=terms), make_node(labels=LABELS)))


@pytest.mark.parametrize(
    ("said", "holds"),
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
        (("odd", "Gt", "5"), False),  # Go reads no underscores in numbers
    ],
)
def test_every_operator_means_what_it_means_to_kubernetes(said: tuple[str, ...], holds: bool) -> None:
    assert takes({"matchExpressions": [expression(*said)]}) is holds


def test_all_of_a_term_must_hold_and_one_of_the_terms() -> None:
    true, false = expression("zone", "In", "a"), expression("zone", "In", "b")
    assert takes({"matchExpressions": [true, true]})
    assert not takes({"matchExpressions": [true, false]})
    assert takes({"matchExpressions": [false]}, {"matchExpressions": [true]})
    assert not takes({"matchExpressions": [false]}, {"matchExpressions": [false]})


@pytest.mark.parametrize("term", [{}, {"matchExpressions": []}, {"matchExpressions": None, "matchFields": None}])
def test_a_term_without_anything_in_it_suits_no_node(term: dict[str, Any]) -> None:
    assert not takes(term)


def test_without_terms_at_all_any_node_will_do_and_with_none_of_them_no_node() -> None:
    assert not list(matching.find_mismatches(make_pod_request(), make_node()))
    assert not takes()


@pytest.mark.parametrize(
    ("operator", "name", "holds"),
    [("In", "box", True), ("In", "other", False), ("NotIn", "box", False), ("NotIn", "other", True)],
)
def test_a_node_is_chosen_by_its_name(operator: str, name: str, holds: bool) -> None:
    assert takes({"matchFields": [expression("metadata.name", operator, name)]}) is holds


def test_fields_and_labels_are_told_apart() -> None:
    assert not takes({"matchExpressions": [expression("metadata.name", "In", "box")]})
    assert not takes({"matchFields": [expression("zone", "In", "a")]})


def test_each_label_that_is_missing_is_told() -> None:
    pod_request = make_pod_request(selector={"zone": "b", "disk": "ssd", "cores": "8"})
    found = list(matching.find_mismatches(pod_request, make_node(labels=LABELS)))
    assert [(reason.path, reason.message) for reason in found] == [
        ("node_selector.zone", "needs a node with zone=b; box has zone=a"),
        ("node_selector.disk", "needs a node with disk=ssd; box has no such label"),
    ]


def test_what_another_label_is_needed_for_never_fits() -> None:
    assert (
        evaluation.evaluate(make_pod_request(selector={"zone": "b"}), NodeTable([make_node(labels=LABELS)])).verdict
        == "never"
    )
    affinity = make_pod_request(terms=[{"matchExpressions": [expression("zone", "In", "b")]}])
    fit = evaluation.evaluate(affinity, NodeTable([make_node(labels=LABELS)]))
    assert (fit.verdict, fit.reasons) == ("never", ("needs a node with zone In b; box has a",))
