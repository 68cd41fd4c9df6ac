"""Run attempts in the CLI: options, lists, logs and files."""

from pathlib import Path

import pytest

from tests.cli.terminal import Terminal, write

PROGRAMS = {
    "grow.py": "import os, time\nnumber = os.environ['FAIRLEAD_ATTEMPT']\nprint('try', number, flush=True)\n"
    "open(os.environ['FAIRLEAD_OUTPUT'] + '/number', 'w').write(number)\n"
    "data = bytearray((100 + 100 * int(number)) << 20)\ntime.sleep(1)\n",
    "retries.yaml": "retries: 1\non_oom: {grow: 3, max: 1Gi}\n",
}
OOM_OPTIONS = ("--mem", "48Mi", "--mem-limit", "96Mi", "--on-oom-grow", "4", "--on-oom-max", "1Gi")


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, terminal: Terminal) -> None:
    """A program in the terminal's working folder."""
    write(tmp_path, PROGRAMS)


def test_attempts_are_listed_and_read_by_their_numbers(terminal: Terminal, tmp_path: Path) -> None:
    result = terminal("run", "grow.py", *OOM_OPTIONS)
    assert (result.code, result.out) == (0, "try 1\ntry 2\n"), result
    assert "attempt 1 failed (OOMKilled): " in result.err
    run = terminal.read("runs", "ls", "--filter", "function=grow", "--limit", "1")[0]["id"]
    first, second = terminal.read("runs", "attempts", run)
    assert (first["number"], first["reason"], second["number"], second["state"]) == (1, "OOMKilled", 2, "completed")
    heading, *rows = terminal.succeed("runs", "attempts", run).splitlines()
    assert heading.split()[:5] == ["ATTEMPT", "STATE", "REASON", "EXIT", "MEMORY"]
    assert [row.split()[:5] for row in rows] == [
        ["1", "failed", "OOMKilled", "137", "48Mi"],
        ["2", "completed", "Completed", "0", "192Mi"],
    ]
    assert terminal.succeed("runs", "logs", run) == "try 2\n"
    for number in ("1", "2"):
        assert terminal.succeed("runs", "logs", run, "--attempt", number) == f"try {number}\n"
        assert terminal.succeed("runs", "logs", run, "--attempt", number, "--follow") == f"try {number}\n"
        assert terminal.read("runs", "files", run, "--attempt", number)[0]["path"] == "number"
        terminal.succeed("runs", "download", run, "number", "--attempt", number)
        assert (tmp_path / "number").read_text() == number
    peaks = [terminal.read("runs", "usage", run, "--attempt", number)["peaks"]["mem"] for number in ("1", "2")]
    assert peaks[0] < peaks[1]
    complete = terminal("runs", "logs", run, "--cursor", "0")
    assert (complete.out, "attempt 2 follows" in complete.err) == ("try 1\ntry 2\n", True)
    assert f"attempt 3 of run {run} does not exist" in terminal.fail("runs", "logs", run, "--attempt", "3")


def test_options_override_the_file(terminal: Terminal) -> None:
    plan = terminal("run", "grow.py", "--file", "retries.yaml", "--preview", "--mem", "48Mi", "--json")
    assert '"retries"' in plan.out
    output = terminal(
        "run", "grow.py", "--file", "retries.yaml", "--preview", "--mem", "48Mi", "--on-oom-max", "2Gi"
    ).out
    values = {columns[0]: columns[1] for line in output.splitlines() if len(columns := line.split()) > 1}
    assert (values["retries"], values["on_oom.grow"], values["on_oom.max"]) == ("1", "3", "2Gi")


@pytest.mark.parametrize(
    ("option", "value", "path"),
    [("--retries", "21", "retries"), ("--on-oom-grow", "1", "on_oom.grow"), ("--on-oom-max", "lots", "on_oom.max")],
)
def test_invalid_options_are_rejected_with_their_path(terminal: Terminal, option: str, value: str, path: str) -> None:
    assert path in terminal.fail("run", "grow.py", option, value)
