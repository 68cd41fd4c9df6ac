"""Pods that must run near each other, far from each other, or spread, as kube-scheduler sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fairlead.core.fitting import evaluation, pod_affinity
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.label_selectors import merge_keys, selects
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.reasons import Cause, Reason
from fairlead.model.nodes import Node, ScheduledPod, SchedulingContext, Taint
from fairlead.model.quantities import NANOS

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WEB = {"matchLabels": {"app": "web"}}
# Two nodes in zone a, one in zone b, and one that says nothing of zones.
ZONES = {"node-1": "a", "node-2": "a", "node-3": "b", "node-4": None}

Pods = Mapping[str, Sequence[ScheduledPod]]


def make_pod(app: str = "web", *, namespace: str = "lab", **said: Any) -> ScheduledPod:
    """A pod that is there."""
    return ScheduledPod("", said.pop("name", None), {}, namespace=namespace, labels={"app": app}, **said)


def make_term(selector: Any = WEB, key: str = ZONE, **said: Any) -> dict[str, Any]:
    """A term about pods near, or how to spread them."""
    return {"topologyKey": key, "labelSelector": selector, **said}


def make_node_table(
    pods: Pods, namespaces: Mapping[str, Mapping[str, str]] | None = None, *, tainted: str = ""
) -> NodeTable:
    """The four nodes with some pods. One of them may be tainted."""
    nodes = [
        Node(
            name,
            {},
            {HOST: name, **({ZONE: zone} if zone else {})},
            tuple(pods.get(name, ())),
            (Taint("for", "others", "NoSchedule"),) if name == tainted else (),
        )
        for name, zone in ZONES.items()
    ]
    return NodeTable(nodes, SchedulingContext(namespaces or {}))


def make_pod_request(app: str = "job", **said: Any) -> PodRequest:
    """A new pod."""
    return PodRequest({}, namespace="lab", labels={"app": app, "version": "2"}, **said)


def find_all(pod_request: PodRequest, table: NodeTable) -> dict[str, list[Reason]]:
    """Every reason of each node that does not take the pod."""
    check = pod_affinity.prepare(pod_request, table)
    found = {node.name: list(check(node)) for node in table} if check else {}
    return {name: reasons for name, reasons in found.items() if reasons}


def find_causes(pod_request: PodRequest, table: NodeTable) -> dict[str, list[Cause]]:
    """The nodes without their messages."""
    return {name: [reason.cause for reason in reasons] for name, reasons in find_all(pod_request, table).items()}


def test_nothing_is_prepared_where_no_pod_minds_another() -> None:
    assert pod_affinity.prepare(make_pod_request(), make_node_table({"node-1": [make_pod()]})) is None
    about_others = make_pod(anti_affinity=(make_term(),))
    assert pod_affinity.prepare(make_pod_request(), make_node_table({"node-1": [about_others]})) is None


def test_it_goes_where_the_pods_are_that_it_must_be_near_to() -> None:
    found = find_all(make_pod_request(pod_affinity=(make_term(),)), make_node_table({"node-1": [make_pod()]}))
    assert {name: [(each.message, each.lasts) for each in reasons] for name, reasons in found.items()} == {
        "node-3": [(f"must run near pods with app=web (same {ZONE}); there are none in b", False)],
        "node-4": [(f"must run near pods with app=web (same {ZONE}); node-4 has no such label", True)],
    }


def test_one_pod_must_be_what_all_terms_want() -> None:
    pod_request = make_pod_request(pod_affinity=(make_term(), make_term({"matchLabels": {"app": "db"}}, HOST)))
    assert set(find_all(pod_request, make_node_table({"node-1": [make_pod("web"), make_pod("db")]}))) == set(ZONES)


def test_the_first_of_pods_that_want_each_other_goes_anywhere_with_the_label() -> None:
    pod_request = make_pod_request("web", pod_affinity=(make_term(),))
    assert find_causes(pod_request, make_node_table({})) == {"node-4": [Cause.NEAR]}
    assert set(find_all(pod_request, make_node_table({"node-3": [make_pod()]}))) == {"node-1", "node-2", "node-4"}
    assert set(find_all(make_pod_request("job", pod_affinity=(make_term(),)), make_node_table({}))) == set(ZONES)


def test_a_pod_where_the_label_is_missing_is_near_to_none() -> None:
    table = make_node_table({"node-4": [make_pod()]})
    assert find_causes(make_pod_request("web", pod_affinity=(make_term(),)), table) == {"node-4": [Cause.NEAR]}


def test_it_stays_away_from_where_the_pods_are_that_it_must_be_far_from() -> None:
    table = make_node_table({"node-1": [make_pod()], "node-3": [make_pod(), make_pod()], "node-4": [make_pod()]})
    found = find_all(make_pod_request(pod_anti_affinity=(make_term(),)), table)
    away = f"must not run near pods with app=web (same {ZONE})"
    assert {name: [each.message for each in reasons] for name, reasons in found.items()} == {
        "node-1": [f"{away}; one is on node-1"],
        "node-2": [f"{away}; one is on node-1"],
        "node-3": [f"{away}; there are 2, one of them on node-3"],
    }
    assert set(find_all(make_pod_request(pod_anti_affinity=(make_term(key=HOST),)), table)) == {
        "node-1",
        "node-3",
        "node-4",
    }


@pytest.mark.parametrize(
    ("said", "looks_in"),
    [
        ({}, {"lab"}),
        ({"namespaces": ["shop"]}, {"shop"}),
        ({"namespaces": ["lab", "shop"]}, {"lab", "shop"}),
        ({"namespaceSelector": None}, {"lab"}),
        ({"namespaceSelector": {}}, {"lab", "shop", "bank", "unknown"}),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, {"shop"}),
        ({"namespaces": ["lab"], "namespaceSelector": {"matchLabels": {"team": "a"}}}, {"lab", "shop"}),
        # A selector that matches a namespace without labels matches all namespaces.
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}},
            {"lab", "shop", "bank", "unknown"},
        ),
    ],
)
def test_a_term_looks_in_the_namespaces_that_it_names_and_selects(said: dict[str, Any], looks_in: set[str]) -> None:
    namespaces = {"lab": {}, "shop": {"team": "a"}, "bank": {"team": "b"}}
    pod_request = make_pod_request(pod_anti_affinity=(make_term(**said),))
    found = {
        name
        for name in (*namespaces, "unknown")
        if find_all(pod_request, make_node_table({"node-3": [make_pod(namespace=name)]}, namespaces))
    }
    assert found == looks_in


@pytest.mark.parametrize(
    ("said", "is_repelled"),
    [
        ({}, False),  # its own namespace is another
        ({"namespaces": ["lab"]}, True),
        ({"namespaces": ["bank"]}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}, False),
    ],
)
def test_a_pod_that_is_there_keeps_off_those_of_the_namespaces_that_it_means(
    said: dict[str, Any], is_repelled: bool
) -> None:
    term = make_term({"matchLabels": {"app": "job"}}, **said)
    table = make_node_table({"node-1": [make_pod(namespace="shop", anti_affinity=(term,))]}, {"lab": {"team": "a"}})
    expected = {"node-1": [Cause.REPELLED], "node-2": [Cause.REPELLED]} if is_repelled else {}
    assert find_causes(make_pod_request(), table) == expected


def test_a_pod_that_names_other_namespaces_bears_those_of_its_own() -> None:
    of_jobs = {"matchLabels": {"app": "job"}}
    for term, is_repelled in ((make_term(of_jobs), True), (make_term(of_jobs, namespaces=["bank"]), False)):
        assert (
            bool(find_all(make_pod_request(), make_node_table({"node-3": [make_pod(anti_affinity=(term,))]})))
            is is_repelled
        )


def test_who_keeps_it_off_is_named_to_those_who_may_know() -> None:
    term = make_term({"matchLabels": {"app": "job"}})
    pods = [make_pod(name="train-42", project="vision", anti_affinity=(term,)), make_pod(anti_affinity=(term,))]
    table = make_node_table({"node-3": pods})
    [reason] = find_all(make_pod_request(), table)["node-3"]
    assert reason.message == f"conflicts with the anti-affinity (same {ZONE}) of train-42 on node-3 and 1 more"
    [reason] = find_all(make_pod_request(), table.visible_to(lambda project: project != "vision"))["node-3"]
    assert reason.message == f"conflicts with the anti-affinity (same {ZONE}) of a pod on node-3 and 1 more"
    assert (reason.path, reason.lasts) == ("", False)


def test_every_reason_is_told_in_the_order_in_which_they_are_looked_at() -> None:
    anti_affinity = make_pod("db", anti_affinity=(make_term({"matchLabels": {"app": "job"}}),))
    pod_request = make_pod_request(
        pod_affinity=(make_term({"matchLabels": {"app": "cache"}}),), pod_anti_affinity=(make_term(),)
    )
    assert find_causes(pod_request, make_node_table({"node-3": [make_pod(), anti_affinity]}))["node-3"] == [
        Cause.NEAR,
        Cause.FAR,
        Cause.REPELLED,
    ]


def test_a_pods_own_labels_are_merged_into_its_terms_as_the_server_does() -> None:
    labels = {"app": "job", "version": "2"}
    same = merge_keys(WEB, "In", ["version", "none"], labels)
    assert same == {**WEB, "matchExpressions": [{"key": "version", "operator": "In", "values": ["2"]}]}
    assert merge_keys(same, "In", ["version"], {"version": "3"}) == same  # once is enough
    assert merge_keys(None, "In", ["version"], labels) is None

    old, new = (
        ScheduledPod("", None, {}, namespace="lab", labels={"app": "web", "version": version}) for version in ("1", "2")
    )
    table = make_node_table({"node-1": [old], "node-3": [new]})
    assert set(find_all(make_pod_request(pod_anti_affinity=(make_term(matchLabelKeys=["version"]),)), table)) == {
        "node-3"
    }
    assert set(find_all(make_pod_request(pod_anti_affinity=(make_term(mismatchLabelKeys=["version"]),)), table)) == {
        "node-1",
        "node-2",
    }


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        (None, False),
        ({}, True),
        (WEB, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}, True),
        ({"matchExpressions": [{"key": "none", "operator": "In", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({**WEB, "matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_a_selector_means_what_it_means_to_kubernetes(selector: dict[str, Any] | None, holds: bool) -> None:
    assert selects(selector, {"app": "web"}) is holds
    table = make_node_table({"node-1": [make_pod()]})
    assert bool(find_all(make_pod_request(pod_anti_affinity=(make_term(selector),)), table)) is holds


def make_spread(selector: Any = WEB, **said: Any) -> dict[str, Any]:
    """A rule that spreads pods evenly over zones."""
    return make_term(selector, maxSkew=1, whenUnsatisfiable="DoNotSchedule", **said)


def test_a_place_does_not_get_many_more_pods_than_the_least_has() -> None:
    table = make_node_table({"node-1": [make_pod()], "node-2": [make_pod()], "node-3": [make_pod()]})
    found = find_all(make_pod_request("web", topology_spread=(make_spread(),)), table)
    assert {name: [(each.message, each.lasts) for each in reasons] for name, reasons in found.items()} == {
        name: [
            (
                f"spreads pods with app=web over {ZONE} with a maximum skew of 1; a would have 3, and the minimum is 1",
                False,
            )
        ]
        for name in ("node-1", "node-2")
    } | {"node-4": [(f"is spread over {ZONE}; node-4 has no such label", True)]}


@pytest.mark.parametrize(
    ("pods", "rule", "kept_off"),
    [
        # a pod that does not match its own selector may go to the larger domain
        ({"node-1": [make_pod()]}, make_spread({"matchLabels": {"app": "web"}}), set()),
        ({"node-1": [make_pod("job")]}, make_spread({"matchLabels": {"app": "job"}}), {"node-1", "node-2"}),
        ({"node-1": [make_pod("job")]}, {**make_spread({"matchLabels": {"app": "job"}}), "maxSkew": 2}, set()),
        # pods of other namespaces, and those that are being deleted, are not counted
        ({"node-1": [make_pod("job", namespace="shop")]}, make_spread({"matchLabels": {"app": "job"}}), set()),
        ({"node-1": [make_pod("job", terminating=True)]}, make_spread({"matchLabels": {"app": "job"}}), set()),
        # nothing is counted by a selector that is missing, and all are, as none, by an empty one
        ({"node-1": [make_pod("job")]}, make_spread(None), set()),
        ({"node-1": [make_pod("job"), make_pod("job")]}, make_spread({}), set()),
        # those of another version are spread for themselves
        (
            {"node-1": [make_pod("job")]},
            make_spread({"matchLabels": {"app": "job"}}, matchLabelKeys=["version"]),
            set(),
        ),
    ],
)
def test_which_pods_are_counted(pods: Pods, rule: dict[str, Any], kept_off: set[str]) -> None:
    assert set(find_all(make_pod_request(topology_spread=(rule,)), make_node_table(pods))) == kept_off | {"node-4"}


def test_where_there_should_be_more_places_the_least_of_them_has_none() -> None:
    table = make_node_table({"node-1": [make_pod()], "node-3": [make_pod()]})
    assert set(find_all(make_pod_request("web", topology_spread=(make_spread(minDomains=2),)), table)) == {"node-4"}
    found = find_all(make_pod_request("web", topology_spread=(make_spread(minDomains=3),)), table)
    assert found["node-3"][0].message.endswith("b would have 2, and only 2 of 3 required domains exist")


def test_nodes_that_the_pod_may_not_be_on_are_in_no_place_where_the_rule_says_so() -> None:
    table = make_node_table({"node-1": [make_pod()]}, tainted="node-3")
    for said, kept_off in (
        ({}, {"node-1", "node-2", "node-4"}),
        ({"nodeTaintsPolicy": "Ignore"}, {"node-1", "node-2", "node-4"}),
        ({"nodeTaintsPolicy": "Honor"}, {"node-4"}),
    ):
        assert set(find_all(make_pod_request("web", topology_spread=(make_spread(**said),)), table)) == kept_off
    for said, kept_off in (
        ({}, {"node-4"}),
        ({"nodeAffinityPolicy": "Honor"}, {"node-4"}),
        ({"nodeAffinityPolicy": "Ignore"}, {"node-1", "node-2", "node-4"}),
    ):
        pod_request = make_pod_request("web", topology_spread=(make_spread(**said),), node_selector={ZONE: "a"})
        assert set(find_all(pod_request, table)) == kept_off


def test_a_node_that_lacks_one_of_the_labels_counts_for_none_of_the_rules() -> None:
    by_host = {**make_spread(), "topologyKey": HOST}
    table = make_node_table({"node-1": [make_pod()], "node-3": [make_pod()], "node-4": [make_pod()]})
    alone = find_causes(make_pod_request("web", topology_spread=(by_host,)), table)
    assert alone == {name: [Cause.SPREAD] for name in ("node-1", "node-3", "node-4")}
    both = find_causes(make_pod_request("web", topology_spread=(by_host, make_spread())), table)
    assert both == {"node-1": [Cause.SPREAD], "node-3": [Cause.SPREAD], "node-4": [Cause.SPREAD_LABEL]}


def test_pods_that_do_not_bear_each_other_fit_as_often_as_there_are_places() -> None:
    nodes = [Node(f"node-{at}", {"pods": 110 * NANOS}, {HOST: f"node-{at}", ZONE: "ab"[at % 2]}) for at in range(60)]
    for key, places in ((HOST, 60), (ZONE, 2)):
        pod_request = PodRequest(
            {"pods": NANOS}, namespace="lab", labels={"app": "web"}, pod_anti_affinity=(make_term(key=key),)
        )
        node_filter = NodeFilter(pod_request, NodeTable(nodes))
        assert (node_filter.count_fitting(100), node_filter.count_fitting_when_empty(100)) == (places, places)
        verdicts = [
            evaluation.evaluate(replace(pod_request, count=count), NodeTable(nodes)).verdict
            for count in (places, places + 1)
        ]
        assert verdicts == ["now", "never"]
