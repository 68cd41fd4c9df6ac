"""The installed command as a process: terminals, pipes, unreachable servers, and completion."""

import http.server
import os
import pty
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.sdk.api_client import ApiClient
from tests.cli.terminal import Terminal
from tests.processes.machines import FAIRLEAD, RunningServer, environment

NOUNS = ("compute", "templates", "secrets", "volumes", "projects", "departments", "clusters", "policy")


class HtmlHandler(http.server.BaseHTTPRequestHandler):
    """A different kind of server: it responds to everything with an HTML page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def other_server_url() -> Iterator[str]:
    """The URL of a server that is not Fairlead."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), HtmlHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("noun", NOUNS)
def test_every_noun_reports_an_unreachable_server(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, noun: str
) -> None:
    monkeypatch.setenv("FAIRLEAD_URL", "http://127.0.0.1:1")
    message, hint = terminal.fail(noun, "ls").splitlines()
    assert message.startswith("error: no response from http://127.0.0.1:1: ")
    assert hint.startswith("  -> ")


@pytest.mark.parametrize("url", ["nonsense", "http://[::1", "http://a b"])
def test_invalid_urls_are_reported(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("FAIRLEAD_URL", url)
    assert terminal.fail("compute", "ls").startswith(f"error: no response from {url}: ")


def test_another_server_and_a_wrong_token_are_reported(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, other_server_url: str
) -> None:
    monkeypatch.setenv("FAIRLEAD_TOKEN", "fl_wrong")
    assert "the token is unknown" in terminal.fail("projects", "ls")
    monkeypatch.setenv("FAIRLEAD_URL", other_server_url)
    assert terminal.fail("projects", "ls") == "error: the server responded with 200 and no readable error\n"


def test_pages_of_a_list_are_loaded_on_demand(terminal: Terminal, server: RunningServer) -> None:
    for number in range(3):
        terminal.succeed("volumes", "create", f"paged-{number}", "--size", "1Gi")
    connection = ApiClient(server.url, server.token)
    volumes = connection.list("/projects/default/volumes", search="paged-", limit=1)
    assert next(volumes)["name"] == "paged-0"
    terminal.succeed("volumes", "rm", "paged-1")
    assert [item["name"] for item in volumes] == ["paged-2"], "pages are loaded on demand"


def test_one_client_serves_all_requests_of_a_connection(server: RunningServer) -> None:
    connection = ApiClient(server.url, server.token)
    assert connection.get("/me")["user"] == connection.get("/me")["user"]
    assert connection._client is connection._client
    assert connection == ApiClient(server.url, server.token)


def test_a_closed_pipe_causes_no_traceback(server: RunningServer, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    args = [str(FAIRLEAD), "clusters", "ls"]
    process = subprocess.run(
        args, stdout=write, stderr=subprocess.PIPE, env=_environment_of(server, tmp_path), check=False
    )
    os.close(write)
    assert (process.returncode, process.stderr) == (1, b"")


def test_tables_are_truncated_on_terminals_but_not_in_pipes(
    terminal: Terminal, server: RunningServer, tmp_path: Path
) -> None:
    terminal.succeed("volumes", "create", "wide", "--size", "1Gi", "--description", "word " * 20 + "end")
    args = [str(FAIRLEAD), "volumes", "ls", "--search", "wide"]
    variables = _environment_of(server, tmp_path) | {"COLUMNS": "60"}
    complete = subprocess.run(args, stdout=subprocess.PIPE, env=variables, text=True, check=True).stdout
    assert "word end" in complete
    output = _type(args, variables, "")
    assert max(map(len, output.splitlines())) == 60
    assert "…" in output


def test_a_secret_is_prompted_without_echo(terminal: Terminal, server: RunningServer, tmp_path: Path) -> None:
    output = _type([str(FAIRLEAD), "secrets", "set", "TYPED"], _environment_of(server, tmp_path), "planted\n")
    assert "value of TYPED: " in output
    assert "set secret TYPED in project default" in output
    assert "planted" not in output
    empty = _type([str(FAIRLEAD), "secrets", "set", "LEFT"], _environment_of(server, tmp_path), "\x04")
    assert "error: stdin contains no value" in empty
    assert {item["name"] for item in terminal.read("secrets", "ls")} & {"TYPED", "LEFT"} == {"TYPED"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_noun(terminal: Terminal, shell: str) -> None:
    script = terminal.succeed("completion", shell)
    assert [noun for noun in NOUNS if noun not in script] == []


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("comp",), {"compute", "completion"}),
        (("compute", "re"), {"rename", "restore", "revisions"}),
        (("volumes", "create", "--si"), {"--size"}),
    ],
)
def test_completion_completes_in_bash(terminal: Terminal, typed: tuple[str, ...], expected: set[str]) -> None:
    command_line = " ".join(("fairlead", *typed))
    query = f'COMP_WORDS=({command_line}); COMP_CWORD={len(typed)}; _fairlead; printf "%s\\n" "${{COMPREPLY[@]}}"'
    script = f"{terminal.succeed('completion', 'bash')}\n{query}"
    process = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert set(process.stdout.split()) == expected


def test_completion_of_an_unknown_shell_is_rejected(terminal: Terminal) -> None:
    result = terminal("completion", "tcsh")
    assert (result.code, result.out) == (2, "")
    assert "tcsh" in result.err


def _environment_of(server: RunningServer, home: Path) -> dict[str, str]:
    return environment(home, {"FAIRLEAD_URL": server.url, "FAIRLEAD_TOKEN": server.token})


def _type(args: list[str], variables: dict[str, str], typed: str) -> str:
    """The output of a command in a terminal with typed input."""
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        args, stdin=terminal, stdout=terminal, stderr=terminal, env=variables, start_new_session=True
    ) as process:
        os.close(terminal)
        output = b""
        while chunk := _read(controller):
            output += chunk
            if typed and b": " in output:
                os.write(controller, typed.encode())
                typed = ""
        process.wait(60)
    os.close(controller)
    return output.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the terminal was closed
        return b""
