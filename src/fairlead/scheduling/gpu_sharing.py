"""GPU sharing with HAMi and KAI: node devices, pod allocations, and whether another share fits.

HAMi: a node annotation lists the node's devices, and a pod annotation lists the pod's allocations. KAI: a node label
specifies the memory of the node's GPUs; pods that share a GPU have the same group label, and a KAI reservation pod
requests that GPU.
"""

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeVar

from fairlead.model.nodes import GpuAllocation, GpuShare, Labels, Node, NodeTable, PodRequest, SharedGpu
from fairlead.model.quantities import NANOS
from fairlead.scheduling.pod_requests import PODS, read_kai_share
from fairlead.scheduling.reasons import Cause, NodeCheck, Reason, describe_amount

GPU = "nvidia.com/gpu"
MEBIBYTE = 2**20
TRUE = ("1", "t", "true")  # the spellings of true that Go accepts, in lowercase

REGISTERED = "hami.io/node-nvidia-register"
CORDONED = "hami.io/device-cordon"
ALLOCATED = "hami.io/vgpu-devices-allocated"
FIELDS = (7, 9)  # number of fields per device; older versions of HAMi write neither index nor mode

GROUP = "runai-gpu-group"
MEMORY_LABEL = "nvidia.com/gpu.memory"
UNKNOWN_MEMORY = 100  # without the label, a GPU counts as 100, so that percentages still work
MIG_LABEL, MIG_STRATEGY = "node-role.kubernetes.io/mig-enabled", "nvidia.com/mig.strategy"

Value = TypeVar("Value")


class FreeGpu(NamedTuple):
    """A GPU that can take one more pod, with its total and free memory in MiB."""

    device: str
    memory: int
    free: int
    pods: int = 1  # pods that a share adds to the node; with KAI, the first share of a GPU also adds a reservation pod


def read_devices(annotations: Labels) -> tuple[SharedGpu, ...]:
    """The GPUs that a node registered with HAMi; none if HAMi could not parse the annotation either."""
    text = annotations.get(REGISTERED, "")
    cordoned = {name.strip() for name in annotations.get(CORDONED, "").split(",")}
    try:
        devices = list(_parse_json(text) if text.startswith("[") else _parse_text(text))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        # Wrong types, infinite numbers and deep nesting raise these. One bad annotation must not break the whole table.
        return ()
    return tuple(device._replace(healthy=device.healthy and device.id not in cordoned) for device in devices)


def read_gpu_allocations(annotations: Labels, labels: Labels) -> tuple[GpuAllocation, ...]:
    """A pod's GPU allocations, from HAMi or KAI annotations and labels; none if they cannot be parsed."""
    try:
        if ALLOCATED in annotations:
            return tuple(_parse_allocated(annotations[ALLOCATED]))
        groups = _read_groups(labels)
        memory, percent = read_kai_share(annotations) if groups else (0, 0)
    except ValueError:
        return ()
    return tuple(GpuAllocation(group, memory, percent) for group in groups if memory or percent)


def prepare_gpu_check(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """A check for the GPU share that a pod requests, or None if it requests no share.

    Whole GPUs are also checked if HAMi shares them, because its nodes report each GPU once per possible share.
    """
    share, count = pod_request.gpu_share, _count_whole(pod_request)
    if share is not None:
        find = _check_groups if share.provider == "kai" else _check_devices
        return lambda node: _yield(find(share, node))
    if count and table.has_devices:
        return lambda node: _yield(_check_whole(count, node))
    return None


def allocate(pod_request: PodRequest, node: Node) -> tuple[GpuAllocation, ...]:
    """The allocations that a pod would get on a node now; none if no GPU is free or the node does not share GPUs."""
    if pod_request.gpu_share is not None:
        share = pod_request.gpu_share
        gpu = _find_fitting(share, node)
        return () if gpu is None else (GpuAllocation(gpu.device, _required(share, gpu.memory, share.provider)),)
    count = _count_whole(pod_request)
    unused = [gpu for gpu in _find_free_devices(node) if gpu.free == gpu.memory][:count]
    return tuple(GpuAllocation(gpu.device, gpu.memory) for gpu in unused) if len(unused) == count else ()


def count_when_empty(pod_request: PodRequest, node: Node) -> int | None:
    """How many identical pods would get their GPUs if the node were empty; None if GPU sharing has no effect on it."""
    share, count = pod_request.gpu_share, _count_whole(pod_request)
    if share is None:
        return len(node.devices) // count if count and node.devices else None
    if share.provider == "kai":
        memory = _read_memory(node) or UNKNOWN_MEMORY
        # A share never spans two GPUs, so the shares per GPU are rounded down.
        return node.capacity.get(GPU, 0) // NANOS * (memory // max(_required(share, memory, share.provider), 1))
    return sum(
        min(device.slots, device.memory // max(_required(share, device.memory, share.provider), 1))
        for device in node.devices
    )


def _parse_json(text: str) -> Iterator[SharedGpu]:
    """Parse the format of newer versions, which omit fields that are false, 0 or empty."""
    for raw in json.loads(text):
        memory, slots = int(raw.get("devmem", 0)), int(raw.get("count", 0))
        yield SharedGpu(str(raw.get("id", "")), memory, slots, raw.get("health") is True, str(raw.get("type", "")))


def _parse_text(text: str) -> Iterator[SharedGpu]:
    """Parse the format of older versions, in which each device ends with a colon."""
    for device in filter(None, text.split(":")):
        fields = device.split(",")
        if len(fields) not in FIELDS:
            raise ValueError(device)
        name, slots, memory, _cores, kind, _numa, healthy = fields[:7]
        yield SharedGpu(name, int(memory), int(slots), healthy.lower() in TRUE, kind)


def _parse_allocated(text: str) -> Iterator[GpuAllocation]:
    # Each device ends with a colon, and each container's list of devices ends with a semicolon.
    for device in filter(None, text.replace(";", ":").split(":")):
        name, _kind, memory, _cores, *_ = device.split(",")
        if int(memory) < 0:
            raise ValueError(device)
        yield GpuAllocation(name.partition("[")[0], int(memory))  # brackets contain the MIG slice


def _read_groups(labels: Labels) -> list[str]:
    """A pod's GPU groups in KAI. A pod that uses several GPUs has one label for each."""
    groups = (name for key, name in labels.items() if key == GROUP or key.startswith(f"{GROUP}/"))
    return list(dict.fromkeys(groups))


def _count_whole(pod_request: PodRequest) -> int:
    return pod_request.amounts.get(GPU, 0) // NANOS if pod_request.gpu_share is None else 0


def _check_devices(share: GpuShare, node: Node) -> Reason | None:
    """Why no device that HAMi manages has room for the share, or None if one does."""
    if _find_fitting(share, node) is not None:
        return None
    if not node.devices:
        return _reject(f"{_describe_need(share)}; {node.name} does not share GPUs", lasts=True)
    largest = max(device.memory for device in node.devices)
    if share.memory > largest:
        needs, most = _describe_pair(share, largest, largest)
        return _reject(f"{needs}; the largest GPU on {node.name} has {most}", lasts=True)
    return _reject(_describe_free(share, node))


def _check_whole(count: int, node: Node) -> Reason | None:
    """Why a request for whole GPUs does not fit on the unused devices that HAMi manages, or None if it does."""
    # The capacity cannot be used here: HAMi reports each GPU as many times as it can be shared.
    total = len(node.devices)
    unused = sum(gpu.free == gpu.memory for gpu in _find_free_devices(node))
    if not total or count <= unused:
        return None
    needs = f"needs {count} whole GPU{'s' * (count > 1)}"
    if count > total:
        return _reject(f"{needs}; {node.name} has {total}", "resources.gpu", lasts=True)
    return _reject(f"{needs}; {unused or 'none'} of {total} unused on {node.name}", "resources.gpu")


def _check_groups(share: GpuShare, node: Node) -> Reason | None:
    """Why no shared or unused GPU that KAI manages has room for the share, or None if one does."""
    memory = _read_memory(node)
    # Reasons that last come first: free memory only matters if the node could run the pod at all.
    if _uses_mig(node):
        message = f"{_describe_need(share)}; the GPUs on {node.name} use MIG and cannot be shared"
        return _reject(message, lasts=True)
    if node.capacity.get(GPU, 0) < NANOS:
        return _reject(f"{_describe_need(share)}; {node.name} has no GPU", lasts=True)
    if memory is None and share.memory:
        message = f"{_describe_need(share)}; {node.name} lacks the label {MEMORY_LABEL} with the memory of its GPUs"
        return _reject(message, lasts=True)
    if memory is not None and share.memory > memory:
        needs, most = _describe_pair(share, memory, memory)
        return _reject(f"{needs}; a GPU on {node.name} has {most}", lasts=True)
    if _find_fitting(share, node) is not None:
        return None
    too_few = node.capacity.get(PODS, 0) < 2 * NANOS  # no room for a pod and KAI's reservation pod
    return _reject(_describe_free(share, node), lasts=too_few)


def _yield(reason: Reason | None) -> Iterator[Reason]:
    return iter(() if reason is None else (reason,))


def _find_fitting(share: GpuShare, node: Node) -> FreeGpu | None:
    """A GPU with room for the share, if the node also has room for the pods that the share adds."""
    kai = share.provider == "kai"
    # HAMi adds no extra pod, and room for the pod itself is checked with its other amounts.
    free_pods = node.free(PODS) // NANOS if kai else 1
    for gpu in _find_free_groups(node) if kai else _find_free_devices(node):
        if gpu.free >= _required(share, gpu.memory, share.provider) and gpu.pods <= free_pods:
            return gpu
    return None


def _cache_on_node(compute: Callable[[Node], Value]) -> Callable[[Node], Value]:
    """Cache a function's result on the node itself, like a cached property, because it is called for every pod."""
    name = compute.__name__

    def cached(node: Node) -> Value:
        # Nodes are frozen, so the value stays valid. cached_property also writes to __dict__.
        values: dict[str, Value] = vars(node)
        if name not in values:
            values[name] = compute(node)
        return values[name]

    return cached


@_cache_on_node
def _find_free_devices(node: Node) -> list[FreeGpu]:
    """Healthy devices that HAMi manages and that can take another pod."""
    allocated: dict[str, int] = {}
    pod_counts: dict[str, int] = {}
    for pod in node.pods:
        for allocation in pod.gpu_allocations:
            allocated[allocation.device] = allocated.get(allocation.device, 0) + allocation.memory
            # Each container of a pod uses a slot, so a pod may count several times.
            pod_counts[allocation.device] = pod_counts.get(allocation.device, 0) + 1
    return [
        FreeGpu(device.id, device.memory, device.memory - allocated.get(device.id, 0))
        for device in node.devices
        if device.healthy and pod_counts.get(device.id, 0) < device.slots
    ]


@_cache_on_node
def _find_free_groups(node: Node) -> list[FreeGpu]:
    """GPUs shared by KAI with at least one pod that is not terminating, and one entry for all unused GPUs."""
    memory = _read_memory(node) or UNKNOWN_MEMORY
    allocated: dict[str, int] = {}
    staying, reserved = set[str](), set[str]()
    for pod in node.pods:
        for allocation in pod.gpu_allocations:
            allocated[allocation.device] = allocated.get(allocation.device, 0) + _required(allocation, memory, "kai")
            # KAI does not let a pod join a group whose pods are all terminating.
            if not pod.terminating:
                staying.add(allocation.device)
        if GROUP in pod.labels and pod.amounts.get(GPU):
            reserved.add(pod.labels[GROUP])
    # A group without a reservation pod uses a GPU that is not yet subtracted from the free ones.
    unused = node.free(GPU) // NANOS - len(allocated.keys() - reserved)
    return [
        *(FreeGpu(group, memory, memory - allocated[group]) for group in allocated if group in staying),
        # One entry represents all unused GPUs: a node may report any number of them.
        *([FreeGpu(f"new-{len(allocated)}", memory, memory, pods=2)] if unused > 0 else []),
    ]


def _required(share: GpuShare | GpuAllocation, memory: int, provider: str) -> int:
    """How many MiB of a GPU a share takes, rounded down as its scheduler does: KAI calculates with floats."""
    return share.memory or (int(share.percent / 100 * memory) if provider == "kai" else memory * share.percent // 100)


@_cache_on_node
def _read_memory(node: Node) -> int | None:
    """The memory of each GPU of a node in MiB, or None if the node lacks the label."""
    text = node.labels.get(MEMORY_LABEL, "")
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if int(text) < MEBIBYTE else int(text) // MEBIBYTE  # on some nodes this label is in bytes


@_cache_on_node
def _uses_mig(node: Node) -> bool:
    """Whether MIG partitions a node's GPUs, according to KAI's rules."""
    # With the `none` strategy, the device plugin ignores MIG and reports whole GPUs.
    if node.labels.get(MIG_STRATEGY) not in ("single", "mixed"):
        return False
    if MIG_LABEL in node.labels:
        return node.labels[MIG_LABEL].lower() in TRUE
    return any(amount and name.startswith("nvidia.com/mig-") for name, amount in node.capacity.items())


def _describe_free(share: GpuShare, node: Node) -> str:
    """How much of a node's best GPU is free, or what else prevents sharing it."""
    gpus = _find_free_groups(node) if share.provider == "kai" else _find_free_devices(node)
    best = max(gpus, key=lambda gpu: gpu.free if share.memory else gpu.free / gpu.memory, default=None)
    # There is enough memory, so the node only lacks room for the pods.
    if best is not None and best.free >= _required(share, best.memory, share.provider):
        free_pods = max(node.free(PODS) // NANOS, 0)
        room = f"room for {free_pods} pod{'s' * (free_pods != 1)}"
        return f"{_describe_need(share)}; KAI adds a reservation pod for the GPU, but {node.name} has {room}"
    if best is not None and best.free > 0:
        needs, free = _describe_pair(share, best.free, best.memory)
        return f"{needs}; at most {free} of one GPU is free on {node.name}"
    if gpus or not node.devices:
        return f"{_describe_need(share)}; no GPU memory is free on {node.name}"
    healthy = sum(device.healthy for device in node.devices)
    causes = {"full": healthy, "cordoned or unhealthy": len(node.devices) - healthy}
    counted = " and ".join(
        f"{count} {'is' if count == 1 else 'are'} {cause}" for cause, count in causes.items() if count
    )
    return f"{_describe_need(share)}; no GPU on {node.name} can take another pod: {counted}"


def _describe_need(share: GpuShare) -> str:
    return _describe_pair(share, 0, 1)[0]


def _describe_pair(share: GpuShare, free: int, memory: int) -> tuple[str, str]:
    """The request and a GPU's free memory in the same unit, in MiB if rounding would make them look equal."""
    if not share.memory:
        return f"needs {share.percent}% of a GPU's memory", f"{free * 100 // memory}%"
    requested, available = _show(share.memory), _show(free)
    if requested == available:
        requested, available = f"{share.memory} MiB", f"{free} MiB"
    return f"needs {requested} of a GPU's memory", available


@lru_cache(maxsize=4096)
def _show(mebibytes: int) -> str:
    return describe_amount("memory", mebibytes * MEBIBYTE * NANOS)


def _reject(message: str, path: str = "resources.gpu.memory", *, lasts: bool = False) -> Reason:
    return Reason(Cause.SHARE, path, message, GPU, lasts)
