"""The tables of invalid input: typical mistakes, and the CLI's complete output."""

import itertools
import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fairlead.files import documents
from fairlead.model.plans import Violation
from fairlead.model.requests import RunRequest
from tests.cli import terminal

TABLES = Path(__file__).parent / "tables"
KINDS = {"--compute": "ComputeResource", "--templates": "Template", "--policy": "Policy"}


@dataclass(frozen=True)
class Case:
    """An invalid input: the request, other files and options, and the expected output."""

    case: str
    request: str
    options: str = ""
    files: dict[str, str] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)
    output: str = ""


def load_cases(table: Path) -> list[Case]:
    """The cases in one table."""
    return [Case(**entry) for entry in yaml.safe_load(table.read_text("utf-8"))]


def list_tables() -> list[Path]:
    """All tables, in order."""
    return sorted(TABLES.glob("*.yaml"))


def run_case(case: Case, folder: Path) -> terminal.CommandResult:
    """The CLI's output for a case."""
    return terminal.preview(folder, case.request, *shlex.split(case.options), files=case.files)


def find_rules(case: Case, folder: Path) -> list[str]:
    """The rules that a case violates, in output order."""
    args = shlex.split(case.options)
    terminal.write(folder, {"request.yaml": case.request, **case.files})
    out = terminal.run(folder, "preview", "request.yaml", *args, "-o", "json").out
    if out:
        return [violation["rule"] for violation in json.loads(out)["violations"]]
    given_files = [(folder / path, KINDS[option]) for option, path in itertools.pairwise(args) if option in KINDS]
    violations: list[Violation] = list(documents.load_library(given_files).violations)
    documents.load_object(RunRequest, folder / "request.yaml", violations, function="request")
    return [violation.rule for violation in violations]


def print_table(cases: list[Case]) -> str:
    """The cases as a readable YAML table."""
    entries = [{name: value for name, value in vars(case).items() if value} for case in cases]
    text: str = yaml.dump(entries, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    return text.replace("\n- case", "\n\n- case")


class _Dumper(yaml.SafeDumper):
    pass


def _print_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if text.endswith("\n") else None)


def _print_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=all(isinstance(i, str) for i in items))


_Dumper.add_representer(str, _print_text)
_Dumper.add_representer(list, _print_list)
