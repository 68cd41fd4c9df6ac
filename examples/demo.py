"""`make demo`: previews the examples with the real command and prints what it says. Nothing is created."""

import os
import sys
from pathlib import Path

from fairlead.cli import app

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
    """Show every story; 1 where a command ends otherwise than it should."""
    os.chdir(ROOT)
    unexpected = 0
    for number, (heading, command, expected) in enumerate(STORIES, 1):
        print(f"\n=== {number}. {heading}\n$ fairlead {' '.join(command)}\n", flush=True)
        ended = run(command)
        if ended != expected:
            print(f"ended with {ended}, expected {expected}", flush=True)
            unexpected = 1
    print("\nRead on in README.md; the files are in examples/.")
    return unexpected


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
