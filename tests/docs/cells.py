"""A process that executes a page's Python blocks like a notebook: definitions persist.

It runs as a program, with a file of blocks and two pipes. It reads the number of each block to execute from the first
pipe, and writes the block's output and the value of its last line to the second.
"""

import ast
import contextlib
import io
import json
import sys
import traceback
from pathlib import Path
from typing import Any


def main(blocks: Path, requests: Path, responses: Path) -> None:
    """Execute blocks until the input ends."""
    codes, namespace = json.loads(blocks.read_text("utf-8")), {"__name__": "__main__"}
    for _ in codes:
        output = execute(codes[int(requests.read_text())], namespace)
        responses.write_text(output, "utf-8")


def execute(code: str, namespace: dict[str, Any]) -> str:
    """A block's output without the progress on stderr."""
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer), contextlib.redirect_stderr(io.StringIO()):
        try:
            tree = ast.parse(code)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "page", "exec"), namespace)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "page", "eval"), namespace)
                print(*([] if value is None else [repr(value)]), end="" if value is None else "\n")
        except Exception:
            traceback.print_exc(file=buffer)
    output = buffer.getvalue().rstrip("\n")
    return f"{output}\n" if output else ""


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
