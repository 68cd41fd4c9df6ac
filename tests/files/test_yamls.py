"""YAML is parsed without surprises, and printed so that all parsers agree."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import Unreadable
from fairlead.files import yamls
from fairlead.model.plans import Violation

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
# Text that at least one YAML parser would not read as text without quotes.
AMBIGUOUS = [
    "y",
    "n",
    "Y",
    "N",
    "yes",
    "No",
    "on",
    "OFF",
    "true",
    "False",
    "null",
    "~",
    "",
    "1",
    "-1",
    "+1",
    "010",
    "0o17",
]
AMBIGUOUS += [
    "0x1f",
    "0b1",
    "1_000",
    "1.5",
    "1e3",
    "1E3",
    "-1e-3",
    "1.",
    ".5",
    ".inf",
    "-.INF",
    ".NaN",
    "1:30",
    "190:20:30",
]
AMBIGUOUS += [
    "2026-01-01",
    "2026-01-01T10:00:00Z",
    "=",
    "<<",
    "!x",
    "&a",
    "*a",
    "@x",
    "`x`",
    "%x",
    "- a",
    "a: b",
    "a #b",
]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-5", -5),
        ("+5", 5),
        ("0", 0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e-3", 0.001),
        ("1E3", 1000.0),
        ("2.5e3", 2500.0),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("y", "y"),
        ("010", "010"),
        ("0o17", "0o17"),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
        ("=", "="),
        ("'1'", "1"),
        ('"true"', "true"),
        ("50%", "50%"),
        ("16Gi", "16Gi"),
    ],
)
def test_scalars_are_parsed_as_in_json(text: str, value: Any) -> None:
    (document,) = yamls.parse_documents(f"a: {text}".encode())
    assert document == {"a": value}
    assert type(document["a"]) is type(value)


def test_large_numbers_are_parsed_exactly() -> None:
    assert yamls.parse_documents(b"a: 12345678901234567890") == [{"a": 12345678901234567890}]


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("---\n---\na: 1\n---\n# nothing\n---\nnull\n", [{"a": 1}]),
        ("", []),
        ("\ufeffa: 1", [{"a": 1}]),
        ("a: 1\r\nb: 2\r\n", [{"a": 1, "b": 2}]),
        ('{"a": [1, 2.5, "x", null, true]}', [{"a": [1, 2.5, "x", None, True]}]),
        ("%YAML 1.2\n---\na: 1\n", [{"a": 1}]),
        ("a: é🚀", [{"a": "é🚀"}]),
    ],
)
def test_empty_documents_are_skipped(text: str, documents: list[Any]) -> None:
    assert yamls.parse_documents(text.encode()) == documents


@pytest.mark.parametrize(
    "text", ["a: 1\na: 2", "{a: 1, 'a': 2}", "x: {a: 1, b: 2, a: 3}", "x: &x {a: 1}\ny: {<<: *x, b: 1, b: 2}"]
)
def test_duplicate_keys_are_rejected(text: str) -> None:
    with pytest.raises(Unreadable, match="duplicate key"):
        yamls.parse_documents(text.encode())


def test_a_key_may_override_a_merged_one() -> None:
    (document,) = yamls.parse_documents(b"x: &x {a: 1, b: 2}\ny: {<<: *x, a: 9}")
    assert document["y"] == {"a": 9, "b": 2}


def test_nesting_deeper_than_100_levels_is_rejected() -> None:
    documents = yamls.parse_documents(b"[" * 90 + b"]" * 90)
    assert len(documents) == 1
    with pytest.raises(Unreadable, match="is nested more than 100 levels deep"):
        yamls.parse_documents(b"[" * 110 + b"]" * 110)


def test_an_invalid_file_is_rejected_with_location_and_hint(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [1")
    violation = yamls.load_file(tmp_path / "a.yaml")
    assert isinstance(violation, Violation)
    assert (violation.rule, violation.location) == ("yaml", str(tmp_path / "a.yaml"))
    assert violation.hint


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=3))
def test_printed_documents_round_trip(manifests: list[dict[str, Any]]) -> None:
    printed = yamls.format_documents(tuple(manifests))
    assert yamls.parse_documents(printed.encode()) == manifests
    assert list(yaml.safe_load_all(printed)) == manifests


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_ambiguous_text_is_printed_in_quotes(text: str) -> None:
    printed = yamls.format_documents(({"value": text},))
    assert printed.startswith(("value: '", 'value: "'))
    assert yaml.safe_load(printed) == {"value": text}


@pytest.mark.parametrize(
    "text", ["train", "python:3.12-slim", "/data", "16Gi", "500m", "sha256:ab", "registry.example/a:1"]
)
def test_plain_text_is_printed_without_quotes(text: str) -> None:
    assert yamls.format_documents(({"value": text},)) == f"value: {text}\n"


def test_multiline_text_is_printed_as_a_block() -> None:
    assert yamls.format_documents(({"code": "a = 1\nb = 2\n"},)) == "code: |\n  a = 1\n  b = 2\n"


def test_equal_parts_are_printed_without_anchors() -> None:
    labels = {"a": "b"}
    assert yamls.format_documents(({"one": labels, "two": labels},)) == "one:\n  a: b\ntwo:\n  a: b\n"
