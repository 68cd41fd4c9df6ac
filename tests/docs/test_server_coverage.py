"""Settings, roles, list parameters, error codes and audit entries are in docs/admins and docs/reference."""

import inspect
import re
from collections.abc import Iterator

from fairlead import errors
from fairlead.cli import documents, servers
from fairlead.model.columns import COLUMNS
from fairlead.model.records import AuditRecord, ComputeResourceRecord
from fairlead.model.scopes import KINDS, PLATFORM, Role
from fairlead.server.http.parameters import RESERVED
from fairlead.server.http.problem_details import STATUSES
from fairlead.services.catalog.compute_resources import ComputeResources, Templates
from fairlead.settings import Settings
from tests.docs.pages import ROOT

ACCESS = (ROOT / "docs" / "admins" / "access.md").read_text("utf-8")
AUDIT = (ROOT / "docs" / "admins" / "audit.md").read_text("utf-8")
FILES = (ROOT / "docs" / "admins" / "config-files.md").read_text("utf-8")
SERVER = (ROOT / "docs" / "admins" / "server.md").read_text("utf-8")
API = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
SOURCES = ROOT / "src" / "fairlead"

# Texts for defaults that depend on the machine or are empty.
DEFAULTS = {
    "data": "~/.local/share/fairlead",
    "admins": "none",
    "trusted_proxies": "none",
    "readable_paths": "none",
    "capacity": "the whole machine",
    "python": "the server's",
}
# Errors that never reach an API client: the SDK raises the first one, an executor the second.
NEVER_RETURNED = {errors.RunFailed, errors.StartFailed}


def test_every_setting_is_in_the_table_with_its_variable_and_its_default() -> None:
    expected = {
        name: [
            f"FAIRLEAD_{name.upper()}",
            DEFAULTS.get(name, "none" if field.default is None else str(field.default).lower()),
        ]
        for name, field in Settings.model_fields.items()
    }
    assert {name: _row(SERVER, "Settings", name)[1:3] for name in expected} == expected


def test_every_role_is_in_the_table() -> None:
    assert {role: len(_row(ACCESS, "Roles", role)) for role in Role} == dict.fromkeys(Role, 5)


def test_every_parameter_of_lists_is_in_the_table() -> None:
    missing = [name for name in RESERVED if not _row(API, "Lists", name)]
    assert not missing, "\n".join(missing)


def test_every_column_of_compute_resources_is_in_the_table_with_its_type() -> None:
    columns = COLUMNS[ComputeResourceRecord]
    expected = {name: column.kind for name, column in columns.items()}
    assert {name: _row(API, "Lists", name)[1:2] for name in expected} == {
        name: [kind] for name, kind in expected.items()
    }


def test_every_column_of_the_audit_is_documented() -> None:
    missing = [name for name in COLUMNS[AuditRecord] if f"`{name}`" not in AUDIT]
    assert not missing, "\n".join(missing)


def test_every_error_code_is_in_the_table_with_its_status() -> None:
    kinds = [kind for kind in _errors(errors.FairleadError) if kind not in NEVER_RETURNED]
    known = {kind.code: str(STATUSES.get(kind, 500)) for kind in kinds} | dict(_server_codes())
    assert len(known) > 15
    assert {code: _row(API, "Errors", code)[1:2] for code in known} == {
        code: [status] for code, status in known.items()
    }


def test_every_kind_of_audit_entry_is_in_the_table_with_its_actions() -> None:
    text = "".join(file.read_text("utf-8") for file in (SOURCES / "services").rglob("*.py"))
    created = set(re.findall(r'unit\.(?:add|remove)\(\w+, "(\w+)"', text))
    assert created >= {"policy", "role", "run", "secret", "settings", "token", "volume"}
    kinds = {*created, PLATFORM, *KINDS, ComputeResources.code, Templates.code}
    recorded = {(kind, "create") for kind in kinds} | set(re.findall(r'"([a-z_]+)\.([a-z]+)", \w+', text))
    missing = [
        f"{kind}.{action}"
        for kind, action in sorted(recorded)
        if f"`{action}`" not in "".join(_cells(AUDIT, "Actions", kind)[1:2])
    ]
    assert not missing, "\n".join(missing)


def test_every_option_of_up_is_documented() -> None:
    missing = [option for option in inspect.signature(servers.up).parameters if f"`--{option}`" not in SERVER]
    assert not missing, "\n".join(missing)


def test_every_option_of_apply_is_documented() -> None:
    options = [
        f"--{name.removeprefix('as_').replace('_', '-')}" for name in inspect.signature(documents.apply).parameters
    ]
    missing = [option for option in options if f"`{option}`" not in FILES]
    assert not missing, "\n".join(missing)


def _row(page: str, title: str, name: str) -> list[str]:
    """The cells of the row with the given name, without backticks. Empty if the section has no such row."""
    return [cell.strip("`") for cell in _cells(page, title, name)]


def _cells(page: str, title: str, name: str) -> list[str]:
    for line in _section(page, title).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and f"`{name}`" in cells[0].split(", "):
            return cells
    return []


def _section(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _errors(kind: type[errors.FairleadError]) -> Iterator[type[errors.FairleadError]]:
    """An error class and its subclasses; HTTP errors are distinguished by their codes."""
    if kind.__module__ == errors.__name__:
        yield kind
    for subclass in kind.__subclasses__():
        yield from _errors(subclass)


def _server_codes() -> Iterator[tuple[str, str]]:
    """The error codes in the server's source, with their statuses."""
    text = "".join(file.read_text("utf-8") for file in (SOURCES / "server").rglob("*.py"))
    for status, code in re.findall(r'(?:Problem|render)\(\s*([\w.]+),\s*"(\w+)"', text):
        yield code, status if status.isdigit() else "any"
