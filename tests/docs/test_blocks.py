"""The blocks in the documentation are correct: commands, files and YAML."""

import itertools
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fairlead.files import documents, yamls
from fairlead.model.plans import Violation
from fairlead.model.requests import RunRequest
from fairlead.model.resources import Requirements
from fairlead.settings import Settings, find_problems
from tests.docs.pages import ROOT, Block, commands_of, list_blocks, preview, render_block
from tests.docs.servers import missing_programs, render_page, uses_server

STATIC_BLOCKS = [block for block in list_blocks("console", "json", "python", "yaml") if not uses_server(block)]
SERVER_BLOCKS = [block for block in list_blocks() if uses_server(block)]
LANGUAGES = {"console", "json", "python", "sh", "text", "toml", "yaml", ""}


@pytest.mark.parametrize("block", STATIC_BLOCKS, ids=str)
def test_blocks_equal_the_actual_output(block: Block) -> None:
    assert block.text == render_block(block), "try: .venv/bin/python -m tests.docs.update"


@pytest.mark.skipif(bool(missing_programs()), reason=f"not installed: {', '.join(missing_programs())}")
@pytest.mark.parametrize(
    "page",
    # Each page starts its own server. The fast suite runs the page that most people read first.
    [
        pytest.param(
            page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.slow] if page != ROOT / "README.md" else []
        )
        for page in sorted({block.page for block in SERVER_BLOCKS})
    ],
)
def test_pages_show_the_responses_of_a_server(page: Path) -> None:
    rendered = render_page(page)
    for block in SERVER_BLOCKS:
        if block.page == page:
            assert block.text == rendered[block.line], f"{block}: try: .venv/bin/python -m tests.docs.update"


@pytest.mark.parametrize("block", list_blocks("console"), ids=str)
def test_console_blocks_run_fairlead(block: Block) -> None:
    assert commands_of(block)
    assert uses_server(block) or all(command.startswith("fairlead ") for command in commands_of(block))


@pytest.mark.parametrize("block", list_blocks("toml"), ids=str)
def test_settings_blocks_are_valid(block: Block) -> None:
    assert block.meaning == "settings"
    assert find_problems(Settings(**tomllib.loads(block.text))) == []


@pytest.mark.parametrize("block", list_blocks("yaml"), ids=str)
def test_yaml_blocks_have_the_kind_of_their_fence(block: Block) -> None:
    parsed = yamls.parse_documents(block.text.encode())
    violations = list(itertools.chain.from_iterable(_violations(block, document) for document in parsed))
    assert parsed
    if block.meaning == "refused":
        assert violations
    else:
        assert violations == []


@pytest.mark.parametrize("block", list_blocks("json"), ids=str)
def test_a_shortened_plan_shows_all_keys_of_its_entries(block: Block) -> None:
    shown, plan = json.loads(block.text), preview(block.meaning.partition(" ")[2])
    assert shown.keys() == plan.keys()
    assert all(entry in plan[part] for part in ("settings", "warnings", "violations") for entry in shown[part])
    assert shown["settings"]


def test_every_fence_has_a_known_language() -> None:
    assert {block.language for block in list_blocks()} <= LANGUAGES
    assert all(block.meaning.startswith("plan examples/requests/") for block in list_blocks("json"))
    assert all(uses_server(block) or (ROOT / block.meaning).is_file() for block in list_blocks("python"))
    assert all(block.meaning == "output" for block in list_blocks("text"))


def _violations(block: Block, data: Any) -> list[Violation]:
    """The violations in a block's document."""
    violations: list[Violation] = []
    match block.meaning:
        case "request" | "refused":
            documents.parse_object(RunRequest, data, str(block), violations)
        case "requirements":
            documents.parse_object(Requirements, data, str(block), violations)
        case "documents":
            _parse_document(data, block, violations)
        case path if (ROOT / path).is_file():
            if path.startswith("examples/requests/"):
                documents.parse_object(RunRequest, data, str(block), violations)
            else:
                _parse_document(data, block, violations)
        case other:
            pytest.fail(
                f"{block}: state what the YAML is: request, requirements, documents, refused or a file: {other!r}"
            )
    return violations


def _parse_document(data: dict[str, Any], block: Block, violations: list[Violation]) -> None:
    fields = {name: value for name, value in data.items() if name != "kind"}
    documents.parse_object(documents.KINDS[data["kind"]], fields, str(block), violations)
