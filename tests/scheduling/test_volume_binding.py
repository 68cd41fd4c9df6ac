"""Volume binding, by kube-scheduler's rules."""

from typing import Any

import pytest

from fairlead.model.nodes import (
    Node,
    NodeTable,
    PersistentVolume,
    PersistentVolumeClaim,
    PodRequest,
    ScheduledPod,
    SchedulingContext,
    StorageClass,
)
from fairlead.model.quantities import Quantity
from fairlead.scheduling import volumes
from fairlead.scheduling.readers import read_claim, read_class, read_scheduling_context, read_volume
from fairlead.scheduling.reasons import Cause, Reason

HOST, ZONE, REGION = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
ONCE = ("ReadWriteOnce",)
LOCAL = StorageClass(wait_for_first_consumer=True, provisions=False)
BOUND = PersistentVolumeClaim(volume="disk", bound=True)
UNBOUND = PersistentVolumeClaim(storage_class="local", size=10, modes=ONCE)


def on_nodes(*names: str) -> tuple[dict[str, Any], ...]:
    """The node terms of a volume that is accessible from certain nodes."""
    return ({"matchExpressions": [{"key": HOST, "operator": "In", "values": list(names)}]},)


def make_disk(name: str = "disk", **fields: Any) -> PersistentVolume:
    """A volume that an unbound claim could use."""
    return PersistentVolume(
        **{"name": name, "size": 10, "modes": ONCE, "storage_class": "local", "available": True, **fields}
    )


def find_reasons(
    claims: dict[str, PersistentVolumeClaim],
    *disks: PersistentVolume,
    mounts: tuple[str, ...] | None = None,
    classes: dict[str, StorageClass] | None = None,
    labels: dict[str, str] | None = None,
    pods: tuple[ScheduledPod, ...] = (),
) -> dict[str, list[Reason]]:
    """The reasons, by node, why a pod with the claims does not fit two nodes."""
    nodes = [
        Node("node-1", {}, {HOST: "node-1", **(labels or {})}),
        Node("node-2", {}, {HOST: "node-2"}, pods),
    ]
    claims_by_key = {("lab", name): claim for name, claim in claims.items()}
    storage_classes = {"local": LOCAL, "now": StorageClass()} if classes is None else classes
    table = NodeTable(nodes, SchedulingContext({}, claims_by_key, {disk.name: disk for disk in disks}, storage_classes))
    check = volumes.prepare_volume_check(
        PodRequest({}, namespace="lab", claims=tuple(claims) if mounts is None else mounts), table
    )
    assert check is not None
    return {node.name: reasons for node in table if (reasons := list(check(node)))}


def test_no_volume_check_without_claims_or_cluster_data() -> None:
    assert volumes.prepare_volume_check(PodRequest({}), NodeTable((), SchedulingContext(claims={}))) is None
    assert volumes.prepare_volume_check(PodRequest({}, claims=("data",)), NodeTable()) is None


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        (None, "which does not exist"),
        (PersistentVolumeClaim(volume="disk", bound=True, terminating=True), "which is being deleted"),
        (PersistentVolumeClaim(volume="gone", bound=True), "whose volume gone does not exist"),
        (PersistentVolumeClaim(volume="disk", bound=True, lost=True), "whose volume disk does not exist"),
        (PersistentVolumeClaim(volume="disk"), "which is not bound to its volume disk yet"),
        (PersistentVolumeClaim(volume="disk", storage_class="local"), "which is not bound to its volume disk yet"),
        (PersistentVolumeClaim(), "which has neither a volume nor a storage class"),
        (PersistentVolumeClaim(storage_class=""), "which has neither a volume nor a storage class"),
        (PersistentVolumeClaim(storage_class="none"), "which has no volume, and its storage class none does not exist"),
        (PersistentVolumeClaim(storage_class="now"), "which has no volume yet"),
    ],
)
def test_a_claim_that_is_not_ready_excludes_every_node(claim: PersistentVolumeClaim | None, problem: str) -> None:
    reasons = find_reasons({} if claim is None else {"data": claim}, make_disk(), mounts=("data",))
    reason = Reason(Cause.CLAIM, "volumes.data", f"mounts claim data, {problem}")
    assert reasons == {"node-1": [reason], "node-2": [reason]}


def test_a_claim_of_another_namespace_is_not_found() -> None:
    table = NodeTable([Node("node-1", {})], SchedulingContext({}, {("shop", "data"): BOUND}, {"disk": make_disk()}))
    check = volumes.prepare_volume_check(PodRequest({}, namespace="lab", claims=("data",)), table)
    assert check is not None
    assert [reason.cause for reason in check(table.nodes[0])] == [Cause.CLAIM]


def test_node_affinity_of_a_volume_limits_its_nodes() -> None:
    assert not find_reasons({"data": BOUND}, make_disk())
    message = (
        f"mounts claim data, whose volume disk is only accessible from nodes with {HOST} In node-1, not from node-2"
    )
    assert find_reasons({"data": BOUND}, make_disk(node_terms=on_nodes("node-1"))) == {
        "node-2": [Reason(Cause.VOLUME, "volumes.data", message, lasts=True)]
    }


@pytest.mark.parametrize(
    ("terms", "excluded"),
    [
        ((*on_nodes("node-1"), *on_nodes("node-2")), set()),
        ((*on_nodes("node-1"), {}), {"node-2"}),
        (({},), {"node-1", "node-2"}),
        # kube-scheduler ignores a volume's matchFields
        (({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},), set()),
        (
            ({**on_nodes("node-1")[0], "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]},),
            {"node-2"},
        ),
    ],
)
def test_one_node_term_of_a_volume_must_match(terms: tuple[dict[str, Any], ...], excluded: set[str]) -> None:
    assert set(find_reasons({"data": BOUND}, make_disk(node_terms=terms))) == excluded


@pytest.mark.parametrize(
    ("volume_labels", "node_labels", "fits"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a"}, {}, True),  # a node without zone labels
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a__b"}, {ZONE: "c"}, False),
        ({ZONE: "a__"}, {ZONE: "c"}, True),  # invalid
        ({OLD_ZONE: "a"}, {OLD_ZONE: "a"}, True),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, True),
        ({OLD_ZONE: "a"}, {ZONE: "b"}, False),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "b", ZONE: "a"}, False),
        ({ZONE: "a"}, {OLD_ZONE: "a"}, False),  # a new label does not match its old name
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
    ],
)
def test_zone_labels_of_a_volume_limit_its_nodes(
    volume_labels: dict[str, str], node_labels: dict[str, str], fits: bool
) -> None:
    reasons = find_reasons({"data": BOUND}, make_disk(labels=volume_labels), labels=node_labels)
    assert [reason.cause for reason in reasons.get("node-1", [])] == ([] if fits else [Cause.ZONE])


def test_the_reason_contains_the_zones_of_volume_and_node() -> None:
    [reason] = find_reasons({"data": BOUND}, make_disk(labels={ZONE: "a__b"}), labels={ZONE: "c"})["node-1"]
    assert reason.message == f"mounts claim data, whose volume disk is in a or b ({ZONE}); node-1 is in c"
    assert reason.lasts


def test_a_read_write_once_pod_claim_is_not_shared() -> None:
    single_pod_claim = PersistentVolumeClaim(volume="disk", bound=True, modes=("ReadWriteOncePod",))
    pod = ScheduledPod("", "train-42", {}, namespace="lab", claims=("data",))
    message = "mounts claim data, which only one pod can use at a time; train-42 on node-2 uses it"
    reason = Reason(Cause.IN_USE, "volumes.data", message)
    assert find_reasons({"data": single_pod_claim}, make_disk(), pods=(pod,)) == {
        "node-1": [reason],
        "node-2": [reason],
    }
    assert not find_reasons({"data": BOUND}, make_disk(), pods=(pod,))
    other_namespace_pod = ScheduledPod("", "other", {}, namespace="shop", claims=("data",))
    assert not find_reasons({"data": single_pod_claim}, make_disk(), pods=(other_namespace_pod,))


def test_an_unbound_claim_needs_a_free_volume_on_the_node() -> None:
    reasons = find_reasons({"data": UNBOUND}, make_disk(node_terms=on_nodes("node-1")))
    message = "mounts claim data, which has no volume yet; no suitable volume of class local is free on node-2"
    assert reasons == {"node-2": [Reason(Cause.VOLUME, "volumes.data", message)]}


@pytest.mark.parametrize(
    ("disk", "claim", "matches"),
    [
        ({}, {}, True),
        ({"size": 9}, {}, False),
        ({"size": 11}, {}, True),
        ({"storage_class": "other"}, {}, False),
        ({"block": True}, {}, False),
        ({"block": True}, {"block": True}, True),
        ({"modes": ("ReadOnlyMany",)}, {}, False),
        ({"modes": (*ONCE, "ReadOnlyMany")}, {}, True),
        ({"available": False}, {}, False),
        ({"terminating": True}, {}, False),
        ({"attributes_class": "gold"}, {}, False),
        ({"attributes_class": "gold"}, {"attributes_class": "gold"}, True),
        ({}, {"selector": {"matchLabels": {"disk": "ssd"}}}, False),
        ({"labels": {"disk": "ssd"}}, {"selector": {"matchLabels": {"disk": "ssd"}}}, True),
        ({}, {"selector": {}}, True),
        ({"claimed_by": ("lab", "other")}, {}, False),
        ({"claimed_by": ("shop", "data")}, {}, False),
        # a volume reserved for the claim does not need to be available or match the claim's requests
        ({"claimed_by": ("lab", "data"), "available": False, "modes": ()}, {}, True),
        ({"claimed_by": ("lab", "data"), "size": 9}, {}, False),
        ({"claimed_by": ("lab", "data"), "claim_uid": "1"}, {"uid": "1"}, True),
        ({"claimed_by": ("lab", "data"), "claim_uid": "1"}, {"uid": "2"}, False),
    ],
)
def test_which_volumes_match_a_claim(disk: dict[str, Any], claim: dict[str, Any], matches: bool) -> None:
    requested = PersistentVolumeClaim(**{"storage_class": "local", "size": 10, "modes": ONCE, **claim})
    assert find_reasons({"data": requested}, make_disk(**disk)).keys() == (set() if matches else {"node-1", "node-2"})


def test_a_claim_uses_only_the_volume_reserved_for_it() -> None:
    reserved = make_disk("reserved", claimed_by=("lab", "data"), node_terms=on_nodes("node-1"))
    assert set(find_reasons({"data": UNBOUND}, reserved, make_disk("free"))) == {"node-2"}


def test_the_smallest_claim_is_bound_first_to_the_smallest_matching_volume() -> None:
    small, large = PersistentVolumeClaim("", "local", 10, ONCE), PersistentVolumeClaim("", "local", 20, ONCE)
    assert not find_reasons({"b": large, "a": small}, make_disk("d2", size=20), make_disk("d1", size=10))
    reasons = find_reasons({"b": large, "a": small}, make_disk("d2", size=20))
    assert [reason.path for reason in reasons["node-1"]] == ["volumes.b"]


def test_a_claim_mounted_twice_needs_two_volumes_as_in_kube_scheduler() -> None:
    assert not find_reasons({"data": UNBOUND}, make_disk(), mounts=("data",))
    assert set(find_reasons({"data": UNBOUND}, make_disk(), mounts=("data", "data"))) == {"node-1", "node-2"}


@pytest.mark.parametrize(
    ("topologies", "excluded"),
    [
        ((), set()),
        (({"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]},), {"node-2"}),
        (({"matchLabelExpressions": [{"key": ZONE, "values": ["c"]}]},), {"node-1", "node-2"}),
        (({},), {"node-1", "node-2"}),
        (({}, {"matchLabelExpressions": [{"key": HOST, "values": ["node-2"]}]}), {"node-1"}),
    ],
)
def test_allowed_topologies_of_a_class_limit_the_nodes(
    topologies: tuple[dict[str, Any], ...], excluded: set[str]
) -> None:
    classes = {"local": StorageClass(wait_for_first_consumer=True, topologies=topologies)}
    reasons_by_node = find_reasons({"data": UNBOUND}, classes=classes, labels={ZONE: "a"})
    assert set(reasons_by_node) == excluded
    assert all(reason.lasts for reasons in reasons_by_node.values() for reason in reasons)


def test_the_reason_contains_the_allowed_topologies() -> None:
    terms = ({"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]},)
    [reason] = find_reasons({"data": UNBOUND}, classes={"local": StorageClass(True, terms)})["node-2"]
    explanation = f"class local provisions volumes only on nodes with {ZONE} In a, b, not on node-2"
    assert reason.message == f"mounts claim data, which has no volume yet; {explanation}"


def test_a_volume_being_provisioned_is_expected_on_its_node() -> None:
    provisioning = PersistentVolumeClaim(storage_class="local", chosen_node="node-1")
    reasons = find_reasons(
        {"data": provisioning}, make_disk(), classes={"local": StorageClass(wait_for_first_consumer=True)}
    )
    explanation = "one is being provisioned on node-1, not on node-2"
    message = f"mounts claim data, which has no volume yet; {explanation}"
    assert reasons == {"node-2": [Reason(Cause.VOLUME, "volumes.data", message)]}
    assert set(find_reasons({"data": provisioning}, make_disk())) == {
        "node-1",
        "node-2",
    }  # its class does not provision volumes


def test_storage_objects_of_kubernetes_are_parsed() -> None:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "namespace": "lab",
            "name": "data",
            "uid": "1",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "node-1"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
            "volumeMode": "Block",
            "volumeName": "disk",
        },
        "status": {"phase": "Bound"},
    }
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "disk", "labels": {ZONE: "a"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "lab", "name": "data", "uid": "1"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": list(on_nodes("node-1"))}},
            "storageClassName": "fast",
            "volumeMode": "Block",
        },
        "status": {"phase": "Available"},
    }
    storage_class = {
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": []}],
    }
    size = Quantity.parse("1Gi").nanos
    assert read_claim(claim) == PersistentVolumeClaim(
        "disk", "fast", size, ONCE, block=True, bound=True, chosen_node="node-1", uid="1"
    )
    assert read_volume(volume) == PersistentVolume(
        "disk", on_nodes("node-1"), {ZONE: "a"}, ("lab", "data"), "1", size, ONCE, "fast", block=True, available=True
    )
    assert read_class(storage_class) == StorageClass(True, ({"matchLabelExpressions": []},), provisions=False)
    namespace = {"kind": "Namespace", "metadata": {"name": "lab", "labels": {"team": "a"}}}
    assert read_scheduling_context(
        [claim, volume, storage_class, namespace, {"kind": "Node", "metadata": {}}]
    ) == SchedulingContext(
        {"lab": {"team": "a"}},
        {("lab", "data"): read_claim(claim)},
        {"disk": read_volume(volume)},
        {"fast": read_class(storage_class)},
    )


def test_the_legacy_class_annotation_overrides_the_field() -> None:
    meta = {"name": "x", "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
    assert read_claim({"metadata": meta, "spec": {"storageClassName": "new"}}).storage_class == "old"
    assert read_volume({"metadata": meta, "spec": {"storageClassName": "new"}}).storage_class == "old"


def test_a_claim_is_bound_only_after_binding_completed() -> None:
    assert not read_claim({"metadata": {"name": "x"}, "spec": {"volumeName": "disk"}}).bound


def test_claims_are_unknown_without_storage_objects_unless_the_list_is_complete() -> None:
    assert read_scheduling_context([]).claims is None
    assert read_scheduling_context([{"kind": "StorageClass", "metadata": {"name": "fast"}}]).claims == {}
    assert read_scheduling_context([], complete=True).claims == {}
