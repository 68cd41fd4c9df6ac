"""Blocks that talk to a server: they are executed in order, page by page, each page against a fresh server.

Each page has one shell and one Python process, which executes the Python blocks for the shell.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT, Block, blocks_of, commands_of, print_json, render_block
from tests.processes.execution import kill_processes

REQUIRED_PROGRAMS = ("bash", "curl")
TIMEOUT_SECONDS = 60.0  # seconds: a busy machine takes several times as long as an idle one
BYTECODE = ROOT / ".pytest_cache" / "bytecode"
END = "--- end of an output ---"
SHOWN_URL = "http://127.0.0.1:8470"
DATA = ".local/share/fairlead"
USER = "ada"
HOST = "laptop"
CAPACITY = "cpu=8,mem=32Gi,disk=200Gi,gpu=0,runs=16"  # on the machine in the examples
RUN_ID = "01a1dde4816c7a3b8f0c5d2e9b1a4c6e"
# Variable output, and the placeholders on the pages.
VOLATILE = (
    (r"\b[0-9a-f]{32}\.[0-9a-f]{64}\b", "01a1dde4816c.2a0c7d63"),
    (r"(?m)^[0-9a-f]{32}(?=  )", RUN_ID),  # in a table, whose columns stay aligned
    (rf"\b(?!{RUN_ID})[0-9a-f]{{32}}\b", "01a1dde4816c"),
    (r"\bfl_[\w-]{43}(?![\w-])", "fl_4U8tnZO"),
    (r"\bcode=[0-9a-f]{16}\.[\w-]+", "code=5e318f8c.AbxDYNRi"),
    (r"(?<=\.localhost):\d+", ":8470"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "2026-11-15T08:30:00Z"),
    (r"(?m)(?<=  )\d+[sm]$", "3s"),  # the age at the end of a table row
    (r'("next_cursor": ?)"[^"]+"', r'\1"WyJuYW1l"'),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-11-15 08:30:00"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "2026-11-17 05:00 UTC"),
    (r"\b\d\.\d s\b", "0.4 s"),
    (r'("kubernetes.io/arch": ?)"\w+"', r'\1"amd64"'),
    (
        r"(?m)^[\w.-]+ [0-9a-f]{8}: (queued|pending|starting|running|stopping)\b.*\n",
        "",
    ),  # progress of a run, which is often too fast to be printed
    (r"(?m)^([\w.-]+ )[0-9a-f]{8}(?=: )", rf"\g<1>{RUN_ID[-8:]}"),
    (r"(?m)^(  runs     on this machine, ).*", r"\1each run as a separate user"),  # if the server runs as root
    (
        r'("protections": ?)\[\{.*?\}\]',  # depends on the machine; the page shows one entry
        r'\1[{"name": "memory", "mechanism": "cgroup v2", "gap": ""}]',
    ),
    (r"(?m)^( {11}limited by ).*", r"\1cgroup v2; isolated by namespaces, Landlock, seccomp"),  # depends on the machine
)


def uses_server(block: Block) -> bool:
    """Whether a block is executed against a server, or shows the output of such a block."""
    return block.meaning.partition(" ")[0] in ("server", "output")


def missing_programs() -> list[str]:
    """Programs that the blocks need but that are not installed."""
    return [name for name in REQUIRED_PROGRAMS if shutil.which(name) is None]


def render(block: Block) -> str:
    """A block's expected content."""
    return render_page(block.page)[block.line] if uses_server(block) else render_block(block)


@cache
def render_page(page: Path) -> dict[int, str]:
    """The expected contents of a page's blocks, by line number."""
    blocks = [block for block in blocks_of(page) if uses_server(block)]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        shutil.copytree(ROOT / "examples", home / "examples")
        with _run_server(home) as (url, greeting):
            outputs = iter(_execute(blocks, home, url))
            outputs_by_line = {
                block.line: [_normalize(next(outputs), home, url) for _ in steps_of(block)] for block in blocks
            }
            normalized_greeting = _normalize(greeting, home, url)
    contents = {block.line: _show(block, outputs_by_line[block.line], normalized_greeting) for block in blocks}
    for code, expected in itertools.pairwise([*blocks, None]):
        if code is not None and code.language == "python":
            output = "".join(outputs_by_line[code.line])
            if expected is not None and expected.meaning == "output":
                contents[expected.line] = output
            else:
                assert not output, f"{code}: prints output that is not on the page: {output}"
    return contents


def steps_of(block: Block) -> list[str]:
    """The parts of a block with separate output: each command, or the whole Python block."""
    return [block.text] if block.language == "python" else commands_of(block)


@contextlib.contextmanager
def _run_server(home: Path) -> Iterator[tuple[str, str]]:
    """A server in an empty home folder, with its URL and output."""
    out = home / ".greeting"
    command = [sys.executable, "-m", "fairlead.app", "up", "--port", "0", "--data", str(home / DATA)]
    with out.open("wb") as to_out, (home / ".log").open("wb") as to_log:
        environment = _environment(home) | {"FAIRLEAD_CAPACITY": CAPACITY}
        process = subprocess.Popen(command, stdout=to_out, stderr=to_log, cwd=home, env=environment)
    try:
        end = time.monotonic() + TIMEOUT_SECONDS
        while not _is_ready(out.read_text("utf-8")):
            assert process.poll() is None, (home / ".log").read_text("utf-8")
            assert time.monotonic() < end, f"does not serve within {TIMEOUT_SECONDS} s"
            time.sleep(0.02)
        yield _address(out.read_text("utf-8")), out.read_text("utf-8")
    finally:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)
        for folder in (home / DATA / "runs").iterdir():  # runs outlive the server
            kill_processes(folder.name)


def _execute(blocks: list[Block], home: Path, url: str) -> list[str]:
    """The output of each command. One shell runs all commands, so that variables persist."""
    script, cells = [], [block.text for block in blocks if block.language == "python"]
    requests, responses, count = home / ".requests", home / ".responses", itertools.count()
    for block in blocks:
        script += [block.text] if block.language == "sh" else []
        if block.language == "python":
            script += [f"echo {next(count)} > {requests}; cat {responses}", f"echo '{END}'"]
        for command in commands_of(block):
            script += ["true" if command == "fairlead up" else command, f"echo '{END}'"]
    with _notebook(home, cells, requests, responses):
        process = subprocess.run(
            ["bash", "-c", "\n".join(script).replace(SHOWN_URL, url)],
            cwd=home,
            env=_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECONDS * len(script),
            check=False,
        )
    *outputs, rest = process.stdout.split(f"{END}\n")
    assert not rest, rest
    return outputs


@contextlib.contextmanager
def _notebook(home: Path, cells: list[str], requests: Path, responses: Path) -> Iterator[None]:
    """A Python process that executes blocks on request."""
    if not cells:
        yield
        return
    os.mkfifo(requests)
    os.mkfifo(responses)
    blocks = home / ".cells.json"
    blocks.write_text(json.dumps(cells), "utf-8")
    command = [sys.executable, str(Path(__file__).with_name("cells.py")), str(blocks), str(requests), str(responses)]
    process = subprocess.Popen(command, cwd=home, env=_environment(home))
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _environment(home: Path) -> dict[str, str]:
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("FAIRLEAD_", "PYTEST_", "XDG_"))
    }
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling all modules for each command takes a second
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return variables | {"HOME": str(home), "LOGNAME": USER, "PATH": programs, "PYTHONPYCACHEPREFIX": str(BYTECODE)}


def _address(greeting: str) -> str:
    return greeting.split("listening on ", 1)[1].split()[0] if greeting.count("\n") > 1 else ""


def _is_ready(greeting: str) -> bool:
    try:
        return bool(_address(greeting)) and urllib.request.urlopen(f"{_address(greeting)}/readyz").status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def _normalize(output: str, home: Path, url: str) -> str:
    """Output with placeholders for the variable parts."""
    output = output.replace(str(home), f"/home/{USER}").replace(url, SHOWN_URL)
    output = re.sub(rf"(?<![\w.-]){re.escape(socket.gethostname())}(?![\w.-])", HOST, output)
    for pattern, placeholder in VOLATILE:
        output = re.sub(pattern, placeholder, output)
    return output


def _show(block: Block, outputs: list[str], greeting: str) -> str:
    """The expected block: commands with their output, reduced to the fields that its fence names."""
    if block.language in ("sh", "python", "text"):
        return block.text
    fields = block.meaning.split()[1:]
    pairs = zip(commands_of(block), outputs, strict=True)
    return "".join(
        f"$ {command}\n{_format_output(greeting if command == 'fairlead up' else output, fields)}"
        for command, output in pairs
    )


def _format_output(output: str, fields: list[str]) -> str:
    """The output with formatted JSON and without empty lines."""
    return "".join(f"{_format_line(line, fields)}\n" for line in output.splitlines() if line.strip())


def _format_line(line: str, fields: list[str]) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return line
    return print_json(_select_fields(value, fields)) if isinstance(value, dict | list) else line


def _select_fields(value: Any, fields: list[str]) -> Any:
    """Each mapping, reduced to the given fields; a mapping without any of them is unchanged."""
    if isinstance(value, list):
        return [_select_fields(item, fields) for item in value]
    if not isinstance(value, dict) or not set(value) & set(fields):
        return value
    return {name: _select_fields(item_value, fields) for name, item_value in value.items() if name in fields}
