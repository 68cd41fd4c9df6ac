"""Inventory files: kubectl output in all formats, and invalid files."""

import json
from typing import Any

import pytest

from fairlead.errors import RequestRejected, Unreadable
from fairlead.files import yamls
from fairlead.files.inventories import Inventory, parse_objects, read_inventory
from tests.docs.pages import ROOT

EXAMPLE = (ROOT / "examples" / "nodes.json").read_bytes()
EXAMPLE_LIST = json.loads(EXAMPLE)
NODE: dict[str, Any] = {
    "kind": "Node",
    "metadata": {"name": "box"},
    "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
}
POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"nodeName": "box", "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]},
    "status": {"phase": "Running"},
}
SYSTEM = {**POD, "metadata": {"name": "dns", "namespace": "kube-system"}}


def read(*objects: dict[str, Any]) -> Inventory:
    return read_inventory(parse_objects(json.dumps(list(objects)).encode()), "nodes.json")


def list_of(kind: str) -> dict[str, Any]:
    """A list of one kind as the API returns it: its items have no kind."""
    items = [
        {key: part for key, part in item.items() if key != "kind"}
        for item in EXAMPLE_LIST["items"]
        if item["kind"] == kind
    ]
    return {"kind": f"{kind}List", "items": items}


OUTPUT_FORMATS = {
    "a list": EXAMPLE,
    "a list in one line": json.dumps(EXAMPLE_LIST).encode(),
    "YAML": yamls.format_documents([EXAMPLE_LIST]).encode(),
    "a YAML document per object": yamls.format_documents(EXAMPLE_LIST["items"]).encode(),
    "with a byte order mark": b"\xef\xbb\xbf" + EXAMPLE,
    "UTF-16, as PowerShell writes it": EXAMPLE.decode().encode("utf-16"),
    "two concatenated lists": "\n".join(json.dumps(list_of(kind), indent=2) for kind in ("Node", "Pod")).encode(),
    "the same list twice": EXAMPLE + EXAMPLE,
    "a bare list": json.dumps(EXAMPLE_LIST["items"]).encode(),
}


@pytest.mark.parametrize("case", OUTPUT_FORMATS)
def test_every_output_format_is_parsed(case: str) -> None:
    inventory = read_inventory(parse_objects(OUTPUT_FORMATS[case]), "nodes.json")
    assert sorted(inventory.table.names) == ["a100-1", "a100-2", "cp-1", "cpu-1", "cpu-2", "l4-1", "l4-2"]
    assert sum(len(node.pods) for node in inventory.table) == 22, "one other pod has ended, and three are waiting"
    assert [pod.name for pod in inventory.waiting] == [
        "forest/pretrain-9a02",
        "lake/asr-train-81d7",
        "meadow/map-tiles-4410",
    ]
    assert inventory.warnings == []


def test_namespaces_and_claims_are_parsed_if_present() -> None:
    namespace = {"kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"}, "spec": {}}
    others = [{"kind": "Event", "metadata": {"name": "x"}}, {"kind": "Service", "metadata": {"name": "y"}}]
    context = read(NODE, POD, SYSTEM, namespace, claim, *others).table.context
    assert context.namespaces == {"shop": {"team": "a"}}
    assert list(context.claims or ()) == [("shop", "data")]
    assert read(NODE, POD, SYSTEM).table.context.claims is None, "claims are unknown without storage objects"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "is not a text file"),
        (b"NAME   STATUS   ROLES\nbox    Ready    <none>\n", "is not the output of kubectl: found 'NAME"),
        (b"a: b: c", "is not the output of kubectl: is not valid YAML"),
        (EXAMPLE[:5000], "is not valid JSON: "),
        (b'{"items": []}', "is not the output of kubectl: found an object without a kind"),
        (b'{"kind": "List"}', "found an object of kind 'List' without a list of items"),
        (b'{"kind": "List", "items": [{"metadata": {"name": "a"}}]}', "found an object without a kind"),
        (b'{"kind": "Pod", "kind": "Node"}', "has the duplicate key 'kind'"),
        (b"[" * 500 + b"]" * 500, "it has lists nested more than 100 levels deep"),
        (b'{"kind": "List", "items": [7]}', "is not the output of kubectl: found 7"),
        (b'{"kind": "List", "items": {}}', "found an object of kind 'List' without a list of items"),
        (b'{"kind": "Pod", "spec": {}}', "found an object of kind 'Pod' without a name"),
        (b"kind: Config\napiVersion: v1\nclusters: []\n", "found an object of kind 'Config' without a name"),
        (b"[1, 2]", "found 1"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_other_files_are_rejected_with_the_kubectl_command(text: bytes, message: str) -> None:
    with pytest.raises(Unreadable) as caught:
        parse_objects(text)
    assert message in str(caught.value)
    assert "kubectl get nodes,pods -A -o json" in caught.value.hint


@pytest.mark.parametrize(
    ("objects", "path", "message"),
    [
        ([POD], "", "has no nodes, found only objects of kind Pod"),
        ([], "", "has no nodes, found no relevant objects"),
        ([NODE, {**POD, "spec": None}], "Pod/shop/web: spec", "must be a mapping, found nothing"),
        ([NODE, {**POD, "spec": {}}], "Pod/shop/web: spec.containers", "is missing"),
        ([{**NODE, "metadata": {"name": 7}}], "Node/7: metadata.name", "must be text, found 7"),
        ([{**NODE, "metadata": {"name": "a\x1b[2J"}}], r"Node/'a\x1b[2J': metadata.name", "must be text without"),
    ],
)
def test_invalid_objects_are_named(objects: list[dict[str, Any]], path: str, message: str) -> None:
    with pytest.raises(RequestRejected) as caught:
        read(*objects)
    (violation,) = caught.value.violations
    assert (violation.path, violation.location) == (path, "nodes.json")
    assert message in violation.message
    assert "kubectl get nodes,pods -A -o json" in (violation.hint or "")


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
SPREAD = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def expression(operator: Any, *values: Any) -> dict[str, Any]:
    return {"key": "a", "operator": operator, "values": list(values)}


def with_term(**fields: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{**TERM, **fields}]}}}


def with_node_affinity(condition: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [condition]}]}}}}


def with_requests(**amounts: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"requests": amounts}}]}


POD_TERM, NODE_TERM = (
    f"affinity.podAntiAffinity.{REQUIRED}[0]",
    f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]",
)
REQUESTS = "containers[0].resources.requests"


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"containers": []}, "containers", "must not be empty, found a list"),
        ({"containers": "x"}, "containers", "must be a list, found 'x'"),
        ({"containers": [None]}, "containers[0]", "must be a mapping, found nothing"),
        (with_requests(cpu="many"), f"{REQUESTS}.cpu", "invalid amount: not a number"),
        (with_requests(cpu="-1"), f"{REQUESTS}.cpu", "must not be negative, found '-1'"),
        (with_requests(cpu=None), f"{REQUESTS}.cpu", "must be an amount, found nothing"),
        (with_requests(cpu=True), f"{REQUESTS}.cpu", "must be an amount, found true"),
        (with_requests(**{"nvidia.com/gpu": 1.5}), f"{REQUESTS}.nvidia.com/gpu", "must be a whole number, found 1.5"),
        ({"overhead": {"cpu": []}}, "overhead.cpu", "must be an amount, found a list"),
        ({"nodeName": 7}, "nodeName", "must be text, found 7"),
        ({"nodeSelector": {"a": 7}}, "nodeSelector.a", "must be text, found 7"),
        ({"priority": "high"}, "priority", "must be a whole number, found 'high'"),
        (
            {"containers": [{"ports": [{"hostPort": "80"}]}]},
            "containers[0].ports[0].hostPort",
            "must be a whole number",
        ),
        (with_term(topologyKey=None), f"{POD_TERM}.topologyKey", "must be text, found nothing"),
        (with_term(labelSelector=[]), f"{POD_TERM}.labelSelector", "must be a mapping, found a list"),
        (
            with_term(labelSelector={"matchExpressions": [expression("Gt", "1")]}),
            f"{POD_TERM}.labelSelector.matchExpressions[0].operator",
            "found 'Gt'",
        ),
        (with_node_affinity(expression("Near", "x")), f"{NODE_TERM}.matchExpressions[0].operator", "found 'Near'"),
        (
            with_node_affinity(expression("In")),
            f"{NODE_TERM}.matchExpressions[0].values",
            "must have values with In, found none",
        ),
        (
            with_node_affinity(expression("Gt", "1", "2")),
            f"{NODE_TERM}.matchExpressions[0].values",
            "must have one value",
        ),
        (
            with_node_affinity(expression("In", 7)),
            f"{NODE_TERM}.matchExpressions[0].values[0]",
            "must be text, found 7",
        ),
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "topologySpreadConstraints[0].topologyKey", "is missing"),
        (
            {"topologySpreadConstraints": [{**SPREAD, "maxSkew": 0}]},
            "topologySpreadConstraints[0].maxSkew",
            "must be at least 1, found 0",
        ),
    ],
)
def test_invalid_parts_of_a_pod_are_named(spec: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(RequestRejected) as caught:
        read(NODE, {**POD, "spec": {**POD["spec"], **spec}})
    (violation,) = caught.value.violations
    assert violation.path == f"Pod/shop/web: spec.{path}"
    assert message in violation.message


def test_all_violations_of_all_objects_are_reported_together() -> None:
    node = {
        "kind": "Node",
        "metadata": {"name": "box", "labels": {"a": 1}, "annotations": {"b": None}},
        "spec": {"unschedulable": "no", "taints": [{"effect": "NoSchedul"}]},
        "status": {"allocatable": {"pods": "1.5"}},
    }
    volume = {"kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "-1"}}}
    with pytest.raises(RequestRejected) as caught:
        read(node, volume)
    assert [violation.path for violation in caught.value.violations] == [
        "Node/box: metadata.labels.a",
        "Node/box: metadata.annotations.b",
        "Node/box: spec.taints[0].key",
        "Node/box: spec.taints[0].effect",
        "Node/box: spec.unschedulable",
        "Node/box: status.allocatable.pods",
        "PersistentVolume/disk: spec.capacity.storage",
    ]
    effect = caught.value.violations[3]
    assert (effect.hint or "").startswith("did you mean NoSchedule")


@pytest.mark.parametrize(
    ("objects", "rules"),
    [
        ([NODE], ["no_pods"]),
        ([NODE, {**NODE, "metadata": {"name": "other"}}, POD], ["one_namespace"]),
        ([{**NODE, "metadata": {"name": "other"}}, POD, SYSTEM], ["unknown_nodes"]),
        ([NODE, POD, SYSTEM], []),
    ],
)
def test_incomplete_inventories_have_warnings(objects: list[dict[str, Any]], rules: list[str]) -> None:
    assert [warning.rule for warning in read(*objects).warnings] == rules
