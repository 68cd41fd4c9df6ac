"""Print results, errors, violations, warnings, and tables that fit the terminal."""

import json
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from fairlead.errors import Conflict, FairleadError, RequestRejected
from fairlead.model.explanations import format_finding
from fairlead.model.parsing import remove_control_sequences
from fairlead.model.plans import Finding, PlanWarning, Sentence, Violation

GAP = "  "
NARROWEST = 6  # narrower columns would be unreadable
AGES = ((365 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "m"), (1, "s"))

Item = Mapping[str, Any]
# Column titles, each with a dotted path into the item, or a function.
Columns = Mapping[str, str | Callable[[Item], Any]]


def print_error(error: FairleadError) -> int:
    """Print an error with its details to stderr. Return the exit code."""
    if isinstance(error, RequestRejected):
        return print_violations(error.violations)
    users = error.used_by if isinstance(error, Conflict) else []
    # Objects that block the operation are listed between the message and the hint.
    message, *hint = error.terminal_text.splitlines()
    print("\n".join([message, *(f"  {_describe_user(user)}" for user in users), *hint]), file=sys.stderr)
    return 1


def print_violations(violations: Sequence[Violation]) -> int:
    """Print violations to stderr. Return the exit code, 1 if there are any."""
    _print_findings("violation", violations)
    return 1 if violations else 0


def print_warnings(warnings: Sequence[PlanWarning]) -> None:
    """Print warnings to stderr."""
    _print_findings("warning", warnings)


def print_sentences(sentences: Iterable[Sentence]) -> None:
    """Print what a pod gets, one sentence per line; risks are marked with `!`."""
    for sentence in sentences:
        print(f"{'!' if sentence.kind == 'risk' else ' '} {sentence.text}")


def print_done(line: str, answer: Any, as_json: bool) -> int:
    """Print the result of a change as one line or as JSON. Return the exit code."""
    print(json.dumps(answer, indent=2) if as_json else line)
    return 0


def write_log(data: bytes, *, to_stderr: bool, raw: bool = False) -> None:
    """Write log bytes to stdout or stderr. On a terminal, control sequences are removed unless `raw` is set."""
    stream = sys.stderr if to_stderr else sys.stdout
    if stream.isatty() and not raw:
        # The run of another user could otherwise clear the screen, set the clipboard or forge earlier output.
        data = remove_control_sequences(data.decode("utf-8", "backslashreplace")).encode()
    stream.flush()  # keep the order of buffered text and raw bytes
    # Binary output is written unchanged. A replaced stream, for example in tests, may accept only text.
    if (buffer := getattr(stream, "buffer", None)) is not None:
        buffer.write(data)
    else:
        stream.write(data.decode("utf-8", "backslashreplace"))
    stream.flush()


def format_count(number: int, noun: str) -> str:
    """Format a count with its noun, such as `no runs` or `2 runs`."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _print_findings(noun: str, findings: Sequence[Finding]) -> None:
    if findings:
        lines = [f"  {line}" for item in findings for line in format_finding(item)]
        print("\n".join([format_count(len(findings), noun), *lines]), file=sys.stderr)


def _describe_user(user: Mapping[str, Any]) -> str:
    """Describe an object that prevents a deletion, with its scope unless the name contains it."""
    kind, name, scope = (user.get(part, "") for part in ("kind", "name", "scope"))
    return f"{kind} {name}" if scope in ("", name, f"{kind}/{name}") else f"{kind} {name} of {scope}"


def print_table(items: Iterable[Item], columns: Columns) -> None:
    """Print items as a table, with times as ages."""
    now = datetime.now(UTC)
    rows = [[format_cell(_read_cell(item, place), now) for place in columns.values()] for item in items]
    # Programs that read a pipe need complete values.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print("\n".join(format_table([list(columns), *rows], width)))


def format_table(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Align rows. If they exceed the terminal width, truncate the widest columns."""
    widths = [max(map(_width, column)) for column in zip_longest(*rows, fillvalue="")]
    if width is not None:
        spare = width - len(GAP) * (len(widths) - 1)
        # Shrink only the widest column, so that short columns such as names stay complete.
        while sum(widths) > spare and max(widths) > NARROWEST:
            widths[widths.index(max(widths))] -= 1
    return [GAP.join(_fit_width(cell, wide) for cell, wide in zip(row, widths, strict=True)).rstrip() for row in rows]


def format_cell(value: Any, now: datetime) -> str:
    """Format a table cell: None as a dash, a time as an age, control characters escaped."""
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return format_age((now - value).total_seconds())
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    # Names and messages come from other users: escape sequences in them could manipulate the terminal.
    return text if text.isprintable() else "".join(map(_escape, text))


def format_age(seconds: float) -> str:
    """Format an age in its largest unit, such as `3h`."""
    step, unit = next((age for age in AGES if seconds >= age[0]), AGES[-1])
    # The server's clock may be ahead.
    return f"{max(int(seconds), 0) // step}{unit}"


def _read_cell(item: Item, place: str | Callable[[Item], Any]) -> Any:
    """Read the value of a column. Fields named `at` or `..._at` are times."""
    if callable(place):
        return place(item)
    value: Any = item
    for name in place.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return datetime.fromisoformat(value) if value and (place == "at" or place.endswith("_at")) else value


def _escape(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")


def _width(text: str) -> int:
    """The display width of a text: wide characters take two cells, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(mark) else 2 if _is_wide(mark) else 1 for mark in text)


def _is_wide(letter: str) -> bool:
    return unicodedata.east_asian_width(letter) in "WF"


def _fit_width(text: str, width: int) -> str:
    if _width(text) > width:
        # Leave a cell for the ellipsis.
        while _width(text) >= width:
            text = text[:-1]
        text += "…"
    return text + " " * (width - _width(text))
