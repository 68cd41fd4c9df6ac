"""`fairlead open`: opens a signed-in browser, or prints the URL."""

import subprocess
import webbrowser
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.processes.machines import FAIRLEAD, RunningServer, environment

VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
NO_BROWSER = "no browser found; open this URL within 15 minutes (it works once)\n"


@pytest.fixture
def opened_urls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs opened in a browser, on a machine with a display."""
    urls: list[str] = []

    def show(url: str) -> bool:
        urls.append(url)
        return True

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", show)
    return urls


def follow(server: RunningServer, url: str) -> tuple[str, str]:
    """Open a URL as a browser does, and return the final URL and the user."""
    with server.anonymous_client() as browser:
        response = browser.get(url.strip())
        assert response.status_code == 303, response.text
        return response.headers["location"], browser.get("/api/v1/me").json()["via"]


def test_a_browser_is_opened_and_signed_in(terminal: Terminal, server: RunningServer, opened_urls: list[str]) -> None:
    assert terminal.succeed("open") == f"opened {server.url}/ in a browser\n"
    assert terminal.succeed("open", "/policies?tab=a") == f"opened {server.url}/policies?tab=a in a browser\n"
    assert [follow(server, url) for url in opened_urls] == [
        ("/", "session:browser"),
        ("/policies?tab=a", "session:browser"),
    ]


def test_print_shows_only_the_url(terminal: Terminal, server: RunningServer, opened_urls: list[str]) -> None:
    printed = terminal.succeed("open", "/policies", "--print")
    assert printed.startswith(f"{server.url}/login?code=fl_")
    assert printed.count("\n") == 1
    assert follow(server, printed) == ("/policies", "session:browser")
    assert opened_urls == []


def test_json_output_contains_the_url(terminal: Terminal, server: RunningServer, opened_urls: list[str]) -> None:
    data = terminal.read("open")
    assert sorted(data) == ["expires_at", "url"]
    assert opened_urls == [data["url"]]
    assert follow(server, terminal.read("open", "--print")["url"]) == ("/", "session:browser")
    assert len(opened_urls) == 1


@pytest.mark.parametrize("case", ["no display", "no browser", "an error"])
def test_the_url_is_printed_if_no_browser_can_be_opened(
    terminal: Terminal, server: RunningServer, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    def show(_url: str) -> bool:
        assert case != "no display", "without a display, Python would find a browser for terminals"
        if case == "an error":
            raise webbrowser.Error("could not locate runnable browser")
        return False

    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(webbrowser, "open", show)
    if case != "no display":
        monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    result = terminal("open", "/audit")
    assert (result.code, result.err) == (0, NO_BROWSER)
    assert follow(server, result.out) == ("/audit", "session:browser")


def test_the_browser_variable_is_used(server: RunningServer, tmp_path: Path) -> None:
    browser, url_file = tmp_path / "browser", tmp_path / "url"
    browser.write_text(f'#!/bin/sh\necho "$1" > {url_file}\n')
    browser.chmod(0o700)
    variables = {"FAIRLEAD_URL": server.url, "FAIRLEAD_TOKEN": server.token, "BROWSER": str(browser)}
    args = [str(FAIRLEAD), "open", "/settings"]
    process = subprocess.run(args, env=environment(tmp_path, variables), capture_output=True, text=True, check=True)
    assert (process.stdout, process.stderr) == (f"opened {server.url}/settings in a browser\n", "")
    assert follow(server, url_file.read_text()) == ("/settings", "session:browser")


@pytest.mark.parametrize("path", ["policies/", "//evil.example", "https://evil.example/"])
def test_invalid_paths_are_rejected(terminal: Terminal, opened_urls: list[str], path: str) -> None:
    error = terminal.fail("open", path)
    assert f"next: invalid path {path!r}" in error
    assert "such as /compute-resources" in error
    assert opened_urls == []


def test_an_unknown_token_is_reported(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, opened_urls: list[str]
) -> None:
    monkeypatch.setenv("FAIRLEAD_TOKEN", "fl_wrong")
    assert "the token is unknown" in terminal.fail("open")
    assert opened_urls == []
