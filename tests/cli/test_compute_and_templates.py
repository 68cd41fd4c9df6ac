"""`fairlead compute` and `fairlead templates`, against a real server."""

from pathlib import Path

import pytest

from tests.cli.terminal import Terminal, write
from tests.processes.machines import RunningServer

TEMPLATE = "kind: Template\nname: {name}\nrequirements: {{profile: {profile}}}\n"


def apply_template(terminal: Terminal, name: str, profile: str) -> None:
    write(terminal.folder, {"template.yaml": TEMPLATE.format(name=name, profile=profile)})
    terminal.succeed("apply", "-f", "template.yaml", "--manager", "tests")


def resources_of(terminal: Terminal, name: str) -> object:
    return terminal.read("compute", "show", name)["requirements"]["resources"]


def test_a_compute_resource_is_created_from_options(terminal: Terminal) -> None:
    options = ["--scope", "cluster/local", "--cpu", "8", "--mem", "32Gi", "--gpu", "1", "--description", "One GPU."]
    assert terminal.succeed("compute", "create", "made", *options) == "created compute resource made in cluster/local\n"
    lines = terminal.succeed("compute", "ls", "--filter", "name==made").splitlines()
    assert [line.split()[:5] for line in lines] == [
        ["NAME", "SCOPE", "CPU", "MEM", "GPU"],
        ["made", "cluster/local", "8", "32Gi", "1"],
    ]
    output = terminal.succeed("compute", "show", "made")
    assert output.startswith("name: made\ndescription: One GPU.\nscope: cluster/local\n")
    assert "revision: 1\n" in output


def test_options_override_the_file(terminal: Terminal) -> None:
    document = (
        "kind: ComputeResource\nname: unused\nrequirements: {resources: {mem: 1Gi, cpu: 2}, node_selector: {a: b}}\n"
    )
    write(terminal.folder, {"c.yaml": document})
    terminal.succeed("compute", "create", "filed", "-f", "c.yaml", "--mem", "4Gi")
    requirements = terminal.read("compute", "show", "filed")["requirements"]
    assert requirements["resources"] == {"cpu": {"requests": "2"}, "mem": {"requests": "4Gi"}}
    assert requirements["node_selector"] == [{"key": "a", "value": "b"}]
    assert terminal.read("compute", "create", "-f", "c.yaml")["name"] == "unused"


def test_an_edit_changes_only_the_given_values(terminal: Terminal) -> None:
    write(terminal.folder, {"c.yaml": "requirements: {resources: {mem: {requests: 1Gi, limits: 8Gi}, disk: 5Gi}}"})
    terminal.succeed("compute", "create", "edited", "-f", "c.yaml", "--description", "before")
    assert terminal.succeed("compute", "edit", "edited", "--mem", "2Gi", "--gpu", "2") == (
        "compute resource edited is at revision 2\n"
    )
    expected = {"mem": {"requests": "2Gi", "limits": "8Gi"}, "disk": {"requests": "5Gi"}, "gpu": {"devices": 2}}
    assert resources_of(terminal, "edited") == expected
    terminal.succeed("compute", "edit", "edited", "--description", "")
    assert terminal.read("compute", "show", "edited")["description"] == ""
    write(terminal.folder, {"c.yaml": "requirements: {resources: {cpu: 1}}"})
    terminal.succeed("compute", "edit", "edited", "-f", "c.yaml")
    assert resources_of(terminal, "edited") == {"cpu": {"requests": "1"}}
    revisions = terminal.succeed("compute", "revisions", "edited").splitlines()
    assert [line.split()[0] for line in revisions] == ["REVISION", "4", "3", "2", "1"]
    assert "1Gi" in str(terminal.read("compute", "revisions", "edited")[-1]["content"])


def test_explain_describes_what_a_pod_gets(terminal: Terminal) -> None:
    terminal.succeed("compute", "create", "explained", "--mem", "4Gi", "--gpu", "2")
    lines = terminal.succeed("compute", "explain", "explained").splitlines()
    assert lines[0] == "  2 whole GPUs per pod."
    assert [line for line in lines if line.startswith("!")] == [
        "! May be killed if its node runs out of memory; the risk grows with usage above 4 GiB."
    ]
    apply_template(terminal, "explained-start", "explained")
    assert "  2 whole GPUs per pod." in terminal.succeed("templates", "explain", "explained-start").splitlines()
    data = terminal.read("compute", "explain", "explained")
    assert {item["kind"] for item in data["sentences"]} == {"gets", "risk", "note"}
    assert "does not exist" in terminal.fail("compute", "explain", "nothing")


def test_a_compute_resource_is_copied_renamed_archived_restored_and_deleted(terminal: Terminal) -> None:
    terminal.succeed("compute", "create", "first", "--cpu", "1")
    assert terminal.succeed("compute", "copy", "first", "second") == "copied compute resource first to second\n"
    terminal.succeed("compute", "copy", "first", "near", "--scope", "project/default")
    assert terminal.read("compute", "show", "near")["scope"] == "project/default"
    assert terminal.succeed("compute", "rename", "second", "third") == "renamed compute resource second to third\n"
    assert "use its new name: third" in terminal.fail("compute", "show", "second")
    output = terminal.succeed("compute", "archive", "third", "--successor", "first")
    assert output == "archived compute resource third; first replaces it\n"
    assert terminal.read("compute", "ls", "--filter", "name==third") == []
    assert terminal.read("compute", "ls", "--filter", "name==third", "--filter", "archived=any")[0]["archived"]
    assert terminal.succeed("compute", "restore", "third") == "restored compute resource third\n"
    assert terminal.read("compute", "archive", "third")["successor"] is None
    assert terminal.succeed("compute", "rm", "third") == "deleted compute resource third\n"
    assert terminal.read("compute", "rm", "near") is None


def test_a_compute_resource_in_use_cannot_be_deleted(terminal: Terminal) -> None:
    terminal.succeed("compute", "create", "needed", "--cpu", "1")
    for number in range(7):
        apply_template(terminal, f"needs-{number}", "needed")
    error = terminal.fail("compute", "rm", "needed")
    assert error.startswith("error: compute resource needed is used by template needs-0")
    assert [f"  template needs-{number} of platform" in error.splitlines() for number in range(7)] == [True] * 7
    assert error.splitlines()[-1].startswith("  -> ")


def test_the_runs_that_use_a_compute_resource_are_listed(terminal: Terminal, server: RunningServer) -> None:
    terminal.succeed("compute", "create", "busy", "--cpu", "1", "--mem", "1Gi")
    write(terminal.folder, {"far.yaml": "kind: Cluster\nname: far\n"})
    terminal.succeed("apply", "-f", "far.yaml")
    terminal.succeed("projects", "create", "away", "--in", "cluster/far")
    function = {"name": "train", "kind": "container", "image": "python:3.12-slim"}
    with server.client() as client:
        response = client.post("/projects/away/runs", json={"function": function, "profile": "busy"})
    run = response.json()
    assert response.status_code == 201, response.text
    lines = [line.split() for line in terminal.succeed("compute", "workloads", "busy").splitlines()]
    assert lines[0] == ["RUN", "FUNCTION", "ACTION", "STATE", "SCOPE", "BY", "AGE"]
    assert lines[1][:3] == [run["id"], "train", "job"]
    assert [item["id"] for item in terminal.read("compute", "workloads", "busy", "--search", "train")] == [run["id"]]
    assert run["id"] in terminal.fail("compute", "rm", "busy")


def test_templates_have_the_same_commands_as_compute_resources(terminal: Terminal) -> None:
    terminal.succeed("compute", "create", "under", "--cpu", "1")
    apply_template(terminal, "start", "under")
    assert "force" in terminal.fail("templates", "rm", "start"), "it is managed by files"
    [line] = terminal.succeed("templates", "ls", "--filter", "name==start").splitlines()[1:]
    assert line.split()[:4] == ["start", "platform", "under", "0"]
    assert terminal.succeed("templates", "copy", "start", "again") == "copied template start to again\n"
    assert terminal.succeed("templates", "rename", "again", "renewed") == "renamed template again to renewed\n"
    assert "profile: under" in terminal.succeed("templates", "show", "renewed")
    assert terminal.succeed("templates", "rm", "renewed") == "deleted template renewed\n"
    assert terminal.succeed("templates", "rm", "start", "--force") == "deleted template start\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "c.yaml: is not valid YAML"),
        ("", "c.yaml: must contain exactly one compute resource"),
        ("- a", "c.yaml: must contain exactly one compute resource"),
        ("name: a\n---\nname: b", "c.yaml: must contain exactly one compute resource"),
        ("kind: Template\nname: a", "c.yaml: must contain exactly one compute resource"),
        ("requirements: 5", "c.yaml: requirements: "),
        ("requirements: {resources: [1]}", "c.yaml: requirements.resources.0: "),
        ("requirments: {}", "did you mean requirements?"),
    ],
)
def test_invalid_files_are_rejected(terminal: Terminal, text: str, message: str) -> None:
    write(terminal.folder, {"c.yaml": text})
    assert message in terminal.fail("compute", "create", "refused", "-f", "c.yaml", "--cpu", "1")


def test_all_violations_are_reported_together(terminal: Terminal) -> None:
    error = terminal.fail("compute", "create", "a b", "--scope", "nowhere", "--cpu", "many", "--gpu", "0.5")
    assert error.startswith("4 violations\n")
    assert [path in error for path in ("name: ", "scope: ", "cpu.requests: ", "gpu.devices: ")] == [True] * 4


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("create", "nofile", "-f", "nowhere.yaml"), "nowhere.yaml: cannot be read"),
        (("create",), "name: is missing"),
        (("edit", "missing", "--mem", "1Gi"), "compute resource 'missing' does not exist"),
        (("edit", "missing"), "nothing to change"),
        (("copy", "missing", "new"), "compute resource 'missing' does not exist"),
        (("archive", "missing"), "compute resource 'missing' does not exist"),
        (("show", ""), "compute resource '' does not exist"),
        (("rm", ".."), "compute resource '..' does not exist"),
        (("rm", "a/b"), "no such path: "),
        (("rm", "a?force=true"), "compute resource 'a?force=true' does not exist"),
        (("show", "\udcff"), "does not exist"),
        (("create", "half", "--description", "\udcff"), "not valid UTF-8"),
    ],
)
def test_missing_objects_are_reported(terminal: Terminal, args: tuple[str, ...], message: str) -> None:
    assert message in terminal.fail("compute", *args)


def test_an_existing_name_is_rejected(terminal: Terminal, tmp_path: Path) -> None:
    terminal.succeed("compute", "create", "taken", "--cpu", "1")
    error = terminal.fail("compute", "create", "taken", "--cpu", "1")
    assert error == "error: compute resource name taken is not available\n  -> choose another name\n"
