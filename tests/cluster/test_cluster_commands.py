"""CLI commands that connect a real cluster: rbac, add, connect, check, edit and rm."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.terminal import CommandResult, Terminal
from tests.cluster.clients import Client, path_of, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.processes.machines import Machine, RunningServer


@pytest.fixture(scope="module")
def server(shared_machine: Machine) -> RunningServer:
    """A server on SQLite."""
    return shared_machine.up()


@pytest.fixture
def terminal(server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal for an administrator of that server."""
    monkeypatch.setenv("FAIRLEAD_URL", server.url)
    monkeypatch.setenv("FAIRLEAD_TOKEN", server.token)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return Terminal(tmp_path)


@pytest.fixture
def kubeconfig(control_plane: ControlPlane, terminal: Terminal, admin: Client) -> Iterator[Path]:
    """A kubeconfig for a service account with the permissions that `rbac` prints."""
    file = terminal.folder / "rbac.yaml"
    file.write_text(terminal.succeed("clusters", "rbac"), "utf-8")
    control_plane.kubectl("apply", "-f", str(file))
    token = control_plane.kubectl("create", "token", "fairlead", "--namespace", "fairlead-system").strip()
    yield control_plane.write_kubeconfig(terminal.folder / "fairlead.kubeconfig", token)
    for manifest in yaml.safe_load_all(file.read_text("utf-8")):
        if manifest["kind"].startswith("ClusterRole"):
            admin.delete(path_of(manifest))


def read_states(result: CommandResult) -> dict[str, str]:
    """The state of each check by name."""
    return {
        name: state for state, name in re.findall(r"^(ok|warning|problem) +(\w+(?: \w+)?)  ", result.out, re.MULTILINE)
    }


def test_cluster_is_added_checked_edited_and_removed(
    terminal: Terminal, server: RunningServer, kubelet: FakeKubelet, kubeconfig: Path
) -> None:
    added = terminal("clusters", "add", "main", "--kubeconfig", str(kubeconfig), "--server-url", server.url)
    assert (added.code, added.err) == (0, ""), added
    assert "added cluster main in platform\n" in added.out
    states = read_states(added)
    assert states.pop("usage") == "warning"  # no metrics server
    assert set(states.values()) == {"ok"}, added.out
    assert {"connection", "permissions", "namespaces", "storage", "gpus", "callbacks"} <= states.keys()
    assert terminal.read("clusters", "show", "main")["details"] == {"server_url": server.url}
    edited = terminal.succeed("clusters", "edit", "main", "--storage-class", "fast", "--storage-class", "gone")
    assert edited == "cluster main is at revision 2\n"
    checked = until(lambda: _if_contains(terminal("clusters", "check", "main"), "storage_classes allows gone"))
    assert checked.code == 1
    assert terminal.succeed("clusters", "rm", "main") == "deleted cluster main\n"
    assert "cluster/main does not exist" in terminal.fail("clusters", "check", "main")


def test_invalid_token_is_reported_and_can_be_replaced(
    terminal: Terminal, control_plane: ControlPlane, kubelet: FakeKubelet, kubeconfig: Path
) -> None:
    invalid = control_plane.write_kubeconfig(terminal.folder / "invalid", "not-a-token")
    added = terminal("clusters", "add", "second", "--kubeconfig", str(invalid))
    assert (added.code, read_states(added)) == (1, {"connection": "problem"}), added
    assert "clusters connect second" in added.out
    connected = terminal("clusters", "connect", "second", "--kubeconfig", str(kubeconfig))
    assert (connected.code, read_states(connected)["permissions"]) == (0, "ok"), connected
    terminal.succeed("clusters", "rm", "second")


def test_missing_permissions_are_found_and_can_be_granted(
    terminal: Terminal, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client, kubeconfig: Path
) -> None:
    admin.delete("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/fairlead-projects")
    terminal("clusters", "add", "third", "--kubeconfig", str(kubeconfig))
    checked = until(lambda: _if_contains(terminal("clusters", "check", "third"), "missing: create jobs.batch"))
    assert checked.code == 1
    assert "fairlead clusters rbac third | kubectl apply -f -" in checked.out
    (terminal.folder / "rbac-of-third.yaml").write_text(terminal.succeed("clusters", "rbac", "third"), "utf-8")
    control_plane.kubectl("apply", "-f", str(terminal.folder / "rbac-of-third.yaml"))
    until(lambda: terminal("clusters", "check", "third").code == 0)
    terminal.succeed("clusters", "rm", "third")


def test_roles_are_printed_for_the_namespaces_of_projects(terminal: Terminal, kubeconfig: Path) -> None:
    options = ("--no-create-namespaces", "--namespace", "ai-{project}")
    terminal("clusters", "add", "fourth", "--kubeconfig", str(kubeconfig), *options)
    assert "The cluster has no projects yet" in terminal.succeed("clusters", "rbac", "fourth")
    for name in ("arm", "leg"):
        terminal.succeed("projects", "create", name, "--in", "cluster/fourth")
    roles = [
        item for item in yaml.safe_load_all(terminal.succeed("clusters", "rbac", "fourth")) if item["kind"] == "Role"
    ]
    assert [role["metadata"]["namespace"] for role in roles] == ["ai-arm", "ai-leg"]
    printed = terminal.succeed("clusters", "rbac", "fourth", "--namespace-of", "leg")
    roles = [item for item in yaml.safe_load_all(printed) if item["kind"] == "Role"]
    assert [role["metadata"]["namespace"] for role in roles] == ["ai-leg"]


def _if_contains(result: CommandResult, text: str) -> CommandResult | None:
    return result if text in result.out else None


PROGRAM = """\
import os, pathlib
def main(n):
    print("hello", flush=True)
    pathlib.Path(os.environ["FAIRLEAD_OUTPUT"], "model.bin").write_text("model")
    return {"n": n, "length": len(os.environ["PASSWORD"])}
"""


def test_runs_work_with_only_the_printed_permissions(
    terminal: Terminal,
    control_plane: ControlPlane,
    kubelet: FakeKubelet,
    metrics: None,
    server: RunningServer,
    kubeconfig: Path,
) -> None:
    """No request is forbidden for a run with code, a secret, a volume and an output, or for its removal."""
    terminal("clusters", "add", "fifth", "--kubeconfig", str(kubeconfig), "--server-url", server.url)
    terminal.succeed("projects", "create", "tree", "--in", "cluster/fifth")
    account = "system:serviceaccount:fairlead-system:fairlead"
    before = len(control_plane.requests(account))
    terminal.succeed("secrets", "set", "PASSWORD", "--value", "planted", "--project", "tree")
    (terminal.folder / "train.py").write_text(PROGRAM, "utf-8")
    options = [
        "--secret",
        "PASSWORD",
        "--volume",
        "data:/data:1Gi",
        "--input",
        "n=7",
        "--project",
        "tree",
        "--mem",
        "64Mi",
    ]
    result = terminal("run", "train.py:main", *options)
    assert result.code == 0, result
    assert '{"n": 7, "length": 7}' in result.err
    (run,) = terminal.read("runs", "ls", "--filter", "scope=project/tree")
    assert [file["path"] for file in terminal.read("runs", "files", run["id"])] == ["model.bin"]
    terminal.succeed("runs", "rm", run["id"])
    until(lambda: not control_plane.kubectl("get", "jobs", "-n", "tree", "-o", "name"))
    requests = [
        (event["responseStatus"]["code"], event["verb"], event["requestURI"])
        for event in control_plane.requests(account)[before:]
    ]
    assert [request for request in requests if request[0] == 403] == []
    assert {verb for _, verb, _ in requests} >= {"create", "patch", "delete", "get"}
