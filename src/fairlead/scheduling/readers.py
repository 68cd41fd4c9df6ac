"""Reads nodes, pods and storage from Kubernetes JSON, from a watch or `kubectl get -o json`."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fairlead.model.nodes import (
    Labels,
    Node,
    NodeTable,
    PersistentVolume,
    PersistentVolumeClaim,
    ScheduledPod,
    SchedulingContext,
    StorageClass,
    Taint,
)
from fairlead.scheduling.gpu_sharing import read_devices, read_gpu_allocations
from fairlead.scheduling.pod_requests import (
    count_amounts,
    read_amounts,
    read_claims,
    read_ports,
    read_terms,
    round_up,
    without_unlisted,
)

ENDED = ("Succeeded", "Failed")

JSON = Mapping[str, Any]

BOUND = "pv.kubernetes.io/bind-completed"
CHOSEN_NODE = "volume.kubernetes.io/selected-node"
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"  # deprecated annotation that overrides the field
NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")  # volumes are created by administrators
STORAGE_KINDS = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")


def read_node(raw: JSON) -> Node:
    """A node without pods."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    return Node(
        name=meta["name"],
        # Allocatable, not capacity: the kubelet reserves the rest for the system. kube-scheduler also rounds up.
        capacity=round_up(read_amounts(status.get("allocatable") or {})),
        labels=meta.get("labels") or {},
        taints=tuple(
            Taint(taint["key"], taint.get("value") or "", taint["effect"]) for taint in spec.get("taints") or ()
        ),
        unschedulable=bool(spec.get("unschedulable")),
        devices=read_devices(meta.get("annotations") or {}),
    )


def read_scheduled_pod(raw: JSON) -> ScheduledPod:
    """A pod on a node: the resources it uses and its restrictions on other pods."""
    meta, spec = raw["metadata"], raw["spec"]
    return ScheduledPod(
        # The executor sets both fields for pods that belong to runs.
        run_id="",
        name=None,
        amounts=without_unlisted(count_amounts(spec, raw.get("status")), spec.get("schedulerName")),
        namespace=meta.get("namespace") or "",
        labels=meta.get("labels") or {},
        anti_affinity=read_terms(spec.get("affinity") or {}, "podAntiAffinity"),
        ports=read_ports(spec),
        claims=read_claims(spec, meta),
        gpu_allocations=read_gpu_allocations(meta.get("annotations") or {}, meta.get("labels") or {}),
        terminating="deletionTimestamp" in meta,
    )


def is_placed(raw: JSON) -> bool:
    """Whether a pod uses a node's resources: it has a node and has not ended."""
    # A pod that is being deleted uses its resources until its containers have ended.
    return bool(raw["spec"].get("nodeName")) and (raw.get("status") or {}).get("phase") not in ENDED


def read_cluster(items: Iterable[JSON]) -> NodeTable:
    """The nodes among Kubernetes objects, with their pods. Pods are named namespace/name."""
    nodes: list[Node] = []
    pods: defaultdict[str, list[ScheduledPod]] = defaultdict(list)
    for raw in items:
        if raw["kind"] == "Node":
            nodes.append(read_node(raw))
        elif raw["kind"] == "Pod" and is_placed(raw):
            pod = read_scheduled_pod(raw)
            pods[raw["spec"]["nodeName"]].append(replace(pod, name=f"{pod.namespace}/{raw['metadata']['name']}"))
    table = NodeTable(replace(node, pods=tuple(pods[node.name])) for node in nodes)
    table.noun = "pod"
    return table


def read_claim(raw: JSON) -> PersistentVolumeClaim:
    """A PersistentVolumeClaim."""
    meta, spec = raw["metadata"], raw.get("spec") or {}
    annotations = meta.get("annotations") or {}
    return PersistentVolumeClaim(
        volume=spec.get("volumeName") or "",
        storage_class=annotations.get(OLD_CLASS, spec.get("storageClassName")),
        size=_read_size((spec.get("resources") or {}).get("requests")),
        modes=tuple(spec.get("accessModes") or ()),
        selector=spec.get("selector"),
        block=spec.get("volumeMode") == "Block",
        # Users may set volumeName to request a volume, but it is not bound until the controller sets the annotation.
        bound=bool(spec.get("volumeName")) and BOUND in annotations,
        attributes_class=spec.get("volumeAttributesClassName") or "",
        chosen_node=annotations.get(CHOSEN_NODE) or "",
        lost=(raw.get("status") or {}).get("phase") == "Lost",
        terminating="deletionTimestamp" in meta,
        uid=meta.get("uid") or "",
    )


def read_volume(raw: JSON) -> PersistentVolume:
    """A PersistentVolume."""
    meta, spec = raw["metadata"], raw.get("spec") or {}
    claim_ref = spec.get("claimRef")
    required = (spec.get("nodeAffinity") or {}).get("required")
    return PersistentVolume(
        name=meta["name"],
        node_terms=None if required is None else tuple(required.get("nodeSelectorTerms") or ()),
        labels=meta.get("labels") or {},
        claimed_by=None if claim_ref is None else (claim_ref.get("namespace") or "", claim_ref.get("name") or ""),
        claim_uid=(claim_ref or {}).get("uid") or "",
        size=_read_size(spec.get("capacity")),
        modes=tuple(spec.get("accessModes") or ()),
        storage_class=(meta.get("annotations") or {}).get(OLD_CLASS, spec.get("storageClassName") or ""),
        block=spec.get("volumeMode") == "Block",
        available=(raw.get("status") or {}).get("phase") == "Available",
        attributes_class=spec.get("volumeAttributesClassName") or "",
        terminating="deletionTimestamp" in meta,
    )


def read_class(raw: JSON) -> StorageClass:
    """A StorageClass."""
    return StorageClass(
        wait_for_first_consumer=raw.get("volumeBindingMode") == "WaitForFirstConsumer",
        topologies=tuple(raw.get("allowedTopologies") or ()),
        provisions=(raw.get("provisioner") or "") not in NO_PROVISIONER,
    )


def read_scheduling_context(items: Iterable[JSON], *, complete: bool = False) -> SchedulingContext:
    """The storage objects and namespaces among Kubernetes objects.

    Without storage objects, the claims are unknown (None), unless the items are `complete`.
    """
    namespaces: dict[str, Labels] = {}
    claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
    volumes: dict[str, PersistentVolume] = {}
    classes: dict[str, StorageClass] = {}
    has_storage = complete
    for raw in items:
        kind, meta = raw["kind"], raw["metadata"]
        has_storage = has_storage or kind in STORAGE_KINDS
        if kind == "Namespace":
            namespaces[meta["name"]] = meta.get("labels") or {}
        elif kind == "PersistentVolumeClaim":
            claims[meta.get("namespace") or "", meta["name"]] = read_claim(raw)
        elif kind == "PersistentVolume":
            volumes[meta["name"]] = read_volume(raw)
        elif kind == "StorageClass":
            classes[meta["name"]] = read_class(raw)
    return SchedulingContext(namespaces, claims if has_storage else None, volumes, classes)


def _read_size(amounts: JSON | None) -> int:
    return read_amounts(amounts or {}).get("storage", 0)
