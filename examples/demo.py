"""`make demo`: previews the examples with the real command, then gives them to a server of its own and asks that."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlead.cli import app
from fairlead.files import yamls
from fairlead.sdk.connections import find_connection

ROOT = Path(__file__).resolve().parent.parent
PLATFORM = ["--compute", "examples/platform", "--project", "forest"]

# What is shown, in the order in which a reader meets it: a heading, the command, its exit code.
STORIES: tuple[tuple[str, list[str], int], ...] = (
    (
        "An administrator checks what will be offered",
        ["compute", "lint", "examples/platform"],
        0,
    ),
    (
        "A training names a compute resource; what it asks for beside it does not win, and the plan says so",
        ["preview", "examples/requests/train.yaml", *PLATFORM],
        0,
    ),
    (
        "A template to start from, with changes",
        ["preview", "examples/requests/finetune.yaml", *PLATFORM],
        0,
    ),
    (
        "A served model with two replicas",
        ["preview", "examples/requests/serve.yaml", *PLATFORM],
        0,
    ),
    (
        "A notebook on half of a GPU",
        ["preview", "examples/requests/notebook.yaml", *PLATFORM],
        0,
    ),
    (
        "A request that breaks rules: every one of them at once, each with a way out",
        ["preview", "examples/requests/refused.yaml", *PLATFORM],
        1,
    ),
)


def main() -> int:
    """Show every story, then the server; 1 where a command ends otherwise than it should."""
    os.chdir(ROOT)
    unexpected = 0
    for number, (heading, command, expected) in enumerate(STORIES, 1):
        print(f"\n=== {number}. {heading}\n$ fairlead {' '.join(command)}\n", flush=True)
        ended = run(command)
        if ended != expected:
            print(f"ended with {ended}, expected {expected}", flush=True)
            unexpected = 1
    with serving() as url:
        print(
            f"\n=== {len(STORIES) + 1}. The same on a server, in a folder of its own\n$ fairlead up &\n{url}",
            flush=True,
        )
        unexpected |= ask_server()
    print("\nRead on in README.md; the files are in examples/.")
    return unexpected


@contextmanager
def serving() -> Iterator[str]:
    """A server on a free port, for as long as this lasts."""
    with tempfile.TemporaryDirectory() as folder:
        # Whatever the caller's own server is, this is not for it.
        for name in [name for name in os.environ if name.startswith("FAIRLEAD_")]:
            del os.environ[name]
        os.environ["FAIRLEAD_DATA"] = folder
        server = subprocess.Popen(
            [sys.executable, "-m", "fairlead.app", "up", "--port", "0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            found = Path(folder) / "server.json"
            while not found.exists() and server.poll() is None:
                time.sleep(0.05)
            yield find_connection().url
        finally:
            server.terminate()
            server.wait(10)


def ask_server() -> int:
    """Apply the examples, list what they offer, and preview a training; 1 where applying fails."""
    print("\n$ fairlead apply -f examples/platform\n", flush=True)
    ended = run(["apply", "-f", "examples/platform"])
    server = find_connection()
    print("\n$ curl .../api/v1/compute-resources?sort=-mem_request\n")
    for item in server.get("/compute-resources", sort="-mem_request")["items"]:
        mem = item["requirements"]["resources"].get("mem", {}).get("requests", "")
        print(f"  {item['name']:<12} {mem:>6}  {item['scope']:<20} {item['description']}")
    [request] = yamls.parse_documents((ROOT / "examples/requests/train.yaml").read_bytes())
    plan = server.post("/projects/forest/runs/preview", request)
    print("\n$ curl .../api/v1/projects/forest/runs/preview\n")
    told = ", ".join(f"{len(plan[part])} {part}" for part in ("settings", "manifests", "warnings", "violations"))
    print(f"  {told}")
    print(f"  {plan['warnings'][0]['path']}: {plan['warnings'][0]['message']}", flush=True)
    return ended or len(plan["violations"])


def run(command: list[str]) -> int:
    """Run one command of the terminal, both of its streams on stdout; return its exit code."""
    kept, sys.stderr = sys.stderr, sys.stdout
    try:
        app(command)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stderr = kept
    return 0


if __name__ == "__main__":
    sys.exit(main())
