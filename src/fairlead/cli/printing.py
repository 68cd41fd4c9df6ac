"""How the terminal shows what was done, and what is wrong."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead.core.explanations import lines_of
from fairlead.errors import Conflict, FairleadError, RequestRejected
from fairlead.model.plans import Finding, Sentence, Violation, PlanWarning


def print_error(error: FairleadError) -> int:
    """An error on stderr, with all that it carries, and the exit code."""
    if isinstance(error, RequestRejected):
        return print_violations(error.violations)
    users = error.used_by if isinstance(error, Conflict) else []
    message, *hint = error.terminal_text.splitlines()
    print("\n".join([message, *(f"  {_name(user)}" for user in users), *hint]), file=sys.stderr)
    return 1


def print_violations(violations: Sequence[Violation]) -> int:
    """Every violation on stderr, and the exit code: 1 if there is any."""
    _print("violation", violations)
    return 1 if violations else 0


def print_warnings(warnings: Sequence[PlanWarning]) -> None:
    """Every warning on stderr."""
    _print("warning", warnings)


def print_sentences(sentences: Iterable[Sentence]) -> None:
    """What a pod gets, a line each; what may end it is marked."""
    for sentence in sentences:
        print(f"{'!' if sentence.kind == 'risk' else ' '} {sentence.text}")


def print_done(line: str, answer: Any, as_json: bool) -> int:
    """A change that was made, as one line or as what the server answered; and the exit code."""
    print(json.dumps(answer, indent=2) if as_json else line)
    return 0


def write_log(data: bytes, *, aside: bool) -> None:
    """What a run wrote, byte by byte: on stdout, or aside on stderr."""
    stream = sys.stderr if aside else sys.stdout
    stream.flush()  # what was printed before comes before
    if (raw := getattr(stream, "buffer", None)) is not None:
        raw.write(data)
    else:
        stream.write(data.decode("utf-8", "backslashreplace"))
    stream.flush()


def count(number: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _print(noun: str, found: Sequence[Finding]) -> None:
    if found:
        lines = [f"  {line}" for item in found for line in lines_of(item)]
        print("\n".join([count(len(found), noun), *lines]), file=sys.stderr)


def _name(user: Mapping[str, Any]) -> str:
    """What uses something that should go: what it is, and where, unless its name says so."""
    kind, name, scope = (user.get(part, "") for part in ("kind", "name", "scope"))
    return f"{kind} {name}" if scope in ("", name, f"{kind}/{name}") else f"{kind} {name} of {scope}"
