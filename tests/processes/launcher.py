"""A process that has imported the program and forks it on request, because imports take most of the start time.

Runs as a program. Each line of its input is a command, and each line of its output is the response. When its input
ends, it kills the processes that it started.
"""

import json
import os
import runpy
import signal
import sys
from typing import Any

import fairlead.app
import fairlead.cli.documents


def main() -> None:
    """Execute commands until the input ends."""
    started: set[int] = set()
    for line in sys.stdin:
        command = json.loads(line)
        if "arguments" in command:
            response: int | None = os.fork()
            if response == 0:
                return _run_program(command)  # in the child process, which exits with the server
            started.add(response or 0)
        else:
            ended, status = os.waitpid(command["wait"], os.WNOHANG)
            response = os.waitstatus_to_exitcode(status) if ended else None
            started.discard(ended)
        print(json.dumps(response), flush=True)
    for pid in started:
        os.kill(pid, signal.SIGKILL)
    return None


def _run_program(command: dict[str, Any]) -> None:
    for number, path in enumerate([os.devnull, command["out"], command["err"]]):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["variables"])
    if "coverage" in sys.modules:  # `make coverage` attributes what this process executes to the test that starts it
        sys.modules["coverage"].Coverage.current().switch_context(os.environ["COVERAGE_TEST"])
    sys.stdin = open(0)  # noqa: SIM115
    sys.argv = [command["program"], *command["arguments"]]
    if command["program"] == "fairlead":
        fairlead.cli.main()
    else:
        del sys.modules["fairlead.app"]
        runpy.run_module("fairlead.app", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
