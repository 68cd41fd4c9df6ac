"""Served runs in a real browser: own host, own cookie, and no access to the web UI."""

import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.ui.browsing import BrowserErrors
from tests.ui.running import Run, stop, submit_like, wait
from tests.ui.sites import Site

PROGRAM = '''
import os
import uvicorn

PAGE = b"""<!doctype html><title>Of the run</title><p id=fetched></p><p id=received></p><script>
fetch("/data").then(response => response.text()).then(text => document.getElementById("fetched").textContent = text);
const socket = new WebSocket(`ws://${location.host}/socket`);
socket.onopen = () => socket.send("hello");
socket.onmessage = event => document.getElementById("received").textContent = event.data;
</script>"""

async def app(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"] + " back"})
    elif scope["type"] == "http":
        cookies = [value for name, value in scope["headers"] if name == b"cookie"]
        body = PAGE if scope["path"] == "/" else b"data, and cookies: %r" % cookies
        headers = [(b"content-type", b"text/html"), (b"set-cookie", b"own=1; Path=/; Domain=localhost")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

uvicorn.run(app, port=int(os.environ["PORT"]), ws="wsproto", lifespan="off")
'''
OPEN = "path => fetch(path, {method: 'POST'}).then(response => response.json()).then(data => data.url)"
# Attacks by a served page on its reader's session.
ATTACKS = """async ([server, other]) => {
    const request = (url, options) => fetch(url, {credentials: "include", ...options}).then(
        response => `${response.type} ${response.status}`, () => "refused");
    const connect = url => new Promise(done => {
        const socket = new WebSocket(url);
        socket.onopen = () => done("opened");
        socket.onerror = () => done("refused");
    });
    const write = {method: "POST", mode: "no-cors", body: JSON.stringify({name: "stolen"})};
    return {
        read: await request(`${server}/api/v1/me`),
        write: await request(`${server}/api/v1/projects`, write),
        served: await request(`${server}/served/${location.host.split(".")[0]}/`, {mode: "no-cors"}),
        other: await request(`http://${other}/data`),
        socket: await connect(`ws://${other}/socket`),
        cookies: document.cookie,
    };
}"""


@pytest.fixture(scope="module")
def runs(site: Site) -> Iterator[list[Run]]:
    """Two runs that serve a page."""
    command = [sys.executable, "-c", PROGRAM]
    request = {"function": {"name": "page", "command": command}, "action": "serve", "resources": {"mem": "256Mi"}}
    submitted = [submit_like(site, request) for _ in range(2)]
    yield [wait(site, run, "running") for run in submitted]
    stop(site, *submitted)


def open_served_page(page: Page, run: Run) -> None:
    """Open the page of a served run from the web UI."""
    page.goto("/")
    page.goto(page.evaluate(OPEN, f"/api/v1/runs/{run['id']}/open"))


def host_of(site: Site, run: Run) -> str:
    return f"{run['id']}.localhost:{site.url.rpartition(':')[2]}"


def test_a_run_is_opened_at_its_own_host_and_works_there(
    page: Page, site: Site, runs: list[Run], browser_errors: BrowserErrors
) -> None:
    host = host_of(site, runs[0])
    browser_errors.expect(f"request to another host: GET http://{host}/")
    open_served_page(page, runs[0])
    expect(page).to_have_title("Of the run")
    expect(page).to_have_url(f"http://{host}/")
    expect(page.locator("#received")).to_have_text("hello back")
    expect(page.locator("#fetched")).to_contain_text("data, and cookies: ")
    expect(page.locator("#fetched")).not_to_contain_text("fairlead")
    page.reload()
    expect(page.locator("#received")).to_have_text("hello back")
    cookies = {cookie["name"]: cookie for cookie in page.context.cookies(f"http://{host}/")}
    assert sorted(cookies) == ["fairlead_run_session", "own"]
    assert cookies["fairlead_run_session"]["domain"] == cookies["own"]["domain"] == host.partition(":")[0]
    assert cookies["fairlead_run_session"]["httpOnly"] is True


def test_a_page_of_a_run_cannot_use_the_readers_session(
    page: Page, site: Site, runs: list[Run], browser_errors: BrowserErrors
) -> None:
    browser_errors.expect("request to another host")
    open_served_page(page, runs[1])
    expect(page).to_have_title("Of the run")
    open_served_page(page, runs[0])
    expect(page.locator("#received")).to_have_text("hello back")
    browser_errors.expect("console: .*(CORS policy|status of 40[13]|Failed to load|WebSocket connection)")
    results = page.evaluate(ATTACKS, [site.url, host_of(site, runs[1])])
    assert results == {
        "read": "refused",
        "write": "opaque 0",
        "served": "opaque 0",
        "other": "refused",
        "socket": "refused",
        "cookies": "own=1",
    }
    assert "stolen" not in [project["name"] for project in site.api("GET", "/projects")["items"]]


def test_visitor_without_access_gets_a_link_to_the_run_page(
    page: Page, site: Site, runs: list[Run], browser_errors: BrowserErrors
) -> None:
    browser_errors.expect("request to another host")
    browser_errors.expect("status of 401")
    page.goto(f"http://{host_of(site, runs[0])}/")
    expect(page.get_by_role("heading", name="Cannot open the run")).to_be_visible()
    expect(page.get_by_role("link", name="Open the run in Fairlead")).to_have_attribute(
        "href", f"{site.url}/runs/{runs[0]['id']}"
    )
