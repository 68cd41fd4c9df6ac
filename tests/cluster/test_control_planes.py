"""Tests of the control plane: it is real, can be stopped and started, and logs requests."""

import os
import signal
import stat
from pathlib import Path

import httpx2
import pytest

from tests.cluster import binaries
from tests.cluster.clients import ApiError, Client, Object, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.making import make_map, make_pod, wait_for_phase


def test_api_server_has_the_built_version(admin: Client, control_plane: ControlPlane) -> None:
    assert os.environ.get("KUBEBUILDER_ASSETS") or admin.get("/version")["gitVersion"] == binaries.version()
    assert "test" in control_plane.kubectl("config", "get-contexts")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_outage_of_the_control_plane_loses_nothing(
    control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client, namespace: str, number: signal.Signals
) -> None:
    admin.create(make_pod(namespace, "short", "python:3.12", ["sleep", "1"]))
    admin.create(make_pod(namespace, "long", "example.test/sleep"))
    for name in ("short", "long"):
        wait_for_phase(admin, namespace, name, "Running")

    control_plane.stop_api(number)
    with pytest.raises(httpx2.TransportError):
        admin.get("/version")
    control_plane.start_api()

    wait_for_phase(admin, namespace, "short", "Succeeded")
    admin.create(make_pod(namespace, "new", "example.test/succeed"))
    wait_for_phase(admin, namespace, "new", "Succeeded")
    wait_for_phase(admin, namespace, "long", "Running")


def test_service_account_has_only_the_permissions_of_its_rules(
    control_plane: ControlPlane, admin: Client, namespace: str
) -> None:
    token = control_plane.make_account(namespace, "reader", make_rules(namespace, "reader"))

    with control_plane.client(token) as reader:
        maps = f"/api/v1/namespaces/{namespace}/configmaps"
        until(lambda: _can_read(reader, maps))
        before = len(control_plane.requests(f"system:serviceaccount:{namespace}:reader"))
        reader.get(maps)
        with pytest.raises(ApiError, match="403"):
            reader.create(make_map(namespace, "new", {}))

    requests = control_plane.requests(f"system:serviceaccount:{namespace}:reader")[before:]
    assert [(event["verb"], event["responseStatus"]["code"]) for event in requests] == [("list", 200), ("create", 403)]


def test_given_binaries_are_used(tmp_path: Path) -> None:
    for name in ("etcd", "kube-apiserver", "kubectl"):
        make_program(tmp_path / name)

    programs = binaries.find({**os.environ, "KUBEBUILDER_ASSETS": str(tmp_path)})

    assert programs["etcd"] == (str(tmp_path / "etcd"),)
    assert programs["kubectl"] == (str(tmp_path / "kubectl"),)
    assert programs["kube-scheduler"] == (str(binaries.cached()), "kube-scheduler")


def test_folder_without_binaries_is_rejected(tmp_path: Path) -> None:
    make_program(tmp_path / "kubectl")

    with pytest.raises(binaries.Missing, match=f"{tmp_path}, which lacks etcd and kube-apiserver"):
        binaries.find({"KUBEBUILDER_ASSETS": str(tmp_path)})


def test_missing_go_is_reported_with_the_required_version(tmp_path: Path) -> None:
    with pytest.raises(binaries.Missing, match=r"Go is required .* install Go 1\.25\.0 or newer"):
        binaries.build({"XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)})


def test_outdated_go_is_reported(tmp_path: Path) -> None:
    make_program(tmp_path / "go", "echo go1.24.9")

    with pytest.raises(binaries.Missing, match=r"Go 1\.24\.9 is too old .* install Go 1\.25\.0 or newer"):
        binaries.build({"XDG_CACHE_HOME": str(tmp_path), "PATH": f"{tmp_path}:/bin"})


def test_failed_build_is_reported_and_leaves_no_files(tmp_path: Path) -> None:
    make_program(tmp_path / "go", 'test "$1" = env && echo go1.26 && exit; echo "no space left" >&2; exit 1')
    variables = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": f"{tmp_path}:/bin"}

    with pytest.raises(binaries.Missing, match="no space left"):
        binaries.build(variables)

    assert list(binaries.cached(variables).parent.iterdir()) == []


def make_rules(namespace: str, name: str) -> list[Object]:
    """A role that only allows listing ConfigMaps."""
    version, meta = "rbac.authorization.k8s.io/v1", {"name": name, "namespace": namespace}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subjects = [{"kind": "ServiceAccount", **meta}]
    return [
        {"apiVersion": version, "kind": "Role", "metadata": meta, "rules": rules},
        {"apiVersion": version, "kind": "RoleBinding", "metadata": meta, "roleRef": reference, "subjects": subjects},
    ]


def make_program(file: Path, text: str = "") -> None:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def _can_read(reader: Client, path: str) -> bool:
    try:
        reader.get(path)
    except ApiError:
        return False
    return True
