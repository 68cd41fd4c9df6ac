"""Commands for scopes, policies, secrets and volumes, and list options."""

import io
import json
from types import SimpleNamespace

import pytest

from tests.cli.terminal import Terminal, write
from tests.processes.machines import RunningServer

POLICY = """\
kind: Policy
scope: department/{name}
defaults: {{resources: {{mem: 2Gi}}}}
rules: {{resources.gpu: {{max: 2}}}}
switches: {{existing_volumes: block}}
quota: {{gpu: 8}}
queue: {{max_waiting_runs: 1000, weight: 0.5}}
"""


def set_stdin(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(text), isatty=lambda: False)
    monkeypatch.setattr("sys.stdin", stdin)


def test_projects_and_departments_are_created_moved_and_deleted(terminal: Terminal) -> None:
    created = terminal.succeed("departments", "create", "vision", "--in", "cluster/local")
    assert created == "created department vision in cluster/local\n"
    assert terminal.read("projects", "create", "forest", "--in", "department/vision")["scope"] == "project/forest"
    lines = [
        line.split() for line in terminal.succeed("projects", "ls", "--filter", "parent=department/vision").splitlines()
    ]
    assert [line[:2] for line in lines] == [["NAME", "PARENT"], ["forest", "department/vision"]]
    assert terminal.succeed("projects", "rename", "forest", "woods") == "renamed project forest to woods\n"
    error = terminal.fail("departments", "rm", "vision")
    assert "  project woods\n" in error
    assert terminal.succeed("projects", "move", "woods", "cluster/local") == "moved project woods to cluster/local\n"
    assert "parent: cluster/local" in terminal.succeed("projects", "show", "woods")
    assert terminal.succeed("projects", "rm", "woods") == "deleted project woods\n"
    assert terminal.succeed("departments", "rm", "vision") == "deleted department vision\n"
    assert "project/woods does not exist" in terminal.fail("projects", "rm", "woods")
    assert "department/nowhere does not exist" in terminal.fail("projects", "create", "x", "--in", "department/nowhere")


def test_clusters_are_listed_and_shown(terminal: Terminal) -> None:
    [line] = terminal.succeed("clusters", "ls", "--filter", "name==local").splitlines()[1:]
    assert line.split()[:3] == ["local", "platform", "local"]
    assert terminal.succeed("clusters", "show", "local").startswith("kind: cluster\nname: local\n")


def test_a_policy_and_the_effective_policy_are_shown(terminal: Terminal) -> None:
    terminal.succeed("departments", "create", "ruled", "--in", "cluster/local")
    terminal.succeed("projects", "create", "below", "--in", "department/ruled")
    write(terminal.folder, {"policy.yaml": POLICY.format(name="ruled")})
    terminal.succeed("apply", "-f", "policy.yaml")
    listed = terminal.succeed("policy", "ls").splitlines()
    assert ["department/ruled", "defaults,", "rules,", "switches,", "quota,", "queue"] in [
        line.split()[:-1] for line in listed
    ]
    [item] = terminal.read("policy", "ls", "--filter", "scope=department/ruled")
    assert item["content"]["quota"] == {"gpu": 8}
    assert terminal.read("policy", "ls", "--search", "nowhere") == []
    assert "scope: department/ruled" in terminal.succeed("policy", "show", "department/ruled")
    lines = [" ".join(line.split()) for line in terminal.succeed("policy", "effective", "project/below").splitlines()]
    for part in (
        "rules.resources.gpu.devices.max 2",
        "defaults.resources.mem.requests 2Gi",
        "quotas.gpu 8, 0 used",
        "queue.max_waiting_runs 1000",
        "queue.weight 0.5",
    ):
        assert f"{part} department/ruled policy" in lines
    assert "switches.existing_volumes block department/ruled policy" in lines
    assert "switches.allow_root false platform default" in lines
    assert "rules" in terminal.read("policy", "effective", "platform")
    assert "managed by files" in terminal.fail("policy", "rm", "department/ruled")
    assert terminal.succeed("policy", "rm", "department/ruled", "--force") == "deleted policy of department/ruled\n"
    assert "policy of department/ruled does not exist" in terminal.fail("policy", "show", "department/ruled")


@pytest.mark.parametrize("scope", ["", "vision", "department/", "department/../x", "planet/earth", "platform/platform"])
def test_invalid_scopes_are_rejected(terminal: Terminal, scope: str) -> None:
    error = terminal.fail("policy", "show", scope)
    assert f"scope: invalid scope {scope!r}" in error


def test_a_secret_is_set_listed_and_deleted_and_never_shown(terminal: Terminal) -> None:
    assert terminal.succeed("secrets", "set", "A", "--value", "planted") == "set secret A in project default\n"
    assert terminal.read("secrets", "set", "A", "--value", "planted")["revision"] >= 1
    listed = terminal.succeed("secrets", "ls", "--search", "A")
    assert listed.split()[:4] == ["NAME", "REVISION", "BY", "AGE"]
    assert "planted" not in listed + json.dumps(terminal.read("secrets", "ls"))
    assert terminal.succeed("secrets", "rm", "A") == "deleted secret A\n"
    assert "secret 'A' does not exist in" in terminal.fail("secrets", "rm", "A")


@pytest.mark.parametrize(
    ("content", "code"), [(b"word", 0), (b"word\n", 0), (b"a\nb\r\n", 0), (b"", 1), (b"\n", 1), (b"\xff", 1)]
)
def test_a_secret_is_read_from_stdin(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, content: bytes, code: int
) -> None:
    set_stdin(monkeypatch, content)
    result = terminal("secrets", "set", "PIPED")
    assert result.code == code
    assert "Traceback" not in result.err


def test_a_volume_is_created_listed_and_deleted(terminal: Terminal) -> None:
    options = ["--size", "10Gi", "--storage-class", "fast", "--description", "Raw data."]
    assert terminal.succeed("volumes", "create", "data", *options) == "created volume data in project default\n"
    [line] = terminal.succeed("volumes", "ls", "--filter", "name==data").splitlines()[1:]
    assert line.split()[:5] == ["data", "10Gi", "fast", "Raw", "data."]
    assert "size: " in terminal.fail("volumes", "create", "bad", "--size", "much")
    assert terminal.succeed("volumes", "rm", "data") == "deleted volume data\n"


def test_the_project_is_an_option_or_a_variable_or_default(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.succeed("projects", "create", "other", "--in", "cluster/local")
    terminal.succeed("volumes", "create", "theirs", "--size", "1Gi", "--project", "other")
    monkeypatch.setenv("FAIRLEAD_PROJECT", "other")
    assert [item["name"] for item in terminal.read("volumes", "ls")] == ["theirs"]
    assert terminal.read("volumes", "ls", "--project", "default", "--filter", "name==theirs") == []
    monkeypatch.setenv("FAIRLEAD_PROJECT", "")
    assert terminal.read("volumes", "ls", "--filter", "name==theirs") == []
    assert "project/nowhere does not exist" in terminal.fail("volumes", "ls", "--project", "nowhere")
    assert "project '..' does not exist" in terminal.fail("volumes", "ls", "--project", "..")
    assert "  volume theirs of project/other\n" in terminal.fail("projects", "rm", "other")


def test_a_list_is_searched_sorted_filtered_and_limited(terminal: Terminal) -> None:
    for name, size in (("list-a", "1Gi"), ("list-b", "2Gi"), ("list-c", "3Gi")):
        terminal.succeed("volumes", "create", name, "--size", size, "--storage-class", f"class-{name[-1]}")
    command = ("volumes", "ls", "--search", "list-")
    assert _names(terminal, *command) == ["list-a", "list-b", "list-c"]
    assert _names(terminal, *command, "--sort", "-name", "--limit", "2") == ["list-c", "list-b"]
    several = ("--filter", "storage_class=class-a,class-b", "--filter", "name=!list-a")
    assert _names(terminal, *command, *several) == ["list-b"]
    assert terminal("volumes", "ls", "--search", "no-such-volume").err == "no volumes\n"
    assert terminal.read("volumes", "ls", "--search", "no-such-volume") == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--filter", "name"), "invalid filter 'name'"),
        (("--filter", "=x"), "invalid filter '=x'"),
        (("--filter", "nme=x"), "did you mean name?"),
        (("--sort", "nme"), "sort: "),
        (("--filter", "created_at=yesterday"), "invalid time"),
    ],
)
def test_invalid_list_options_are_rejected(terminal: Terminal, args: tuple[str, ...], message: str) -> None:
    assert message in terminal.fail("volumes", "ls", *args)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("volumes", "ls", "--limit", "0"), "--limit"),
        (("volumes", "create", "x"), "--size"),
        (("volumes", "show", "x"), "show"),
        (("secrets", "set"), "NAME"),
        (("projects", "rename", "a"), "NEW"),
        (("projects", "rm", "a", "b"), "b"),
        (("policy", "show"), "SCOPE"),
        (("compute", "edit", "a", "--memory", "1Gi"), "--memory"),
        (("clusters", "rename", "local", "other"), "rename"),
    ],
)
def test_invalid_arguments_are_named(terminal: Terminal, args: tuple[str, ...], message: str) -> None:
    result = terminal(*args)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_missing_permissions_are_reported(
    terminal: Terminal, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.client() as client:
        client.post("/roles", json={"subject": "user:eve", "role": "viewer", "scope": "project/default"})
        token = client.post("/tokens", json={"name": "t", "user": "eve"}).json()["token"]
    monkeypatch.setenv("FAIRLEAD_TOKEN", token)
    assert "eve may not" in terminal.fail("volumes", "create", "v", "--size", "1Gi")
    assert "eve may not" in terminal.fail("secrets", "set", "S", "--value", "v")


def _names(terminal: Terminal, *args: str) -> list[str]:
    return [item["name"] for item in terminal.read(*args)]
