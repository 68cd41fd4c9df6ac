"""Every story's outputs equal its golden files, and its manifests are valid."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.cli import app
from fairlead.files import documents
from fairlead.model import explanations
from fairlead.model.requests import Function
from tests.golden import stories
from tests.manifests.demands import check_demand
from tests.validity import check_manifests

# Strings that go-yaml (kubectl) parses as numbers or booleans, and PyYAML as text.
GO_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0b[01]+")
GO_BOOLEANS = ("y", "Y", "n", "N")
# Existing objects for stories with existing volumes.
CLAIMS = ("team-data",)
CONFIG_MAPS = ("train-settings",)

RENDERED = [story for story in stories.STORIES if (stories.FOLDER / story / "manifests.yaml").exists()]


@pytest.mark.parametrize("story", stories.STORIES)
def test_outputs_equal_the_golden_files(story: str) -> None:
    assert stories.outputs(story) == stories.stored_outputs(story), "if this is intended: make golden"


def test_every_request_starts_with_a_comment_about_what_it_verifies() -> None:
    requests = {story: (stories.FOLDER / story / "request.yaml").read_text("utf-8") for story in stories.STORIES}
    missing = [story for story, text in requests.items() if not re.match(r"# [A-Z`].*\.\n", text.replace("\n# ", " "))]
    assert not missing, missing


def test_every_folder_is_a_story() -> None:
    folders = {path.name for path in stories.FOLDER.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert folders == set(stories.STORIES)


@pytest.mark.parametrize("story", RENDERED)
def test_golden_manifests_are_valid(story: str) -> None:
    assert check_manifests(load_manifests(story), claims=CLAIMS, config_maps=CONFIG_MAPS) == []


@pytest.mark.parametrize("story", RENDERED)
def test_the_demand_contains_what_the_manifests_contain(story: str) -> None:
    plan = stories.plan_story(story).plan
    assert plan is not None
    check_demand(plan.manifests, plan.demand)


@pytest.mark.parametrize("story", RENDERED)
def test_no_text_in_manifests_is_a_number_for_kubectl(story: str) -> None:
    text = (stories.FOLDER / story / "manifests.yaml").read_text("utf-8")
    plain = {token.value for token in yaml.scan(text) if isinstance(token, yaml.ScalarToken) and token.plain}
    ambiguous = {scalar for scalar in plain if GO_NUMBER.fullmatch(scalar) or scalar in GO_BOOLEANS}
    assert not {scalar for scalar in ambiguous if isinstance(yaml.safe_load(scalar), str)}


@pytest.mark.parametrize("story", ["seed002-profile-overrides", "seed002-secrets", "policy-scopes"])
def test_the_cli_gives_the_same_plan(story: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = tmp_path / "request.yaml"
    request_text = (stories.FOLDER / story / "request.yaml").read_text("utf-8")
    request.write_text(f"function: {json.dumps(stories.FUNCTION)}\n{request_text}", "utf-8")
    (tmp_path / "train.py").write_text("def main(**inputs): ...\n")
    platform = stories.FOLDER / story / "platform.yaml"
    command = ["preview", str(request), "--project", stories.PROJECT, "--secrets", ",".join(stories.SECRETS)]
    command += ["--policy", str(platform)] if platform.exists() else []

    code, _ = documents.load_code(tmp_path, Function.model_validate(stories.FUNCTION))
    result = stories.plan_story(story, run_id="preview", code=code)
    with pytest.raises(SystemExit) as exited:
        app([*command, "--output", "json"])

    assert result.plan is not None
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(explanations.to_data(result.plan)))
    assert exited.value.code == (1 if result.violations else 0)


def load_manifests(story: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((stories.FOLDER / story / "manifests.yaml").read_text("utf-8")))
