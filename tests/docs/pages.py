"""The documentation pages, their fenced blocks, and the expected contents of the blocks."""

import contextlib
import io
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fairlead.cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

MAX_JSON_WIDTH = 100
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its info string and its content."""

    page: Path
    line: int
    info: str
    text: str

    @property
    def language(self) -> str:
        """The first word of the fence."""
        return self.info.partition(" ")[0]

    @property
    def meaning(self) -> str:
        """The rest of the fence: the block type, or the file that the block shows."""
        return self.info.partition(" ")[2].strip()

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def list_blocks(*languages: str) -> list[Block]:
    """The blocks of all pages, optionally only those in the given languages."""
    return [block for page in PAGES for block in blocks_of(page) if not languages or block.language in languages]


def blocks_of(page: Path) -> Iterator[Block]:
    """The fenced blocks on a page."""
    text = page.read_text("utf-8")
    for match in FENCE.finditer(text):
        yield Block(page, text.count("\n", 0, match.start()) + 1, match["info"].strip(), match["text"])


def render_block(block: Block) -> str:
    """The expected content of a block: output of its commands, or the file that it names."""
    if block.language == "console":
        return "".join(f"$ {command}\n{run(command)}" for command in commands_of(block))
    if block.language in ("yaml", "python") and (ROOT / block.meaning).is_file():
        return (ROOT / block.meaning).read_text("utf-8")
    if block.language == "json" and block.meaning.startswith("plan "):
        return f"{print_json(shorten_plan(json.loads(block.text), preview(block.meaning.partition(' ')[2])))}\n"
    return block.text


def preview(request: str) -> dict[str, Any]:
    """The plan for an example, as JSON."""
    output = run(f"fairlead preview {request} --compute examples/platform --project forest --output json")
    plan: dict[str, Any] = json.loads(output)
    return plan


def shorten_plan(shown: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """The plan with only those settings, warnings and violations that are shown, and the main manifest's kind."""
    short = dict(plan)
    for part in ("settings", "warnings", "violations"):
        paths = [entry["path"] for entry in shown[part]]
        short[part] = [entry for entry in plan[part] if entry["path"] in paths]
    short["manifests"] = [{key: manifest[key] for key in ("apiVersion", "kind")} for manifest in plan["manifests"][:1]]
    return short


def print_json(value: Any, indent: str = "") -> str:
    """Format JSON with short parts on one line."""
    line = json.dumps(value)
    if len(indent + line) <= MAX_JSON_WIDTH or not isinstance(value, dict | list):
        return line
    nested_indent = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(nested_indent + print_json(item, nested_indent) for item in value) + f"\n{indent}]"
    entries = (f"{nested_indent}{json.dumps(key)}: {print_json(item, nested_indent)}" for key, item in value.items())
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


def commands_of(block: Block) -> list[str]:
    """The commands in a console block."""
    if block.language != "console":
        return []
    return [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]


def run(command: str) -> str:
    """The combined output of a `fairlead` command in the repository root."""
    program, *args = shlex.split(command)
    assert program == "fairlead", f"only fairlead is executed, found: {command}"
    output = io.StringIO()
    streams = contextlib.redirect_stdout(output), contextlib.redirect_stderr(output)
    with contextlib.chdir(ROOT), streams[0], streams[1], contextlib.suppress(SystemExit):
        fairlead.cli.run(args)
    return output.getvalue()
