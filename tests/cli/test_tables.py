"""Tables: aligned, truncated on narrow terminals, with escaped control characters."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead.cli.output import format_age, format_cell, format_table, print_table

NOW = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)
ROWS = [["NAME", "SCOPE", "DESCRIPTION"], ["a", "platform", "word " * 10], ["longer-name", "p", "x"]]


def test_columns_are_aligned_without_trailing_spaces() -> None:
    lines = format_table([["NAME", "SIZE"], ["a", "1"], ["long", "-"]])
    assert lines == ["NAME  SIZE", "a     1", "long  -"]


@pytest.mark.parametrize("width", [60, 40, 30, 25])
def test_the_widest_columns_are_truncated(width: int) -> None:
    lines = format_table(ROWS, width)
    assert max(map(len, lines)) <= width
    assert "…" in lines[1]
    assert all(line.isprintable() for line in lines)


def test_fitting_tables_are_not_truncated() -> None:
    assert format_table(ROWS, 200) == format_table(ROWS)
    assert "word " * 9 + "word" in format_table(ROWS)[1]


def test_very_narrow_terminals_get_minimal_columns() -> None:
    assert [len(line) <= 3 * 6 + 4 for line in format_table(ROWS, 1)] == [True] * 3


def test_wide_characters_count_as_two_cells() -> None:
    assert format_table([["A", "B"], ["森林", "1"], ["e\u0301", "2"]]) == ["A     B", "森林  1", "e\u0301     2"]
    assert len(format_table([["森" * 30, "1"]], 20)[0]) < 20


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "-"),
        ("", "-"),
        ([], "-"),
        (0, "0"),
        (True, "yes"),
        (False, "no"),
        ("16Gi", "16Gi"),
        (["a", "b"], "a, b"),
        (NOW - timedelta(hours=3, minutes=59), "3h"),
        ("red \x1b[31m", "red \\x1b[31m"),
        ("two\nlines", "two\\nlines"),
        ("back\u202ewards", "back\\u202ewards"),
    ],
)
def test_values_are_formatted_for_people(value: Any, expected: str) -> None:
    assert format_cell(value, NOW) == expected


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(-5, "0s"), (0.4, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (86399, "23h"), (86400, "1d"), (8e7, "2y")],
)
def test_an_age_is_shown_in_its_largest_unit(seconds: float, age: str) -> None:
    assert format_age(seconds) == age


def test_missing_values_are_shown_as_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"a": {"b": 1}}, {"a": None}, {}], {"B": "a.b", "LATER": "later_at"})
    assert capsys.readouterr().out == "B  LATER\n1  -\n-  -\n-  -\n"
