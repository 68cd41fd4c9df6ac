"""Why a node does not take a pod, as kube-scheduler's filters see it."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from fairlead.model.nodes import Node


class Cause(StrEnum):
    """What is in the way."""

    NODE_NAME = "node_name"
    CORDONED = "cordoned"
    TAINT = "taint"
    LABELS = "labels"  # the node selector, or the node affinity
    PORTS = "ports"
    AMOUNT = "amount"  # too little of a resource, or room for no more pods
    CLAIM = "claim"  # a volume that is not there, on whichever node
    VOLUME = "volume"  # a volume that the node does not reach
    ZONE = "zone"  # of a volume
    IN_USE = "in_use"  # a volume for one pod at a time, which another pod has
    NEAR = "near"  # the pods that it must be near to
    FAR = "far"  # the pods that it must be far from
    REPELLED = "repelled"  # a pod there that does not bear it
    SPREAD = "spread"
    SPREAD_LABEL = "spread_label"  # the node lacks the label by which pods are spread
    SHARE = "share"  # of a GPU


class Reason(NamedTuple):
    """Why a node does not take a run: what of the request is in the way, and a sentence with numbers.

    `lasts`: it would not take it either if nothing ran there, and it were well.
    """

    cause: Cause
    path: str
    message: str
    resource: str = ""
    lasts: bool = False


NodeCheck = Callable[[Node], Iterator[Reason]]  # prepared for one pod and all nodes, asked of each node
