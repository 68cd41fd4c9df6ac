"""Scopes and cluster settings."""

from typing import Any

import pytest

from fairlead.model.scopes import Cluster, Department, Project, Scope, parse_scope, rank_of
from tests.making import find_violations, make_cluster, violated_rules


@pytest.mark.parametrize("scope", ["platform", "cluster/main", "department/vision", "project/forest", "project/A.b+c"])
def test_valid_scopes_are_parsed(scope: str) -> None:
    assert parse_scope(scope) == scope


@pytest.mark.parametrize(
    "scope", ["", "Platform", "platform/", "cluster", "cluster/", "team/a", "project/a b", "project/a/b", "/a", 5]
)
def test_invalid_scopes_are_rejected(scope: Any) -> None:
    assert violated_rules(find_violations(Project, {"name": "a", "parent": scope})) == [("parent", "scope")]


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
def test_a_scope_may_be_inside_one_of_higher_rank(kind: type[Scope], parent: str) -> None:
    scope = kind.model_validate({"name": "here", "parent": parent})
    assert (scope.scope, scope.parent) == (f"{kind.KIND}/here", parent)


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
def test_a_scope_cannot_be_inside_one_of_equal_or_lower_rank(kind: type[Scope], parent: str) -> None:
    assert violated_rules(find_violations(kind, {"name": "here", "parent": parent})) == [("parent", "scope")]


def test_a_cluster_has_whole_nvidia_gpus_by_default() -> None:
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
        ("queueing", "slurm", "queueing", "options"),
        ("kueue_queue", "A", "kueue_queue", "name"),
        ("autoscaled", "yes", "autoscaled", "type"),
        ("connection", "ssh", "connection", "options"),
        ("create_namespaces", 1, "create_namespaces", "type"),
        ("storage_classes", "fast", "storage_classes", "list"),
        ("storage_classes", ["fast", "A"], "storage_classes.1", "name"),
        ("runtime_classes", ["a b"], "runtime_classes.0", "name"),
        ("namespace", 5, "namespace", "text"),
        ("server_url", 5, "server_url", "text"),
        ("gpus", 8, "gpus", "unknown_field"),
        ("name", "", "name", "name"),
    ],
)
def test_invalid_clusters_are_rejected(field: str, value: Any, path: str, rule: str) -> None:
    assert violated_rules(find_violations(Cluster, {"name": "main", field: value})) == [(path, rule)]


@pytest.mark.parametrize(
    ("field", "value"),
    [("gpu_types", {"A100": []}), ("python_image", ""), ("python_image", "python 3"), ("python_image", " python")],
)
def test_clusters_whose_pods_would_be_invalid_are_rejected(field: str, value: Any) -> None:
    assert [
        path.partition(".")[0] for path, _ in violated_rules(find_violations(Cluster, {"name": "main", field: value}))
    ] == [field]


@pytest.mark.parametrize(
    "pattern", ["{project}", "ai-{project}", "{project}-runs", "9{project}9", "a" * 30 + "{project}"]
)
def test_namespace_patterns_contain_the_project(pattern: str) -> None:
    assert make_cluster(namespace=pattern).namespace == pattern


@pytest.mark.parametrize(
    ("pattern", "rule"),
    [
        ("", "namespace"),
        ("forest", "namespace"),
        ("{project}-{project}", "namespace"),
        ("{Project}", "namespace"),
        ("{}", "namespace"),
        ("Ai-{project}", "namespace"),
        ("-{project}", "namespace"),
        ("{project}-", "namespace"),
        ("ai.{project}", "namespace"),
        ("ai {project}", "namespace"),
        ("{project}\n", "namespace"),
        ("kube-{project}", "namespace"),
        ("a" * 31 + "{project}", "too_long"),
        ("a" * 15 + "{project}" + "a" * 16, "too_long"),
    ],
)
def test_invalid_namespace_patterns_are_rejected_with_a_hint(pattern: str, rule: str) -> None:
    (violation,) = find_violations(Cluster, {"name": "main", "namespace": pattern})
    assert (violation.path, violation.rule) == ("namespace", rule)
    assert violation.hint


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://fairlead.example.org", "https://fairlead.example.org"),
        ("https://fairlead.example.org/", "https://fairlead.example.org"),
        ("http://10.0.0.7:8470/fairlead/", "http://10.0.0.7:8470/fairlead"),
        ("http://[fd00::1]:8470", "http://[fd00::1]:8470"),
        ("http://fairlead.fairlead-system.svc", "http://fairlead.fairlead-system.svc"),
    ],
)
def test_the_server_url_is_stored_without_a_trailing_slash(url: str, expected: str) -> None:
    assert make_cluster(server_url=url).server_url == expected


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "fairlead.example.org",
            "//host",
            "https://",
            "https:///path",
            "ftp://host",
            "file:///etc",
            "HTTPS://host",
        ),
        *("https://host:0", "https://host:99999", "https://host:x", "https://host:", "https://[::1", "https://ho st"),
        *("https://host?a=b", "https://host/#part", "https://host\n", "https://hôte", "https://host/a b"),
        *(
            "https://user@host",
            "https://user:hunter2@host",
            "https://:hunter2@host",
            "ftp://a:hunter2@b",
            "https://h/" + "a" * 500,
        ),
    ],
)
def test_invalid_server_urls_are_rejected(url: str) -> None:
    (violation,) = find_violations(Cluster, {"name": "main", "server_url": url})
    assert violation.path == "server_url"
    assert violation.hint
    assert "hunter2" not in f"{violation.message}{violation.hint}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("connection", "in_cluster"),
        ("namespace", "ai-{project}"),
        ("create_namespaces", False),
        ("server_url", "https://fairlead.example.org"),
        ("queueing", "kueue"),
        ("kueue_queue", "fast"),
        ("autoscaled", True),
        ("storage_classes", []),
        ("runtime_classes", ["nvidia"]),
        ("gpu_sharing", "kai"),
    ],
)
def test_local_clusters_reject_kubernetes_settings(field: str, value: Any) -> None:
    make_cluster(**{field: value})
    (violation,) = find_violations(Cluster, {"name": "here", "executor": "local", field: value})
    assert (violation.path, violation.rule) == (field, "contradiction")
    assert "executor: local" in violation.message
    assert "kubernetes" in str(violation.hint)


def test_local_clusters_accept_default_values_of_kubernetes_settings() -> None:
    """A form sends every field."""
    defaults = {name: Cluster.model_fields[name].default for name in Cluster.KUBERNETES_FIELDS}
    assert make_cluster(executor="local", **defaults) == make_cluster(executor="local")


def test_a_cluster_has_only_one_scheduler() -> None:
    assert violated_rules(find_violations(Cluster, {"name": "main", "queueing": "kai", "gpu_sharing": "hami"})) == [
        ("queueing", "contradiction")
    ]
    for sharing, queueing in (("kai", "kai"), ("none", "kai"), ("kai", "kueue"), ("hami", "kueue"), ("kai", "none")):
        make_cluster(gpu_sharing=sharing, queueing=queueing)


def test_all_contradictions_are_reported_together() -> None:
    fields = {"executor": "local", "gpu_sharing": "hami", "gpu_resource": "a.b/" + "g" * 60, "queueing": "kai"}
    assert violated_rules(find_violations(Cluster, {"name": "main", **fields})) == [
        ("gpu_resource", "too_long"),
        ("queueing", "contradiction"),
        ("queueing", "contradiction"),
        ("gpu_sharing", "contradiction"),
    ]
