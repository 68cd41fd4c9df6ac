"""`make demo`: a real training on a platform of its own, which starts with the first command and ends with it."""

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
OFFERS = "examples/training/compute.yaml"
TRAIN = "examples/training/train.py:main"
REFUSED = ["run", TRAIN, "--project", "forest", "--profile", "smal", "--secret", "HF_TOKN"]
SECONDS = 20.0


def main() -> int:
    """Show everything, in the order in which a reader meets it; 1 where something ends otherwise than it should."""
    os.chdir(ROOT)
    began = time.monotonic()
    with platform():
        head("1. An administrator offers two compute resources; with the first command, a server starts by itself")
        codes = [terminal("apply", "-f", OFFERS), terminal("compute", "ls")]

        head("2. A training with one of them, a volume, a secret and variables; its log as it comes")
        run = cell(train)

        head("3. Every value that it had, who set it, and whom that overrode")
        cell(lambda: print(run.explain()), shown="print(run.explain())\n")

        head("4. What came of it")
        cell(lambda: look(run), shown=body_of(look))
        print()
        codes.append(terminal("runs", "ls"))

        head("5. What cannot run is refused at once: everything that is wrong with it, each with a suggestion")
        codes.append(terminal(*REFUSED))
    print(f"\nAll of it in {time.monotonic() - began:.0f} seconds. Read on in README.md; the files are in examples/.")
    return int(codes != [0, 0, 0, 1] or run.data["state"] != "completed")


def train() -> fl.Run:
    """Submit the training, and follow it to its end."""
    project = fl.project("forest")
    project.set_secret("HF_TOKEN", "hf_for_no_other_eyes")
    function = project.function("train", source="examples/training/train.py", handler="main")
    run = function.run(
        profile="small",
        inputs={"epochs": 40, "checkpoints": "/checkpoints"},
        resources={"mem": "6Gi"},  # the compute resource says less, and wins
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


def look(run: fl.Run) -> None:
    """Show what a run left."""
    print("result", run.result)
    for file in run.files():
        print("file  ", file["path"], file["size"], "bytes")
    peaks = run.usage()["peaks"]
    print(f"used   {peaks['cpu_seconds']:.1f} s of CPU, {peaks['mem'] / 2**20:.0f} MiB of memory at most")


@contextlib.contextmanager
def platform() -> Iterator[None]:
    """A data folder of the demo's own. Whatever the caller's server is, this is not for it."""
    for name in [name for name in os.environ if name.startswith("FAIRLEAD_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="fairlead-demo-") as folder:
        os.environ["FAIRLEAD_DATA"] = folder
        try:
            yield
        finally:
            end_server(Path(folder))


def end_server(data: Path) -> None:
    """End the server that was started in a data folder, and wait until it has."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ChildProcessError):
        pid = json.loads((data / "server.json").read_text("utf-8"))["pid"]
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + SECONDS
        while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < until:
            time.sleep(0.05)


def head(text: str) -> None:
    """A heading."""
    print(f"\n=== {text}\n", flush=True)


def terminal(*words: str) -> int:
    """Run one command of the terminal; its exit code."""
    print(f"$ fairlead {' '.join(words)}", flush=True)
    with together():
        try:
            code: object = fairlead.cli.run(words)
        except SystemExit as ended:
            code = ended.code
    return code if isinstance(code, int) else int(code is not None)


def cell(does: Callable[[], T], shown: str | None = None) -> T:
    """Show some Python, then execute it."""
    print(textwrap.indent(shown or body_of(does), "    "), flush=True)
    with together():
        answer = does()
    sys.stdout.flush()
    return answer


def body_of(function: Callable[..., object]) -> str:
    """What a function does, without its first lines."""
    _, body = inspect.getsource(function).split('"""\n', 1)
    return textwrap.dedent(body).replace("return run.wait()", "run.wait()")


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Both streams on stdout, so that they stay in order."""
    kept, sys.stderr = sys.stderr, sys.stdout
    try:
        yield
    finally:
        sys.stderr = kept


if __name__ == "__main__":
    sys.exit(main())
