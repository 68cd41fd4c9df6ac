"""Where projects are created, the default cluster, and hints for members who may not create projects."""

import pytest

import fairlead
from fairlead.errors import Conflict, FairleadError, Forbidden, Unreadable
from fairlead.sdk import api_client, projects
from tests.cli.terminal import Terminal
from tests.processes.machines import RunningServer


@pytest.fixture
def member(server: RunningServer, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The terminal of a user who is a member of one project."""
    with server.client() as client:
        client.post("/projects", json={"name": "seed"})  # the server is shared, so it may exist already
        client.post("/roles", json={"subject": "user:bob", "role": "member", "scope": "project/seed"})
        token = client.post("/tokens", json={"name": "bob", "user": "bob"}).json()["token"]
    monkeypatch.setenv("FAIRLEAD_TOKEN", token)
    return terminal


def parent_of(terminal: Terminal, name: str) -> str:
    """The parent of a project."""
    parent: str = terminal.read("projects", "show", name)["parent"]
    return parent


def test_default_cluster_is_shown_and_changed(terminal: Terminal) -> None:
    assert terminal.succeed("clusters", "default") == "cluster/local\n"
    terminal.succeed("projects", "create", "before")
    terminal("clusters", "add", "chosen", "--in-cluster")
    try:
        assert terminal.succeed("clusters", "default", "chosen") == "new projects are created in cluster/chosen\n"
        assert terminal.read("clusters", "default")["default_cluster"] == "cluster/chosen"
        assert terminal.succeed("projects", "create", "after") == "created project after in cluster/chosen\n"
        assert parent_of(terminal, "before") == "cluster/local"
        assert "cluster/none is not a cluster" in terminal.fail("clusters", "default", "none")
    finally:
        terminal.succeed("clusters", "default", "local")
    terminal.succeed("projects", "rm", "after")
    terminal.succeed("clusters", "rm", "chosen")


def test_the_sdk_creates_projects_in_a_cluster_or_department(terminal: Terminal) -> None:
    terminal.succeed("departments", "create", "placed")
    fairlead.project("placed-in-default")
    fairlead.project("placed-in-cluster", cluster="local")
    for _ in range(2):
        fairlead.project("placed-in-department", department="placed")
    fairlead.project("placed-in-department", cluster="local")
    names = ("placed-in-default", "placed-in-cluster", "placed-in-department")
    assert [parent_of(terminal, name) for name in names] == ["cluster/local", "cluster/local", "department/placed"]


def test_the_sdk_rejects_a_project_that_exists_elsewhere(terminal: Terminal) -> None:
    terminal.succeed("projects", "create", "settled")
    with pytest.raises(Conflict, match="project settled is in cluster/local, not in cluster/other") as caught:
        fairlead.project("settled", cluster="other")
    assert caught.value.hint == "omit cluster and department, or move it: fairlead projects move settled cluster/other"
    with pytest.raises(FairleadError, match="cluster/other does not exist"):
        fairlead.project("unsettled", cluster="other")
    with pytest.raises(Unreadable, match="cluster and department are both set"):
        fairlead.project("settled", cluster="local", department="other")


@pytest.mark.usefixtures("member")
def test_a_member_is_told_which_projects_they_can_use_by_the_sdk() -> None:
    for name in ("default", "anything"):
        with pytest.raises(Forbidden, match="bob may not add a project to cluster/local") as caught:
            fairlead.project(name)
        assert caught.value.hint == "use one of your projects: seed"
    assert fairlead.project("seed").name == "seed"


def test_a_member_is_told_which_projects_they_can_use_by_the_cli(member: Terminal) -> None:
    (member.folder / "show.py").write_text("def main():\n    return 1\n", "utf-8")
    assert member.fail("run", "show.py:main") == (
        "error: project/default does not exist\n  -> use one of your projects: seed\n"
    )
    assert "use one of your projects: seed" in member.fail("projects", "create", "mine")


def test_a_project_that_is_created_concurrently_is_opened(terminal: Terminal) -> None:
    terminal.succeed("projects", "create", "raced")
    assert projects._create(api_client.find_api_client(), "raced", None)["scope"] == "project/raced"


def test_a_run_that_waits_for_a_server_starts_when_its_project_moves(terminal: Terminal) -> None:
    (terminal.folder / "show.py").write_text("def main():\n    return 7\n", "utf-8")
    terminal("clusters", "add", "stuck", "--in-cluster")  # no server is a pod in this cluster
    terminal.succeed("projects", "create", "waits", "--in", "cluster/stuck")
    run_id = terminal.succeed("run", "show.py:main", "--project", "waits", "--detach").strip()
    assert terminal.read("why", run_id)["reason"] == "NoExecutor"
    terminal.succeed("projects", "move", "waits", "cluster/local")
    run = fairlead.get_run(run_id).wait()
    assert (run.state, run.result) == ("completed", 7)
    terminal.succeed("projects", "rm", "waits")
    terminal.succeed("clusters", "rm", "stuck")
