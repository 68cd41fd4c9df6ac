"""A process that has imported the program and forks it on request, because imports take most of the start time.

Runs as a program. Each line of its input is a command, each line of its output the response. When its input ends, it
kills the processes that it started.
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
    """Obey until the input ends."""
    started: set[int] = set()
    for line in sys.stdin:
        order = json.loads(line)
        if "words" in order:
            answer: int | None = os.fork()
            if answer == 0:
                return _become(order)  # raises what the server raises: its end is the end of this process
            started.add(answer or 0)
        else:
            ended, status = os.waitpid(order["wait"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
            started.discard(ended)
        print(json.dumps(answer), flush=True)
    for left in started:
        os.kill(left, signal.SIGKILL)
    return None


def _become(order: dict[str, Any]) -> None:
    for number, path in enumerate([os.devnull, order["out"], order["err"]]):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["variables"])
    if "coverage" in sys.modules:  # `make coverage` attributes what this process executes to the test that starts it
        sys.modules["coverage"].Coverage.current().switch_context(os.environ["COVERAGE_TEST"])
    sys.stdin = open(0)  # noqa: SIM115
    sys.argv = [order["program"], *order["words"]]
    if order["program"] == "fairlead":
        fairlead.cli.main()
    else:
        del sys.modules["fairlead.app"]
        runpy.run_module("fairlead.app", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
