"""`fairlead clusters`: add, edit, connect, check, remove."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.terminal import Terminal, run, write
from tests.kubeconfigs import TOKEN, make_kubeconfig

# A closed port.
UNREACHABLE = {"server": "http://127.0.0.1:1"}


@pytest.fixture
def kubeconfig(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig in the home folder, with an unreachable server."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(terminal.folder))
    write(terminal.folder, {".kube/config": yaml.safe_dump(make_kubeconfig(cluster=UNREACHABLE))})
    return terminal.folder / ".kube" / "config"


def test_a_cluster_is_added_with_the_default_kubeconfig_and_checked(terminal: Terminal, kubeconfig: Path) -> None:
    result = terminal(
        "clusters", "add", "one", "--namespace", "ai-{project}", "--autoscaled", "--storage-class", "fast"
    )
    assert (result.code, result.err) == (1, "")
    first, second, check, hint = result.out.splitlines()
    assert first == f"using context main from {kubeconfig}: http://127.0.0.1:1"
    assert second == "added cluster one in platform"
    assert check.startswith("problem  connection  the cluster is unreachable")
    assert hint.strip().startswith("-> ")
    cluster = terminal.read("clusters", "show", "one")
    assert cluster["details"] == {"namespace": "ai-{project}", "autoscaled": True, "storage_classes": ["fast"]}
    assert terminal.succeed("clusters", "rm", "one") == "deleted cluster one\n"


def test_a_variable_or_an_option_selects_another_kubeconfig(
    terminal: Terminal, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"mine.yaml": yaml.safe_dump(make_kubeconfig(cluster={"server": "http://localhost:1"}))}
    write(terminal.folder, files)
    monkeypatch.setenv("KUBECONFIG", "gone.yaml:mine.yaml")
    for args in ((), ("--kubeconfig", "mine.yaml", "--context", "main")):
        assert (
            "using context main from mine.yaml: http://localhost:1\n" in terminal("clusters", "add", "two", *args).out
        )
        terminal.succeed("clusters", "rm", "two")


def test_json_output_contains_all_responses(terminal: Terminal, kubeconfig: Path) -> None:
    added = json.loads(terminal("clusters", "add", "three", "--json").out)
    assert (added["cluster"]["scope"], added["kubeconfig"]["user"]) == ("cluster/three", ["token"])
    assert [check["state"] for check in added["checks"]] == ["problem"]
    connected = terminal("clusters", "connect", "three", "--json")
    assert (connected.code, json.loads(connected.out)["kubeconfig"]["revision"]) == (1, 2)
    checked = terminal("clusters", "check", "three", "--json")
    assert (checked.code, [check["name"] for check in json.loads(checked.out)]) == (1, ["connection"])
    assert TOKEN not in json.dumps(added) + connected.out
    terminal.succeed("clusters", "rm", "three")


def test_files_referenced_by_a_kubeconfig_are_sent(terminal: Terminal, kubeconfig: Path) -> None:
    user = {"tokenFile": "token"}
    write(
        terminal.folder,
        {"k/config": yaml.safe_dump(make_kubeconfig(cluster=UNREACHABLE, user=user)), "k/token": "abc\n"},
    )
    added = terminal("clusters", "add", "four", "--kubeconfig", "k/config", "--json")
    assert json.loads(added.out)["kubeconfig"]["user"] == ["token"]
    terminal.succeed("clusters", "rm", "four")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--context", "mian"), "did you mean main?"),
        (("--context", "other"), "kubeconfig.users[0].user.exec: gets credentials from a program"),
        (("--kubeconfig", "gone.yaml"), "gone.yaml: kubeconfig: cannot be read"),
        (("--in-cluster", "--context", "main"), "cannot be combined"),
        (("--namespace", "ai"), "namespace: must contain {project} exactly once"),
        (("--server-url", "fairlead"), "server_url: must be an http or https URL"),
        (("--parent", "department/none"), "parent: "),
    ],
)
def test_invalid_clusters_are_rejected_and_not_created(
    terminal: Terminal, kubeconfig: Path, args: tuple[str, ...], message: str
) -> None:
    result = terminal("clusters", "add", "five", *args)
    assert result.code == 1
    assert message in result.err
    assert "cluster/five does not exist" in terminal.fail("clusters", "show", "five")


def test_adding_an_existing_cluster_does_not_change_it(terminal: Terminal, kubeconfig: Path) -> None:
    terminal("clusters", "add", "six")
    assert "cluster name six is not available" in terminal("clusters", "add", "six").err
    assert terminal.read("clusters", "show", "six")["name"] == "six"
    terminal.succeed("clusters", "rm", "six")


def test_a_server_in_the_cluster_needs_no_kubeconfig(terminal: Terminal, kubeconfig: Path) -> None:
    added = terminal("clusters", "add", "seven", "--in-cluster")
    assert "added cluster seven in platform" in added.out
    assert terminal.read("clusters", "show", "seven")["details"] == {"connection": "in_cluster"}
    assert "connection: in_cluster and does not use a kubeconfig" in terminal("clusters", "connect", "seven").err
    terminal.succeed("clusters", "rm", "seven")


def test_a_cluster_is_edited(terminal: Terminal, kubeconfig: Path) -> None:
    terminal("clusters", "add", "eight")
    output = terminal.succeed("clusters", "edit", "eight", "--no-create-namespaces", "--gpu-sharing", "kai")
    assert output == "cluster eight is at revision 2\n"
    assert terminal.read("clusters", "show", "eight")["details"] == {"create_namespaces": False, "gpu_sharing": "kai"}
    assert "nothing to change" in terminal.fail("clusters", "edit", "eight")
    assert "python_image: invalid image" in terminal.fail("clusters", "edit", "eight", "--python-image", "a b")
    terminal.succeed("clusters", "rm", "eight")


def test_the_local_cluster_is_checked(terminal: Terminal) -> None:
    result = terminal("clusters", "check", "local")
    assert result.code == 0
    assert [line.split()[1] for line in result.out.splitlines() if "->" not in line] == [
        *("machine", "users", "isolation", "gpus")
    ]
    assert "executes runs locally and needs no permissions" in terminal.fail("clusters", "rbac", "local")


def test_rbac_manifests_are_printed_without_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("FAIRLEAD_TOKEN", "fl_none")
    result = run(tmp_path, "clusters", "rbac")
    assert (result.code, result.err) == (0, "")
    kinds = [manifest["kind"] for manifest in yaml.safe_load_all(result.out)]
    assert kinds == ["Namespace", "ServiceAccount", *["ClusterRole", "ClusterRoleBinding"] * 2]
    assert "kubectl create token fairlead --namespace fairlead-system" in result.out
    output = run(tmp_path, "clusters", "rbac", "--namespace-of", "forest", "--namespace-of", "lake").out
    roles = [manifest for manifest in yaml.safe_load_all(output) if manifest["kind"] == "Role"]
    assert [role["metadata"]["namespace"] for role in roles] == ["forest", "lake"]


def test_rbac_manifests_are_those_of_the_cluster(terminal: Terminal, kubeconfig: Path) -> None:
    options = ("--no-create-namespaces", "--namespace", "x-{project}", "--queueing", "kueue")
    terminal("clusters", "add", "nine", *options)
    assert "The cluster has no projects yet" in terminal.succeed("clusters", "rbac", "nine")
    terminal.succeed("departments", "create", "nines", "--in", "cluster/nine")
    terminal.succeed("projects", "create", "ninth", "--in", "department/nines")
    output = terminal.succeed("clusters", "rbac", "nine")
    (role,) = (item for item in yaml.safe_load_all(output) if item["kind"] == "Role")
    assert role["metadata"]["namespace"] == "x-ninth"
    assert "localqueues" in output
    assert "fairlead clusters rbac nine | kubectl apply -f -" in output
    terminal.succeed("projects", "rm", "ninth")
    terminal.succeed("departments", "rm", "nines")
    terminal.succeed("clusters", "rm", "nine")
    assert "cluster/nine does not exist" in terminal.fail("clusters", "rbac", "nine")
