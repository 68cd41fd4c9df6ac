"""Reads nodes and pods from Kubernetes JSON, from a watch or `kubectl get nodes,pods -o json`."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fairlead.core.fitting.gpu_sharing import read_devices, read_gpu_allocations
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import read_claims, read_terms, without_unlisted
from fairlead.core.fitting.pod_resources import count_amounts, read_amounts, read_ports, round_up
from fairlead.model.nodes import Node, ScheduledPod, Taint

ENDED = ("Succeeded", "Failed")

JSON = Mapping[str, Any]


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
