"""What is told of nodes, volumes, variables and classes."""

from collections.abc import Sequence
from typing import Any

import pytest

from fairlead.core.linting import lint_compute_resource
from fairlead.model.scopes import Cluster
from tests.making import make_cluster, make_compute_resource

PLAIN = make_cluster(name="east")
LOCAL = make_cluster(name="here", executor="local")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def tell(path: str, clusters: Sequence[Cluster] = (), **said: Any) -> list[tuple[str, str]]:
    """What is told at or below a path of a compute resource with these requirements."""
    found = lint_compute_resource(make_compute_resource(**said), [], clusters).sentences
    return [(item.kind, item.text) for item in found if item.path.startswith(path)]


def conditions(*said: dict[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": list(said)}


ZONE = {"key": "zone", "operator": "In", "values": ["a", "b"]}
BIG = {"key": "cores", "operator": "Gt", "values": ["8"]}
TAINT = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
REST: list[tuple[dict[str, Any], str, str]] = [
    ({"node_selector": {"pool": "a100"}}, "note", "Only on nodes with pool=a100."),
    ({"node_selector": {"pool": ""}}, "note", 'Only on nodes with pool="".'),
    ({"tolerations": [TAINT]}, "note", "It may also run on nodes tainted gpu (NoSchedule)."),
    ({"tolerations": [{"key": "gpu", "value": "a"}]}, "note", "It may also run on nodes tainted gpu=a."),
    ({"tolerations": [{"operator": "Exists"}]}, "note", "It may also run on nodes with any taint."),
    (
        {"tolerations": [{**TAINT, "effect": "NoExecute", "tolerationSeconds": 60}]},
        "risk",
        "On a node tainted gpu (NoExecute) it is evicted after 60 seconds.",
    ),
    (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [conditions(ZONE, BIG), conditions(BIG)]}}}},
        "note",
        "Only on nodes where zone is a or b and cores is over 8, or where cores is over 8.",
    ),
    *(
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [conditions(condition)]}}}},
            "note",
            f"Only on nodes where {text}.",
        )
        for condition, text in (
            ({"key": "zone", "operator": "NotIn", "values": ["a", "b"]}, "zone is not a or b"),
            ({"key": "gpu", "operator": "Exists"}, "gpu is there"),
            ({"key": "spot", "operator": "DoesNotExist"}, "spot is not there"),
            ({"key": "cores", "operator": "Lt", "values": ["8"]}, "cores is under 8"),
        )
    ),
    (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [conditions(ZONE)] * 4}}}},
        "note",
        "Only on nodes where one of 4 sets of conditions holds.",
    ),
    (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}},
        "note",
        "No node suits: its affinity has no condition.",
    ),
    (
        {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": conditions(ZONE)}]}}},
        "note",
        "Rather on nodes where zone is a or b.",
    ),
    (
        {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "host", "labelSelector": {}}]}}},
        "note",
        "Never beside any pod (same host).",
    ),
    (
        {
            "affinity": {
                "podAffinity": {
                    REQUIRED: [
                        {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}}, "namespaces": ["other"]}
                    ]
                }
            }
        },
        "note",
        "Only beside pods with app=x of other (same host).",
    ),
    ({"secrets": ["HF_TOKEN"]}, "gets", "Secret HF_TOKEN of the project becomes a variable of that name."),
    ({"secrets": ["A", "B"]}, "gets", "Secrets A and B of the project become variables of that name."),
    ({"envs": {"A": "1", "B": "2", "C": ""}}, "gets", "Variables A, B and C are set."),
    ({"runtime_class": "nvidia"}, "note", "It runs under the runtime class nvidia, which its cluster must have."),
    ({"priority_class": "high"}, "note", "It has the priority class high of its cluster"),
    ({"run_as_user": 0}, "note", "The program runs as user 0 (root)."),
    ({"run_as_group": 5}, "note", "The program runs in group 5."),
    ({"fs_group": 5}, "note", "Mounted volumes belong to group 5."),
]


@pytest.mark.parametrize(("said", "kind", "expected"), REST)
def test_what_else_a_pod_is_given_is_told(said: dict[str, Any], kind: str, expected: str) -> None:
    [(told_kind, text)] = tell(next(iter(said)), **said)
    assert told_kind == kind
    assert text.startswith(expected)


def volume(kind: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"volume_type": kind, "name": "data", "mount_path": "/data", "spec": spec or {}, **more}


VOLUMES: list[tuple[dict[str, Any], list[str]]] = [
    (
        volume("persistent_volume_claim", {"size": "10Gi", "storage_class": "fast"}),
        ["A volume of 10Gi (storage class fast), made for the run and removed with it, is at /data."],
    ),
    (
        volume("ephemeral", {"size": "10Gi"}),
        ["A volume of 10Gi for each pod, made for it and removed with it, is at /data."],
    ),
    (
        volume("empty_dir", {"size": "1Gi"}),
        [
            "An empty folder, up to 1Gi, removed with the pod, is at /data.",
            "A pod that writes more than 1Gi there is evicted: its run ends.",
        ],
    ),
    (
        volume("empty_dir", {"medium": "Memory"}),
        [
            "An empty folder in memory, removed with the pod, is at /data.",
            "What is in it counts as memory of the pod.",
        ],
    ),
    (volume("secret", {"name": "TOKEN"}), ["Secret TOKEN of the project, which must have it, is at /data/TOKEN."]),
    (
        volume("shared_volume", {"claim_name": "lake"}, read_only=True, sub_path="models"),
        ["Volume lake of the project, which other runs share, is at /data (its folder models), read-only."],
    ),
    (volume("config_map"), ["Config map data, which must be there, is at /data."]),
]


@pytest.mark.parametrize(("said", "expected"), VOLUMES)
def test_a_volume_says_who_made_it_where_it_is_and_when_it_goes(said: dict[str, Any], expected: list[str]) -> None:
    assert [text for _, text in tell("volumes", volumes=[said])] == expected


def test_one_machine_has_folders_in_place_of_volumes() -> None:
    claim = volume("persistent_volume_claim", {"size": "10Gi", "storage_class": "fast"})
    assert [text for _, text in tell("volumes", [LOCAL], volumes=[claim])] == [
        "A folder of the machine, made for the run and removed with it, is at /data.",
        "The cluster does not hold it to 10Gi.",
    ]
    assert tell("volumes", [LOCAL], volumes=[volume("config_map")])[1][0] == "risk"


def test_what_means_nothing_on_one_machine_is_not_told_there() -> None:
    beside = {"podAffinity": {REQUIRED: [{"topologyKey": "host", "labelSelector": {}}]}}
    said: dict[str, Any] = {"runtime_class": "nvidia", "affinity": beside}
    assert tell("affinity", [LOCAL], **said) == tell("runtime_class", [LOCAL], **said) == []
    assert tell("runtime_class", [LOCAL, PLAIN], **said)[0][1].startswith("On cluster east: it runs under")
