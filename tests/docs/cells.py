"""A process that executes the Python of a page, block by block, as a notebook does: definitions persist.

It is run as a program, with a file of blocks and two pipes. Each number that comes through the first pipe is that of a
block to execute; its output, and the value of its last line, go into the second.
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
    codes, names = json.loads(blocks.read_text("utf-8")), {"__name__": "__main__"}
    for _ in codes:
        printed = execute(codes[int(requests.read_text())], names)
        responses.write_text(printed, "utf-8")


def execute(code: str, names: dict[str, Any]) -> str:
    """The output of a block without the progress on stderr."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            tree = ast.parse(code)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "page", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "page", "eval"), names)
                print(*([] if value is None else [repr(value)]), end="" if value is None else "\n")
        except Exception:
            traceback.print_exc(file=printed)
    output = printed.getvalue().rstrip("\n")
    return f"{output}\n" if output else ""


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
