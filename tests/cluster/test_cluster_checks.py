"""The permissions that `fairlead clusters rbac` prints: they are all needed, are sufficient, and exclude secrets."""

import contextlib
import copy
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.adapters.kubernetes.clients import KubernetesClient
from fairlead.adapters.kubernetes.cluster_checks import check_callbacks, check_cluster
from fairlead.manifests.kubernetes_rbac import ACCOUNT, SYSTEM, list_permissions, render_access
from fairlead.model.project_objects import Connection
from fairlead.model.runs import Check
from fairlead.model.scopes import Cluster
from tests.cluster.clients import ApiError, Client, path_of, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet

Object = dict[str, Any]
PROBES = {"labelSelector": "fairlead.dev/probe=true"}


@pytest.fixture
def project(admin: Client, namespace: str) -> str:
    """A project with an existing namespace."""
    admin.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"fairlead.dev/project": namespace}}})
    return namespace


@contextlib.contextmanager
def granting(plane: ControlPlane, manifests: list[Object]) -> Iterator[KubernetesClient]:
    """A client for a service account that has these permissions during the block."""
    roles = [manifest for manifest in manifests if manifest["kind"] not in ("Namespace", "ServiceAccount")]
    with plane.client() as admin:
        for role in roles:
            admin.delete(path_of(role))
        with contextlib.suppress(ApiError):
            admin.create(manifests[0])
        token = plane.make_account(SYSTEM, ACCOUNT, roles)
        api = KubernetesClient(Connection(plane.url, ca=plane.authority.read_text("utf-8"), token=token))
        try:
            yield api
        finally:
            api._client.close()  # not shared with other tests
            for role in roles:
                admin.delete(path_of(role))


def find(api: KubernetesClient, cluster: Cluster, project: str, name: str) -> Check:
    return next(check for check in check_cluster(api, cluster, [project]) if check.name == name)


CLUSTERS = [Cluster(name="main"), Cluster(name="main", create_namespaces=False)]
both_clusters = pytest.mark.parametrize("cluster", CLUSTERS, ids=["cluster-wide", "per project"])


@both_clusters
def test_printed_permissions_are_sufficient(
    control_plane: ControlPlane, kubelet: FakeKubelet, metrics: None, cluster: Cluster, project: str
) -> None:
    with granting(control_plane, render_access(cluster, [project])) as api:
        until(lambda: find(api, cluster, project, "permissions").state == "ok")
        until(lambda: find(api, cluster, project, "usage").state == "ok")
        checks = check_cluster(api, cluster, [project])
    assert [check for check in checks if check.state != "ok" and check.name != "callbacks"] == []
    messages = {check.name: check.message for check in checks}
    assert messages["connection"].startswith("connected to Kubernetes v1.")
    assert messages["storage"] == "storage classes fast, standard; standard is the default"
    assert "8 nvidia.com/gpu on 1 of" in messages["gpus"]


@both_clusters
def test_each_removed_permission_is_reported(
    control_plane: ControlPlane, admin: Client, cluster: Cluster, project: str
) -> None:
    """Each printed permission is checked, and each checked permission is printed."""
    manifests = render_access(cluster, [project])
    with granting(control_plane, manifests) as api:
        until(lambda: find(api, cluster, project, "permissions").state == "ok")
        for permission in list_permissions(cluster):
            role = _role_of(manifests, permission.scope)
            for verb in permission.verbs:
                admin.patch(path_of(role), {"rules": _without(role, permission.group, permission.resource, verb)})
                missing = f"missing: {verb} {permission.qualified_name}"
                missing += f" in {project}" if role["kind"] == "Role" else ""
                _wait_for(api, cluster, project, missing)
                admin.patch(path_of(role), {"rules": role["rules"]})
        until(lambda: find(api, cluster, project, "permissions").state == "ok")


@both_clusters
def test_printed_permissions_cannot_read_secrets(
    control_plane: ControlPlane, admin: Client, cluster: Cluster, project: str
) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs", "namespace": project}}
    admin.create({**secret, "stringData": {"word": "planted"}})
    with granting(control_plane, render_access(cluster, [project])) as api:
        until(lambda: find(api, cluster, project, "permissions").state == "ok")
        token = control_plane.make_account(SYSTEM, ACCOUNT)
        with control_plane.client(token) as account:
            project_path, all_path = f"/api/v1/namespaces/{project}/secrets", "/api/v1/secrets"
            for request in (
                lambda: account.get(project_path),
                lambda: account.get(all_path),
                lambda: account.get(f"{project_path}/theirs"),
                lambda: list(account.lines(project_path, watch="true", timeoutSeconds=1)),
                lambda: account.patch(f"{project_path}/theirs", {"metadata": {"labels": {"a": "b"}}}),
                lambda: account.delete(f"{project_path}/theirs"),
                lambda: account.get("/api/v1/namespaces/kube-system/configmaps"),
                lambda: account.get("/apis/rbac.authorization.k8s.io/v1/clusterroles"),
            ):
                with pytest.raises(ApiError, match="403"):
                    request()
            created = account.create({**secret, "metadata": {"name": "ours", "namespace": project}})
            assert created["metadata"]["name"] == "ours"
    assert admin.find(f"{project_path}/theirs") is not None


def test_roles_in_projects_grant_no_access_to_other_namespaces(control_plane: ControlPlane, project: str) -> None:
    cluster = CLUSTERS[1]
    with granting(control_plane, render_access(cluster, [project])) as api:
        until(lambda: find(api, cluster, project, "permissions").state == "ok")
        token = control_plane.make_account(SYSTEM, ACCOUNT)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
        with control_plane.client(token) as account:
            account.create(body, project)
            for other_namespace in ("default", "kube-system", SYSTEM):
                with pytest.raises(ApiError, match="403"):
                    account.create(body, other_namespace)


def test_kubectl_accepts_the_printed_permissions(control_plane: ControlPlane, admin: Client, tmp_path: Path) -> None:
    file = tmp_path / "rbac.json"
    for cluster in CLUSTERS:
        items = render_access(cluster, ["default"])
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), "utf-8")
        output = control_plane.kubectl("apply", "--validate=strict", "-f", str(file)).splitlines()
        assert len(output) == len(items)
        for item in items[2:]:
            admin.delete(path_of(item))


# Callbacks


@pytest.fixture
def health() -> Iterator[str]:
    """The URL of a server that has a health endpoint."""

    class Healthy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_callback_check_reports_whether_pods_reach_the_server(
    control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client, project: str, health: str
) -> None:
    cluster = Cluster(name="main", create_namespaces=False, server_url=health)
    with granting(control_plane, render_access(cluster, [project])) as api:
        until(lambda: find(api, cluster, project, "permissions").state == "ok")
        check = find(api, cluster, project, "callbacks")
        assert (check.state, check.message) == ("ok", f"pods can reach the server at {health}")
        unreachable = cluster.model_copy(update={"server_url": "http://127.0.0.1:1"})
        check = find(api, unreachable, project, "callbacks")
        assert (check.state, "refused" in check.message) == ("problem", True), check
        missing = cluster.model_copy(update={"server_url": f"{health}/other"})
        assert "404" in find(api, missing, project, "callbacks").message
        no_image = cluster.model_copy(update={"python_image": "example.test/no-such-image"})
        assert "Image" in _check_callbacks_quickly(api, no_image, project).message
    until(lambda: not admin.items(f"/api/v1/namespaces/{project}/pods", **PROBES))


def _check_callbacks_quickly(api: KubernetesClient, cluster: Cluster, project: str) -> Check:
    (check,) = check_callbacks(api, cluster, [project], patience=5.0)
    return check


def _wait_for(api: KubernetesClient, cluster: Cluster, project: str, message: str) -> None:
    until(lambda: find(api, cluster, project, "permissions").message == message)


def _role_of(manifests: list[Object], scope: str) -> Object:
    """The role with a scope's permissions."""
    roles = [manifest for manifest in manifests if manifest["kind"] in ("Role", "ClusterRole")]
    return roles[0] if scope == "cluster" else roles[1]


def _without(role: Object, group: str, resource: str, verb: str) -> list[Object]:
    """A role's rules without one verb on one resource."""
    rules = []
    for rule in copy.deepcopy(role["rules"]):
        if rule["apiGroups"] == [group] and resource in rule["resources"] and verb in rule["verbs"]:
            other_resources = [other for other in rule["resources"] if other != resource]
            other_verbs = [other for other in rule["verbs"] if other != verb]
            rules += [{**rule, "resources": other_resources}] if other_resources else []
            rules += [{**rule, "resources": [resource], "verbs": other_verbs}] if other_verbs else []
        else:
            rules.append(rule)
    assert rules != role["rules"]
    return rules
