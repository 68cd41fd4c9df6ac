"""Every noun and verb of the terminal, and every option that several of them have, is on its page."""

import inspect
import re
from dataclasses import fields

import pytest

from fairlead.cli import NOUNS, app
from fairlead.cli.compute import Said
from fairlead.cli.holdings import create, set_
from fairlead.cli.nouns import Asked
from tests.docs.pages import ROOT

TERMINAL = (ROOT / "docs" / "terminal.md").read_text("utf-8")
OPTIONS = {
    *(field.name for kind in (Asked, Said) for field in fields(kind)),
    *(name for command in (create, set_) for name in inspect.signature(command).parameters if name != "name"),
    *("force", "parent", "print", "successor"),
}


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_is_in_the_table_with_its_verbs(noun: str) -> None:
    row = next(line for line in TERMINAL.splitlines() if line.startswith("| ") and f"`fairlead {noun}`" in line)
    verbs = [verb for verb in app[noun] if not verb.startswith("-")]
    assert sorted(re.findall(r"`([a-z]+)`", row)) == sorted(verbs)


@pytest.mark.parametrize("command", [name for name in app if not name.startswith("-")])
def test_a_command_is_named(command: str) -> None:
    assert f"`fairlead {command}" in TERMINAL


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_an_option_is_named(option: str) -> None:
    assert f"--{option.removeprefix('as_').replace('_', '-')}" in TERMINAL
