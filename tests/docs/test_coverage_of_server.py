"""Everything that a server can be told, and everything that it tells, is on its page."""

import inspect
import re
from collections.abc import Iterator

import pytest

from fairlead import errors
from fairlead.cli import documents, servers
from fairlead.model.columns import COLUMNS
from fairlead.model.records import AuditRecord, ComputeResourceRecord
from fairlead.model.roles import Role
from fairlead.model.scopes import KINDS, PLATFORM
from fairlead.server.failures import STATUSES
from fairlead.server.listings import WORDS
from fairlead.services.compute_resources import ComputeResources
from fairlead.services.templates import Templates
from fairlead.settings import Settings
from tests.docs.pages import ROOT

SERVER = (ROOT / "docs" / "server.md").read_text("utf-8")
FILES = (ROOT / "docs" / "files.md").read_text("utf-8")
SOURCES = ROOT / "src" / "fairlead"

# What a table says of a default that depends on the machine, or that is empty.
DEFAULTS = {"data": "~/.local/share/fairlead", "admins": "none", "capacity": "all of it", "python": "the server's"}
# What the SDK makes of an answer by itself: no server gives it.
OF_THE_SDK = {errors.RunFailed}
COLUMN_KINDS = {"moment": "time"}


@pytest.mark.parametrize("setting", Settings.model_fields)
def test_a_setting_is_in_the_table_with_its_variable_and_its_default(setting: str) -> None:
    default = Settings.model_fields[setting].default
    shown = DEFAULTS.get(setting, "none" if default is None else str(default).lower())
    assert _row("Settings", setting)[1:3] == [f"FAIRLEAD_{setting.upper()}", shown]


@pytest.mark.parametrize("role", Role)
def test_a_role_is_in_the_table(role: Role) -> None:
    assert len(_row("Roles", role)) == 5


@pytest.mark.parametrize("word", WORDS)
def test_what_can_be_asked_of_every_list_is_in_the_table(word: str) -> None:
    assert _row("Lists", word)


@pytest.mark.parametrize("name", COLUMNS[ComputeResourceRecord])
def test_a_column_of_compute_resources_is_in_the_table_with_its_kind(name: str) -> None:
    kind = COLUMNS[ComputeResourceRecord][name].kind
    assert _row("Lists", name)[1] == COLUMN_KINDS.get(kind, kind)


@pytest.mark.parametrize("name", COLUMNS[AuditRecord])
def test_a_column_of_the_audit_is_named(name: str) -> None:
    assert f"`{name}`" in _section("The audit")


def test_every_code_of_a_problem_is_in_the_table_with_its_status() -> None:
    kinds = [kind for kind in _errors(errors.FairleadError) if kind not in OF_THE_SDK]
    known = {kind.code: str(STATUSES.get(kind, 500)) for kind in kinds} | dict(_door_codes())
    assert len(known) > 15
    assert {code: _row("Problems", code)[1] for code in known} == known


def test_every_kind_of_audit_entry_is_in_the_table_with_its_actions() -> None:
    text = "".join(file.read_text("utf-8") for file in (SOURCES / "services").glob("*.py"))
    made = set(re.findall(r'unit\.(?:add|remove)\(\w+, "(\w+)"', text))
    assert made >= {"policy", "role", "run", "secret", "settings", "token", "volume"}
    for kind in (*made, PLATFORM, *KINDS, ComputeResources.code, Templates.code):
        assert "create" in _row("The audit", kind)[1]
    for kind, action in re.findall(r'"([a-z_]+)\.([a-z]+)", \w+', text):
        assert f"`{action}`" in _cells("The audit", kind)[1]


@pytest.mark.parametrize("option", inspect.signature(servers.up).parameters)
def test_an_option_of_up_is_named(option: str) -> None:
    assert f"`--{option}`" in SERVER


@pytest.mark.parametrize("option", inspect.signature(documents.apply).parameters)
def test_an_option_of_apply_is_named(option: str) -> None:
    assert f"`--{option.removeprefix('as_').replace('_', '-')}`" in FILES


def _row(title: str, word: str) -> list[str]:
    """The cells of a section's row that begins with a word, without their backticks."""
    return [cell.strip("`") for cell in _cells(title, word)]


def _cells(title: str, word: str) -> list[str]:
    for line in _section(title).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and f"`{word}`" in cells[0].split(", "):
            return cells
    pytest.fail(f"docs/server.md has no row for `{word}` under {title}")


def _section(title: str) -> str:
    return SERVER.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _errors(kind: type[errors.FairleadError]) -> Iterator[type[errors.FairleadError]]:
    """An error of ours and all below it; the door's own are told apart by their codes."""
    if kind.__module__ == errors.__name__:
        yield kind
    for inner in kind.__subclasses__():
        yield from _errors(inner)


def _door_codes() -> Iterator[tuple[str, str]]:
    """The codes that only the server itself gives, with their statuses, as they stand in its text."""
    text = "".join(file.read_text("utf-8") for file in (SOURCES / "server").rglob("*.py"))
    for status, code in re.findall(r'(?:Problem|render)\(\s*([\w.]+),\s*"(\w+)"', text):
        yield code, status if status.isdigit() else "any"
