"""RBAC rules for a cluster: complete and minimal."""

from typing import Any

import pytest

from fairlead.manifests.kubernetes_rbac import list_permissions, render_access
from fairlead.model.plans import Manifest
from fairlead.model.scopes import Cluster

WITHOUT_NAMESPACE_CREATION = Cluster(name="main", create_namespaces=False)
READ_VERBS = {"get", "list", "watch"}


def granted_permissions(manifests: list[Manifest], kind: str) -> set[tuple[str, str, str, str]]:
    """The permissions that roles of a kind grant: namespace, group, resource and verb."""
    return {
        (manifest["metadata"].get("namespace", ""), group, resource, verb)
        for manifest in manifests
        if manifest["kind"] == kind
        for rule in manifest["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def required_permissions(cluster: Cluster, scope: str, namespace: str = "") -> set[tuple[str, str, str, str]]:
    return {
        (namespace, permission.group, permission.resource, verb)
        for permission in list_permissions(cluster)
        if permission.scope == scope
        for verb in permission.verbs
    }


CLUSTERS = [
    Cluster(name="main"),
    WITHOUT_NAMESPACE_CREATION,
    Cluster(name="main", queueing="kueue"),
    Cluster(name="main", gpu_sharing="kai"),
    Cluster(name="main", queueing="kai", create_namespaces=False),
]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_roles_grant_exactly_the_needed_permissions(cluster: Cluster) -> None:
    manifests = render_access(cluster, ["forest", "lake"])
    cluster_wide, in_projects = required_permissions(cluster, "cluster"), required_permissions(cluster, "projects")
    if cluster.create_namespaces:
        assert granted_permissions(manifests, "ClusterRole") == cluster_wide | in_projects
        assert granted_permissions(manifests, "Role") == set()
    else:
        assert granted_permissions(manifests, "ClusterRole") == cluster_wide
        assert granted_permissions(manifests, "Role") == required_permissions(
            cluster, "projects", "forest"
        ) | required_permissions(cluster, "projects", "lake")


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_secrets_can_be_created_but_not_read(cluster: Cluster) -> None:
    secret_permissions = [
        permission for permission in list_permissions(cluster) if permission.resource.startswith("secrets")
    ]
    assert [permission.verbs for permission in secret_permissions] == [("create",)]
    assert not any("*" in (*item.verbs, item.resource, item.group) for item in list_permissions(cluster))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_only_namespaces_are_created_cluster_wide(cluster: Cluster) -> None:
    for permission in list_permissions(cluster):
        if permission.scope == "cluster":
            write_verbs = set(permission.verbs) - READ_VERBS
            assert not write_verbs or (permission.resource == "namespaces" and cluster.create_namespaces), permission


def test_every_permission_has_a_purpose() -> None:
    assert [permission for permission in list_permissions(CLUSTERS[2]) if len(permission.purpose) < 4] == []


def test_queue_permissions_match_the_configured_scheduler() -> None:
    def groups(cluster: Cluster) -> set[str]:
        return {permission.group for permission in list_permissions(cluster)}

    kueue = [item for item in list_permissions(Cluster(name="main", queueing="kueue")) if "kueue" in item.group]
    assert {item.resource: (set(item.verbs), item.scope) for item in kueue} == dict.fromkeys(
        ("workloads", "localqueues", "clusterqueues"), ({"get", "list", "watch"}, "cluster")
    )
    assert "scheduling.run.ai" in groups(Cluster(name="main", gpu_sharing="kai"))
    assert {"kueue.x-k8s.io", "scheduling.run.ai"} & groups(Cluster(name="main")) == set()


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_role_is_bound_to_the_service_account(cluster: Cluster) -> None:
    manifests = render_access(cluster, ["forest"])
    roles = {_reference_of(item) for item in manifests if item["kind"] in ("Role", "ClusterRole")}
    bound: set[Any] = set()
    for item in manifests:
        if item["kind"].endswith("Binding"):
            assert item["subjects"] == [{"kind": "ServiceAccount", "name": "fairlead", "namespace": "fairlead-system"}]
            reference = item["roleRef"]
            bound.add((reference["kind"], item["metadata"].get("namespace"), reference["name"]))
    assert bound == roles
    (account,) = (item for item in manifests if item["kind"] == "ServiceAccount")
    assert _reference_of(account) == ("ServiceAccount", "fairlead-system", "fairlead")


def test_without_projects_no_project_roles_are_rendered() -> None:
    kinds = [manifest["kind"] for manifest in render_access(WITHOUT_NAMESPACE_CREATION, [])]
    assert kinds == ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]


def _reference_of(manifest: Manifest) -> tuple[str, str | None, str]:
    return manifest["kind"], manifest["metadata"].get("namespace"), manifest["metadata"]["name"]
