"""The exact messages for each invalid input, in terms that a data scientist understands."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bad_input.cases import Case, find_rules, list_tables, load_cases, run_case

TABLES = {table.stem: load_cases(table) for table in list_tables()}
ALL = [pytest.param(case, id=f"{table}: {case.case}") for table, cases in TABLES.items() for case in cases]
EACH_TABLE = pytest.mark.parametrize("table", TABLES)

HINT = "    -> "
# Fragments of raw messages from pydantic, PyYAML and Python.
IMPLEMENTATION_DETAILS = re.compile(
    r"\b([Ss]hould|Keys|[Tt]uple|dictionary|String|Traceback|sys\.|constructor|unhashable|token|Input)\b"
)


@pytest.mark.parametrize("case", ALL)
def test_output_and_rules_equal_the_table(case: Case, tmp_path: Path) -> None:
    actual = run_case(case, tmp_path)
    assert (actual.code, actual.err) == (1, case.output)
    assert find_rules(case, tmp_path) == case.rules


@EACH_TABLE
def test_violations_are_counted_and_have_a_location(table: str) -> None:
    for case in TABLES[table]:
        problems = [problem for problem, _ in find_problems(case)]
        assert case.output.startswith(f"{len(problems)} violation{'s' if len(problems) > 1 else ''}\n"), case.case
        assert len(case.rules) == len(problems), case.case
        assert [problem for problem in problems if ": " not in problem] == [], case.case


@EACH_TABLE
def test_every_violation_has_a_hint(table: str) -> None:
    assert [problem for case in TABLES[table] for problem, hint in find_problems(case) if not hint] == []


@EACH_TABLE
def test_no_hint_repeats_its_message(table: str) -> None:
    repeated = [
        problem for case in TABLES[table] for problem, hint in find_problems(case) if hint and problem.endswith(hint)
    ]
    assert repeated == []


@EACH_TABLE
def test_no_message_contains_implementation_details(table: str) -> None:
    lines = [line for case in TABLES[table] for line in case.output.splitlines()]
    assert [line for line in lines if IMPLEMENTATION_DETAILS.search(line)] == []


def find_problems(case: Case) -> Iterator[tuple[str, str]]:
    """The messages, each with its hint or an empty string."""
    lines = case.output.splitlines()[1:]
    for line, next_line in itertools.pairwise([*lines, ""]):
        if not line.startswith(HINT):
            yield line, next_line.removeprefix(HINT) if next_line.startswith(HINT) else ""
