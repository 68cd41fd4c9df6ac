"""A launcher for servers with injected faults: a crash at a line, or a changed clock. Runs as a program."""

from typing import Any

from tests.faults import clocks, crash_points
from tests.processes import launcher

_run_program = launcher._run_program


def main() -> None:
    """Execute commands until the input ends."""
    launcher._run_program = _run_faulty_program
    launcher.main()


def _run_faulty_program(command: dict[str, Any]) -> None:
    clocks.install(command["variables"])
    crash_points.install(command["variables"])
    _run_program(command)


if __name__ == "__main__":
    main()
