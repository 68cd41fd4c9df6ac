"""Configuration files on a running server: `fairlead apply`, `fairlead export`, and a watched folder."""

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead.files import yamls
from tests.architecture.modules import ROOT
from tests.cli.terminal import write
from tests.processes.machines import TIMEOUT, Machine, RunningServer

SECONDS = 20.0  # until a change to the folder is applied; half a second on an idle machine
EXAMPLES = ROOT / "examples" / "platform"
SMALL = "kind: ComputeResource\nname: small\nrequirements: {resources: {cpu: 1, mem: 2Gi}}\n"
LARGE = "kind: ComputeResource\nname: large\nrequirements: {resources: {cpu: 16, mem: 64Gi}}\n"
TREE = """\
kind: Department
name: vision
parent: cluster/local
---
kind: Project
name: forest
parent: department/vision
"""
POLICY = "kind: Policy\nscope: department/vision\nrules: {resources.gpu: {max: 2}}\n"
TEMPLATE = "kind: Template\nname: start\nscope: project/forest\nrequirements: {profile: small}\n"
ALL = {"a/small.yaml": SMALL, "large.yml": LARGE, "tree.yaml": TREE, "policy.yaml": POLICY, "z.yaml": TEMPLATE}


@pytest.fixture
def files(machine: Machine) -> Path:
    """A folder with documents of every kind."""
    write(machine.folder / "files", ALL)
    return machine.folder / "files"


def test_applying_files_is_idempotent(machine: Machine, files: Path) -> None:
    server = machine.up()
    variables = {"FAIRLEAD_DATA": str(server.data)}
    dry_run = machine.fairlead("apply", "-f", str(files), "--dry-run", variables=variables)
    assert dry_run.code == 0
    assert dry_run.out.splitlines()[-1] == "6 changes, 0 unchanged (dry run)"
    assert _resource_names(server) == []

    applied = machine.fairlead("apply", "-f", str(files), variables=variables)
    assert (applied.code, applied.err) == (0, "")
    assert applied.out.splitlines() == [
        "created   Department vision",
        "created   Project forest",
        "created   Policy department/vision",
        "created   ComputeResource small",
        "created   ComputeResource large",
        "created   Template start",
        "6 changes, 0 unchanged",
    ]
    assert _resource_names(server) == ["large", "small"]

    before = _count_audit_entries(server)
    remote_variables = {"FAIRLEAD_URL": server.url, "FAIRLEAD_TOKEN": server.token}
    second_apply = machine.fairlead("apply", "-f", str(files), "--json", variables=remote_variables)
    assert (second_apply.code, second_apply.err) == (0, "")
    assert {change["action"] for change in json.loads(second_apply.out)["changes"]} == {"unchanged"}
    assert _count_audit_entries(server) == before

    _check_managed(server)
    _check_pruning(machine, server, files, variables)


def _check_managed(server: RunningServer) -> None:
    """Objects managed by files can be edited only in the files, unless forced."""
    with server.client() as client:
        assert client.get("/compute-resources/small").json()["managed_by"] == "files"
        rejected = client.patch("/compute-resources/small", json={"description": "mine"})
        assert (rejected.status_code, rejected.json()["code"]) == (409, "conflict")
        assert "managed by files" in rejected.json()["detail"]
        for path in ("/compute-resources/large", "/templates/start", "/projects/forest", "/policies/department/vision"):
            assert client.delete(path).status_code == 409, path
        forced = client.patch("/compute-resources/small?force=true", json={"description": "mine"})
        assert forced.status_code == 200
        assert client.get("/compute-resources/small").json()["managed_by"] == "files"


def _check_pruning(machine: Machine, server: RunningServer, files: Path, variables: Mapping[str, str]) -> None:
    """Applying reverts edits. Objects that were removed from files are deleted only with --prune."""
    (files / "large.yml").unlink()
    unpruned = machine.fairlead("apply", "-f", str(files), variables=variables)
    assert unpruned.out.splitlines() == ["changed   ComputeResource small", "1 change, 4 unchanged"]
    dry_run = machine.fairlead("apply", "-f", str(files), "--prune", "--dry-run", variables=variables)
    assert "removed   ComputeResource large" in dry_run.out.splitlines()
    assert _resource_names(server) == ["large", "small"]
    pruned = machine.fairlead("apply", "-f", str(files), "--prune", variables=variables)
    assert pruned.out.splitlines() == ["removed   ComputeResource large", "1 change, 5 unchanged"]
    assert _resource_names(server) == ["small"]


def test_applying_an_export_changes_nothing(machine: Machine) -> None:
    server = machine.up()
    variables = {"FAIRLEAD_DATA": str(server.data)}
    assert machine.fairlead("apply", "-f", str(EXAMPLES), variables=variables).code == 0
    exported = machine.fairlead("export", "out", variables=variables)
    assert (exported.code, exported.err) == (0, "")
    folder = machine.folder / "out"
    assert {file.name for file in folder.iterdir()} == {
        "tree.yaml",
        "policies.yaml",
        "compute-resources.yaml",
        "templates.yaml",
    }
    for manager in ((), ("--manager", "files")):
        result = machine.fairlead("apply", "-f", str(folder), "--json", *manager, variables=variables)
        assert result.code == 0, result.err
        # Unmanaged objects are adopted: the default cluster and project.
        changed = {change["name"] for change in json.loads(result.out)["changes"] if change["action"] != "unchanged"}
        assert changed <= {"local", "default"}
    final = machine.fairlead("apply", "-f", str(folder), variables=variables)
    assert final.out.startswith("no changes, ")

    printed = machine.fairlead("export", variables=variables)
    assert printed.code == 0
    (machine.folder / "printed.yaml").write_text(printed.out)
    documents = yamls.load_file(machine.folder / "printed.yaml")
    as_json = machine.fairlead("export", "--json", variables=variables)
    assert json.loads(as_json.out) == documents
    unchanged = machine.fairlead("apply", "-f", "printed.yaml", variables=variables)
    assert unchanged.out.startswith("no changes, ")
    _check_apply_to_empty_server(machine, folder)


def _check_apply_to_empty_server(machine: Machine, folder: Path) -> None:
    """Applying the export to an empty server recreates the same objects."""
    other = machine.up(data="other")
    variables = {"FAIRLEAD_DATA": str(other.data)}
    assert machine.fairlead("apply", "-f", str(folder), variables=variables).code == 0
    assert machine.fairlead("export", "copy", variables=variables).code == 0
    for file in folder.iterdir():
        original, copied = yamls.load_file(file), yamls.load_file(machine.folder / "copy" / file.name)
        assert _sorted(original) == _sorted(copied)


def test_errors_name_their_files(machine: Machine, files: Path) -> None:
    server = machine.up()
    variables = {"FAIRLEAD_DATA": str(server.data)}
    write(files, {"broken.yaml": "kind: ComputeResource\nname: broken\nrequirements: {resources: {cpus: 1}}\n"})
    ended = machine.fairlead("apply", "-f", str(files), variables=variables)
    assert ended.code == 1
    assert "broken.yaml" in ended.err + ended.out
    assert "cpus" in ended.err + ended.out
    assert _resource_names(server) == []

    # Violations that only the server can find also name the file.
    write(files, {"broken.yaml": "kind: Project\nname: lost\nparent: department/nowhere\n"})
    ended = machine.fairlead("apply", "-f", str(files), variables=variables)
    assert ended.code == 1
    assert "department/nowhere" in ended.err + ended.out
    assert "broken.yaml" in ended.err + ended.out
    assert "Traceback" not in ended.err
    assert _resource_names(server) == []

    ended = machine.fairlead("apply", "-f", "nothing-here", variables=variables)
    assert ended.code == 1
    assert "nothing-here" in ended.err + ended.out


@pytest.mark.parametrize("command", [["apply", "-f", "files"], ["export"]])
def test_command_starts_a_server_if_none_is_running(machine: Machine, files: Path, command: list[str]) -> None:
    server_file = machine.folder / "share" / "fairlead" / "server.json"
    try:
        ended = machine.fairlead(*command)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out
        first = json.loads(server_file.read_text("utf-8"))
        assert machine.fairlead(*command).code == 0
        assert json.loads(server_file.read_text("utf-8")) == first
    finally:
        os.kill(json.loads(server_file.read_text("utf-8"))["pid"], signal.SIGTERM)
        deadline = time.monotonic() + TIMEOUT
        while server_file.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert not server_file.exists()


@pytest.mark.parametrize("command", [["apply", "-f", "files"], ["export"]])
def test_unreachable_configured_server_is_reported(machine: Machine, files: Path, command: list[str]) -> None:
    unreachable = {"FAIRLEAD_URL": "http://127.0.0.1:1", "FAIRLEAD_TOKEN": "fl_none"}
    ended = machine.fairlead(*command, variables=unreachable)
    assert (ended.code, ended.out) == (1, "")
    assert "http://127.0.0.1:1" in ended.err
    assert "Traceback" not in ended.err
    ended = machine.fairlead(*command, variables={"FAIRLEAD_URL": "http://127.0.0.1:1"})
    assert "FAIRLEAD_TOKEN" in ended.err


def test_invalid_token_or_url_is_reported(machine: Machine, files: Path) -> None:
    server = machine.up()
    invalid_token = {"FAIRLEAD_URL": server.url, "FAIRLEAD_TOKEN": "fl_wrong"}
    ended = machine.fairlead("apply", "-f", "files", variables=invalid_token)
    assert ended.code == 1
    assert "the token is unknown" in ended.err
    for url in ("nonsense", "ftp://127.0.0.1", "http://"):
        ended = machine.fairlead("export", variables={"FAIRLEAD_URL": url, "FAIRLEAD_TOKEN": "fl_any"})
        assert ended.code == 1
        assert "Traceback" not in ended.err
        assert ended.err.startswith("error: ")
    # A configured HTTP proxy is not used for the local server, because it must not get the token.
    proxied = {
        "FAIRLEAD_DATA": str(server.data),
        "HTTP_PROXY": "http://127.0.0.1:1",
        "http_proxy": "http://127.0.0.1:1",
    }
    ended = machine.fairlead("export", variables=proxied)
    assert ended.code == 0, ended.err


def test_server_follows_changes_of_its_watched_folder(machine: Machine, files: Path) -> None:
    server = machine.up("--folder", str(files))
    assert _resource_names(server) == ["large", "small"]
    assert _folder_status(server)["path"] == str(files)
    assert _folder_status(server)["problem"] is None

    write(files, {"a/small.yaml": SMALL.replace("2Gi", "3Gi")})
    _wait_until(lambda: "3Gi" in _requirements(server, "small"))

    write(files, {"large.yml": "kind: ComputeResource\nname: large\nrequirements: {resources: {cpus: 1}}\n"})
    _wait_until(lambda: _folder_status(server)["problem"] is not None)
    assert "large.yml" in _folder_status(server)["problem"]
    assert "cpus" in _folder_status(server)["problem"]
    assert "64Gi" in _requirements(server, "large")
    log_entries = [json.loads(line) for line in server.process.output[1].splitlines()]
    rejections = [line for line in log_entries if line["event"] == "folder rejected"]
    assert len(rejections) == 1
    assert "large.yml" in rejections[0]["problem"]

    (files / "large.yml").unlink()
    _wait_until(lambda: _resource_names(server) == ["small"])
    assert _folder_status(server)["problem"] is None

    _check_folder_edits(server, files)
    _check_folder_in_use(server, files)
    ended = server.stop()
    assert (ended.code, "Traceback" in ended.err) == (0, False)


def _check_folder_edits(server: RunningServer, files: Path) -> None:
    """Edits through the API are rejected. Forced edits last until the folder changes."""
    with server.client() as client:
        assert client.get("/compute-resources/small").json()["managed_by"] == "folder"
        rejected = client.patch("/compute-resources/small", json={"description": "mine"})
        assert rejected.status_code == 409
        assert "managed by folder" in rejected.json()["detail"]
        assert client.delete("/projects/forest").status_code == 409
        forced = client.patch("/compute-resources/small?force=true", json={"description": "mine"})
        assert forced.status_code == 200
        entries = client.get("/audit", params={"name": "=small"}).json()["items"]
        assert {item["via"] for item in entries} >= {"folder"}
    write(files, {"other.yaml": LARGE.replace("large", "other")})
    _wait_until(lambda: "other" in _resource_names(server))
    with server.client() as client:
        assert client.get("/compute-resources/small").json()["description"] == ""


def _check_folder_in_use(server: RunningServer, files: Path) -> None:
    """Objects in use are not removed, and the whole change is rejected."""
    (files / "a" / "small.yaml").unlink()
    write(files, {"new.yaml": LARGE.replace("large", "new")})
    _wait_until(lambda: _folder_status(server)["problem"] is not None)
    assert "small" in _resource_names(server)
    assert "new" not in _resource_names(server)
    (files / "z.yaml").unlink()
    _wait_until(lambda: _resource_names(server) == ["new", "other"])


def _resource_names(server: RunningServer) -> list[str]:
    with server.client() as client:
        return [item["name"] for item in client.get("/compute-resources").json()["items"]]


def _requirements(server: RunningServer, name: str) -> str:
    with server.client() as client:
        return json.dumps(client.get(f"/compute-resources/{name}").json()["requirements"])


def _count_audit_entries(server: RunningServer) -> int:
    with server.client() as client:
        return int(client.get("/audit", params={"total": "true", "limit": "1"}).json()["total"])


def _folder_status(server: RunningServer) -> dict[str, Any]:
    with server.client() as client:
        folder: dict[str, Any] = client.get("/settings").json()["server"]["folder"]
        return folder


def _sorted(documents: Any) -> list[str]:
    return sorted(json.dumps(document, sort_keys=True) for document in documents)


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s"
        time.sleep(0.05)
