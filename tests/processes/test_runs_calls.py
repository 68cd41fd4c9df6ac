"""Served runs from Python and the CLI: URL, calls, and opening a run in a browser."""

import webbrowser
from collections.abc import Callable

import httpx2
import pytest

from fairlead.errors import Conflict, FairleadError, Unavailable
from fairlead.sdk.runs import Run
from tests.processes.execution import Platform, until, wait_for_end
from tests.processes.machines import CLIENT_OPTIONS, FAIRLEAD, Machine

PROGRAM = """
import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kinds = {"/json": "application/json", "/text": "text/plain", "/bytes": "application/octet-stream"}
        status = {"/reject": 422, "/redirect": 303}.get(self.path, 200)
        self.send_response(status)
        self.send_header("Content-Type", kinds.get(self.path, "text/plain"))
        self.send_header("Location", "/text")
        self.end_headers()
        if self.path != "/nothing":
            self.wfile.write(b"invalid input" if status == 422 else body or self.path.encode())

    def do_GET(self):
        self.do_POST()

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def run(platform: Platform) -> Run:
    """A served run that echoes requests."""
    function = platform.project.function("echo", command=["python3", "-c", PROGRAM])
    return function.run(action="serve")


def test_call_waits_until_the_run_is_ready(run: Run) -> None:
    assert run.call("json", json={"x": [1, 2]}) == {"x": [1, 2]}
    assert run.call("/json", {"x": 3}) == {"x": 3}
    assert run.call("text", content=b"text") == "text"
    assert run.call("bytes", content=b"\x00\xff") == b"\x00\xff"
    assert run.call("nothing") is None
    assert run.call("text", method="GET") == "/text"
    assert run.call("redirect") == "/text"


def test_error_response_of_a_run_is_raised_with_its_body(run: Run) -> None:
    with pytest.raises(FairleadError, match=f"run {run.id} responded with 422: invalid input"):
        run.call("reject")


def test_url_of_a_run_works_with_a_token(platform: Platform, run: Run) -> None:
    run.call("text")  # waits until the run is ready
    assert run.url == f"{platform.server.url}/served/{run.id}/"
    headers = {"Authorization": f"Bearer {platform.server.token}"}
    assert httpx2.get(f"{run.url}text", headers=headers, **CLIENT_OPTIONS).text == "/text"


def test_open_shows_the_host_of_the_run_in_a_browser(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def record_url(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", record_url)
    run.call("text")  # waits until the run is ready
    url = run.open()
    assert opened == [url]
    assert url.startswith(f"http://{run.id}.localhost:")
    address = httpx2.URL(url)
    with httpx2.Client(**CLIENT_OPTIONS) as browser:
        headers = {"Host": address.netloc.decode()}
        signed_in = browser.get(address.copy_with(host="127.0.0.1"), headers=headers)
        assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/")
        cookie = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0]}
        response = browser.get(address.copy_with(host="127.0.0.1", path="/text", query=b""), headers=headers | cookie)
    assert response.text == "/text"


def test_job_has_no_url(platform: Platform) -> None:
    job = platform.shell("sleep 60")
    until(lambda: str(job.state) == "running")
    calls: list[Callable[[], object]] = [lambda: job.url, job.call, job.open]
    for call in calls:
        with pytest.raises(Conflict, match="is a job and has no URL"):
            call()
    job.stop()
    wait_for_end(job)


def test_cli_shows_the_url_of_a_run(platform: Platform, run: Run, machine: Machine) -> None:
    run.wait_for_start(progress=False)
    variables = {"FAIRLEAD_URL": platform.server.url, "FAIRLEAD_TOKEN": platform.server.token}
    assert f"url: {run.url}\n" in machine.fairlead("runs", "show", run.id, variables=variables).out
    printed = machine.fairlead("open", run.id[-8:], "--print", variables=variables)
    assert printed.out.startswith(f"http://{run.id}.localhost:"), printed
    assert "/.fairlead/sign-in?code=" in printed.out
    missing = machine.fairlead("open", "policies", variables=variables)
    assert "run 'policies' does not exist" in missing.err
    assert "fairlead open /policies" in missing.err


def test_cli_reports_when_a_served_run_is_ready(platform: Platform, machine: Machine) -> None:
    (machine.folder / "model.py").write_text("def predict(x):\n    return x + 1\n")
    variables = {"FAIRLEAD_URL": platform.server.url, "FAIRLEAD_TOKEN": platform.server.token}
    process = machine.start(str(FAIRLEAD), "run", "model.py:predict", "--action", "serve", variables=variables)
    until(lambda: "ready at " in process.output[1], 120)
    url = process.output[1].partition("ready at ")[2].split()[0]
    run_id = url.rstrip("/").rpartition("/")[2]
    assert f"-> fairlead open {run_id[-8:]}" in process.output[1]
    headers = {"Authorization": f"Bearer {platform.server.token}"}
    assert httpx2.post(url, json={"x": 1}, headers=headers, **CLIENT_OPTIONS).json() == 2
    assert machine.fairlead("runs", "stop", run_id, variables=variables).code == 0
    assert "stopped" in process.wait().err


def test_unreachable_server_is_reported(run: Run) -> None:
    unreachable = Run(type(run._api)("http://127.0.0.1:9", "fl_x"), run.data | {"state": "running"})
    with pytest.raises(Unavailable, match="no response from"):
        unreachable.call()


def test_hosts_of_runs_are_subdomains_of_the_served_host(machine: Machine) -> None:
    server = machine.up(variables={"FAIRLEAD_SERVED_HOST": "Apps.Test."})
    with server.anonymous_client() as browser:
        statuses = {
            name: browser.get("/", headers={"Host": f"{'0' * 32}.{name}"}).status_code
            for name in ("apps.test", "APPS.test:80", "localhost", "test")
        }
    assert statuses == {"apps.test": 401, "APPS.test:80": 401, "localhost": 200, "test": 200}
