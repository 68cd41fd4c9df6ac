"""A process that executes the Python of a page, block by block, as a notebook does: what is defined stays defined.

It is run as a program, with a file of blocks and two pipes. Each number that comes through the first pipe is that of a
block to execute; what it prints, and the value of its last line, goes into the second.
"""

import ast
import contextlib
import io
import json
import sys
import traceback
from pathlib import Path
from typing import Any


def main(blocks: Path, asked: Path, answered: Path) -> None:
    """Execute blocks until the input ends."""
    codes, names = json.loads(blocks.read_text("utf-8")), {"__name__": "__main__"}
    for _ in codes:
        printed = execute(codes[int(asked.read_text())], names)
        answered.write_text(printed, "utf-8")


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
    told = printed.getvalue().rstrip("\n")
    return f"{told}\n" if told else ""


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
