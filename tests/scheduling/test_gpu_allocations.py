"""HAMi and KAI annotations about pods' GPUs and GPU shares."""

import json

import pytest

from fairlead.model.nodes import GpuAllocation, SharedGpu
from fairlead.scheduling import gpu_sharing
from tests.scheduling.test_gpu_sharing import describe, make_kai_node, make_share_request, make_sharing_pod

REGISTER = "hami.io/node-nvidia-register"
ALLOCATED = "hami.io/vgpu-devices-allocated"
FIRST = "GPU-00552014-5c87-89ac-b1a6-7b53aa24b0ec"
SECOND = "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
V100 = "NVIDIA-Tesla V100-PCIE-32GB"
GROUP, OTHER = "cfbcb444-7a0a-4ab4-a5f9-68af822798b0", "a26d17bc-00e5-4368-9e2f-57cc1d1c0f2b"


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        (
            f"{FIRST},10,32768,100,{V100},0,true:{SECOND},10,32768,100,{V100},0,false:",
            (SharedGpu(FIRST, 32768, 10, True, V100), SharedGpu(SECOND, 32768, 10, False, V100)),
        ),
        (
            f"{FIRST},10,32768,100,{V100},0,true,0,hami-core:{SECOND},4,258787,500,NVIDIA-NVIDIA H20-3e,1,true,1,mig:",
            (SharedGpu(FIRST, 32768, 10, True, V100), SharedGpu(SECOND, 258787, 4, True, "NVIDIA-NVIDIA H20-3e")),
        ),
        (
            json.dumps(
                [
                    {"id": FIRST, "count": 10, "devmem": 32768, "devcore": 100, "type": V100, "health": True},
                    {"id": SECOND, "index": 1, "count": 10, "devmem": 32768, "type": V100, "mode": "hami-core"},
                ]
            ),
            (SharedGpu(FIRST, 32768, 10, True, V100), SharedGpu(SECOND, 32768, 10, False, V100)),
        ),
    ],
    ids=["seven fields", "nine fields", "json"],
)
def test_devices_are_parsed_from_every_hami_format(text: str, devices: tuple[SharedGpu, ...]) -> None:
    assert gpu_sharing.read_devices({REGISTER: text}) == devices


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        ":",
        "[]",
        "null",
        "[",
        "[1]",
        "[null]",
        '["GPU-0"]',
        '[{"id": "a", "devmem": "much"}]',
        '[{"id": "a", "devmem": 1e999}]',
        '[{"id": "a", "devmem": [1]}]',
        f"{FIRST},10,32768:",
        f"{FIRST},ten,32768,100,{V100},0,true:",
    ],
)
def test_an_invalid_register_has_no_devices(text: str) -> None:
    assert gpu_sharing.read_devices({REGISTER: text}) == ()


def test_a_node_without_a_register_has_no_devices() -> None:
    assert gpu_sharing.read_devices({}) == ()


def test_a_cordoned_device_counts_as_unhealthy() -> None:
    text = f"{FIRST},10,32768,100,{V100},0,true:{SECOND},10,32768,100,{V100},0,true:"
    first, second = gpu_sharing.read_devices({REGISTER: text, "hami.io/device-cordon": f" {SECOND}, "})
    assert [first.healthy, second.healthy] == [True, False]


@pytest.mark.parametrize(
    ("annotations", "labels", "gpu_allocations"),
    [
        ({}, {}, ()),
        ({ALLOCATED: f"{FIRST},NVIDIA,3000,0:;"}, {}, (GpuAllocation(FIRST, 3000),)),
        (
            {ALLOCATED: f"{FIRST},NVIDIA,3000,0:;{FIRST},NVIDIA,5000,30:;"},  # two containers
            {},
            (GpuAllocation(FIRST, 3000), GpuAllocation(FIRST, 5000)),
        ),
        (
            {ALLOCATED: f"{FIRST},NVIDIA,32768,100:{SECOND},NVIDIA,32768,100:;"},  # two whole GPUs
            {},
            (GpuAllocation(FIRST, 32768), GpuAllocation(SECOND, 32768)),
        ),
        ({ALLOCATED: f";{FIRST},NVIDIA,3000,0:;;"}, {}, (GpuAllocation(FIRST, 3000),)),  # containers without a GPU
        ({ALLOCATED: f"{FIRST}[2-1],NVIDIA,10240,28:;"}, {}, (GpuAllocation(FIRST, 10240),)),  # a MIG slice
        ({ALLOCATED: ";"}, {}, ()),
        ({ALLOCATED: f"{FIRST},NVIDIA;"}, {}, ()),
        ({ALLOCATED: f"{FIRST},NVIDIA,much,0:;"}, {}, ()),
        ({ALLOCATED: f"{FIRST},NVIDIA,-3000,0:;"}, {}, ()),
        ({"gpu-fraction": "0.5"}, {"runai-gpu-group": GROUP}, (GpuAllocation(GROUP, percent=50),)),
        ({"gpu-fraction": "0.28"}, {"runai-gpu-group": GROUP}, (GpuAllocation(GROUP, percent=28),)),
        ({"gpu-fraction": "0.125"}, {"runai-gpu-group": GROUP}, (GpuAllocation(GROUP, percent=13),)),
        ({"gpu-memory": "2000"}, {"runai-gpu-group": GROUP}, (GpuAllocation(GROUP, 2000),)),
        (
            {"gpu-memory": "2000", "gpu-fraction-num-devices": "2"},
            {f"runai-gpu-group/{GROUP}": GROUP, f"runai-gpu-group/{OTHER}": OTHER},
            (GpuAllocation(GROUP, 2000), GpuAllocation(OTHER, 2000)),
        ),
        (
            {
                "nvidia.com/container.main.gpu-memory.request": "8Gi",
                "nvidia.com/container.main.gpu-memory.limit": "9Gi",
            },
            {"runai-gpu-group": GROUP},
            (GpuAllocation(GROUP, 8192),),
        ),
        (
            {"nvidia.com/container.main.gpu-memory.limit": "9Gi"},
            {"runai-gpu-group": GROUP},
            (GpuAllocation(GROUP, 9216),),
        ),
        ({"gpu-fraction": "0.5"}, {}, ()),  # not placed yet
        ({}, {"runai-gpu-group": GROUP}, ()),  # the reservation pod
        ({"gpu-fraction": "half"}, {"runai-gpu-group": GROUP}, ()),
        ({"gpu-fraction": "nan"}, {"runai-gpu-group": GROUP}, ()),
        ({"gpu-fraction": "1.5"}, {"runai-gpu-group": GROUP}, ()),
        ({"gpu-memory": "2Gi"}, {"runai-gpu-group": GROUP}, ()),
        ({"gpu-memory": "-1"}, {"runai-gpu-group": GROUP}, ()),
    ],
)
def test_allocations_are_parsed_from_annotations_and_labels(
    annotations: dict[str, str], labels: dict[str, str], gpu_allocations: tuple[GpuAllocation, ...]
) -> None:
    assert gpu_sharing.read_gpu_allocations(annotations, labels) == gpu_allocations


def test_a_huge_number_of_free_gpus_is_handled_quickly() -> None:
    node = make_kai_node(make_sharing_pod(GpuAllocation("group", memory=40960)), gpu=10**15)
    pod_request = make_share_request("kai", percent=50)
    assert describe(pod_request, node) == ""
    assert gpu_sharing.allocate(pod_request, node) == (GpuAllocation("new-1", 20480),)
