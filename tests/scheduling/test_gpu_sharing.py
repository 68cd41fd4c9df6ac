"""Whether a GPU share fits a node, by the rules of HAMi and KAI."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fairlead.model.nodes import GpuAllocation, GpuShare, Node, NodeTable, PodRequest, ScheduledPod, SharedGpu
from fairlead.model.quantities import NANOS
from fairlead.scheduling import gpu_sharing
from fairlead.scheduling.readers import read_cluster
from fairlead.scheduling.reasons import Cause, Reason
from tests.scheduling.nodes import make_node, make_pod_request, make_scheduled_pod

REGISTER = "hami.io/node-nvidia-register"
ALLOCATED = "hami.io/vgpu-devices-allocated"
FIRST = "GPU-00552014-5c87-89ac-b1a6-7b53aa24b0ec"
SECOND = "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
V100 = "NVIDIA-Tesla V100-PCIE-32GB"
GROUP = "cfbcb444-7a0a-4ab4-a5f9-68af822798b0"


def make_share_request(by: str, *, memory: int = 0, percent: int = 0) -> PodRequest:
    """A pod request for a share of one GPU with HAMi or KAI."""
    pod_request = make_pod_request(gpu=1) if by == "hami" else make_pod_request()
    return replace(pod_request, gpu_share=GpuShare(by, memory, percent))


def make_sharing_pod(
    *gpu_allocations: GpuAllocation, name: str = "train-a", terminating: bool = False, gpu: int = 0
) -> ScheduledPod:
    """A pod with GPU shares."""
    return replace(make_scheduled_pod(name, gpu=gpu), gpu_allocations=gpu_allocations, terminating=terminating)


def make_hami_node(*scheduled_pods: ScheduledPod, devices: tuple[SharedGpu, ...] = ()) -> Node:
    """A node with GPUs for HAMi; by default two with 32Gi and ten slots each."""
    gpus = devices or (SharedGpu(FIRST, 32768, 10), SharedGpu(SECOND, 32768, 10))
    node = make_node(*scheduled_pods, name="node-3", gpu=sum(device.slots for device in gpus))
    return replace(node, devices=gpus)


def make_kai_node(
    *scheduled_pods: ScheduledPod,
    labels: Mapping[str, str] | None = None,
    gpu: int = 1,
    pods: int = 16,
    slices: int = 0,
) -> Node:
    """A node with GPUs for KAI, by default with 40Gi, and MIG slices."""
    node_labels = {"nvidia.com/gpu.memory": "40960"} if labels is None else labels
    node = make_node(*scheduled_pods, name="node-3", labels=node_labels, gpu=gpu, pods=pods)
    return replace(node, capacity={**node.capacity, "nvidia.com/mig-1g.5gb": slices * NANOS})


def make_reservation(group: str = GROUP) -> ScheduledPod:
    """The pod that KAI uses to reserve a shared GPU."""
    pod = make_scheduled_pod(f"gpu-reservation-{group[:6]}", gpu=1)
    return replace(pod, namespace="kai-resource-reservation", labels={"runai-gpu-group": group})


def check(pod_request: PodRequest, node: Node) -> list[Reason]:
    """The reasons from the GPU sharing check."""
    share_check = gpu_sharing.prepare_gpu_check(pod_request, NodeTable([node]))
    return [] if share_check is None else list(share_check(node))


def describe(pod_request: PodRequest, node: Node) -> str:
    """The message of the only reason; empty if the pod fits."""
    return "; also ".join(reason.message for reason in check(pod_request, node))


def test_no_check_without_gpu_sharing() -> None:
    assert (
        gpu_sharing.prepare_gpu_check(make_pod_request(cpu=1), NodeTable([make_hami_node(), make_kai_node()])) is None
    )
    assert gpu_sharing.prepare_gpu_check(make_pod_request(gpu=1), NodeTable([make_kai_node()])) is None


@pytest.mark.parametrize(
    ("requested", "allocated", "fits"),
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
def test_a_share_fits_if_one_device_has_enough_free_memory(
    requested: dict[str, int], allocated: list[GpuAllocation], fits: bool
) -> None:
    pod_request = make_share_request("hami", **requested)
    reasons = check(pod_request, make_hami_node(make_sharing_pod(*allocated)))
    assert [reason.lasts for reason in reasons] == ([] if fits else [False])


def test_free_memory_of_two_devices_is_not_added_up() -> None:
    node = make_hami_node(make_sharing_pod(GpuAllocation(FIRST, 26624), GpuAllocation(SECOND, 26624)))
    assert describe(make_share_request("hami", memory=10240), node) == (
        "needs 10 GiB of a GPU's memory; at most 6 GiB of one GPU is free on node-3"
    )


def test_devices_without_free_memory_are_reported() -> None:
    node = make_hami_node(make_sharing_pod(GpuAllocation(FIRST, 32768), GpuAllocation(SECOND, 32768)))
    assert describe(make_share_request("hami", percent=5), node) == (
        "needs 5% of a GPU's memory; no GPU memory is free on node-3"
    )


def test_a_percentage_refers_to_the_memory_of_each_device() -> None:
    devices = (SharedGpu(FIRST, 16384, 10), SharedGpu(SECOND, 81920, 10))
    node = make_hami_node(make_sharing_pod(GpuAllocation(FIRST, 9000), GpuAllocation(SECOND, 50000)), devices=devices)
    assert describe(make_share_request("hami", percent=50), node) == (
        "needs 50% of a GPU's memory; at most 45% of one GPU is free on node-3"
    )
    assert describe(make_share_request("hami", percent=45), node) == ""


def test_the_number_of_pods_per_device_is_limited() -> None:
    devices = (SharedGpu(FIRST, 32768, 2),)
    first, second = (
        make_sharing_pod(GpuAllocation(FIRST, 1024)),
        make_sharing_pod(GpuAllocation(FIRST, 1024), name="train-b"),
    )
    pod_request = make_share_request("hami", memory=1024)
    assert describe(pod_request, make_hami_node(first, devices=devices)) == ""
    assert describe(pod_request, make_hami_node(first, second, devices=devices)) == (
        "needs 1 GiB of a GPU's memory; no GPU on node-3 can take another pod: 1 is full"
    )


def test_each_container_uses_its_own_slot_of_a_device() -> None:
    node = make_hami_node(
        make_sharing_pod(GpuAllocation(FIRST, 1024), GpuAllocation(FIRST, 1024)), devices=(SharedGpu(FIRST, 32768, 2),)
    )
    assert describe(make_share_request("hami", memory=1024), node).endswith("1 is full")


def test_an_unhealthy_device_is_excluded_temporarily() -> None:
    devices = (SharedGpu(FIRST, 32768, 10, healthy=False), SharedGpu(SECOND, 16384, 10, healthy=False))
    (reason,) = check(make_share_request("hami", memory=20480), make_hami_node(devices=devices))
    assert reason == (
        Cause.SHARE,
        "resources.gpu.memory",
        "needs 20 GiB of a GPU's memory; no GPU on node-3 can take another pod: 2 are cordoned or unhealthy",
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
            make_hami_node(make_sharing_pod(GpuAllocation(FIRST, 32768))),
            "needs 40 GiB of a GPU's memory; the largest GPU on node-3 has 32 GiB",
        ),
    ],
    ids=["no register", "too small"],
)
def test_hami_requests_that_fit_no_empty_node_are_permanently_excluded(node: Node, message: str) -> None:
    (reason,) = check(make_share_request("hami", memory=40960), node)
    assert (reason.message, reason.lasts) == (message, True)


def test_almost_equal_amounts_are_shown_in_mebibytes() -> None:
    node = make_hami_node(devices=(SharedGpu(FIRST, 32767, 10),))
    assert describe(make_share_request("hami", memory=32768), node) == (
        "needs 32768 MiB of a GPU's memory; the largest GPU on node-3 has 32767 MiB"
    )


@pytest.mark.parametrize(
    ("count", "allocated", "message"),
    [
        (1, [], ""),
        (2, [], ""),
        (1, [GpuAllocation(FIRST, 1024)], ""),
        (2, [GpuAllocation(FIRST, 1024)], "needs 2 whole GPUs; 1 of 2 unused on node-3"),
        (
            1,
            [GpuAllocation(FIRST, 1024), GpuAllocation(SECOND, 32768)],
            "needs 1 whole GPU; none of 2 unused on node-3",
        ),
    ],
)
def test_a_whole_gpu_of_hami_must_be_unused(count: int, allocated: list[GpuAllocation], message: str) -> None:
    assert describe(make_pod_request(gpu=count), make_hami_node(make_sharing_pod(*allocated))) == message


def test_whole_gpus_are_limited_by_devices_and_not_by_slots() -> None:
    (reason,) = check(make_pod_request(gpu=3), make_hami_node())
    assert (reason.path, reason.message, reason.lasts) == (
        "resources.gpu",
        "needs 3 whole GPUs; node-3 has 2",
        True,
    )


def test_nodes_without_sharing_are_not_checked_for_whole_gpus() -> None:
    plain, shared = make_node(name="plain", gpu=4), make_hami_node()
    share_check = gpu_sharing.prepare_gpu_check(make_pod_request(gpu=4), NodeTable([plain, shared]))
    assert share_check is not None
    assert list(share_check(plain)) == []
    assert [reason.lasts for reason in share_check(shared)] == [True]


@pytest.mark.parametrize(
    ("requested", "allocated", "fits"),
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
def test_a_share_fits_if_a_group_has_enough_free_memory(
    requested: dict[str, int], allocated: list[GpuAllocation], fits: bool
) -> None:
    sharing_pods = [make_sharing_pod(share, name=f"train-{number}") for number, share in enumerate(allocated)]
    reasons = check(make_share_request("kai", **requested), make_kai_node(make_reservation(), *sharing_pods))
    assert [reason.lasts for reason in reasons] == ([] if fits else [False])


def test_fractions_are_rounded_down_as_in_kai() -> None:
    labels = {"nvidia.com/gpu.memory": "100"}
    pods = make_reservation(), make_sharing_pod(GpuAllocation(GROUP, 72))
    # 0.29 * 100 is 28.999... in floating point, so 28 is enough.
    assert describe(make_share_request("kai", percent=29), make_kai_node(*pods, labels=labels)) == ""
    assert describe(make_share_request("kai", percent=30), make_kai_node(*pods, labels=labels)) != ""


def test_a_share_fits_on_an_unused_gpu() -> None:
    pods = make_reservation(), make_sharing_pod(GpuAllocation(GROUP, percent=90))
    pod_request = make_share_request("kai", percent=50)
    assert describe(pod_request, make_kai_node(*pods, gpu=2)) == ""
    assert describe(pod_request, make_kai_node(*pods, gpu=1)) == (
        "needs 50% of a GPU's memory; at most 10% of one GPU is free on node-3"
    )
    assert describe(pod_request, make_kai_node(*pods, make_scheduled_pod("whole", gpu=1), gpu=2)) != ""


def test_nothing_is_free_if_whole_gpus_are_in_use() -> None:
    node = make_kai_node(make_scheduled_pod("whole", gpu=2), gpu=2)
    assert describe(make_share_request("kai", memory=1024), node) == (
        "needs 1 GiB of a GPU's memory; no GPU memory is free on node-3"
    )


def test_a_gpu_reserved_for_a_group_without_pods_is_not_free() -> None:
    assert describe(make_share_request("kai", percent=10), make_kai_node(make_reservation())) != ""


def test_a_group_uses_a_gpu_even_without_a_visible_reservation_pod() -> None:
    sharing_pod = replace(make_sharing_pod(GpuAllocation(GROUP, percent=80)), labels={"runai-gpu-group": GROUP})
    pod_request = make_share_request("kai", percent=50)
    assert describe(pod_request, make_kai_node(sharing_pod, gpu=1)) != ""
    assert describe(pod_request, make_kai_node(sharing_pod, gpu=2)) == ""


def test_no_pod_joins_a_group_whose_pods_are_all_terminating() -> None:
    terminating = make_sharing_pod(GpuAllocation(GROUP, percent=20), terminating=True)
    pod_request = make_share_request("kai", percent=50)
    assert describe(pod_request, make_kai_node(make_reservation(), terminating)) != ""
    running = make_sharing_pod(GpuAllocation(GROUP, percent=20), name="train-b")
    assert describe(pod_request, make_kai_node(make_reservation(), terminating, running)) == ""


def test_the_first_share_of_a_gpu_needs_room_for_the_reservation_pod() -> None:
    pod_request = make_share_request("kai", percent=50)
    assert describe(pod_request, make_kai_node(pods=2)) == ""
    assert describe(pod_request, make_kai_node(pods=1)) == (
        "needs 50% of a GPU's memory; KAI adds a reservation pod for the GPU, but node-3 has room for 1 pod"
    )
    existing_pods = make_reservation(), make_sharing_pod(GpuAllocation(GROUP, percent=50))
    assert describe(pod_request, make_kai_node(*existing_pods, pods=3)) == ""


@pytest.mark.parametrize(
    ("requested", "node", "message"),
    [
        (
            {"memory": 49152},
            make_kai_node(make_scheduled_pod("whole", gpu=1)),
            "needs 48 GiB of a GPU's memory; a GPU on node-3 has 40 GiB",
        ),
        ({"percent": 10}, make_kai_node(gpu=0), "needs 10% of a GPU's memory; node-3 has no GPU"),
        (
            {"memory": 1024},
            make_kai_node(labels={}),
            "needs 1 GiB of a GPU's memory; node-3 lacks the label nvidia.com/gpu.memory with the memory of its GPUs",
        ),
        (
            {"percent": 10},
            make_kai_node(labels={"nvidia.com/mig.strategy": "mixed"}, slices=7),
            "needs 10% of a GPU's memory; the GPUs on node-3 use MIG and cannot be shared",
        ),
        (
            {"percent": 10},
            make_kai_node(
                labels={"nvidia.com/mig.strategy": "single", "node-role.kubernetes.io/mig-enabled": "true"}, gpu=7
            ),
            "needs 10% of a GPU's memory; the GPUs on node-3 use MIG and cannot be shared",
        ),
    ],
    ids=["too small", "no gpu", "no label", "mig", "mig by label"],
)
def test_kai_requests_that_fit_no_empty_node_are_permanently_excluded(
    requested: dict[str, int], node: Node, message: str
) -> None:
    (reason,) = check(make_share_request("kai", **requested), node)
    assert (reason.message, reason.lasts) == (message, True)


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ({"nvidia.com/gpu.memory": "40960"}, True),
        ({"nvidia.com/gpu.memory": str(40960 * 2**20)}, True),  # in bytes, as in some versions of the label
        ({"nvidia.com/gpu.memory": "40959"}, False),
        ({"nvidia.com/gpu.memory": "much"}, False),
    ],
)
def test_the_gpu_size_is_read_from_the_label(labels: dict[str, str], fits: bool) -> None:
    node = make_kai_node(labels=labels)
    assert (describe(make_share_request("kai", memory=40960), node) == "") is fits
    assert describe(make_share_request("kai", memory=40961), node) != ""


def test_percentages_work_without_a_known_gpu_size() -> None:
    pods = make_reservation(), make_sharing_pod(GpuAllocation(GROUP, percent=40))
    assert describe(make_share_request("kai", percent=60), make_kai_node(*pods, labels={})) == ""
    assert describe(make_share_request("kai", percent=61), make_kai_node(*pods, labels={})) == (
        "needs 61% of a GPU's memory; at most 60% of one GPU is free on node-3"
    )


def test_disabled_mig_does_not_prevent_sharing() -> None:
    off = {"nvidia.com/mig.strategy": "mixed", "node-role.kubernetes.io/mig-enabled": "false"}
    assert describe(make_share_request("kai", percent=10), make_kai_node(labels=off)) == ""
    assert (
        describe(make_share_request("kai", percent=10), make_kai_node(labels={"nvidia.com/mig.strategy": "mixed"}))
        == ""
    )
    none = {"nvidia.com/mig.strategy": "none"}
    assert describe(make_share_request("kai", percent=10), make_kai_node(labels=none, slices=7)) == ""


@pytest.mark.parametrize(
    ("pod_request", "node", "count"),
    [
        (make_share_request("hami", memory=10240), make_hami_node(), 6),
        (make_share_request("hami", percent=5), make_hami_node(), 20),  # ten pods per GPU, and no more
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
def test_shares_are_allocated_until_the_node_is_full(pod_request: PodRequest, node: Node, count: int) -> None:
    assert gpu_sharing.count_when_empty(pod_request, node) == count
    for _ in range(count):
        assert describe(pod_request, node) == ""
        gpu_allocations = gpu_sharing.allocate(pod_request, node)
        assert gpu_allocations
        node = replace(node, pods=(*node.pods, make_sharing_pod(*gpu_allocations)))
    assert describe(pod_request, node) != ""
    assert gpu_sharing.allocate(pod_request, node) == ()


def test_requests_without_a_share_or_beyond_capacity_allocate_nothing() -> None:
    assert (
        gpu_sharing.allocate(make_pod_request(gpu=2), make_hami_node(make_sharing_pod(GpuAllocation(FIRST, 1)))) == ()
    )
    assert gpu_sharing.allocate(make_pod_request(cpu=1), make_hami_node()) == ()
    assert gpu_sharing.allocate(make_pod_request(gpu=1), make_kai_node()) == ()
    assert gpu_sharing.count_when_empty(make_pod_request(cpu=1), make_hami_node()) is None
    assert gpu_sharing.count_when_empty(make_pod_request(gpu=1), make_kai_node()) is None


def test_kubectl_output_is_sufficient_to_check_shares() -> None:
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
    (parsed,) = read_cluster([node, pod])
    assert describe(make_share_request("hami", memory=12288), parsed) == ""
    assert describe(make_share_request("hami", memory=16384), parsed) == (
        "needs 16 GiB of a GPU's memory; at most 12 GiB of one GPU is free on node-3"
    )
