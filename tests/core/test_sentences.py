"""What a plan means in words: what a pod gets, what may end it, whose that is, and on which cluster."""

from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from fairlead.core.linting import LintResult, lint_compute_resource, lint_template
from fairlead.model.policies import Policy
from fairlead.model.scopes import Cluster
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


def told(trial: LintResult, *paths: str) -> list[tuple[str, str]]:
    """Kinds and texts of the sentences at or below some paths."""
    found = [item for item in trial.sentences if item.path.startswith(paths)]
    return [(item.kind, item.text) for item in found]


def tell(
    path: str, clusters: Sequence[Cluster] = (), policies: Sequence[Policy] = (), **said: Any
) -> list[tuple[str, str]]:
    """What is told at a path of a compute resource with these requirements."""
    return told(lint_compute_resource(make_compute_resource(**said), policies, clusters, firm=True), path)


# What is asked for, and what is told of it: kinds and sentences.
AMOUNTS = """
cpu: 4
gets: At least 4 cores are set aside for each pod; it may use every core that is free on its node (no limit).

cpu: {requests: 500m, limits: 2}
gets: At least 0.5 cores are set aside for each pod; it may use up to 2 while its node has them free.
note: A pod that wants more than its limit is slowed down, not killed.

cpu: {limits: 1}
gets: Exactly 1 core is set aside for each pod; it gets no more.
note: A pod that wants more than its limit is slowed down, not killed.
note: No request is said, so it equals the limit.

cpu: {limits: unlimited}
gets: No cores are set aside for a pod; it may use every core that is free on its node (no limit).
note: While others on its node need the cores, it gets next to nothing.

mem: {requests: 32Gi, limits: 64Gi}
gets: At least 32Gi of memory is set aside for each pod; it may use up to 64Gi while its node has that free.
risk: Over 64Gi the pod is killed (out of memory).
risk: Between 32Gi and 64Gi it may be killed when its node runs out of memory; the further over 32Gi, the likelier.

mem: {requests: 64Gi, limits: 64Gi}
gets: Exactly 64Gi of memory is set aside for each pod.
risk: Over 64Gi the pod is killed (out of memory).

mem: {requests: 32Gi, limits: unlimited}
gets: At least 32Gi of memory is set aside for each pod; it may use all that is free on its node (no limit).
risk: Over 32Gi it may be killed when its node runs out of memory; the further over, the likelier.

mem: {limits: unlimited}
gets: No memory is set aside for a pod; it may use all that is free on its node (no limit).
risk: It is among the first to be killed when its node runs out of memory.

mem: {requests: 0, limits: 1Gi}
gets: No memory is set aside for a pod; it may use up to 1Gi while its node has that free.
risk: Over 1Gi the pod is killed (out of memory).
risk: It is among the first to be killed when its node runs out of memory.

disk: {requests: 10Gi, limits: 20Gi}
gets: At least 10Gi of its node's disk is set aside for each pod; it may use up to 20Gi while there is room.
risk: A pod that writes more than 20Gi is evicted: its run ends.
risk: Over 10Gi it may be evicted when the disk of its node is nearly full.

disk: 10Gi
gets: At least 10Gi of its node's disk is set aside for each pod; it may use all that is free there (no limit).
risk: Over 10Gi it may be evicted when the disk of its node is nearly full.

gpu: 0
gets: No GPU: the pod asks for none and is given none.

gpu: 1
gets: Each pod gets 1 whole GPU.

gpu: {devices: 2, type: A100}
gets: Each pod gets 2 whole GPUs of type A100.

gpu: {mig: 1g.5gb}
gets: Each pod gets one 1g.5gb slice (MIG) of a GPU, for itself.

gpu: {memory: 50%}
gets: Each pod gets half (50%) of the memory of one GPU.

gpu: {memory: 100%}
gets: Each pod gets 1 whole GPU.

gpu: {memory: {request: 10GB, limit: 20GB}}
gets: Each pod gets 10GB of the memory of one GPU, and may use up to 20GB while the rest is free.
risk: Over 10GB the pod may be killed when another needs that memory; the further over, the likelier.

shm: false
note: /dev/shm keeps its default size.

shm: 8Gi
gets: /dev/shm may grow up to 8Gi; what is in it counts as memory of the pod.

shm: true
gets: /dev/shm may grow up to the memory of its node; what is in it counts as memory of the pod.

extended: {vendor.example/nic: 2}
gets: Each pod gets 2 of vendor.example/nic.

extended: {vendor.example/nic: 0}
gets: Each pod gets none of vendor.example/nic.
"""


@pytest.mark.parametrize("row", AMOUNTS.strip().split("\n\n"), ids=lambda row: row.splitlines()[0])
def test_an_amount_says_what_is_set_aside_and_what_ends_the_pod(row: str) -> None:
    asked, *expected = row.splitlines()
    resources = yaml.safe_load(asked)
    sentences = tell(f"resources.{next(iter(resources))}", resources=resources)
    assert [f"{kind}: {text}" for kind, text in sentences] == expected


def test_shared_memory_goes_as_far_as_the_memory_limit() -> None:
    expected = "/dev/shm may grow up to the memory limit, 64Gi; what is in it counts as memory of the pod."
    assert tell("resources.shm", resources={"shm": True, "mem": {"limits": "64Gi"}}) == [("gets", expected)]


@pytest.mark.parametrize(
    ("amount", "shown"), [("1", "1 byte"), ("5", "5 bytes"), ("2362232013", "about 2.2Gi"), ("2G", "2G")]
)
def test_an_amount_without_a_suffix_is_told_as_people_read_it(amount: str, shown: str) -> None:
    assert f"At least {shown} of memory" in tell("resources.mem", resources={"mem": amount})[0][1]


def test_what_nobody_says_is_left_to_whoever_submits_the_run() -> None:
    assert told(lint_compute_resource(make_compute_resource(), [], []), "") == [
        ("note", "GPUs are left to whoever submits the run."),
        ("note", "CPU cores are left to whoever submits the run."),
        ("note", "Memory is left to whoever submits the run."),
    ]


@pytest.mark.parametrize("path", ["resources", "resources.gpu", "resources.gpu.devices"])
def test_what_a_policy_locks_is_left_to_nobody(path: str) -> None:
    policy = make_policy("department/vision", rules={path: {"locked": True}})
    expected = "Nothing is said here, and the policy of department/vision lets no run say it: a pod gets none."
    assert tell("resources.gpu", policies=[policy]) == [("note", expected)]


# Whose it is


def test_a_default_says_whose_it_is() -> None:
    policy = make_policy("department/vision", defaults={"resources": {"cpu": 1, "gpu": 0}, "envs": {"A": "1"}})
    platform = make_requirements(resources={"mem": "2Gi"})
    trial = lint_compute_resource(make_compute_resource(envs={"B": "2"}), [policy], [], platform=platform)
    note = ("note", "That is the default of the policy of department/vision.")
    assert told(trial, "resources.gpu")[-1] == note
    assert told(trial, "resources.cpu")[-1] == note
    assert told(trial, "resources.mem")[-1] == ("note", "That is the platform default.")
    assert told(trial, "envs") == [("gets", "Variable B is set."), ("gets", "Variable A is set."), note]


def test_a_limit_that_a_factor_made_says_whose_the_factor_is() -> None:
    policy = make_policy("department/vision", limit_factor={"mem": 1.5})
    sentences = tell("resources.mem", policies=[policy], resources={"mem": "4Gi"})
    assert ("risk", "Over 6Gi the pod is killed (out of memory).") in sentences
    expected = "No limit is said, so it is 1.5 x the request (policy of department/vision)."
    assert sentences[-1] == ("note", expected)


def test_a_template_says_what_its_compute_resource_gives() -> None:
    snapshot = make_snapshot(make_compute_resource("big", resources={"gpu": 1}), PLAIN)
    trial = lint_template(make_template(profile="big", resources={"gpu": 2, "disk": "5Gi"}), snapshot, [PLAIN])
    assert told(trial, "profile") == [("gets", "A run gets compute resource big, unless it names another.")]
    assert told(trial, "resources.gpu") == [
        ("gets", "Each pod gets 1 whole GPU."),
        ("note", "Set by compute resource big, which wins."),
    ]
    assert not [text for kind, text in told(trial, "resources.disk") if kind == "note"]


# Clusters

SHARE = "Each pod gets half (50%) of the memory of one GPU."
UNENFORCED = (
    "The cluster holds no pod to its share: over 50%, this pod or another on the same GPU may fail for lack of GPU "
    "memory; the further over, the likelier."
)
BEYOND = "On cluster north: the cluster gives exactly the request, and refuses a run with the limit 80%."


@pytest.mark.parametrize(
    ("clusters", "memory", "expected"),
    [
        ([KAI], "50%", [("gets", SHARE), ("risk", UNENFORCED)]),
        (
            [HAMI],
            "50%",
            [
                ("gets", "Each pod gets exactly half (50%) of the memory of one GPU."),
                ("risk", "Over 50% the program fails: it finds no more GPU memory."),
            ],
        ),
        ([PLAIN], "50%", [("note", "The cluster has only whole GPUs, and refuses a run that asks for a part.")]),
        (
            [KAI, PLAIN, LOCAL],
            "50%",
            [
                ("gets", f"On cluster west: each{SHARE.removeprefix('Each')}"),
                ("risk", f"On cluster west: the{UNENFORCED.removeprefix('The')}"),
                (
                    "note",
                    "On clusters east and here: the cluster has only whole GPUs, and refuses a run that asks for a "
                    "part.",
                ),
            ],
        ),
    ],
)
def test_a_share_is_told_as_each_cluster_deals_it_out(
    clusters: list[Cluster], memory: str, expected: list[tuple[str, str]]
) -> None:
    assert tell("resources.gpu", clusters, resources={"gpu": {"memory": memory}}) == expected


def test_a_limit_of_gpu_memory_is_told_as_each_cluster_takes_it() -> None:
    allowed = make_policy(switches={"gpu_memory_limits": True})
    share = {"gpu": {"memory": {"request": "50%", "limit": "80%"}}}
    sentences = tell("resources.gpu", [KAI, HAMI], [allowed], resources=share)
    assert [kind for kind, _ in sentences] == ["gets", "risk", "note"]
    assert "may use up to 80% while the rest is free" in sentences[0][1]
    assert "holds no pod to its request or limit: over 50%" in sentences[1][1]
    assert sentences[2][1] == BEYOND


def test_a_slice_is_refused_where_there_is_none() -> None:
    expected = "On clusters south and here: the cluster has no MIG slices, and refuses such a run."
    assert tell("resources.gpu", [PLAIN, AMD, LOCAL], resources={"gpu": {"mig": "1g.5gb"}})[1] == ("note", expected)


def test_a_type_is_told_as_each_cluster_knows_it() -> None:
    assert tell("resources.gpu.type", [KAI, PLAIN], resources={"gpu": {"type": "A100"}}) == [
        (
            "note",
            "On cluster west: GPUs of type A100 are A100-40GB or A100-80GB: only on nodes that have one of these.",
        ),
        ("note", "On cluster east: only on nodes labeled nvidia.com/gpu.product=A100."),
    ]


def test_one_machine_gives_whole_cores_and_evicts_nobody_for_others() -> None:
    resources = {"cpu": {"limits": "500m"}, "disk": {"requests": "1Gi", "limits": "2Gi"}}
    sentences = tell("resources", [LOCAL], resources=resources)
    assert ("note", "The cluster gives whole cores: a part of one counts as one.") in sentences
    assert not [text for _, text in sentences if "nearly full" in text]


def test_many_clusters_are_counted() -> None:
    many = [make_cluster(name=f"c{number}") for number in range(9)]
    sentences = tell("resources.gpu", [KAI, *many], resources={"gpu": {"memory": "50%"}})
    assert sentences[-1][1].startswith("On clusters c0, c1, c2, c3 and 5 more: the cluster has only whole GPUs")


def test_violations_do_not_keep_sentences_from_being_told() -> None:
    policy = make_policy(rules={"resources.gpu": {"max": 1}})
    trial = lint_compute_resource(make_compute_resource(resources={"gpu": 2}), [policy], [])
    assert trial.findings
    assert told(trial, "resources.gpu") == [("gets", "Each pod gets 2 whole GPUs.")]
