"""Every CLI noun, verb and shared option is in docs/users/cli.md."""

import inspect
import re
from dataclasses import fields

from fairlead.cli import NOUNS, app
from fairlead.cli.compute import ComputeOptions
from fairlead.cli.objects import ListOptions
from fairlead.cli.project_objects import create_volume, set_secret
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "users" / "cli.md").read_text("utf-8")
TABLE = [line for line in PAGE.splitlines() if line.startswith("| ")]
OPTIONS = {
    *(field.name for kind in (ListOptions, ComputeOptions) for field in fields(kind)),
    *(
        name
        for command in (create_volume, set_secret)
        for name in inspect.signature(command).parameters
        if name != "name"
    ),
    *("force", "in", "print", "successor"),
}


def test_every_noun_is_in_the_table_with_its_verbs() -> None:
    rows = {noun: [line for line in TABLE if f"`fairlead {noun}`" in line] for noun in NOUNS}
    documented = {noun: sorted(re.findall(r"`([a-z]+)`", "".join(lines[:1]))) for noun, lines in rows.items()}
    assert documented == {noun: sorted(verb for verb in app[noun] if not verb.startswith("-")) for noun in NOUNS}


def test_every_command_is_documented() -> None:
    commands = [name for name in app if not name.startswith("-")]
    missing = [command for command in commands if f"`fairlead {command}" not in PAGE]
    assert not missing, "\n".join(missing)


def test_every_option_is_documented() -> None:
    options = [f"--{name.removeprefix('as_').replace('_', '-')}" for name in sorted(OPTIONS)]
    missing = [option for option in options if option not in PAGE]
    assert not missing, "\n".join(missing)
