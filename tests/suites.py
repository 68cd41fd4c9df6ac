"""Which test suite is running: the fast one (default) or the complete one."""

import os

SUITE = os.environ.get("FAIRLEAD_SUITE", "fast")


def examples(*, fast: int, all: int) -> int:
    """The number of examples that a property-based test generates in the running suite."""
    return {"fast": fast, "all": all}[SUITE]
