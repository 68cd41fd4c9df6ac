"""The web UI's OpenAPI document is up to date, and Chromium is found."""

import json
from pathlib import Path

import pytest

from tests.ui import chromium, document


def test_the_openapi_document_is_current() -> None:
    same = json.loads(document.FILE.read_text("utf-8")) == json.loads(document.render())
    assert same, "ui/openapi.json is outdated. Run make golden."


def test_the_chromium_variable_must_be_an_executable(tmp_path: Path) -> None:
    program = tmp_path / "my-chromium"
    program.touch(0o755)
    assert chromium.find({"CHROMIUM": str(program)}) == str(program)
    with pytest.raises(chromium.Missing, match="is not an executable"):
        chromium.find({"CHROMIUM": str(tmp_path / "nothing")})


def test_a_missing_chromium_error_explains_the_installation(tmp_path: Path) -> None:
    with pytest.raises(chromium.Missing, match=r"apt install chromium.*make test CHROMIUM="):
        chromium.find({"PATH": str(tmp_path)})
