"""RBAC rules for a cluster: complete and minimal."""

from typing import Any

import pytest

from fairlead.core.kubernetes_rbac import list_permissions, render_access
from fairlead.model.plans import Manifest
from fairlead.model.scopes import Cluster

CLOSED = Cluster(name="main", create_namespaces=False)
READING = {"get", "list", "watch"}


def given(manifests: list[Manifest], kind: str) -> set[tuple[str, str, str, str]]:
    """The permissions of roles of a kind: namespace, group, resource and verb."""
    return {
        (manifest["metadata"].get("namespace", ""), group, resource, verb)
        for manifest in manifests
        if manifest["kind"] == kind
        for rule in manifest["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def needed(cluster: Cluster, where: str, namespace: str = "") -> set[tuple[str, str, str, str]]:
    return {
        (namespace, permission.group, permission.resource, verb)
        for permission in list_permissions(cluster)
        if permission.scope == where
        for verb in permission.verbs
    }


CLUSTERS = [
    Cluster(name="main"),
    CLOSED,
    Cluster(name="main", queueing="kueue"),
    Cluster(name="main", gpu_sharing="kai"),
    Cluster(name="main", queueing="kai", create_namespaces=False),
]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_roles_give_what_is_needed_and_no_more(cluster: Cluster) -> None:
    manifests = render_access(cluster, ["forest", "lake"])
    everywhere, in_projects = needed(cluster, "cluster"), needed(cluster, "projects")
    if cluster.create_namespaces:
        assert given(manifests, "ClusterRole") == everywhere | in_projects
        assert given(manifests, "Role") == set()
    else:
        assert given(manifests, "ClusterRole") == everywhere
        assert given(manifests, "Role") == needed(cluster, "projects", "forest") | needed(cluster, "projects", "lake")


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_secrets_are_made_and_never_read(cluster: Cluster) -> None:
    found = [permission for permission in list_permissions(cluster) if permission.resource.startswith("secrets")]
    assert [permission.verbs for permission in found] == [("create",)]
    assert not any("*" in (*item.verbs, item.resource, item.group) for item in list_permissions(cluster))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_outside_of_projects_only_namespaces_are_made(cluster: Cluster) -> None:
    for permission in list_permissions(cluster):
        if permission.scope == "cluster":
            changing = set(permission.verbs) - READING
            assert not changing or (permission.resource == "namespaces" and cluster.create_namespaces), permission


def test_every_permission_says_why() -> None:
    assert [permission for permission in list_permissions(CLUSTERS[2]) if len(permission.purpose) < 4] == []


def test_queues_are_looked_at_where_they_are_used() -> None:
    def groups(cluster: Cluster) -> set[str]:
        return {permission.group for permission in list_permissions(cluster)}

    kueue = [each for each in list_permissions(Cluster(name="main", queueing="kueue")) if "kueue" in each.group]
    assert {each.resource: (set(each.verbs), each.scope) for each in kueue} == dict.fromkeys(
        ("workloads", "localqueues", "clusterqueues"), ({"get", "list", "watch"}, "cluster")
    )
    assert "scheduling.run.ai" in groups(Cluster(name="main", gpu_sharing="kai"))
    assert {"kueue.x-k8s.io", "scheduling.run.ai"} & groups(Cluster(name="main")) == set()


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_role_is_given_to_the_service_account(cluster: Cluster) -> None:
    manifests = render_access(cluster, ["forest"])
    roles = {_named(item) for item in manifests if item["kind"] in ("Role", "ClusterRole")}
    bound: set[Any] = set()
    for item in manifests:
        if item["kind"].endswith("Binding"):
            assert item["subjects"] == [{"kind": "ServiceAccount", "name": "fairlead", "namespace": "fairlead-system"}]
            reference = item["roleRef"]
            bound.add((reference["kind"], item["metadata"].get("namespace"), reference["name"]))
    assert bound == roles
    (account,) = (item for item in manifests if item["kind"] == "ServiceAccount")
    assert _named(account) == ("ServiceAccount", "fairlead-system", "fairlead")


def test_where_no_project_is_there_no_role_of_projects_is_given() -> None:
    kinds = [manifest["kind"] for manifest in render_access(CLOSED, [])]
    assert kinds == ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]


def _named(manifest: Manifest) -> tuple[str, str | None, str]:
    return manifest["kind"], manifest["metadata"].get("namespace"), manifest["metadata"]["name"]
