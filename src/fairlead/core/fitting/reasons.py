"""Reasons why a node cannot run a pod, modeled on kube-scheduler's filter plugins."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from fairlead.model.nodes import Node


class Cause(StrEnum):
    """The kind of filter that rejects a node."""

    NODE_NAME = "node_name"
    CORDONED = "cordoned"
    TAINT = "taint"
    LABELS = "labels"  # node selector or node affinity
    PORTS = "ports"
    AMOUNT = "amount"  # not enough of a resource, or too many pods
    CLAIM = "claim"  # a claim or volume that does not exist, which rules out every node
    VOLUME = "volume"  # a volume that the node cannot access
    ZONE = "zone"  # a volume in another zone
    IN_USE = "in_use"  # a ReadWriteOncePod volume that another pod uses
    POD_AFFINITY = "pod_affinity"
    POD_ANTI_AFFINITY = "pod_anti_affinity"
    REPELLED = "repelled"  # a running pod has anti-affinity to this one
    SPREAD = "spread"  # topology spread: the skew would be too large
    SPREAD_LABEL = "spread_label"  # topology spread: the node lacks the topology label
    SHARE = "share"  # not enough of a shared GPU


class Reason(NamedTuple):
    """Why a node cannot run a pod, with the path of the request field that causes it.

    `lasts`: the reason would still apply if the node were empty and healthy.
    """

    cause: Cause
    path: str
    message: str
    resource: str = ""
    lasts: bool = False


NodeCheck = Callable[[Node], Iterator[Reason]]  # prepared once for a pod, then called for each node
