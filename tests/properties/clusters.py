"""Strategies for small clusters and pods with random requirements, small enough to cause conflicts."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fairlead.model.nodes import (
    GpuAllocation,
    GpuShare,
    HostPort,
    Node,
    NodeTable,
    PersistentVolume,
    PersistentVolumeClaim,
    PodRequest,
    ScheduledPod,
    SchedulingContext,
    SharedGpu,
    StorageClass,
    Taint,
)
from fairlead.model.quantities import NANOS
from fairlead.scheduling.pod_requests import PODS

RESOURCES = ("cpu", "memory", "nvidia.com/gpu", PODS)
UNITS = {"memory": 2**30 * NANOS}
TAINTS = [
    Taint("team", "b", "NoSchedule"),
    Taint("gpu", "", "NoExecute"),
    Taint("team", "b", "PreferNoSchedule"),
    Taint("node.kubernetes.io/not-ready", "", "NoExecute"),
    Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),
]
TOLERATIONS = [{"operator": "Exists"}, {"key": "team", "value": "b"}, {"key": "gpu", "operator": "Exists"}]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NAMESPACES = {"lab": {"team": "b"}, "shop": {}}
CLAIMS = ("data", "scratch")
DEVICE = 100  # MiB on a shared GPU


def some(items: Iterable[Any] | SearchStrategy[Any], maximum: int = 1) -> SearchStrategy[tuple[Any, ...]]:
    """Often empty, otherwise a few of the items."""
    one = items if isinstance(items, SearchStrategy) else st.sampled_from(list(items))
    return st.just(()) | st.lists(one, max_size=maximum).map(tuple)


def amounts(maximum: int) -> SearchStrategy[dict[str, int]]:
    """Integer amounts of some resources."""
    counts = st.fixed_dictionaries({}, optional=dict.fromkeys(RESOURCES, st.integers(0, maximum)))
    return counts.map(lambda drawn: {name: count * UNITS.get(name, NANOS) for name, count in drawn.items()})


def few(one: SearchStrategy[Any]) -> SearchStrategy[tuple[Any, ...]]:
    """One or two items."""
    return st.lists(one, min_size=1, max_size=2).map(tuple)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A condition on labels."""
    return {"key": key, "operator": operator, "values": list(values)}


NODE_TERMS = [
    {"matchExpressions": [expression(ZONE, "In", "a")]},
    {"matchExpressions": [expression(ZONE, "NotIn", "a"), expression("size", "Gt", "3")]},
    {"matchExpressions": [expression("pool", "DoesNotExist")]},
    {"matchFields": [expression("metadata.name", "NotIn", "node-0")]},
    {},
]
SELECTORS: list[Mapping[str, Any] | None] = [
    {"matchLabels": {"app": "web"}},
    {"matchLabels": {"app": "web"}},
    {"matchExpressions": [expression("app", "In", "web", "db")]},
    {"matchExpressions": [expression("app", "Exists")]},
    {"matchExpressions": [expression("app", "NotIn", "web")]},
    {},
    None,
]
POD_TERMS = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from([HOST, ZONE, ZONE]), "labelSelector": st.sampled_from(SELECTORS)},
    optional={
        "namespaces": st.just(["lab", "shop"]),
        "namespaceSelector": st.sampled_from([{}, {"matchLabels": {"team": "b"}}]),
        "matchLabelKeys": st.just(["version"]),
        "mismatchLabelKeys": st.just(["version"]),
    },
)
POD_LABELS = st.fixed_dictionaries(
    {"app": st.sampled_from(["web", "web", "db"])}, optional={"version": st.sampled_from(["1", "2"])}
)
SPREADS = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from([HOST, ZONE]),
        "maxSkew": st.integers(1, 2),
        "labelSelector": st.sampled_from(SELECTORS),
    },
    optional={
        "minDomains": st.integers(1, 3),
        "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
        "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
        "matchLabelKeys": st.just(["version"]),
    },
)
PORTS = [HostPort(protocol, ip, 80) for protocol in ("TCP", "UDP") for ip in ("0.0.0.0", "10.0.0.1")]
SHARES = [
    *(GpuShare("hami", percent=percent) for percent in (30, 100)),
    *(GpuShare("kai", percent=percent) for percent in (30, 80)),
    *(GpuShare(by, memory=memory) for by in ("hami", "kai") for memory in (40, 120)),
]


PARTS: Mapping[str, SearchStrategy[Any]] = {
    "node_selector": st.sampled_from([{ZONE: "a"}, {ZONE: "b"}, {ZONE: "a", "pool": "x"}]),
    "node_terms": few(st.sampled_from(NODE_TERMS)),
    "node_name": st.sampled_from(["node-0", "node-1", "gone"]),
    "ports": few(st.sampled_from(PORTS)),
    "pod_affinity": few(POD_TERMS),
    "pod_anti_affinity": few(POD_TERMS),
    "claims": few(st.sampled_from([*CLAIMS, *CLAIMS, "gone"])),
    "gpu_share": st.sampled_from(SHARES),
    "topology_spread": few(SPREADS),
}
PART_NAMES = st.lists(st.sampled_from(sorted(PARTS)), max_size=3, unique=True)
PLAIN_POD_REQUESTS = st.builds(
    PodRequest,
    amounts=amounts(3).map(lambda drawn: {**drawn, PODS: NANOS}),
    tolerations=some(TOLERATIONS, 2),
    namespace=st.sampled_from(list(NAMESPACES)),
    labels=POD_LABELS,
)


@st.composite
def pod_requests(draw: st.DrawFn, maximum: int = 3) -> PodRequest:
    """Pods with a few random requirements each, in groups of equal pods."""
    plain = draw(PLAIN_POD_REQUESTS)
    return replace(plain, count=draw(st.integers(1, maximum)), **{part: draw(PARTS[part]) for part in draw(PART_NAMES)})


def scheduled_pods(*gpu_allocations: GpuAllocation) -> SearchStrategy[tuple[ScheduledPod, ...]]:
    """A random pod on a node."""
    one = st.builds(
        ScheduledPod,
        run_id=st.just(""),
        name=st.sampled_from([None, "train-a"]),
        amounts=amounts(2).map(lambda drawn: {**drawn, PODS: NANOS}),
        namespace=st.sampled_from(list(NAMESPACES)),
        labels=POD_LABELS,
        anti_affinity=some(POD_TERMS),
        ports=some(PORTS),
        claims=some(CLAIMS),
        gpu_allocations=some(gpu_allocations),
        terminating=st.booleans(),
    )
    return st.lists(one, max_size=3).map(tuple)


def capacity_with(changes: Mapping[str, int | None]) -> dict[str, int]:
    """Large capacity, except for the given resources."""
    counts = {**dict.fromkeys(RESOURCES, 8), **changes}
    return {name: count * UNITS.get(name, NANOS) for name, count in counts.items() if count is not None}


DEVICES = tuple(SharedGpu(f"gpu-{at}", DEVICE, 2, at > 0) for at in range(3))
NODE_LABELS = st.fixed_dictionaries(
    {ZONE: st.sampled_from(["a", "a", "b"])},
    optional={
        "pool": st.just("x"),
        "size": st.sampled_from(["3", "4"]),
        "nvidia.com/gpu.memory": st.just(str(DEVICE)),
    },
)
EMPTY = st.builds(
    Node,
    name=st.just(""),
    capacity=st.dictionaries(st.sampled_from(RESOURCES), st.none() | st.integers(0, 3), max_size=1).map(capacity_with),
    labels=NODE_LABELS,
    taints=some(TAINTS),
    unschedulable=st.sampled_from([*[False] * 7, True]),
    devices=st.sampled_from([(), DEVICES]),
)
ON_DEVICES = scheduled_pods(*(GpuAllocation(device.id, memory=40) for device in DEVICES))
IN_GROUPS = scheduled_pods(
    *(GpuAllocation(group, **part) for group in ("group-0", "group-1") for part in ({"memory": 40}, {"percent": 30}))
)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """A node without a name, with its pods."""
    node = draw(EMPTY)
    return replace(node, pods=draw(ON_DEVICES if node.devices else IN_GROUPS))


def name_node(node: Node, name: str) -> Node:
    """The node with the given name and the matching hostname label."""
    return replace(node, name=name, labels={**node.labels, HOST: name})


def clusters(maximum: int = 5) -> SearchStrategy[list[Node]]:
    """Lists of named nodes."""
    return st.lists(nodes(), min_size=1, max_size=maximum).map(
        lambda drawn: [name_node(node, f"node-{at}") for at, node in enumerate(drawn)]
    )


VOLUMES = st.builds(
    PersistentVolume,
    name=st.just(""),
    node_terms=st.sampled_from([None, None, ({"matchExpressions": [expression(ZONE, "In", "a")]},)]),
    labels=st.sampled_from([{}, {}, {ZONE: "a"}, {ZONE: "a__b"}]),
    claimed_by=st.sampled_from([None, ("lab", "data")]),
    storage_class=st.just("slow"),
    modes=st.just(("ReadWriteOnce",)),
    available=st.booleans(),
)
VOLUME_CLAIMS = st.builds(
    PersistentVolumeClaim,
    volume=st.sampled_from(["", "", "disk-0", "disk-0", "disk-1", "disk-9"]),
    storage_class=st.sampled_from(["slow", "slow", "quick", None]),
    modes=st.sampled_from([("ReadWriteOnce",), ("ReadWriteOncePod",)]),
    bound=st.sampled_from([*[True] * 5, False]),
    chosen_node=st.sampled_from(["", "", "node-1"]),
    lost=st.sampled_from([*[False] * 7, True]),
    terminating=st.sampled_from([*[False] * 7, True]),
)
CLASSES = st.builds(
    StorageClass,
    wait_for_first_consumer=st.sampled_from([True, True, False]),
    topologies=st.sampled_from([(), ({"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]},)]),
    provisions=st.booleans(),
)
STORAGE = st.builds(
    SchedulingContext,
    namespaces=st.just(NAMESPACES),
    claims=st.fixed_dictionaries({(namespace, name): VOLUME_CLAIMS for namespace in NAMESPACES for name in CLAIMS}),
    volumes=st.fixed_dictionaries(dict.fromkeys(("disk-0", "disk-1"), VOLUMES)).map(
        lambda drawn: {name: replace(volume, name=name) for name, volume in drawn.items()}
    ),
    classes=st.fixed_dictionaries(dict.fromkeys(("slow", "quick"), CLASSES)),
)
SCHEDULING_CONTEXTS = st.just(SchedulingContext(NAMESPACES)) | STORAGE  # with or without storage


def node_tables(maximum: int = 5) -> SearchStrategy[NodeTable]:
    """Node tables with their scheduling context."""
    return st.builds(NodeTable, clusters(maximum), SCHEDULING_CONTEXTS)
