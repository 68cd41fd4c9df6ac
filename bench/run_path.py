"""Counts the modules on the path of one run on this machine, and the calls between them, with `sys.setprofile`.

The path begins with `function.run()` in the client and ends with its result. It leads through the client, the server
and the run's supervisor. The run's own process is not counted: it executes only the bootstrap program and the
function. A call is a pair of functions in two modules. Runs are repeated, and only calls that occur in each of them are
counted, which excludes the server's periodic work. `--list` prints all calls.
"""

import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fairlead as fl
from bench.processes import HOST, clean_environment, free_port

RUNS = 5
TIMEOUT_SECONDS = 60.0
RECORDER = Path(__file__).with_name("call_recorder.py")
SETTLE_SECONDS = 1.0  # after a run, for its cleanup
CODE = "def train():\n    return 42\n"
Call = tuple[str, str]

# Called like Python, but records the calls of the module after -m.
PYTHON = """#!/bin/sh
for word; do
  shift
  [ "$word" = -m ] && word={recorder}
  set -- "$@" "$word"
done
exec {python} "$@"
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="print all calls between modules")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        calls = set.intersection(*_measure(Path(name)))
    between = sorted(call for call in calls if _module(call[0]) != _module(call[1]))
    if arguments.list:
        print("\n".join(f"{caller} -> {called}" for caller, called in between))
    modules = {_module(called) for _, called in calls}
    packages = Counter(module.removeprefix("fairlead.").rpartition(".")[0] or "fairlead" for module in modules)
    print(f"{len(modules)} modules, {len(between)} calls between modules, {len({call for _, call in calls})} functions")
    print(", ".join(f"{package} {count}" for package, count in packages.most_common()))


def _measure(folder: Path) -> Iterator[set[Call]]:
    """Yield the calls of each run."""
    calls, python = folder / "calls", folder / "python"
    recorder_file = Path(shutil.copy(RECORDER, folder))
    python.write_text(PYTHON.format(recorder=recorder_file, python=sys.executable))
    python.chmod(0o755)
    recorder = _load(recorder_file)
    with _running_server(folder, recorder_file) as server:
        source = folder / "train.py"
        source.write_text(CODE)
        function = fl.project("default").function("train", source=str(source), handler="train")
        function.run().wait()  # fills caches and stores the function
        for _ in range(RUNS):
            time.sleep(SETTLE_SECONDS)
            calls.write_text("")
            recorder.forget()
            server.send_signal(signal.SIGUSR1)
            time.sleep(SETTLE_SECONDS)
            sys.setprofile(recorder.record)
            result = function.run().wait().result
            sys.setprofile(None)
            assert result == 42, result
            time.sleep(SETTLE_SECONDS)
            yield {(caller, called) for caller, called in map(str.split, calls.read_text().splitlines())}


@contextmanager
def _running_server(folder: Path, recorder: Path) -> Iterator[subprocess.Popen[bytes]]:
    data, url = folder / "data", f"http://{HOST}:{(port := free_port())}"
    environment = clean_environment(Path(sys.executable).parent, FAIRLEAD_PYTHON=sys.executable)
    command = [sys.executable, str(recorder), "fairlead.app", "up", f"--port={port}", f"--data={data}"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as server,
    ):
        try:
            until = time.monotonic() + TIMEOUT_SECONDS
            while b"listening" not in (folder / "log").read_bytes():
                assert server.poll() is None, "the server did not start"
                assert time.monotonic() < until, "the server did not start in time"
                time.sleep(0.1)
            os.environ |= {"FAIRLEAD_URL": url, "FAIRLEAD_TOKEN": (data / "token").read_text("utf-8").strip()}
            yield server
        finally:
            server.terminate()


def _load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location("call_recorder", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _module(function: str) -> str:
    return function.partition(":")[0]


if __name__ == "__main__":
    main()
