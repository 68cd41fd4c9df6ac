"""`fairlead open`: a browser that is signed in, or the address for one."""

import subprocess
import webbrowser
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.processes.machines import FAIRLEAD, Running, environment

VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
NO_BROWSER = "no browser found: open this URL, which works once within 15 minutes\n"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was opened with, on a machine with a display."""
    seen: list[str] = []

    def show(url: str) -> bool:
        seen.append(url)
        return True

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", show)
    return seen


def follow(server: Running, address: str) -> tuple[str, str]:
    """Open a URL like a browser, and return the final URL and the user."""
    with server.anybody() as browser:
        answer = browser.get(address.strip())
        assert answer.status_code == 303, answer.text
        return answer.headers["location"], browser.get("/api/v1/me").json()["via"]


def test_a_browser_is_opened_and_signed_in(terminal: Terminal, server: Running, opened: list[str]) -> None:
    assert terminal.say("open") == f"opened {server.url}/ in a browser\n"
    assert terminal.say("open", "/policies?tab=a") == f"opened {server.url}/policies?tab=a in a browser\n"
    assert [follow(server, url) for url in opened] == [("/", "session:browser"), ("/policies?tab=a", "session:browser")]


def test_the_address_alone_is_printed(terminal: Terminal, server: Running, opened: list[str]) -> None:
    printed = terminal.say("open", "/policies", "--print")
    assert printed.startswith(f"{server.url}/login?code=fl_")
    assert printed.count("\n") == 1
    assert follow(server, printed) == ("/policies", "session:browser")
    assert opened == []


def test_programs_get_what_the_server_answered(terminal: Terminal, server: Running, opened: list[str]) -> None:
    told = terminal.read("open")
    assert sorted(told) == ["expires_at", "url"]
    assert opened == [told["url"]]
    assert follow(server, terminal.read("open", "--print")["url"]) == ("/", "session:browser")
    assert len(opened) == 1


@pytest.mark.parametrize("why", ["no display", "no browser", "an error"])
def test_where_no_browser_can_be_opened_the_address_is_printed(
    terminal: Terminal, server: Running, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    def show(_url: str) -> bool:
        assert why != "no display", "what Python finds then is a browser in the terminal"
        if why == "an error":
            raise webbrowser.Error("could not locate runnable browser")
        return False

    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(webbrowser, "open", show)
    if why != "no display":
        monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    answer = terminal("open", "/audit")
    assert (answer.code, answer.err) == (0, NO_BROWSER)
    assert follow(server, answer.out) == ("/audit", "session:browser")


def test_the_browser_that_somebody_chose_is_opened(server: Running, tmp_path: Path) -> None:
    browser, told = tmp_path / "browser", tmp_path / "told"
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}\n')
    browser.chmod(0o700)
    here = {"FAIRLEAD_URL": server.url, "FAIRLEAD_TOKEN": server.token, "BROWSER": str(browser)}
    words = [str(FAIRLEAD), "open", "/settings"]
    ended = subprocess.run(words, env=environment(tmp_path, here), capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == (f"opened {server.url}/settings in a browser\n", "")
    assert follow(server, told.read_text()) == ("/settings", "session:browser")


@pytest.mark.parametrize("path", ["policies/", "//evil.example", "https://evil.example/"])
def test_what_is_no_path_of_the_page_is_refused(terminal: Terminal, opened: list[str], path: str) -> None:
    told = terminal.fail("open", path)
    assert f"next: invalid path {path!r}" in told
    assert "such as /compute-resources" in told
    assert opened == []


def test_who_has_no_token_is_told(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, opened: list[str]) -> None:
    monkeypatch.setenv("FAIRLEAD_TOKEN", "fl_wrong")
    assert "the token is unknown" in terminal.fail("open")
    assert opened == []
