"""Descriptions of plans: what a pod gets, what may kill it, and the source of each value."""

from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from fairlead.model.assets import Policy
from fairlead.model.scopes import Cluster
from fairlead.planning.linting import LintResult, lint_compute_resource, lint_template
from tests.making import (
    make_cluster,
    make_compute_resource,
    make_policy,
    make_requirements,
    make_snapshot,
    make_template,
)

KAI = make_cluster(name="west", gpu_sharing="kai", gpu_types={"A100": ["A100-40GB", "A100-80GB"]})
HAMI = make_cluster(name="north", gpu_sharing="hami")
PLAIN = make_cluster(name="east")
AMD = make_cluster(name="south", gpu_resource="amd.com/gpu")
LOCAL = make_cluster(name="here", executor="local")


def sentences_at(result: LintResult, *paths: str) -> list[tuple[str, str]]:
    """Kinds and texts of the sentences at or under the given paths."""
    sentences = [item for item in result.sentences if item.path.startswith(paths)]
    return [(item.kind, item.text) for item in sentences]


def describe(
    path: str, clusters: Sequence[Cluster] = (), policies: Sequence[Policy] = (), **requirements: Any
) -> list[tuple[str, str]]:
    """The sentences at a path for these requirements."""
    return sentences_at(
        lint_compute_resource(make_compute_resource(**requirements), policies, clusters, strict=True), path
    )


# Requirements and their expected sentences.
AMOUNTS = """
cpu: 4
gets: 4 cores reserved per pod, more if free on its node (no limit).

cpu: {requests: 500m, limits: 2}
gets: 0.5 cores reserved per pod, up to 2 if free on its node.
note: Throttled above 2 cores, not killed.

cpu: {limits: 1}
gets: Exactly 1 core per pod.
note: Throttled above 1 core, not killed.
note: Default request: equal to the limit.

cpu: {limits: unlimited}
gets: No cores reserved, more if free on its node (no limit).
note: May get almost no CPU while other pods on its node need it.

mem: {requests: 32Gi, limits: 64Gi}
gets: 32 GiB of memory reserved per pod, up to 64 GiB if free on its node.
risk: Killed above 64 GiB (out of memory).
risk: May be killed if its node runs out of memory; the risk grows with usage above 32 GiB.

mem: {requests: 64Gi, limits: 64Gi}
gets: Exactly 64 GiB of memory per pod.
risk: Killed above 64 GiB (out of memory).

mem: {requests: 32Gi, limits: unlimited}
gets: 32 GiB of memory reserved per pod, more if free on its node (no limit).
risk: May be killed if its node runs out of memory; the risk grows with usage above 32 GiB.

mem: {limits: unlimited}
gets: No memory reserved, more if free on its node (no limit).
risk: Among the first to be killed if its node runs out of memory.

mem: {requests: 0, limits: 1Gi}
gets: No memory reserved, up to 1 GiB if free on its node.
risk: Killed above 1 GiB (out of memory).
risk: Among the first to be killed if its node runs out of memory.

disk: {requests: 10Gi, limits: 20Gi}
gets: 10 GiB of disk reserved per pod, up to 20 GiB if free on its node.
risk: Evicted above 20 GiB of disk, which ends the run.
risk: May be evicted if its node's disk is nearly full; the risk grows with usage above 10 GiB.

disk: 10Gi
gets: 10 GiB of disk reserved per pod, more if free on its node (no limit).
risk: May be evicted if its node's disk is nearly full; the risk grows with usage above 10 GiB.

gpu: 0
gets: No GPU.

gpu: 1
gets: 1 whole GPU per pod.

gpu: {devices: 2, type: A100}
gets: 2 whole GPUs of type A100 per pod.

gpu: {mig: 1g.5gb}
gets: One dedicated 1g.5gb MIG slice of a GPU per pod.

gpu: {memory: 50%}
gets: Half (50%) of the memory of one GPU per pod.

gpu: {memory: 100%}
gets: 1 whole GPU per pod.

gpu: {memory: {request: 10GB, limit: 20GB}}
gets: 10 GB of the memory of one GPU per pod, up to 20 GB if free.
risk: May be killed if another pod needs the GPU memory; the risk grows with usage above 10 GB.

shm: false
note: /dev/shm has its default size.

shm: 8Gi
gets: /dev/shm can use up to 8 GiB; it counts toward the pod's memory.

shm: true
gets: /dev/shm can use up to the memory of its node; it counts toward the pod's memory.

extended: {vendor.example/nic: 2}
gets: 2 vendor.example/nic per pod.

extended: {vendor.example/nic: 0}
gets: No vendor.example/nic.
"""


@pytest.mark.parametrize("row", AMOUNTS.strip().split("\n\n"), ids=lambda row: row.splitlines()[0])
def test_amounts_are_described_with_reservation_and_risks(row: str) -> None:
    requested, *expected = row.splitlines()
    resources = yaml.safe_load(requested)
    sentences = describe(f"resources.{next(iter(resources))}", resources=resources)
    assert [f"{kind}: {text}" for kind, text in sentences] == expected


def test_shared_memory_is_described_with_the_memory_limit() -> None:
    expected = "/dev/shm can use up to the memory limit of 64 GiB; it counts toward the pod's memory."
    assert describe("resources.shm", resources={"shm": True, "mem": {"limits": "64Gi"}}) == [("gets", expected)]


@pytest.mark.parametrize(
    ("amount", "expected"), [("1", "1 byte"), ("5", "5 bytes"), ("2362232013", "About 2.2 GiB"), ("2G", "2 GB")]
)
def test_amounts_without_a_suffix_are_shown_with_a_unit(amount: str, expected: str) -> None:
    assert f"{expected} of memory" in describe("resources.mem", resources={"mem": amount})[0][1]


def test_missing_values_are_described_as_set_in_the_request() -> None:
    assert sentences_at(lint_compute_resource(make_compute_resource(), [], []), "") == [
        ("note", "GPUs are set in the request."),
        ("note", "CPU is set in the request."),
        ("note", "Memory is set in the request."),
    ]


@pytest.mark.parametrize("path", ["resources", "resources.gpu", "resources.gpu.devices"])
def test_locked_values_are_described_as_locked(path: str) -> None:
    policy = make_policy("department/vision", rules={path: {"locked": True}})
    expected = "GPUs are locked by the department/vision policy: pods get none."
    assert describe("resources.gpu", policies=[policy]) == [("note", expected)]


# Sources


def test_defaults_are_described_with_their_source() -> None:
    policy = make_policy("department/vision", defaults={"resources": {"cpu": 1, "gpu": 0}, "envs": {"A": "1"}})
    platform = make_requirements(resources={"mem": "2Gi"})
    result = lint_compute_resource(make_compute_resource(envs={"B": "2"}), [policy], [], platform=platform)
    note = ("note", "(department/vision policy default)")
    assert sentences_at(result, "resources.gpu")[-1] == note
    assert sentences_at(result, "resources.cpu")[-1] == note
    assert sentences_at(result, "resources.mem")[-1] == ("note", "(platform default)")
    assert sentences_at(result, "envs") == [("gets", "Sets variable B."), ("gets", "Sets variable A."), note]


def test_a_computed_limit_is_described_with_its_factor_and_policy() -> None:
    policy = make_policy("department/vision", limit_factor={"mem": 1.5})
    sentences = describe("resources.mem", policies=[policy], resources={"mem": "4Gi"})
    assert ("risk", "Killed above 6 GiB (out of memory).") in sentences
    expected = "Default limit: 1.5x request (department/vision policy)."
    assert sentences[-1] == ("note", expected)


def test_a_template_is_described_with_its_compute_resource() -> None:
    snapshot = make_snapshot(make_compute_resource("big", resources={"gpu": 1}), PLAIN)
    result = lint_template(make_template(profile="big", resources={"gpu": 2, "disk": "5Gi"}), snapshot, [PLAIN])
    assert sentences_at(result, "profile") == [("gets", "Uses compute resource big by default.")]
    assert sentences_at(result, "resources.gpu") == [
        ("gets", "1 whole GPU per pod."),
        ("note", "(set by compute resource big)"),
    ]
    assert not [text for kind, text in sentences_at(result, "resources.disk") if kind == "note"]


# Clusters

SHARE = "Half (50%) of the memory of one GPU per pod."
UNENFORCED = (
    "The cluster does not enforce the share: pods on the same GPU may run out of GPU memory; "
    "the risk grows with usage above 50%."
)
UNSUPPORTED_LIMIT = "On cluster north: the cluster enforces the request as the limit and rejects the limit of 80%."


@pytest.mark.parametrize(
    ("clusters", "memory", "expected"),
    [
        ([KAI], "50%", [("gets", SHARE), ("risk", UNENFORCED)]),
        (
            [HAMI],
            "50%",
            [
                ("gets", "Exactly half (50%) of the memory of one GPU per pod."),
                ("risk", "Above 50% the program runs out of GPU memory."),
            ],
        ),
        ([PLAIN], "50%", [("note", "The cluster has only whole GPUs and rejects requests for part of one.")]),
        (
            [KAI, PLAIN, LOCAL],
            "50%",
            [
                ("gets", f"On cluster west: half{SHARE.removeprefix('Half')}"),
                ("risk", f"On cluster west: the{UNENFORCED.removeprefix('The')}"),
                (
                    "note",
                    "On clusters east and here: the cluster has only whole GPUs and rejects requests for part of one.",
                ),
            ],
        ),
    ],
)
def test_gpu_shares_are_described_per_cluster(
    clusters: list[Cluster], memory: str, expected: list[tuple[str, str]]
) -> None:
    assert describe("resources.gpu", clusters, resources={"gpu": {"memory": memory}}) == expected


def test_gpu_memory_limits_are_described_per_cluster() -> None:
    allowed = make_policy(switches={"gpu_memory_limits": True})
    share = {"gpu": {"memory": {"request": "50%", "limit": "80%"}}}
    sentences = describe("resources.gpu", [KAI, HAMI], [allowed], resources=share)
    assert [kind for kind, _ in sentences] == ["gets", "risk", "note"]
    assert "up to 80% if free" in sentences[0][1]
    assert "does not enforce the request and limit" in sentences[1][1]
    assert sentences[2][1] == UNSUPPORTED_LIMIT


def test_mig_slices_are_rejected_by_clusters_without_mig() -> None:
    expected = "On clusters south and here: the cluster does not support MIG and rejects the run."
    assert describe("resources.gpu", [PLAIN, AMD, LOCAL], resources={"gpu": {"mig": "1g.5gb"}})[1] == ("note", expected)


def test_gpu_types_are_described_per_cluster() -> None:
    assert describe("resources.gpu.type", [KAI, PLAIN], resources={"gpu": {"type": "A100"}}) == [
        (
            "note",
            "On cluster west: only on nodes with A100-40GB or A100-80GB (GPU type A100).",
        ),
        ("note", "On cluster east: only on nodes with label nvidia.com/gpu.product=A100."),
    ]


def test_local_clusters_evict_no_pods() -> None:
    resources = {"disk": {"requests": "1Gi", "limits": "2Gi"}}
    assert not [text for _, text in describe("resources", [LOCAL], resources=resources) if "nearly full" in text]


def test_many_clusters_are_counted() -> None:
    many = [make_cluster(name=f"c{number}") for number in range(9)]
    sentences = describe("resources.gpu", [KAI, *many], resources={"gpu": {"memory": "50%"}})
    assert sentences[-1][1].startswith("On clusters c0, c1, c2, c3 and 5 more: the cluster has only whole GPUs")


def test_values_with_violations_are_described_too() -> None:
    policy = make_policy(rules={"resources.gpu": {"max": 1}})
    result = lint_compute_resource(make_compute_resource(resources={"gpu": 2}), [policy], [])
    assert result.findings
    assert sentences_at(result, "resources.gpu") == [("gets", "2 whole GPUs per pod.")]
