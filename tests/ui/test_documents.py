"""What the web page is built from is what the server serves, and Chromium is found or asked for."""

import json
from pathlib import Path

import pytest

from tests.ui import chromium, document


def test_the_types_of_the_page_are_those_of_the_server() -> None:
    same = json.loads(document.FILE.read_text("utf-8")) == json.loads(document.render())
    assert same, "ui/openapi.json is not what the server says of itself: make golden"


def test_a_chromium_that_is_named_is_taken_or_refused(tmp_path: Path) -> None:
    program = tmp_path / "my-chromium"
    program.touch(0o755)
    assert chromium.find({"CHROMIUM": str(program)}) == str(program)
    with pytest.raises(chromium.Missing, match="is no program"):
        chromium.find({"CHROMIUM": str(tmp_path / "nothing")})


def test_without_chromium_one_is_told_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(chromium.Missing, match=r"apt install chromium.*make test CHROMIUM="):
        chromium.find({"PATH": str(tmp_path)})
