"""Descriptions of nodes, volumes, variables and classes."""

from collections.abc import Sequence
from typing import Any

import pytest

from fairlead.model.scopes import Cluster
from fairlead.planning.linting import lint_compute_resource
from tests.making import make_cluster, make_compute_resource

PLAIN = make_cluster(name="east")
LOCAL = make_cluster(name="here", executor="local")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def describe(path: str, clusters: Sequence[Cluster] = (), **requirements: Any) -> list[tuple[str, str]]:
    """The sentences at or under a path for these requirements."""
    sentences = lint_compute_resource(make_compute_resource(**requirements), [], clusters).sentences
    return [(item.kind, item.text) for item in sentences if item.path.startswith(path)]


def conditions(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": list(expressions)}


ZONE = {"key": "zone", "operator": "In", "values": ["a", "b"]}
MANY_CORES = {"key": "cores", "operator": "Gt", "values": ["8"]}
TAINT = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
OTHER_SETTINGS: list[tuple[dict[str, Any], str, str]] = [
    ({"node_selector": {"pool": "a100"}}, "note", "Only on nodes with pool=a100."),
    ({"node_selector": {"pool": ""}}, "note", 'Only on nodes with pool="".'),
    ({"tolerations": [TAINT]}, "note", "Tolerates taint gpu (NoSchedule)."),
    ({"tolerations": [{"key": "gpu", "value": "a"}]}, "note", "Tolerates taint gpu=a."),
    ({"tolerations": [{"operator": "Exists"}]}, "note", "Tolerates any taint."),
    (
        {"tolerations": [{**TAINT, "effect": "NoExecute", "tolerationSeconds": 60}]},
        "risk",
        "Evicted after 60 seconds from nodes with taint gpu (NoExecute).",
    ),
    (
        {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [conditions(ZONE, MANY_CORES), conditions(MANY_CORES)]}
                }
            }
        },
        "note",
        "Only on nodes with zone = a or b and cores above 8, or with cores above 8.",
    ),
    *(
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [conditions(condition)]}}}},
            "note",
            f"Only on nodes with {text}.",
        )
        for condition, text in (
            ({"key": "zone", "operator": "NotIn", "values": ["a", "b"]}, "zone other than a or b"),
            ({"key": "gpu", "operator": "Exists"}, "label gpu"),
            ({"key": "spot", "operator": "DoesNotExist"}, "no label spot"),
            ({"key": "cores", "operator": "Lt", "values": ["8"]}, "cores below 8"),
        )
    ),
    (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [conditions(ZONE)] * 4}}}},
        "note",
        "Only on nodes that match one of 4 sets of conditions.",
    ),
    (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}},
        "note",
        "Matches no node: the node affinity has no conditions.",
    ),
    (
        {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": conditions(ZONE)}]}}},
        "note",
        "Preferably on nodes with zone = a or b.",
    ),
    (
        {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "host", "labelSelector": {}}]}}},
        "note",
        "Never near any pod (same host).",
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
        "Only near pods with app=x in other (same host).",
    ),
    ({"secrets": ["HF_TOKEN"]}, "gets", "Sets variable HF_TOKEN from the project's secrets (must exist)."),
    ({"secrets": ["A", "B"]}, "gets", "Sets variables A and B from the project's secrets (must exist)."),
    ({"envs": {"A": "1", "B": "2", "C": ""}}, "gets", "Sets variables A, B and C."),
    ({"runtime_class": "nvidia"}, "note", "Runtime class nvidia (must exist in the cluster)."),
    ({"priority_class": "high"}, "note", "Priority class high of the cluster"),
    ({"run_as_user": 0}, "note", "Runs as user 0 (root)."),
    ({"run_as_group": 5}, "note", "Runs as group 5."),
    ({"fs_group": 5}, "note", "Volumes belong to group 5."),
]


@pytest.mark.parametrize(("requirements", "kind", "expected"), OTHER_SETTINGS)
def test_other_settings_are_described(requirements: dict[str, Any], kind: str, expected: str) -> None:
    [(actual_kind, text)] = describe(next(iter(requirements)), **requirements)
    assert actual_kind == kind
    assert text.startswith(expected)


def volume(kind: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"volume_type": kind, "name": "data", "mount_path": "/data", "spec": spec or {}, **more}


VOLUMES: list[tuple[dict[str, Any], list[str]]] = [
    (
        volume("persistent_volume_claim", {"size": "10Gi", "storage_class": "fast"}),
        ["New volume of 10 GiB (storage class fast) at /data, deleted with the run."],
    ),
    (
        volume("ephemeral", {"size": "10Gi"}),
        ["New volume of 10 GiB per pod at /data, deleted with the pod."],
    ),
    (
        volume("empty_dir", {"size": "1Gi"}),
        [
            "Empty folder of up to 1 GiB at /data, deleted with the pod.",
            "Evicted above 1 GiB in this folder, which ends the run.",
        ],
    ),
    (
        volume("empty_dir", {"medium": "Memory"}),
        [
            "Empty folder in memory at /data, deleted with the pod.",
            "Its content counts toward the pod's memory.",
        ],
    ),
    (volume("secret", {"name": "TOKEN"}), ["Project secret TOKEN at /data/TOKEN (must exist)."]),
    (
        volume("shared_volume", {"claim_name": "lake"}, read_only=True, sub_path="models"),
        ["Shared project volume lake at /data (folder models), read-only."],
    ),
    (volume("config_map"), ["ConfigMap data at /data (must exist)."]),
]


@pytest.mark.parametrize(("volume_fields", "expected"), VOLUMES)
def test_volumes_are_described_with_source_path_and_lifetime(
    volume_fields: dict[str, Any], expected: list[str]
) -> None:
    assert [text for _, text in describe("volumes", volumes=[volume_fields])] == expected


def test_local_clusters_use_folders_as_volumes() -> None:
    claim = volume("persistent_volume_claim", {"size": "10Gi", "storage_class": "fast"})
    assert [text for _, text in describe("volumes", [LOCAL], volumes=[claim])] == [
        "New folder on the machine at /data, deleted with the run.",
        "The cluster does not enforce the size of 10 GiB.",
    ]
    assert describe("volumes", [LOCAL], volumes=[volume("config_map")])[1][0] == "risk"


def test_settings_without_effect_on_a_local_cluster_are_not_described() -> None:
    affinity = {"podAffinity": {REQUIRED: [{"topologyKey": "host", "labelSelector": {}}]}}
    requirements: dict[str, Any] = {"runtime_class": "nvidia", "affinity": affinity}
    assert describe("affinity", [LOCAL], **requirements) == describe("runtime_class", [LOCAL], **requirements) == []
    assert describe("runtime_class", [LOCAL, PLAIN], **requirements)[0][1].startswith(
        "On cluster east: runtime class nvidia"
    )
