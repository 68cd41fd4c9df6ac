"""How the terminal shows what is wrong."""

import sys
from collections.abc import Sequence

from fairlead.core.explaining import lines_of
from fairlead.model.plans import Finding, Violation, Warning


def print_violations(violations: Sequence[Violation]) -> int:
    """Every violation on stderr, and the exit code: 1 if there is any."""
    _print("violation", violations)
    return 1 if violations else 0


def print_warnings(warnings: Sequence[Warning]) -> None:
    """Every warning on stderr."""
    _print("warning", warnings)


def count(number: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _print(noun: str, found: Sequence[Finding]) -> None:
    if found:
        lines = [f"  {line}" for item in found for line in lines_of(item)]
        print("\n".join([count(len(found), noun), *lines]), file=sys.stderr)
