"""`fairlead compute` and `fairlead templates`, against a real server."""

from pathlib import Path

import pytest

from tests.cli.terminal import Terminal, write
from tests.processes.machines import Running

TEMPLATE = "kind: Template\nname: {name}\nrequirements: {{profile: {profile}}}\n"


def apply_template(terminal: Terminal, name: str, profile: str) -> None:
    write(terminal.folder, {"template.yaml": TEMPLATE.format(name=name, profile=profile)})
    terminal.say("apply", "-f", "template.yaml", "--manager", "tests")


def resources_of(terminal: Terminal, name: str) -> object:
    return terminal.read("compute", "show", name)["requirements"]["resources"]


def test_a_compute_resource_is_made_of_options(terminal: Terminal) -> None:
    options = ["--scope", "cluster/local", "--cpu", "8", "--mem", "32Gi", "--gpu", "1", "--description", "One GPU."]
    assert terminal.say("compute", "create", "made", *options) == "created compute resource made at cluster/local\n"
    listed = terminal.say("compute", "ls", "--filter", "name==made").splitlines()
    assert [line.split()[:5] for line in listed] == [
        ["NAME", "SCOPE", "CPU", "MEM", "GPU"],
        ["made", "cluster/local", "8", "32Gi", "1"],
    ]
    shown = terminal.say("compute", "show", "made")
    assert shown.startswith("name: made\ndescription: One GPU.\nscope: cluster/local\n")
    assert "revision: 1\n" in shown


def test_a_file_says_what_options_cannot_and_options_win(terminal: Terminal) -> None:
    said = "kind: ComputeResource\nname: unused\nrequirements: {resources: {mem: 1Gi, cpu: 2}, node_selector: {a: b}}\n"
    write(terminal.folder, {"c.yaml": said})
    terminal.say("compute", "create", "filed", "-f", "c.yaml", "--mem", "4Gi")
    requirements = terminal.read("compute", "show", "filed")["requirements"]
    assert requirements["resources"] == {"cpu": {"requests": "2"}, "mem": {"requests": "4Gi"}}
    assert requirements["node_selector"] == [{"key": "a", "value": "b"}]
    assert terminal.read("compute", "create", "-f", "c.yaml")["name"] == "unused"


def test_an_edit_changes_what_is_said_and_keeps_the_rest(terminal: Terminal) -> None:
    write(terminal.folder, {"c.yaml": "requirements: {resources: {mem: {requests: 1Gi, limits: 8Gi}, disk: 5Gi}}"})
    terminal.say("compute", "create", "edited", "-f", "c.yaml", "--description", "before")
    assert terminal.say("compute", "edit", "edited", "--mem", "2Gi", "--gpu", "2") == (
        "compute resource edited is at revision 2\n"
    )
    expected = {"mem": {"requests": "2Gi", "limits": "8Gi"}, "disk": {"requests": "5Gi"}, "gpu": {"devices": 2}}
    assert resources_of(terminal, "edited") == expected
    terminal.say("compute", "edit", "edited", "--description", "")
    assert terminal.read("compute", "show", "edited")["description"] == ""
    write(terminal.folder, {"c.yaml": "requirements: {resources: {cpu: 1}}"})
    terminal.say("compute", "edit", "edited", "-f", "c.yaml")
    assert resources_of(terminal, "edited") == {"cpu": {"requests": "1"}}
    revisions = terminal.say("compute", "revisions", "edited").splitlines()
    assert [line.split()[0] for line in revisions] == ["REVISION", "4", "3", "2", "1"]
    assert "1Gi" in str(terminal.read("compute", "revisions", "edited")[-1]["content"])


def test_what_a_pod_gets_is_explained(terminal: Terminal) -> None:
    terminal.say("compute", "create", "explained", "--mem", "4Gi", "--gpu", "2")
    lines = terminal.say("compute", "explain", "explained").splitlines()
    assert lines[0] == "  2 whole GPUs per pod."
    assert [line for line in lines if line.startswith("!")] == [
        "! May be killed if its node runs out of memory; the risk grows with usage above 4 GiB."
    ]
    apply_template(terminal, "explained-start", "explained")
    assert "  2 whole GPUs per pod." in terminal.say("templates", "explain", "explained-start").splitlines()
    told = terminal.read("compute", "explain", "explained")
    assert {item["kind"] for item in told["sentences"]} == {"gets", "risk", "note"}
    assert "does not exist" in terminal.fail("compute", "explain", "nothing")


def test_one_is_copied_renamed_archived_restored_and_deleted(terminal: Terminal) -> None:
    terminal.say("compute", "create", "first", "--cpu", "1")
    assert terminal.say("compute", "copy", "first", "second") == "copied compute resource first to second\n"
    terminal.say("compute", "copy", "first", "near", "--scope", "project/default")
    assert terminal.read("compute", "show", "near")["scope"] == "project/default"
    assert terminal.say("compute", "rename", "second", "third") == "renamed compute resource second to third\n"
    assert "use its new name: third" in terminal.fail("compute", "show", "second")
    archived = terminal.say("compute", "archive", "third", "--successor", "first")
    assert archived == "archived compute resource third; first replaces it\n"
    assert terminal.read("compute", "ls", "--filter", "name==third") == []
    assert terminal.read("compute", "ls", "--filter", "name==third", "--filter", "archived=any")[0]["archived"]
    assert terminal.say("compute", "restore", "third") == "restored compute resource third\n"
    assert terminal.read("compute", "archive", "third")["successor"] is None
    assert terminal.say("compute", "rm", "third") == "deleted compute resource third\n"
    assert terminal.read("compute", "rm", "near") is None


def test_what_is_in_use_stays_and_its_users_are_named(terminal: Terminal) -> None:
    terminal.say("compute", "create", "needed", "--cpu", "1")
    for number in range(7):
        apply_template(terminal, f"needs-{number}", "needed")
    complaint = terminal.fail("compute", "rm", "needed")
    assert complaint.startswith("error: compute resource needed is used by template needs-0")
    assert [f"  template needs-{number} of platform" in complaint.splitlines() for number in range(7)] == [True] * 7
    assert complaint.splitlines()[-1].startswith("  -> ")


def test_the_runs_that_use_one_are_listed(terminal: Terminal, server: Running) -> None:
    terminal.say("compute", "create", "busy", "--cpu", "1", "--mem", "1Gi")
    write(terminal.folder, {"far.yaml": "kind: Cluster\nname: far\n"})
    terminal.say("apply", "-f", "far.yaml")
    terminal.say("projects", "create", "away", "--parent", "cluster/far")
    function = {"name": "train", "kind": "container", "image": "python:3.12-slim"}
    with server.client() as client:
        submitted = client.post("/projects/away/runs", json={"function": function, "profile": "busy"})
    run = submitted.json()
    assert submitted.status_code == 201, submitted.text
    lines = [line.split() for line in terminal.say("compute", "workloads", "busy").splitlines()]
    assert lines[0] == ["RUN", "FUNCTION", "ACTION", "STATE", "SCOPE", "BY", "AGE"]
    assert lines[1][:3] == [run["id"], "train", "job"]
    assert [item["id"] for item in terminal.read("compute", "workloads", "busy", "--search", "train")] == [run["id"]]
    assert run["id"] in terminal.fail("compute", "rm", "busy")


def test_templates_are_kept_like_compute_resources(terminal: Terminal) -> None:
    terminal.say("compute", "create", "under", "--cpu", "1")
    apply_template(terminal, "start", "under")
    assert "force" in terminal.fail("templates", "rm", "start"), "files say what it is"
    [line] = terminal.say("templates", "ls", "--filter", "name==start").splitlines()[1:]
    assert line.split()[:4] == ["start", "platform", "under", "0"]
    assert terminal.say("templates", "copy", "start", "again") == "copied template start to again\n"
    assert terminal.say("templates", "rename", "again", "anew") == "renamed template again to renewed\n"
    assert "profile: under" in terminal.say("templates", "show", "anew")
    assert terminal.say("templates", "rm", "anew") == "deleted template renewed\n"
    assert terminal.say("templates", "rm", "start", "--force") == "deleted template start\n"


@pytest.mark.parametrize(
    ("text", "said"),
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
def test_a_file_that_says_something_else_is_refused(terminal: Terminal, text: str, said: str) -> None:
    write(terminal.folder, {"c.yaml": text})
    assert said in terminal.fail("compute", "create", "refused", "-f", "c.yaml", "--cpu", "1")


def test_every_mistake_is_told_at_once(terminal: Terminal) -> None:
    told = terminal.fail("compute", "create", "a b", "--scope", "nowhere", "--cpu", "many", "--gpu", "0.5")
    assert told.startswith("4 violations\n")
    assert [path in told for path in ("name: ", "scope: ", "cpu.requests: ", "gpu.devices: ")] == [True] * 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "nofile", "-f", "nowhere.yaml"), "nowhere.yaml: cannot be read"),
        (("create",), "name: is missing"),
        (("edit", "nobody", "--mem", "1Gi"), "compute resource 'missing' does not exist"),
        (("edit", "nobody"), "nothing to change"),
        (("copy", "nobody", "new"), "compute resource 'missing' does not exist"),
        (("archive", "nobody"), "compute resource 'missing' does not exist"),
        (("show", ""), "compute resource '' does not exist"),
        (("rm", ".."), "compute resource '..' does not exist"),
        (("rm", "a/b"), "not found: "),
        (("rm", "a?force=true"), "compute resource 'a?force=true' does not exist"),
        (("show", "\udcff"), "does not exist"),
        (("create", "half", "--description", "\udcff"), "not valid UTF-8"),
    ],
)
def test_what_is_not_there_is_told(terminal: Terminal, words: tuple[str, ...], said: str) -> None:
    assert said in terminal.fail("compute", *words)


def test_a_name_that_is_taken_is_told(terminal: Terminal, tmp_path: Path) -> None:
    terminal.say("compute", "create", "taken", "--cpu", "1")
    told = terminal.fail("compute", "create", "taken", "--cpu", "1")
    assert told == "error: compute resource taken already exists\n  -> choose another name\n"
