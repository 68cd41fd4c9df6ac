"""A launcher of servers with injected faults: a crash at a line, or a changed clock. Runs as a program."""

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
