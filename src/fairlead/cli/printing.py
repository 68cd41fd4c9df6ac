"""Print results, errors, violations and warnings."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead.errors import Conflict, FairleadError, RequestRejected
from fairlead.model.plans import Finding, PlanWarning, Sentence, Violation
from fairlead.planning.explanations import format_finding


def print_error(error: FairleadError) -> int:
    """Print an error with its details to stderr. Return the exit code."""
    if isinstance(error, RequestRejected):
        return print_violations(error.violations)
    users = error.used_by if isinstance(error, Conflict) else []
    # Objects that block the operation are listed between the message and the hint.
    message, *hint = error.terminal_text.splitlines()
    print("\n".join([message, *(f"  {_name(user)}" for user in users), *hint]), file=sys.stderr)
    return 1


def print_violations(violations: Sequence[Violation]) -> int:
    """Print violations to stderr. Return the exit code, 1 if there are any."""
    _print("violation", violations)
    return 1 if violations else 0


def print_warnings(warnings: Sequence[PlanWarning]) -> None:
    """Print warnings to stderr."""
    _print("warning", warnings)


def print_sentences(sentences: Iterable[Sentence]) -> None:
    """Print what a pod gets, one sentence per line; risks are marked with `!`."""
    for sentence in sentences:
        print(f"{'!' if sentence.kind == 'risk' else ' '} {sentence.text}")


def print_done(line: str, answer: Any, as_json: bool) -> int:
    """Print the result of a change as one line or as JSON. Return the exit code."""
    print(json.dumps(answer, indent=2) if as_json else line)
    return 0


def write_log(data: bytes, *, to_stderr: bool) -> None:
    """Write log bytes to stdout or stderr."""
    stream = sys.stderr if to_stderr else sys.stdout
    stream.flush()  # keep the order of buffered text and raw bytes
    # Binary output is written unchanged. A replaced stream, for example in tests, may accept only text.
    if (raw := getattr(stream, "buffer", None)) is not None:
        raw.write(data)
    else:
        stream.write(data.decode("utf-8", "backslashreplace"))
    stream.flush()


def count(number: int, noun: str) -> str:
    """Format a count with its noun, such as `no runs` or `2 runs`."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _print(noun: str, findings: Sequence[Finding]) -> None:
    if findings:
        lines = [f"  {line}" for item in findings for line in format_finding(item)]
        print("\n".join([count(len(findings), noun), *lines]), file=sys.stderr)


def _name(user: Mapping[str, Any]) -> str:
    """Describe an object that prevents a deletion, with its scope unless the name contains it."""
    kind, name, scope = (user.get(part, "") for part in ("kind", "name", "scope"))
    return f"{kind} {name}" if scope in ("", name, f"{kind}/{name}") else f"{kind} {name} of {scope}"
