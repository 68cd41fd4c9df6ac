"""Nodes and pods as Kubernetes tells of them: from a watch, or from `kubectl get nodes,pods -o json`."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fairlead.core.fitting.gpu_sharing import read_devices, read_gpu_allocations
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import leave_out_dealt, read_claims, read_terms
from fairlead.core.fitting.pod_resources import count_amounts, read_amounts, read_ports, round_up
from fairlead.model.nodes import Holding, Node, Taint

ENDED = ("Succeeded", "Failed")

JSON = Mapping[str, Any]


def read_node(raw: JSON) -> Node:
    """A node, with nothing on it yet."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    return Node(
        name=meta["name"],
        capacity=round_up(read_amounts(status.get("allocatable") or {})),
        labels=meta.get("labels") or {},
        taints=tuple(
            Taint(taint["key"], taint.get("value") or "", taint["effect"]) for taint in spec.get("taints") or ()
        ),
        unschedulable=bool(spec.get("unschedulable")),
        devices=read_devices(meta.get("annotations") or {}),
    )


def read_holding(raw: JSON) -> Holding:
    """What a pod takes of its node, and what of it others must reckon with."""
    meta, spec = raw["metadata"], raw["spec"]
    return Holding(
        run_id="",
        name=None,
        amounts=leave_out_dealt(count_amounts(spec, raw.get("status")), spec.get("schedulerName")),
        namespace=meta.get("namespace") or "",
        labels=meta.get("labels") or {},
        repels=read_terms(spec.get("affinity") or {}, "podAntiAffinity"),
        ports=read_ports(spec),
        claims=read_claims(spec, meta),
        gpu_allocations=read_gpu_allocations(meta.get("annotations") or {}, meta.get("labels") or {}),
        leaving="deletionTimestamp" in meta,
    )


def is_placed(raw: JSON) -> bool:
    """Whether a pod takes something of a node: it has one, and has not ended."""
    return bool(raw["spec"].get("nodeName")) and (raw.get("status") or {}).get("phase") not in ENDED


def read_cluster(items: Iterable[JSON]) -> NodeTable:
    """The nodes among objects, with the pods that are on them. Pods are named as kubectl names them."""
    nodes: list[Node] = []
    placed: defaultdict[str, list[Holding]] = defaultdict(list)
    for raw in items:
        if raw["kind"] == "Node":
            nodes.append(read_node(raw))
        elif raw["kind"] == "Pod" and is_placed(raw):
            held = read_holding(raw)
            placed[raw["spec"]["nodeName"]].append(replace(held, name=f"{held.namespace}/{raw['metadata']['name']}"))
    table = NodeTable(replace(node, holdings=tuple(placed[node.name])) for node in nodes)
    table.noun = "pod"
    return table
