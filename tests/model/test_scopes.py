"""Scopes, places of the tree, and what clusters can do."""

from typing import Any

import pytest

from fairlead.model.scopes import Cluster, Department, Place, Project, parse_scope, rank_of
from tests.making import broken, make_cluster, refuse


@pytest.mark.parametrize("scope", ["platform", "cluster/main", "department/vision", "project/forest", "project/A.b+c"])
def test_a_scope_is_the_platform_or_a_named_place(scope: str) -> None:
    assert parse_scope(scope) == scope


@pytest.mark.parametrize(
    "scope", ["", "Platform", "platform/", "cluster", "cluster/", "team/a", "project/a b", "project/a/b", "/a", 5]
)
def test_what_is_no_scope_is_refused(scope: Any) -> None:
    assert broken(refuse(Project, {"name": "a", "parent": scope})) == [("parent", "scope")]


def test_scopes_are_ranked_from_the_platform_down() -> None:
    scopes = ["project/a", "department/b", "cluster/z", "platform"]
    assert sorted(scopes, key=rank_of) == scopes[::-1]


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        (Cluster, "platform"),
        (Department, "platform"),
        (Department, "cluster/main"),
        (Project, "platform"),
        (Project, "cluster/main"),
        (Project, "department/vision"),
    ],
)
def test_a_place_stands_below_one_further_up(kind: type[Place], parent: str) -> None:
    place = kind.model_validate({"name": "here", "parent": parent})
    assert (place.scope, place.parent) == (f"{kind.KIND}/here", parent)


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        (Cluster, "cluster/a"),
        (Cluster, "project/a"),
        (Department, "department/a"),
        (Department, "project/a"),
        (Project, "project/a"),
    ],
)
def test_a_place_cannot_stand_below_one_of_its_own_rank_or_lower(kind: type[Place], parent: str) -> None:
    assert broken(refuse(kind, {"name": "here", "parent": parent})) == [("parent", "scope")]


def test_a_cluster_has_whole_nvidia_gpus_where_nothing_is_said() -> None:
    cluster = make_cluster()
    assert (cluster.gpu_resource, cluster.gpu_sharing) == ("nvidia.com/gpu", "none")


@pytest.mark.parametrize(
    ("field", "value", "path", "rule"),
    [
        ("gpu_sharing", "mps", "gpu_sharing", "options"),
        ("gpu_resource", "gpu", "gpu_resource", "name"),
        ("gpu_product_label", "a b", "gpu_product_label", "label"),
        ("gpu_types", {"A100": ["a b"]}, "gpu_types.A100.0", "label"),
        ("kai_queue", "A", "kai_queue", "name"),
        ("queueing", "kueue", "queueing", "not_built"),
        ("autoscaled", True, "autoscaled", "not_built"),
        ("gpus", 8, "gpus", "unknown_field"),
        ("name", "", "name", "name"),
    ],
)
def test_a_cluster_that_makes_no_sense_is_refused(field: str, value: Any, path: str, rule: str) -> None:
    assert broken(refuse(Cluster, {"name": "main", field: value})) == [(path, rule)]


@pytest.mark.parametrize(
    ("field", "value"),
    [("gpu_types", {"A100": []}), ("python_image", ""), ("python_image", "python 3"), ("python_image", " python")],
)
def test_a_cluster_whose_pods_could_not_exist_is_refused(field: str, value: Any) -> None:
    assert [path.partition(".")[0] for path, _ in broken(refuse(Cluster, {"name": "main", field: value}))] == [field]
