"""Runs for the tests of the web page: submitted past it, waited for, and looked at in a browser."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.ui.sites import Site

# What Chromium says of a server that is gone, or whose answer is lost.
NO_ANSWER = r"net::ERR_(CONNECTION_\w+|SOCKET_NOT_CONNECTED|EMPTY_RESPONSE|FAILED|INCOMPLETE_CHUNKED)"
WAIT_SECONDS = 50
HIDE = """isHidden => {
    Object.defineProperty(document, 'hidden', {value: isHidden, configurable: true});
    const state = isHidden ? 'hidden' : 'visible';
    Object.defineProperty(document, 'visibilityState', {value: state, configurable: true});
    document.dispatchEvent(new Event('visibilitychange', {bubbles: true}));
}"""

Run = dict[str, Any]


def submit(site: Site, name: str, script: str = "true", *, token: str | None = None, **asked: Any) -> Run:
    """A run of a shell script."""
    function = {"name": name, "command": ["bash", "-c", script]}
    return submit_like(site, {"function": function, "resources": {"mem": "64Mi"}, **asked}, token=token)


def submit_like(site: Site, asked: Run, *, project: str = "default", token: str | None = None) -> Run:
    """A run of anything."""
    made: Run = site.api("POST", f"/projects/{project}/runs", asked, token=token)
    return made


def wait(site: Site, run: Run, state: str) -> Run:
    """The run, once it is that far."""
    while run["state"] != state:
        assert run["active"], f"never {state}: {run['state']}, {run['message']}"
        run = _look_again(site, run)
    return run


def wait_for_end(site: Site, run: Run) -> Run:
    """The run, once it has ended, however it did."""
    while run["active"]:
        run = _look_again(site, run)
    return run


def finish(site: Site, name: str, script: str = "true", state: str = "completed", **asked: Any) -> Run:
    """A run of a shell script, to its end."""
    return wait(site, submit(site, name, script, **asked), state)


def stop(site: Site, *runs: Run) -> None:
    """Stop runs, without waiting for it."""
    for run in runs:
        site.api("POST", f"/runs/{run['id']}/stop")


def name_of(run: Run) -> str:
    """How the page calls a run."""
    return f"{run['function']} {run['id'][-8:]}"


def open_run(page: Page, run: Run, part: str = "") -> None:
    """Open the page of a run."""
    page.goto(f"/runs/{run['id']}{part and '/'}{part}")
    expect(page.get_by_role("heading", name=name_of(run))).to_be_visible()


def hide(page: Page) -> None:
    """Let a page think that nobody looks at it."""
    page.evaluate(HIDE, True)


def show(page: Page) -> None:
    """Let it think that somebody does again."""
    page.evaluate(HIDE, False)


def _look_again(site: Site, run: Run) -> Run:
    """The run, once something of it has changed."""
    tag = f'"{run["revision"]}-{run["id"][-8:]}"'
    changed: Run | None = site.api("GET", f"/runs/{run['id']}?wait={WAIT_SECONDS}", If_None_Match=tag)
    assert changed, f"nothing has changed for {WAIT_SECONDS} seconds: {run['state']}, {run['message']}"
    return changed
