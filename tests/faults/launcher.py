"""Becomes servers that something befalls: they die at a line, or have a clock that is set. It is run as a program."""

from typing import Any

from tests.faults import clocks, crash_points
from tests.processes import launcher

_become = launcher._become


def main() -> None:
    """Obey until the input ends."""
    launcher._become = _become_faulty
    launcher.main()


def _become_faulty(order: dict[str, Any]) -> None:
    clocks.install(order["variables"])
    crash_points.install(order["variables"])
    _become(order)


if __name__ == "__main__":
    main()
