"""How the terminal shows what is wrong."""

import sys
from collections.abc import Sequence

from fairlead.core.explaining import lines_of
from fairlead.model.plans import Violation


def print_violations(violations: Sequence[Violation]) -> int:
    """Every violation on stderr, and the exit code: 1 if there is any."""
    if not violations:
        return 0
    count = len(violations)
    print(f"{count} violation{'s' if count > 1 else ''}", file=sys.stderr)
    for violation in violations:
        for line in lines_of(violation):
            print(f"  {line}", file=sys.stderr)
    return 1
