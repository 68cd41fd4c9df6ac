"""Parts of GPUs: what nodes offer, what is taken of each device, and whether another part fits.

With HAMi a node registers its devices, and a pod says what it was given of which. With KAI a node says how large its
GPUs are; the pods that share one carry the name of its group, and a pod of KAI's own holds the whole GPU for them.
"""

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeVar

from fairlead.core.fitting.formatting import show_amount
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import GpuShare, PodRequest, read_part
from fairlead.core.fitting.pod_resources import PODS
from fairlead.core.fitting.reasons import Cause, NodeCheck, Reason
from fairlead.model.nodes import Device, GpuAllocation, Labels, Node
from fairlead.model.quantities import NANOS

GPU = "nvidia.com/gpu"
MEBIBYTE = 2**20
TRUE = ("1", "t", "true")

REGISTERED = "hami.io/node-nvidia-register"
CORDONED = "hami.io/device-cordon"
GIVEN = "hami.io/vgpu-devices-allocated"
FIELDS = (7, 9)  # of a device; the older form lacks its index and its mode

GROUP = "runai-gpu-group"
MEMORY_LABEL = "nvidia.com/gpu.memory"
UNKNOWN_MEMORY = 100  # of a GPU that does not say how large it is: parts are counted in percent
MIG_LABEL, MIG_STRATEGY = "node-role.kubernetes.io/mig-enabled", "nvidia.com/mig.strategy"

Found = TypeVar("Found")


class Room(NamedTuple):
    """A GPU that takes one more pod, and how many MiB are left of it."""

    device: str
    memory: int
    free: int
    pods: int = 1  # that come with the part: the first one on a GPU of KAI's brings the one that holds it


def read_devices(annotations: Labels) -> tuple[Device, ...]:
    """The GPUs that a node registers, as HAMi writes them; none where HAMi itself could not read them."""
    text = annotations.get(REGISTERED, "")
    cordoned = {name.strip() for name in annotations.get(CORDONED, "").split(",")}
    try:
        found = list(_parse_json(text) if text.startswith("[") else _parse_text(text))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return ()
    return tuple(device._replace(healthy=device.healthy and device.id not in cordoned) for device in found)


def read_gpu_allocations(annotations: Labels, labels: Labels) -> tuple[GpuAllocation, ...]:
    """What a pod was given of GPUs, as HAMi or KAI writes it down; nothing where they could not read it."""
    try:
        if GIVEN in annotations:
            return tuple(_parse_given(annotations[GIVEN]))
        groups = _read_groups(labels)
        memory, percent = read_part(annotations) if groups else (0, 0)
    except ValueError:
        return ()
    return tuple(GpuAllocation(group, memory, percent) for group in groups if memory or percent)


def prepare(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """How nodes are asked whether they have room for the part of a GPU that a pod asks for.

    Also for whole GPUs where HAMi shares them: its nodes count each as often as it can be shared.
    """
    share, count = pod_request.gpu_share, _count_whole(pod_request)
    if share is not None:
        find = _check_groups if share.by == "kai" else _check_devices
        return lambda node: _yield(find(share, node))
    if count and table.cached("devices", lambda: any(node.devices for node in table.nodes)):
        return lambda node: _yield(_check_whole(count, node))
    return None


def allocate(pod_request: PodRequest, node: Node) -> tuple[GpuAllocation, ...]:
    """What a pod would be given of the node's GPUs now; nothing where there is no room, or no parts are dealt out."""
    if pod_request.gpu_share is not None:
        room = _find_fitting(pod_request.gpu_share, node)
        return (
            ()
            if room is None
            else (GpuAllocation(room.device, _need(pod_request.gpu_share, room.memory, pod_request.gpu_share.by)),)
        )
    count = _count_whole(pod_request)
    unused = [room for room in _find_rooms_on_devices(node) if room.free == room.memory][:count]
    return tuple(GpuAllocation(room.device, room.memory) for room in unused) if len(unused) == count else ()


def count_when_empty(pod_request: PodRequest, node: Node) -> int | None:
    """For how many such pods a node has parts if nothing else is there; None where parts do not matter."""
    share, count = pod_request.gpu_share, _count_whole(pod_request)
    if share is None:
        return len(node.devices) // count if count and node.devices else None
    if share.by == "kai":
        memory = _read_memory(node) or UNKNOWN_MEMORY
        return node.capacity.get(GPU, 0) // NANOS * (memory // max(_need(share, memory, share.by), 1))
    return sum(
        min(device.slots, device.memory // max(_need(share, device.memory, share.by), 1)) for device in node.devices
    )


def _parse_json(text: str) -> Iterator[Device]:
    """As newer versions write it. What is false, nought or empty is left out."""
    for said in json.loads(text):
        memory, slots = int(said.get("devmem", 0)), int(said.get("count", 0))
        yield Device(str(said.get("id", "")), memory, slots, said.get("health") is True, str(said.get("type", "")))


def _parse_text(text: str) -> Iterator[Device]:
    """As older versions write it: each device ends in a colon."""
    for said in filter(None, text.split(":")):
        fields = said.split(",")
        if len(fields) not in FIELDS:
            raise ValueError(said)
        name, slots, memory, _cores, kind, _numa, healthy = fields[:7]
        yield Device(name, int(memory), int(slots), healthy.lower() in TRUE, kind)


def _parse_given(text: str) -> Iterator[GpuAllocation]:
    """The devices of each container: those end in a semicolon, and each device in a colon."""
    for said in filter(None, text.replace(";", ":").split(":")):
        name, _kind, memory, _cores, *_ = said.split(",")
        if int(memory) < 0:
            raise ValueError(said)
        yield GpuAllocation(name.partition("[")[0], int(memory))  # in brackets: which MIG slice of it


def _read_groups(labels: Labels) -> list[str]:
    """The GPUs that KAI put a pod on; of several, each has a label of its own."""
    found = (name for key, name in labels.items() if key == GROUP or key.startswith(f"{GROUP}/"))
    return list(dict.fromkeys(found))


def _count_whole(pod_request: PodRequest) -> int:
    return pod_request.amounts.get(GPU, 0) // NANOS if pod_request.gpu_share is None else 0


def _check_devices(share: GpuShare, node: Node) -> Reason | None:
    """Why HAMi finds no device with room for a part."""
    if _find_fitting(share, node) is not None:
        return None
    if not node.devices:
        return _refuse(f"{_describe_asked(share)}; {node.name} deals out no parts of GPUs", lasts=True)
    largest = max(device.memory for device in node.devices)
    if share.memory > largest:
        asks, most = _describe_apart(share, largest, largest)
        return _refuse(f"{asks}; the largest GPU of {node.name} has {most}", lasts=True)
    return _refuse(_describe_free(share, node))


def _check_whole(count: int, node: Node) -> Reason | None:
    """Why fewer of the devices that HAMi shares have nothing on them."""
    there = len(node.devices)
    unused = sum(room.free == room.memory for room in _find_rooms_on_devices(node))
    if not there or count <= unused:
        return None
    asks = f"asks for {count} whole GPU{'s' * (count > 1)}"
    if count > there:
        return _refuse(f"{asks}; {node.name} has {there}", "resources.gpu", lasts=True)
    are = "is" if unused < 2 else "are"
    return _refuse(f"{asks}; {unused or 'none'} of {there} on {node.name} {are} unused", "resources.gpu")


def _check_groups(share: GpuShare, node: Node) -> Reason | None:
    """Why KAI finds no GPU with room for a part: neither one that is shared, nor one that nobody has."""
    memory = _read_memory(node)
    if _is_cut(node):
        return _refuse(f"{_describe_asked(share)}; MIG cuts the GPUs of {node.name}, which are not shared", lasts=True)
    if node.capacity.get(GPU, 0) < NANOS:
        return _refuse(f"{_describe_asked(share)}; {node.name} has no GPU", lasts=True)
    if memory is None and share.memory:
        return _refuse(
            f"{_describe_asked(share)}; {node.name} lacks {MEMORY_LABEL}, how much its GPUs have", lasts=True
        )
    if memory is not None and share.memory > memory:
        asks, most = _describe_apart(share, memory, memory)
        return _refuse(f"{asks}; a GPU of {node.name} has {most}", lasts=True)
    if _find_fitting(share, node) is not None:
        return None
    too_few = node.capacity.get(PODS, 0) < 2 * NANOS  # the first one comes with the pod that holds the GPU
    return _refuse(_describe_free(share, node), lasts=too_few)


def _yield(reason: Reason | None) -> Iterator[Reason]:
    return iter(() if reason is None else (reason,))


def _find_fitting(share: GpuShare, node: Node) -> Room | None:
    """A GPU with room for the part, and for the pods that come with it."""
    kai = share.by == "kai"
    places = node.free(PODS) // NANOS if kai else 1
    for room in _find_rooms_in_groups(node) if kai else _find_rooms_on_devices(node):
        if room.free >= _need(share, room.memory, share.by) and room.pods <= places:
            return room
    return None


def _keep(find: Callable[[Node], Found]) -> Callable[[Node], Found]:
    """Keep with a node what was found out about it, as its own cached properties do: each pod asks all nodes anew."""
    name = find.__name__

    def recall(node: Node) -> Found:
        kept: dict[str, Found] = vars(node)
        if name not in kept:
            kept[name] = find(node)
        return kept[name]

    return recall


@_keep
def _find_rooms_on_devices(node: Node) -> list[Room]:
    """The healthy devices that take another pod."""
    taken: dict[str, int] = {}
    pods: dict[str, int] = {}
    for held in node.holdings:
        for share in held.gpu_allocations:
            taken[share.device] = taken.get(share.device, 0) + share.memory
            pods[share.device] = pods.get(share.device, 0) + 1
    return [
        Room(device.id, device.memory, device.memory - taken.get(device.id, 0))
        for device in node.devices
        if device.healthy and pods.get(device.id, 0) < device.slots
    ]


@_keep
def _find_rooms_in_groups(node: Node) -> list[Room]:
    """The GPUs that are shared already, unless all who share them leave; and one for all those that nobody has."""
    memory = _read_memory(node) or UNKNOWN_MEMORY
    taken: dict[str, int] = {}
    staying, held_for = set[str](), set[str]()
    for held in node.holdings:
        for share in held.gpu_allocations:
            taken[share.device] = taken.get(share.device, 0) + _need(share, memory, "kai")
            if not held.leaving:
                staying.add(share.device)
        if GROUP in held.labels and held.amounts.get(GPU):
            held_for.add(held.labels[GROUP])
    unused = node.free(GPU) // NANOS - len(taken.keys() - held_for)
    return [
        *(Room(group, memory, memory - taken[group]) for group in taken if group in staying),
        *([Room(f"new-{len(taken)}", memory, memory, pods=2)] if unused > 0 else []),
    ]


def _need(share: GpuShare | GpuAllocation, memory: int, by: str) -> int:
    """How many MiB a part is of a GPU of some size, rounded down as its scheduler does it: KAI counts in fractions."""
    return share.memory or (int(share.percent / 100 * memory) if by == "kai" else memory * share.percent // 100)


@_keep
def _read_memory(node: Node) -> int | None:
    """The MiB of each GPU of a node, where it says so; some say it in bytes."""
    text = node.labels.get(MEMORY_LABEL, "")
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if int(text) < MEBIBYTE else int(text) // MEBIBYTE


@_keep
def _is_cut(node: Node) -> bool:
    """Whether MIG has cut the GPUs of a node, as KAI sees it."""
    if node.labels.get(MIG_STRATEGY) not in ("single", "mixed"):
        return False
    if MIG_LABEL in node.labels:
        return node.labels[MIG_LABEL].lower() in TRUE
    return any(amount and name.startswith("nvidia.com/mig-") for name, amount in node.capacity.items())


def _describe_free(share: GpuShare, node: Node) -> str:
    """What is free of the GPU that has most, or what else is lacking there."""
    rooms = _find_rooms_in_groups(node) if share.by == "kai" else _find_rooms_on_devices(node)
    best = max(rooms, key=lambda room: room.free if share.memory else room.free / room.memory, default=None)
    if best is not None and best.free >= _need(share, best.memory, share.by):
        places = max(node.free(PODS) // NANOS, 0)
        room = f"room for {places} pod{'s' * (places != 1)}"
        return f"{_describe_asked(share)}; with it comes a pod that holds the GPU, and {node.name} has {room}"
    if best is not None and best.free > 0:
        asks, free = _describe_apart(share, best.free, best.memory)
        return f"{asks}; on {node.name} at most {free} of one GPU are free"
    if rooms or not node.devices:
        return f"{_describe_asked(share)}; on {node.name} nothing of any GPU is free"
    well = sum(device.healthy for device in node.devices)
    whys = {"full of pods": well, "cordoned or not well": len(node.devices) - well}
    told = " and ".join(f"{count} {'is' if count == 1 else 'are'} {why}" for why, count in whys.items() if count)
    return f"{_describe_asked(share)}; no GPU of {node.name} takes another pod: {told}"


def _describe_asked(share: GpuShare) -> str:
    return _describe_apart(share, 0, 1)[0]


def _describe_apart(share: GpuShare, free: int, memory: int) -> tuple[str, str]:
    """What is asked for, and what there is of a GPU in the same unit; in MiB where they would look the same."""
    if not share.memory:
        return f"asks for {share.percent}% of a GPU's memory", f"{free * 100 // memory}%"
    asked, there = _show(share.memory), _show(free)
    if asked == there:
        asked, there = f"{share.memory}Mi", f"{free}Mi"
    return f"asks for {asked} of a GPU's memory", there


@lru_cache(maxsize=4096)
def _show(mebibytes: int) -> str:
    return show_amount("memory", mebibytes * MEBIBYTE * NANOS)


def _refuse(message: str, path: str = "resources.gpu.memory", *, lasts: bool = False) -> Reason:
    return Reason(Cause.SHARE, path, message, GPU, lasts)
