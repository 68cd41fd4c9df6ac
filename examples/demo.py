"""`make demo`: a real training run on a temporary server, which the first command starts."""

import contextlib
import inspect
import json
import os
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import fairlead as fl
import fairlead.cli

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
COMPUTE = "examples/training/compute.yaml"
TRAIN = "examples/training/train.py:main"
REJECTED = ["run", TRAIN, "--project", "forest", "--profile", "smal", "--secret", "HF_TOKN"]
SECONDS = 20.0


def main() -> int:
    """Show all steps in order; return 1 if one of them does not end as expected."""
    os.chdir(ROOT)
    started = time.monotonic()
    with platform():
        print_heading("1. An administrator creates two compute resources; the first command starts a server")
        codes = [terminal("apply", "-f", COMPUTE), terminal("compute", "ls")]

        print_heading(
            "2. A training run with a compute resource, a volume, a secret and variables; its log is streamed"
        )
        run = cell(train)

        print_heading("3. The run's settings, with their sources and overridden values")
        cell(lambda: print(run.explain()), source="print(run.explain())\n")

        print_heading("4. The run's result, files and resource usage")
        cell(lambda: show_results(run), source=body_of(show_results))
        print()
        codes.append(terminal("runs", "ls"))

        print_heading("5. Invalid requests are rejected at once: all errors, each with a hint")
        codes.append(terminal(*REJECTED))
    print(f"\nDone in {time.monotonic() - started:.0f} seconds. Continue with README.md; the files are in examples/.")
    return int(codes != [0, 0, 0, 1] or run.data["state"] != "completed")


def train() -> fl.Run:
    """Submit the training run and follow it to its end."""
    project = fl.project("forest")
    project.set_secret("HF_TOKEN", "hf_for_no_other_eyes")
    function = project.function("train", source="examples/training/train.py", handler="main")
    run = function.run(
        profile="small",
        inputs={"epochs": 40, "checkpoints": "/checkpoints"},
        resources={"mem": "6Gi"},  # the compute resource overrides it
        volumes=[
            {
                "volume_type": "persistent_volume_claim",
                "name": "checkpoints",
                "mount_path": "/checkpoints",
                "spec": {"size": "1Gi"},
            }
        ],
        secrets=["HF_TOKEN"],
        envs=[{"name": "MODEL_NAME", "value": "two-moons"}],
    )
    run.wait_for_start()
    run.logs(follow=True)
    return run.wait()


def show_results(run: fl.Run) -> None:
    """Show the results of a run."""
    print("result", run.result)
    for file in run.files():
        print("file  ", file["path"], file["size"], "bytes")
    peaks = run.usage()["peaks"]
    print(f"used   {peaks['cpu_seconds']:.1f} s of CPU, up to {peaks['mem'] / 2**20:.0f} MiB of memory")


@contextlib.contextmanager
def platform() -> Iterator[None]:
    """Use a temporary data folder, independent of the caller's server."""
    for name in [name for name in os.environ if name.startswith("FAIRLEAD_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="fairlead-demo-") as folder:
        os.environ["FAIRLEAD_DATA"] = folder
        try:
            yield
        finally:
            stop_server(Path(folder))


def stop_server(data: Path) -> None:
    """Stop the server that uses a data folder, and wait until it has exited."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ChildProcessError):
        pid = json.loads((data / "server.json").read_text("utf-8"))["pid"]
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + SECONDS
        while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < until:
            time.sleep(0.05)


def print_heading(text: str) -> None:
    """Print a heading."""
    print(f"\n=== {text}\n", flush=True)


def terminal(*args: str) -> int:
    """Run a CLI command and return its exit code."""
    print(f"$ fairlead {' '.join(args)}", flush=True)
    with merged_output():
        try:
            code: object = fairlead.cli.run(args)
        except SystemExit as exit_request:
            code = exit_request.code
    return code if isinstance(code, int) else int(code is not None)


def cell(action: Callable[[], T], source: str | None = None) -> T:
    """Show Python code, then execute it."""
    print(textwrap.indent(source or body_of(action), "    "), flush=True)
    with merged_output():
        result = action()
    sys.stdout.flush()
    return result


def body_of(function: Callable[..., object]) -> str:
    """Return the source of a function without its signature and docstring."""
    _, body = inspect.getsource(function).split('"""\n', 1)
    return textwrap.dedent(body).replace("return run.wait()", "run.wait()")


@contextlib.contextmanager
def merged_output() -> Iterator[None]:
    """Write stderr to stdout, so that both streams stay in order."""
    stderr, sys.stderr = sys.stderr, sys.stdout
    try:
        yield
    finally:
        sys.stderr = stderr


if __name__ == "__main__":
    sys.exit(main())
