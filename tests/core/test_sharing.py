"""Whether a node has room for another part of a GPU, as HAMi and KAI see it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fairlead.core.fitting import gpu_sharing
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import GpuShare, PodRequest
from fairlead.core.fitting.reading_nodes import read_cluster
from fairlead.core.fitting.reasons import Cause, Reason
from fairlead.model.nodes import GpuAllocation, Node, ScheduledPod, SharedGpu
from fairlead.model.quantities import NANOS
from tests.core.nodes import make_holding, make_node, make_pod_request

REGISTER = "hami.io/node-nvidia-register"
ALLOCATED = "hami.io/vgpu-devices-allocated"
FIRST = "GPU-00552014-5c87-89ac-b1a6-7b53aa24b0ec"
SECOND = "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
V100 = "NVIDIA-Tesla V100-PCIE-32GB"
GROUP = "cfbcb444-7a0a-4ab4-a5f9-68af822798b0"


def make_share_request(by: str, *, memory: int = 0, percent: int = 0) -> PodRequest:
    """A part of one GPU, as a run asks HAMi or KAI for it."""
    pod_request = make_pod_request(gpu=1) if by == "hami" else make_pod_request()
    return replace(pod_request, gpu_share=GpuShare(by, memory, percent))


def make_sharer(
    *gpu_allocations: GpuAllocation, name: str = "train-a", terminating: bool = False, gpu: int = 0
) -> ScheduledPod:
    """A pod that was given parts of GPUs."""
    return replace(make_holding(name, gpu=gpu), gpu_allocations=gpu_allocations, terminating=terminating)


def make_hami_node(*holdings: ScheduledPod, devices: tuple[SharedGpu, ...] = ()) -> Node:
    """A node with GPUs for HAMi; by default two with 32Gi and ten slots each."""
    has = devices or (SharedGpu(FIRST, 32768, 10), SharedGpu(SECOND, 32768, 10))
    node = make_node(*holdings, name="node-3", gpu=sum(device.slots for device in has))
    return replace(node, devices=has)


def make_kai_node(
    *holdings: ScheduledPod, labels: Mapping[str, str] | None = None, gpu: int = 1, pods: int = 16, slices: int = 0
) -> Node:
    """A node with GPUs for KAI, by default with 40Gi, and MIG slices."""
    found = {"nvidia.com/gpu.memory": "40960"} if labels is None else labels
    node = make_node(*holdings, name="node-3", labels=found, gpu=gpu, pods=pods)
    return replace(node, capacity={**node.capacity, "nvidia.com/mig-1g.5gb": slices * NANOS})


def make_reservation(group: str = GROUP) -> ScheduledPod:
    """The pod with which KAI holds the GPU that others share."""
    held = make_holding(f"gpu-reservation-{group[:6]}", gpu=1)
    return replace(held, namespace="kai-resource-reservation", labels={"runai-gpu-group": group})


def check(pod_request: PodRequest, node: Node) -> list[Reason]:
    """Every reason that the parts of GPUs give why the node does not take it."""
    asked = gpu_sharing.prepare(pod_request, NodeTable([node]))
    return [] if asked is None else list(asked(node))


def tell(pod_request: PodRequest, node: Node) -> str:
    """The message of the only reason; empty if the pod fits."""
    return "; also ".join(reason.message for reason in check(pod_request, node))


def test_nothing_is_looked_at_where_no_part_of_a_gpu_is_asked_for() -> None:
    assert gpu_sharing.prepare(make_pod_request(cpu=1), NodeTable([make_hami_node(), make_kai_node()])) is None
    assert gpu_sharing.prepare(make_pod_request(gpu=1), NodeTable([make_kai_node()])) is None


@pytest.mark.parametrize(
    ("asked", "taken", "fits"),
    [
        ({"memory": 10240}, [], True),
        ({"memory": 32768}, [], True),
        ({"memory": 32768}, [GpuAllocation(FIRST, 1), GpuAllocation(SECOND, 1)], False),
        ({"memory": 10240}, [GpuAllocation(FIRST, 22528), GpuAllocation(SECOND, 22528)], True),
        ({"memory": 10240}, [GpuAllocation(FIRST, 22529), GpuAllocation(SECOND, 32768)], False),
        ({"memory": 10240}, [GpuAllocation(FIRST, 32768)], True),  # the other one is free
        ({"percent": 50}, [GpuAllocation(FIRST, 16384), GpuAllocation(SECOND, 16384)], True),
        ({"percent": 50}, [GpuAllocation(FIRST, 16385), GpuAllocation(SECOND, 16385)], False),
        (
            {"percent": 33},
            [GpuAllocation(FIRST, 21955), GpuAllocation(SECOND, 32768)],
            True,
        ),  # 10813.44 MiB, rounded down
        ({"percent": 33}, [GpuAllocation(FIRST, 21956), GpuAllocation(SECOND, 32768)], False),
        ({"percent": 100}, [GpuAllocation(FIRST, 1)], True),
        ({"percent": 100}, [GpuAllocation(FIRST, 1), GpuAllocation(SECOND, 1)], False),
    ],
)
def test_a_part_fits_where_one_device_has_as_much_memory_free(
    asked: dict[str, int], taken: list[GpuAllocation], fits: bool
) -> None:
    pod_request = make_share_request("hami", **asked)
    reasons = check(pod_request, make_hami_node(make_sharer(*taken)))
    assert [reason.lasts for reason in reasons] == ([] if fits else [False])


def test_two_halves_of_two_devices_are_not_one_whole() -> None:
    node = make_hami_node(make_sharer(GpuAllocation(FIRST, 26624), GpuAllocation(SECOND, 26624)))
    assert tell(make_share_request("hami", memory=10240), node) == (
        "needs 10 GiB of a GPU's memory; at most 6 GiB of one GPU free on node-3"
    )


def test_devices_without_any_memory_left_are_told_as_such() -> None:
    node = make_hami_node(make_sharer(GpuAllocation(FIRST, 32768), GpuAllocation(SECOND, 32768)))
    assert tell(make_share_request("hami", percent=5), node) == (
        "needs 5% of a GPU's memory; no GPU memory is free on node-3"
    )


def test_a_percent_is_of_the_device_that_it_would_be_on() -> None:
    devices = (SharedGpu(FIRST, 16384, 10), SharedGpu(SECOND, 81920, 10))
    node = make_hami_node(make_sharer(GpuAllocation(FIRST, 9000), GpuAllocation(SECOND, 50000)), devices=devices)
    assert tell(make_share_request("hami", percent=50), node) == (
        "needs 50% of a GPU's memory; at most 45% of one GPU free on node-3"
    )
    assert tell(make_share_request("hami", percent=45), node) == ""


def test_a_device_takes_only_so_many_pods() -> None:
    devices = (SharedGpu(FIRST, 32768, 2),)
    first, second = make_sharer(GpuAllocation(FIRST, 1024)), make_sharer(GpuAllocation(FIRST, 1024), name="train-b")
    pod_request = make_share_request("hami", memory=1024)
    assert tell(pod_request, make_hami_node(first, devices=devices)) == ""
    assert tell(pod_request, make_hami_node(first, second, devices=devices)) == (
        "needs 1 GiB of a GPU's memory; no GPU of node-3 can take another pod: 1 is full"
    )


def test_each_container_of_a_pod_has_a_place_of_its_own_on_a_device() -> None:
    node = make_hami_node(
        make_sharer(GpuAllocation(FIRST, 1024), GpuAllocation(FIRST, 1024)), devices=(SharedGpu(FIRST, 32768, 2),)
    )
    assert tell(make_share_request("hami", memory=1024), node).endswith("1 is full")


def test_a_device_that_is_not_well_takes_nothing_but_may_recover() -> None:
    devices = (SharedGpu(FIRST, 32768, 10, healthy=False), SharedGpu(SECOND, 16384, 10, healthy=False))
    (reason,) = check(make_share_request("hami", memory=20480), make_hami_node(devices=devices))
    assert reason == (
        Cause.SHARE,
        "resources.gpu.memory",
        "needs 20 GiB of a GPU's memory; no GPU of node-3 can take another pod: 2 are cordoned or unhealthy",
        "nvidia.com/gpu",
        False,
    )


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            make_node(name="node-3", gpu=8),
            "needs 40 GiB of a GPU's memory; node-3 does not share GPUs",
        ),
        (
            make_hami_node(make_sharer(GpuAllocation(FIRST, 32768))),
            "needs 40 GiB of a GPU's memory; the largest GPU of node-3 has 32 GiB",
        ),
    ],
    ids=["no register", "too small"],
)
def test_what_an_empty_node_would_not_take_either_lasts(node: Node, message: str) -> None:
    (reason,) = check(make_share_request("hami", memory=40960), node)
    assert (reason.message, reason.lasts) == (message, True)


def test_amounts_that_would_look_the_same_are_told_to_the_last_mebibyte() -> None:
    node = make_hami_node(devices=(SharedGpu(FIRST, 32767, 10),))
    assert tell(make_share_request("hami", memory=32768), node) == (
        "needs 32768 MiB of a GPU's memory; the largest GPU of node-3 has 32767 MiB"
    )


@pytest.mark.parametrize(
    ("count", "taken", "message"),
    [
        (1, [], ""),
        (2, [], ""),
        (1, [GpuAllocation(FIRST, 1024)], ""),
        (2, [GpuAllocation(FIRST, 1024)], "needs 2 whole GPUs; 1 of 2 on node-3 unused"),
        (
            1,
            [GpuAllocation(FIRST, 1024), GpuAllocation(SECOND, 32768)],
            "needs 1 whole GPU; none of 2 on node-3 unused",
        ),
    ],
)
def test_a_whole_gpu_of_hami_is_one_with_nothing_on_it(count: int, taken: list[GpuAllocation], message: str) -> None:
    assert tell(make_pod_request(gpu=count), make_hami_node(make_sharer(*taken))) == message


def test_more_whole_gpus_than_there_are_devices_never_fit_though_as_many_pods_may_share_them() -> None:
    (reason,) = check(make_pod_request(gpu=3), make_hami_node())
    assert (reason.path, reason.message, reason.lasts) == (
        "resources.gpu",
        "needs 3 whole GPUs; node-3 has 2",
        True,
    )


def test_whole_gpus_of_a_node_that_shares_none_are_not_looked_at() -> None:
    plain, shared = make_node(name="plain", gpu=4), make_hami_node()
    asked = gpu_sharing.prepare(make_pod_request(gpu=4), NodeTable([plain, shared]))
    assert asked is not None
    assert list(asked(plain)) == []
    assert [reason.lasts for reason in asked(shared)] == [True]


@pytest.mark.parametrize(
    ("asked", "taken", "fits"),
    [
        ({"percent": 50}, [GpuAllocation(GROUP, percent=50)], True),
        ({"percent": 51}, [GpuAllocation(GROUP, percent=50)], False),
        ({"percent": 50}, [GpuAllocation(GROUP, percent=30), GpuAllocation(GROUP, percent=30)], False),
        ({"memory": 20480}, [GpuAllocation(GROUP, percent=50)], True),
        ({"memory": 20481}, [GpuAllocation(GROUP, percent=50)], False),
        ({"percent": 50}, [GpuAllocation(GROUP, 20480)], True),
        ({"percent": 50}, [GpuAllocation(GROUP, 20481)], False),
        (
            {"memory": 10240},
            [GpuAllocation(GROUP, 10240), GpuAllocation(GROUP, 10240), GpuAllocation(GROUP, 10240)],
            True,
        ),
    ],
)
def test_a_part_fits_where_a_group_has_room_by_memory(
    asked: dict[str, int], taken: list[GpuAllocation], fits: bool
) -> None:
    sharers = [make_sharer(share, name=f"train-{at}") for at, share in enumerate(taken)]
    reasons = check(make_share_request("kai", **asked), make_kai_node(make_reservation(), *sharers))
    assert [reason.lasts for reason in reasons] == ([] if fits else [False])


def test_fractions_are_rounded_down_as_kai_does_it() -> None:
    labels = {"nvidia.com/gpu.memory": "100"}
    held = make_reservation(), make_sharer(GpuAllocation(GROUP, 72))
    # 0.29 of 100 is 28.999... to a computer, so that 28 are enough.
    assert tell(make_share_request("kai", percent=29), make_kai_node(*held, labels=labels)) == ""
    assert tell(make_share_request("kai", percent=30), make_kai_node(*held, labels=labels)) != ""


def test_a_part_fits_on_a_gpu_that_nobody_has() -> None:
    held = make_reservation(), make_sharer(GpuAllocation(GROUP, percent=90))
    pod_request = make_share_request("kai", percent=50)
    assert tell(pod_request, make_kai_node(*held, gpu=2)) == ""
    assert tell(pod_request, make_kai_node(*held, gpu=1)) == (
        "needs 50% of a GPU's memory; at most 10% of one GPU free on node-3"
    )
    assert tell(pod_request, make_kai_node(*held, make_holding("whole", gpu=1), gpu=2)) != ""


def test_nothing_is_free_where_whole_gpus_are_taken() -> None:
    node = make_kai_node(make_holding("whole", gpu=2), gpu=2)
    assert tell(make_share_request("kai", memory=1024), node) == (
        "needs 1 GiB of a GPU's memory; no GPU memory is free on node-3"
    )


def test_a_gpu_that_is_held_for_a_group_without_pods_is_not_free() -> None:
    assert tell(make_share_request("kai", percent=10), make_kai_node(make_reservation())) != ""


def test_a_group_takes_a_gpu_though_nobody_sees_the_pod_that_holds_it() -> None:
    sharer = replace(make_sharer(GpuAllocation(GROUP, percent=80)), labels={"runai-gpu-group": GROUP})
    pod_request = make_share_request("kai", percent=50)
    assert tell(pod_request, make_kai_node(sharer, gpu=1)) != ""
    assert tell(pod_request, make_kai_node(sharer, gpu=2)) == ""


def test_nobody_joins_a_group_that_all_others_leave() -> None:
    terminating = make_sharer(GpuAllocation(GROUP, percent=20), terminating=True)
    pod_request = make_share_request("kai", percent=50)
    assert tell(pod_request, make_kai_node(make_reservation(), terminating)) != ""
    staying = make_sharer(GpuAllocation(GROUP, percent=20), name="train-b")
    assert tell(pod_request, make_kai_node(make_reservation(), terminating, staying)) == ""


def test_the_first_part_of_a_gpu_needs_room_for_the_pod_that_holds_it() -> None:
    pod_request = make_share_request("kai", percent=50)
    assert tell(pod_request, make_kai_node(pods=2)) == ""
    assert tell(pod_request, make_kai_node(pods=1)) == (
        "needs 50% of a GPU's memory; KAI adds a reservation pod for the GPU, and node-3 has room for 1 pod"
    )
    held = make_reservation(), make_sharer(GpuAllocation(GROUP, percent=50))
    assert tell(pod_request, make_kai_node(*held, pods=3)) == ""


@pytest.mark.parametrize(
    ("asked", "node", "message"),
    [
        (
            {"memory": 49152},
            make_kai_node(make_holding("whole", gpu=1)),
            "needs 48 GiB of a GPU's memory; a GPU of node-3 has 40 GiB",
        ),
        ({"percent": 10}, make_kai_node(gpu=0), "needs 10% of a GPU's memory; node-3 has no GPU"),
        (
            {"memory": 1024},
            make_kai_node(labels={}),
            "needs 1 GiB of a GPU's memory; node-3 lacks the label nvidia.com/gpu.memory with the size of its GPUs",
        ),
        (
            {"percent": 10},
            make_kai_node(labels={"nvidia.com/mig.strategy": "mixed"}, slices=7),
            "needs 10% of a GPU's memory; the GPUs of node-3 use MIG and cannot be shared",
        ),
        (
            {"percent": 10},
            make_kai_node(
                labels={"nvidia.com/mig.strategy": "single", "node-role.kubernetes.io/mig-enabled": "true"}, gpu=7
            ),
            "needs 10% of a GPU's memory; the GPUs of node-3 use MIG and cannot be shared",
        ),
    ],
    ids=["too small", "no gpu", "no label", "mig", "mig by label"],
)
def test_what_kai_would_not_put_on_an_empty_node_lasts(asked: dict[str, int], node: Node, message: str) -> None:
    (reason,) = check(make_share_request("kai", **asked), node)
    assert (reason.message, reason.lasts) == (message, True)


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ({"nvidia.com/gpu.memory": "40960"}, True),
        ({"nvidia.com/gpu.memory": str(40960 * 2**20)}, True),  # in bytes, as some versions of the label have it
        ({"nvidia.com/gpu.memory": "40959"}, False),
        ({"nvidia.com/gpu.memory": "much"}, False),
    ],
)
def test_the_label_says_how_large_a_gpu_is(labels: dict[str, str], fits: bool) -> None:
    node = make_kai_node(labels=labels)
    assert (tell(make_share_request("kai", memory=40960), node) == "") is fits
    assert tell(make_share_request("kai", memory=40961), node) != ""


def test_percents_are_dealt_out_where_nobody_knows_how_large_a_gpu_is() -> None:
    held = make_reservation(), make_sharer(GpuAllocation(GROUP, percent=40))
    assert tell(make_share_request("kai", percent=60), make_kai_node(*held, labels={})) == ""
    assert tell(make_share_request("kai", percent=61), make_kai_node(*held, labels={})) == (
        "needs 61% of a GPU's memory; at most 60% of one GPU free on node-3"
    )


def test_mig_that_is_switched_off_or_of_no_strategy_keeps_no_part_off() -> None:
    off = {"nvidia.com/mig.strategy": "mixed", "node-role.kubernetes.io/mig-enabled": "false"}
    assert tell(make_share_request("kai", percent=10), make_kai_node(labels=off)) == ""
    assert tell(make_share_request("kai", percent=10), make_kai_node(labels={"nvidia.com/mig.strategy": "mixed"})) == ""
    none = {"nvidia.com/mig.strategy": "none"}
    assert tell(make_share_request("kai", percent=10), make_kai_node(labels=none, slices=7)) == ""


@pytest.mark.parametrize(
    ("pod_request", "node", "count"),
    [
        (make_share_request("hami", memory=10240), make_hami_node(), 6),
        (make_share_request("hami", percent=5), make_hami_node(), 20),  # ten pods for each GPU, and no more
        (make_share_request("hami", percent=100), make_hami_node(), 2),
        (make_pod_request(gpu=1), make_hami_node(), 2),
        (make_pod_request(gpu=2), make_hami_node(), 1),
        (make_share_request("hami", memory=40960), make_hami_node(), 0),
        (make_share_request("hami", memory=1024), make_node(gpu=1), 0),
        (make_share_request("kai", percent=30), make_kai_node(gpu=2), 6),
        (make_share_request("kai", memory=20480), make_kai_node(gpu=2), 4),
        (make_share_request("kai", memory=49152), make_kai_node(gpu=2), 0),
    ],
)
def test_as_many_pods_are_dealt_parts_as_an_empty_node_has(pod_request: PodRequest, node: Node, count: int) -> None:
    assert gpu_sharing.count_when_empty(pod_request, node) == count
    for _ in range(count):
        assert tell(pod_request, node) == ""
        gpu_allocations = gpu_sharing.allocate(pod_request, node)
        assert gpu_allocations
        node = replace(node, pods=(*node.pods, make_sharer(*gpu_allocations)))
    assert tell(pod_request, node) != ""
    assert gpu_sharing.allocate(pod_request, node) == ()


def test_who_asks_for_no_part_or_for_more_than_there_is_is_dealt_none() -> None:
    assert gpu_sharing.allocate(make_pod_request(gpu=2), make_hami_node(make_sharer(GpuAllocation(FIRST, 1)))) == ()
    assert gpu_sharing.allocate(make_pod_request(cpu=1), make_hami_node()) == ()
    assert gpu_sharing.allocate(make_pod_request(gpu=1), make_kai_node()) == ()
    assert gpu_sharing.count_when_empty(make_pod_request(cpu=1), make_hami_node()) is None
    assert gpu_sharing.count_when_empty(make_pod_request(gpu=1), make_kai_node()) is None


def test_what_kubectl_tells_of_a_cluster_is_enough() -> None:
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    node = {
        "kind": "Node",
        "metadata": {"name": "node-3", "annotations": {REGISTER: f"{FIRST},10,32768,100,{V100},0,true,0,hami-core:"}},
        "status": {"allocatable": {"nvidia.com/gpu": "10", "pods": "110", "cpu": "8"}},
    }
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "train",
            "namespace": "vision",
            "annotations": {"hami.io/vgpu-node": "node-3", ALLOCATED: f"{FIRST},NVIDIA,20480,0:;"},
        },
        "spec": {"nodeName": "node-3", "containers": [container]},
    }
    (seen,) = read_cluster([node, pod])
    assert tell(make_share_request("hami", memory=12288), seen) == ""
    assert tell(make_share_request("hami", memory=16384), seen) == (
        "needs 16 GiB of a GPU's memory; at most 12 GiB of one GPU free on node-3"
    )
