"""Inter-pod affinity and topology spread, by kube-scheduler's rules."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fairlead.model.nodes import Node, NodeTable, PodRequest, ScheduledPod, SchedulingContext, Taint
from fairlead.model.quantities import NANOS
from fairlead.scheduling import evaluation, pod_affinity
from fairlead.scheduling.filters import NodeFilter
from fairlead.scheduling.reasons import Cause, Reason
from fairlead.scheduling.selectors import merge_label_keys, selects

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WEB = {"matchLabels": {"app": "web"}}
# Two nodes in zone a, one in zone b, and one without a zone.
ZONES = {"node-1": "a", "node-2": "a", "node-3": "b", "node-4": None}

Pods = Mapping[str, Sequence[ScheduledPod]]


def make_pod(app: str = "web", *, namespace: str = "lab", **fields: Any) -> ScheduledPod:
    """An existing pod."""
    return ScheduledPod("", fields.pop("name", None), {}, namespace=namespace, labels={"app": app}, **fields)


def make_term(selector: Any = WEB, key: str = ZONE, **fields: Any) -> dict[str, Any]:
    """An affinity term or a spread constraint."""
    return {"topologyKey": key, "labelSelector": selector, **fields}


def make_node_table(
    pods: Pods, namespaces: Mapping[str, Mapping[str, str]] | None = None, *, tainted: str = ""
) -> NodeTable:
    """The four nodes with some pods. One of the nodes may be tainted."""
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


def make_pod_request(app: str = "job", **fields: Any) -> PodRequest:
    """A new pod."""
    return PodRequest({}, namespace="lab", labels={"app": app, "version": "2"}, **fields)


def find_reasons(pod_request: PodRequest, table: NodeTable) -> dict[str, list[Reason]]:
    """The reasons, by node, why the pod does not fit."""
    checks = pod_affinity.prepare_affinity_checks(pod_request, table)
    reasons_by_node = {node.name: [reason for each in checks for reason in each.check(node)] for node in table}
    return {name: reasons for name, reasons in reasons_by_node.items() if reasons}


def find_causes(pod_request: PodRequest, table: NodeTable) -> dict[str, list[Cause]]:
    """The causes, by node, without messages."""
    return {name: [reason.cause for reason in reasons] for name, reasons in find_reasons(pod_request, table).items()}


def test_no_check_without_affinity_rules() -> None:
    assert not pod_affinity.prepare_affinity_checks(make_pod_request(), make_node_table({"node-1": [make_pod()]}))
    conflicts_with_web = make_pod(anti_affinity=(make_term(),))
    assert not pod_affinity.prepare_affinity_checks(
        make_pod_request(), make_node_table({"node-1": [conflicts_with_web]})
    )


def test_pod_affinity_requires_matching_pods_in_the_same_topology() -> None:
    reasons_by_node = find_reasons(
        make_pod_request(pod_affinity=(make_term(),)), make_node_table({"node-1": [make_pod()]})
    )
    assert {
        name: [(reason.message, reason.lasts) for reason in reasons] for name, reasons in reasons_by_node.items()
    } == {
        "node-3": [(f"must run near pods with app=web (same {ZONE}); there are none in b", False)],
        "node-4": [(f"must run near pods with app=web (same {ZONE}); node-4 has no such label", True)],
    }


def test_one_pod_must_match_all_affinity_terms() -> None:
    pod_request = make_pod_request(pod_affinity=(make_term(), make_term({"matchLabels": {"app": "db"}}, HOST)))
    assert set(find_reasons(pod_request, make_node_table({"node-1": [make_pod("web"), make_pod("db")]}))) == set(ZONES)


def test_the_first_pod_with_affinity_to_itself_may_go_to_any_labeled_node() -> None:
    pod_request = make_pod_request("web", pod_affinity=(make_term(),))
    assert find_causes(pod_request, make_node_table({})) == {"node-4": [Cause.POD_AFFINITY]}
    assert set(find_reasons(pod_request, make_node_table({"node-3": [make_pod()]}))) == {"node-1", "node-2", "node-4"}
    assert set(find_reasons(make_pod_request("job", pod_affinity=(make_term(),)), make_node_table({}))) == set(ZONES)


def test_pods_on_nodes_without_the_topology_label_are_ignored() -> None:
    table = make_node_table({"node-4": [make_pod()]})
    assert find_causes(make_pod_request("web", pod_affinity=(make_term(),)), table) == {"node-4": [Cause.POD_AFFINITY]}


def test_anti_affinity_excludes_topologies_with_matching_pods() -> None:
    table = make_node_table({"node-1": [make_pod()], "node-3": [make_pod(), make_pod()], "node-4": [make_pod()]})
    reasons_by_node = find_reasons(make_pod_request(pod_anti_affinity=(make_term(),)), table)
    conflict = f"must not run near pods with app=web (same {ZONE})"
    assert {name: [reason.message for reason in reasons] for name, reasons in reasons_by_node.items()} == {
        "node-1": [f"{conflict}; one is on node-1"],
        "node-2": [f"{conflict}; one is on node-1"],
        "node-3": [f"{conflict}; there are 2, one of them on node-3"],
    }
    assert set(find_reasons(make_pod_request(pod_anti_affinity=(make_term(key=HOST),)), table)) == {
        "node-1",
        "node-3",
        "node-4",
    }


@pytest.mark.parametrize(
    ("fields", "expected"),
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
def test_a_term_applies_to_the_namespaces_that_it_names_and_selects(fields: dict[str, Any], expected: set[str]) -> None:
    namespaces = {"lab": {}, "shop": {"team": "a"}, "bank": {"team": "b"}}
    pod_request = make_pod_request(pod_anti_affinity=(make_term(**fields),))
    matched = {
        name
        for name in (*namespaces, "unknown")
        if find_reasons(pod_request, make_node_table({"node-3": [make_pod(namespace=name)]}, namespaces))
    }
    assert matched == expected


@pytest.mark.parametrize(
    ("fields", "is_repelled"),
    [
        ({}, False),  # its own namespace is a different one
        ({"namespaces": ["lab"]}, True),
        ({"namespaces": ["bank"]}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}, False),
    ],
)
def test_anti_affinity_of_existing_pods_applies_to_their_namespaces(fields: dict[str, Any], is_repelled: bool) -> None:
    term = make_term({"matchLabels": {"app": "job"}}, **fields)
    table = make_node_table({"node-1": [make_pod(namespace="shop", anti_affinity=(term,))]}, {"lab": {"team": "a"}})
    expected = {"node-1": [Cause.REPELLED], "node-2": [Cause.REPELLED]} if is_repelled else {}
    assert find_causes(make_pod_request(), table) == expected


def test_anti_affinity_for_other_namespaces_does_not_apply_to_the_own_one() -> None:
    job_selector = {"matchLabels": {"app": "job"}}
    for term, is_repelled in ((make_term(job_selector), True), (make_term(job_selector, namespaces=["bank"]), False)):
        assert (
            bool(find_reasons(make_pod_request(), make_node_table({"node-3": [make_pod(anti_affinity=(term,))]})))
            is is_repelled
        )


def test_conflicting_pods_are_named_if_the_reader_may_see_them() -> None:
    term = make_term({"matchLabels": {"app": "job"}})
    pods = [make_pod(name="train-42", project_id="vision", anti_affinity=(term,)), make_pod(anti_affinity=(term,))]
    table = make_node_table({"node-3": pods})
    [reason] = find_reasons(make_pod_request(), table)["node-3"]
    assert reason.message == f"conflicts with the anti-affinity (same {ZONE}) of train-42 on node-3 and 1 more"
    [reason] = find_reasons(make_pod_request(), table.visible_to(lambda project: project != "vision"))["node-3"]
    assert reason.message == f"conflicts with the anti-affinity (same {ZONE}) of a pod on node-3 and 1 more"
    assert (reason.path, reason.lasts) == ("", False)


def test_reasons_have_the_order_of_the_checks() -> None:
    anti_affinity = make_pod("db", anti_affinity=(make_term({"matchLabels": {"app": "job"}}),))
    pod_request = make_pod_request(
        pod_affinity=(make_term({"matchLabels": {"app": "cache"}}),), pod_anti_affinity=(make_term(),)
    )
    assert find_causes(pod_request, make_node_table({"node-3": [make_pod(), anti_affinity]}))["node-3"] == [
        Cause.POD_AFFINITY,
        Cause.POD_ANTI_AFFINITY,
        Cause.REPELLED,
    ]


def test_match_label_keys_are_merged_into_the_selector() -> None:
    labels = {"app": "job", "version": "2"}
    same = merge_label_keys(WEB, "In", ["version", "none"], labels)
    assert same == {**WEB, "matchExpressions": [{"key": "version", "operator": "In", "values": ["2"]}]}
    assert merge_label_keys(same, "In", ["version"], {"version": "3"}) == same  # keys are merged only once
    assert merge_label_keys(None, "In", ["version"], labels) is None

    old, new = (
        ScheduledPod("", None, {}, namespace="lab", labels={"app": "web", "version": version}) for version in ("1", "2")
    )
    table = make_node_table({"node-1": [old], "node-3": [new]})
    assert set(find_reasons(make_pod_request(pod_anti_affinity=(make_term(matchLabelKeys=["version"]),)), table)) == {
        "node-3"
    }
    assert set(
        find_reasons(make_pod_request(pod_anti_affinity=(make_term(mismatchLabelKeys=["version"]),)), table)
    ) == {
        "node-1",
        "node-2",
    }


@pytest.mark.parametrize(
    ("selector", "matches"),
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
def test_selectors_behave_as_in_kubernetes(selector: dict[str, Any] | None, matches: bool) -> None:
    assert selects(selector, {"app": "web"}) is matches
    table = make_node_table({"node-1": [make_pod()]})
    assert bool(find_reasons(make_pod_request(pod_anti_affinity=(make_term(selector),)), table)) is matches


def make_spread(selector: Any = WEB, **fields: Any) -> dict[str, Any]:
    """A constraint that spreads pods evenly over zones."""
    return make_term(selector, maxSkew=1, whenUnsatisfiable="DoNotSchedule", **fields)


def test_topology_spread_limits_the_skew() -> None:
    table = make_node_table({"node-1": [make_pod()], "node-2": [make_pod()], "node-3": [make_pod()]})
    reasons_by_node = find_reasons(make_pod_request("web", topology_spread=(make_spread(),)), table)
    assert {
        name: [(reason.message, reason.lasts) for reason in reasons] for name, reasons in reasons_by_node.items()
    } == {
        name: [
            (
                f"spreads pods with app=web across {ZONE} with a maximum skew of 1; "
                "a would have 3, and the minimum is 1",
                False,
            )
        ]
        for name in ("node-1", "node-2")
    } | {"node-4": [(f"must be spread across {ZONE}; node-4 has no such label", True)]}


@pytest.mark.parametrize(
    ("pods", "rule", "excluded"),
    [
        # a pod that does not match its own selector may go to the larger domain
        ({"node-1": [make_pod()]}, make_spread({"matchLabels": {"app": "web"}}), set()),
        ({"node-1": [make_pod("job")]}, make_spread({"matchLabels": {"app": "job"}}), {"node-1", "node-2"}),
        ({"node-1": [make_pod("job")]}, {**make_spread({"matchLabels": {"app": "job"}}), "maxSkew": 2}, set()),
        # pods in other namespaces, and those that are being deleted, are not counted
        ({"node-1": [make_pod("job", namespace="shop")]}, make_spread({"matchLabels": {"app": "job"}}), set()),
        ({"node-1": [make_pod("job", terminating=True)]}, make_spread({"matchLabels": {"app": "job"}}), set()),
        # a missing selector counts no pods; an empty one counts all, but not the new pod
        ({"node-1": [make_pod("job")]}, make_spread(None), set()),
        ({"node-1": [make_pod("job"), make_pod("job")]}, make_spread({}), set()),
        # other versions are spread separately
        (
            {"node-1": [make_pod("job")]},
            make_spread({"matchLabels": {"app": "job"}}, matchLabelKeys=["version"]),
            set(),
        ),
    ],
)
def test_which_pods_count_for_topology_spread(pods: Pods, rule: dict[str, Any], excluded: set[str]) -> None:
    assert set(find_reasons(make_pod_request(topology_spread=(rule,)), make_node_table(pods))) == excluded | {"node-4"}


def test_too_few_domains_make_the_minimum_zero() -> None:
    table = make_node_table({"node-1": [make_pod()], "node-3": [make_pod()]})
    assert set(find_reasons(make_pod_request("web", topology_spread=(make_spread(minDomains=2),)), table)) == {"node-4"}
    reasons = find_reasons(make_pod_request("web", topology_spread=(make_spread(minDomains=3),)), table)
    assert reasons["node-3"][0].message.endswith("b would have 2, and only 2 of 3 required domains exist")


def test_node_inclusion_policies_exclude_ineligible_nodes() -> None:
    table = make_node_table({"node-1": [make_pod()]}, tainted="node-3")
    for fields, excluded in (
        ({}, {"node-1", "node-2", "node-4"}),
        ({"nodeTaintsPolicy": "Ignore"}, {"node-1", "node-2", "node-4"}),
        ({"nodeTaintsPolicy": "Honor"}, {"node-4"}),
    ):
        assert set(find_reasons(make_pod_request("web", topology_spread=(make_spread(**fields),)), table)) == excluded
    for fields, excluded in (
        ({}, {"node-4"}),
        ({"nodeAffinityPolicy": "Honor"}, {"node-4"}),
        ({"nodeAffinityPolicy": "Ignore"}, {"node-1", "node-2", "node-4"}),
    ):
        pod_request = make_pod_request("web", topology_spread=(make_spread(**fields),), node_selector={ZONE: "a"})
        assert set(find_reasons(pod_request, table)) == excluded


def test_nodes_without_all_topology_labels_are_not_counted() -> None:
    by_host = {**make_spread(), "topologyKey": HOST}
    table = make_node_table({"node-1": [make_pod()], "node-3": [make_pod()], "node-4": [make_pod()]})
    alone = find_causes(make_pod_request("web", topology_spread=(by_host,)), table)
    assert alone == {name: [Cause.SPREAD] for name in ("node-1", "node-3", "node-4")}
    both = find_causes(make_pod_request("web", topology_spread=(by_host, make_spread())), table)
    assert both == {"node-1": [Cause.SPREAD], "node-3": [Cause.SPREAD], "node-4": [Cause.SPREAD_LABEL]}


def test_pods_with_anti_affinity_fit_once_per_domain() -> None:
    nodes = [
        Node(f"node-{index}", {"pods": 110 * NANOS}, {HOST: f"node-{index}", ZONE: "ab"[index % 2]})
        for index in range(60)
    ]
    for key, domains in ((HOST, 60), (ZONE, 2)):
        pod_request = PodRequest(
            {"pods": NANOS}, namespace="lab", labels={"app": "web"}, pod_anti_affinity=(make_term(key=key),)
        )
        node_filter = NodeFilter(pod_request, NodeTable(nodes))
        assert (node_filter.count_fitting(100), node_filter.count_fitting_when_empty(100)) == (domains, domains)
        verdicts = [
            evaluation.evaluate(replace(pod_request, count=count), NodeTable(nodes)).verdict
            for count in (domains, domains + 1)
        ]
        assert verdicts == ["now", "never"]
