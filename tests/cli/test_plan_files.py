"""Previews that are submitted later: `fairlead run --plan`, and `Preview.submit()` of the SDK."""

import json
from pathlib import Path
from typing import Any

import pytest

import fairlead
from fairlead.errors import Conflict, RequestRejected
from tests.cli.terminal import Terminal, write

RUN = ("run", "train.py:main", "--detach")


@pytest.fixture
def resource(tmp_path: Path, terminal: Terminal, request: pytest.FixtureRequest) -> str:
    """A compute resource of one test, next to a program."""
    write(tmp_path, {"train.py": "def main():\n    return 1\n"})
    name = "".join(filter(str.isalnum, str(request.node.name)))[-40:].lower()
    apply(terminal, name, "1")
    return name


def apply(terminal: Terminal, name: str, cpu: str) -> None:
    """Create or change a compute resource."""
    requirements = {"resources": {"cpu": cpu, "mem": "64Mi"}}
    document = {"kind": "ComputeResource", "name": name, "scope": "platform", "requirements": requirements}
    write(terminal.folder, {"resource.yaml": json.dumps(document)})
    result = terminal("apply", "-f", "resource.yaml")
    assert result.code == 0, result


def save_plan(terminal: Terminal, name: str, **fields: Any) -> None:
    """Save a preview, with changed fields, as `plan.json`."""
    plan = terminal.read("run", "train.py:main", "--profile", name, "--preview")
    write(terminal.folder, {"plan.json": json.dumps({**plan, **fields})})


def test_saved_plan_is_submitted_once(terminal: Terminal, resource: str) -> None:
    save_plan(terminal, resource)
    run_id = terminal.succeed(*RUN, "--profile", resource, "--plan", "plan.json").strip()
    assert terminal.read("runs", "show", run_id)["compute_resource"] == resource
    message = terminal.fail(*RUN, "--profile", resource, "--plan", "plan.json")
    assert "already been submitted" in message
    assert run_id in message


def test_saved_plan_with_an_invalid_token_is_submitted_if_nothing_changed(terminal: Terminal, resource: str) -> None:
    save_plan(terminal, resource, token="expired")
    run_id = terminal.succeed(*RUN, "--profile", resource, "--plan", "plan.json").strip()
    assert terminal.read("runs", "show", run_id)["compute_resource"] == resource


def test_changes_since_the_preview_are_printed_and_nothing_is_submitted(terminal: Terminal, resource: str) -> None:
    save_plan(terminal, resource)
    apply(terminal, resource, "0.5")
    message = terminal.fail(*RUN, "--profile", resource, "--plan", "plan.json")
    assert "error: the plan has changed since the preview, so the run was not submitted\n" in message
    assert "  resources.cpu.requests: 1 -> 500m\n" in message
    assert "-> to submit the new plan, save it with `--preview --json > plan.json`" in message
    assert terminal.read("runs", "ls", "--filter", f"compute_resource={resource}") == []
    save_plan(terminal, resource)
    terminal.succeed(*RUN, "--profile", resource, "--plan", "plan.json")


def test_plan_of_another_command_is_not_submitted(terminal: Terminal, resource: str) -> None:
    save_plan(terminal, resource)
    message = terminal.fail(*RUN, "--profile", resource, "--env", "MODE=fast", "--plan", "plan.json")
    assert "envs.MODE: not set -> fast" in message


@pytest.mark.parametrize("content", ["", "[]", "null", "{}", '{"settings": 1}', "[" * 100_000, "\0"])
def test_file_without_a_plan_is_rejected(terminal: Terminal, tmp_path: Path, content: str) -> None:
    write(tmp_path, {"train.py": "def main():\n    return 1\n", "plan.json": content})
    assert "plan.json does not contain a plan" in terminal.fail(*RUN, "--plan", "plan.json")
    assert "none.json cannot be read" in terminal.fail(*RUN, "--plan", "none.json")


@pytest.mark.parametrize("options", [["--preview"], ["--schedule", "@daily"]])
def test_plan_cannot_be_combined_with_options_that_do_not_submit(
    terminal: Terminal, resource: str, options: list[str]
) -> None:
    save_plan(terminal, resource)
    message = terminal.fail("run", "train.py:main", "--plan", "plan.json", *options)
    assert "--plan cannot be used with" in message


def test_preview_of_the_sdk_is_submitted_once_and_shows_changes(terminal: Terminal, resource: str) -> None:
    function = fairlead.project("default").function("echo", command=["echo", "x"])
    preview = function.preview(profile=resource)
    apply(terminal, resource, "2")
    with pytest.raises(fairlead.PlanChanged) as caught:
        preview.submit()
    assert [(change.path, change.before, change.after) for change in caught.value.changes][:1] == [
        ("resources.cpu.requests", "1", "2")
    ]
    run = caught.value.preview.submit()
    assert run.data["compute_resource"] == resource
    with pytest.raises(Conflict, match="already been submitted"):
        caught.value.preview.submit()
    with pytest.raises(RequestRejected, match="does not exist"):
        function.preview(profile=f"no-{resource}").submit()
