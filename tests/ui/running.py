"""Helpers for browser tests: submit runs with the API, wait for them, and open the run page."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.ui.sites import Site

# Chromium's console messages if the server is unreachable or the response is lost.
CONNECTION_ERROR = r"net::ERR_(CONNECTION_\w+|SOCKET_NOT_CONNECTED|EMPTY_RESPONSE|FAILED|INCOMPLETE_CHUNKED)"
WAIT_SECONDS = 50
HIDE = """isHidden => {
    Object.defineProperty(document, 'hidden', {value: isHidden, configurable: true});
    const state = isHidden ? 'hidden' : 'visible';
    Object.defineProperty(document, 'visibilityState', {value: state, configurable: true});
    document.dispatchEvent(new Event('visibilitychange', {bubbles: true}));
}"""

Run = dict[str, Any]


def submit(site: Site, name: str, script: str = "true", *, token: str | None = None, **request: Any) -> Run:
    """Submit a run of a shell script."""
    function = {"name": name, "command": ["bash", "-c", script]}
    return submit_like(site, {"function": function, "resources": {"mem": "64Mi"}, **request}, token=token)


def submit_like(site: Site, request: Run, *, project: str = "default", token: str | None = None) -> Run:
    """Submit a run."""
    run: Run = site.api("POST", f"/projects/{project}/runs", request, token=token)
    return run


def wait(site: Site, run: Run, state: str) -> Run:
    """Wait until the run is in a given state and return the run."""
    while run["state"] != state:
        assert run["active"], f"never {state}: {run['state']}, {run['message']}"
        run = _wait_for_change(site, run)
    return run


def wait_for_end(site: Site, run: Run) -> Run:
    """Wait until the run has ended and return the run."""
    while run["active"]:
        run = _wait_for_change(site, run)
    return run


def finish(site: Site, name: str, script: str = "true", state: str = "completed", **request: Any) -> Run:
    """Submit a run of a shell script and wait for it to end."""
    return wait(site, submit(site, name, script, **request), state)


def stop(site: Site, *runs: Run) -> None:
    """Request that runs stop, without waiting."""
    for run in runs:
        site.api("POST", f"/runs/{run['id']}/stop")


def name_of(run: Run) -> str:
    """A run's short name on the page."""
    return f"{run['function']} {run['id'][-8:]}"


def open_run(page: Page, run: Run, part: str = "") -> None:
    """Open the run page."""
    page.goto(f"/runs/{run['id']}{part and '/'}{part}")
    expect(page.get_by_role("heading", name=name_of(run))).to_be_visible()


def hide(page: Page) -> None:
    """Make a page believe that its tab is hidden."""
    page.evaluate(HIDE, True)


def show(page: Page) -> None:
    """Make a page believe that its tab is visible again."""
    page.evaluate(HIDE, False)


def _wait_for_change(site: Site, run: Run) -> Run:
    """Wait for the next change to the run and return the run."""
    tag = f'"{run["revision"]}-{run["id"][-8:]}"'
    changed: Run | None = site.api("GET", f"/runs/{run['id']}?wait={WAIT_SECONDS}", If_None_Match=tag)
    assert changed, f"nothing has changed for {WAIT_SECONDS} seconds: {run['state']}, {run['message']}"
    return changed
