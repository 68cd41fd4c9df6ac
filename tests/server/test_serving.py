"""Served runs for programs, under the server's URL: transparent HTTP, streamed in both directions."""

import hashlib
import json
import socket
import threading

import pytest

from fairlead.model.runs import Endpoint
from tests.server.conftest import Lines
from tests.server.sites import COOKIE, PROBLEM, cookie_in, problem_of
from tests.server.stages import Stage
from tests.server.test_sessions import sign_in
from tests.server.upstreams import MEBIBYTE, TIMEOUT_SECONDS, Program, headers_of, read_all, wait_until


@pytest.fixture
def stage(common_stage: Stage) -> Stage:
    """A server shared by all tests in a file. Each test has its own runs."""
    return common_stage


@pytest.fixture
def program(common_program: Program) -> Program:
    """The shared program, without recorded requests."""
    common_program.requests.clear()
    common_program.disconnected.clear()
    common_program.proceed.clear()
    return common_program


@pytest.fixture(params=["socket", "port"])
def each_endpoint(request: pytest.FixtureRequest, endpoints: dict[str, Endpoint]) -> Endpoint:
    """Each of the program's endpoints."""
    return endpoints[request.param]


@pytest.fixture
def endpoint(endpoints: dict[str, Endpoint]) -> Endpoint:
    """The endpoint of the program."""
    return endpoints["port"]


# Forwarding


def test_authorized_request_is_forwarded_to_the_run(stage: Stage, each_endpoint: Endpoint) -> None:
    run_id = stage.serve(each_endpoint)
    response = stage.request("POST", run_id, "/predict/a%2Fb?x=1&y=%20", content=b"data", headers={"X-Of-Mine": "yes"})
    assert response.status_code == 200
    request = response.json()
    assert (request["method"], request["path"], request["query"]) == ("POST", "/predict/a%2Fb", "x=1&y=%20")
    headers = headers_of(request)
    assert headers["x-of-mine"] == "yes"
    assert headers["content-length"] == "4"
    assert headers["x-forwarded-prefix"] == f"/served/{run_id}"
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert headers["x-forwarded-host"] == headers["host"] == f"127.0.0.1:{stage.port}"
    assert headers["x-forwarded-proto"] == "http"
    assert headers["x-request-id"] == response.headers["x-request-id"]
    assert "authorization" not in headers


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "OPTIONS"])
def test_every_method_is_forwarded(stage: Stage, program: Program, endpoint: Endpoint, method: str) -> None:
    response = stage.request(method, stage.serve(endpoint), "/anything")
    assert response.status_code == 200
    assert [request["method"] for request in program.requests] == [method]
    assert (response.content == b"") == (method == "HEAD")
    assert int(response.headers["content-length"]) > 100


@pytest.mark.parametrize(
    ("path", "expected"), [("", "/"), ("/", "/"), ("//a//b/", "//a//b/"), ("/%2fa;b=c", "/%2fa;b=c")]
)
def test_path_is_forwarded_unchanged(stage: Stage, endpoint: Endpoint, path: str, expected: str) -> None:
    assert stage.request("GET", stage.serve(endpoint), path).json()["path"] == expected


def test_bodies_of_any_size_are_forwarded(stage: Stage, each_endpoint: Endpoint) -> None:
    run_id = stage.serve(each_endpoint)
    chunk = bytes(range(256)) * 4096
    result = stage.request("POST", run_id, "/count", content=(chunk for _ in range(40))).json()
    assert result == {"size": 40 * MEBIBYTE, "digest": hashlib.sha256(chunk * 40).hexdigest()}
    assert stage.request("PUT", run_id, "/count", content=chunk * 20).json()["size"] == 20 * MEBIBYTE
    assert len(stage.request("GET", run_id, "/big?50").content) == 50 * MEBIBYTE


def test_response_can_start_while_the_request_is_still_sent(stage: Stage, endpoint: Endpoint) -> None:
    """An echo of 40 MiB fills all buffers before the request is complete."""
    size, head = (
        40 * MEBIBYTE,
        f"POST /served/{stage.serve(endpoint)}/echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n",
    )
    head += f"Authorization: Bearer {stage.site.token}\r\nContent-Length: {size}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", stage.port), timeout=TIMEOUT_SECONDS) as connection:
        sender = threading.Thread(target=lambda: connection.sendall(head.encode() + b"e" * size), daemon=True)
        sender.start()
        response = read_all(connection)
        sender.join(TIMEOUT_SECONDS)
    assert response.startswith(b"HTTP/1.1 200")
    assert response.count(b"e" * 100) > size / 101


def test_events_are_streamed_and_a_disconnect_ends_the_request(
    stage: Stage, program: Program, each_endpoint: Endpoint
) -> None:
    run_id = stage.serve(each_endpoint)
    headers = {"Authorization": f"Bearer {stage.site.token}"}
    with stage.client.stream("GET", f"/served/{run_id}/events", headers=headers) as response:
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["x-accel-buffering"] == "no"
        lines = response.iter_lines()
        assert next(lines) == "data: 1"
        program.proceed.set()
        assert [next(lines), next(lines)] == ["", "data: 2"]
        assert not program.disconnected.is_set()
        assert stage.site.app.state.metrics.idle_seconds == 0.0
    assert program.disconnected.wait(TIMEOUT_SECONDS)
    wait_until(lambda: stage.site.app.state.metrics.in_flight == 0)


@pytest.mark.parametrize("status", [204, 205, 301, 304, 404, 418, 500])
def test_status_is_forwarded(stage: Stage, endpoint: Endpoint, status: int) -> None:
    length = "&content-length=0" if status != 304 else "&etag=x"
    response = stage.request("GET", stage.serve(endpoint), f"/say?status={status}&x-of-the-run=yes{length}")
    assert (response.status_code, response.headers["x-of-the-run"], response.content) == (status, "yes", b"")


# Permissions


@pytest.mark.parametrize(("action", "role", "status"), [
    ("serve", "viewer", 200),
    ("serve", "member", 200),
    ("serve", "editor", 200),
    ("workspace", "viewer", 403),
    ("workspace", "editor", 403),
    ("workspace", "member", 200),
])  # fmt: skip
def test_viewers_can_call_a_served_run_and_only_members_can_use_a_workspace(
    stage: Stage, endpoint: Endpoint, action: str, role: str, status: int
) -> None:
    run_id, token = stage.serve(endpoint, action), stage.site.token_of(f"{action}-{role}", **{role: "project/alpha"})
    response = stage.request("GET", run_id, token=token)
    assert response.status_code == status
    if status == 403:
        assert "may not run workloads in project/alpha" in problem_of(response)["detail"]


def test_invisible_run_is_not_found(stage: Stage, program: Program, endpoint: Endpoint) -> None:
    stage.site.post("/projects", {"name": "beta", "parent": "cluster/far"})
    token = stage.site.token_of("eve", admin="project/beta")
    for run_id in (stage.serve(endpoint), "0" * 32):
        assert problem_of(stage.request("GET", run_id, token=token), 404)["detail"] == f"run '{run_id}' does not exist"
    assert program.requests == []


def test_request_without_a_token_is_rejected_and_cookies_are_ignored(
    stage: Stage, program: Program, endpoint: Endpoint
) -> None:
    run_id = stage.serve(endpoint)
    session = cookie_in(sign_in(stage.site)).value
    header_sets: tuple[dict[str, str], ...] = (
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer fl_wrong"},
        {"Authorization": f"Basic {stage.site.token}"},
        {"Cookie": f"{COOKIE}={session}"},
        {"Cookie": f"fairlead_run_session={stage.sign_in(run_id)}"},
    )
    for headers in header_sets:
        response = stage.request("GET", run_id, token=None, headers=headers)
        problem_of(response, 401)
        assert response.headers["www-authenticate"] == "Bearer"
    assert program.requests == []


def test_invalid_served_path_is_not_found(stage: Stage) -> None:
    for path in ("/served", "/served/", "/served/x/", f"/served/{'0' * 31}/", f"/served/{'A' * 32}/"):
        response = stage.client.get(path, headers={"Accept": "text/html"})
        problem_of(response, 404)


# Last use


def test_request_is_logged_without_its_query_and_counted_under_one_route(
    stage: Stage, endpoint: Endpoint, log: Lines
) -> None:
    run_id = stage.serve(endpoint)
    metric = 'fairlead_requests_total{method="DELETE",route="/served/{run_id}/{path}",status="200"}'
    assert metric not in stage.client.get("/metrics").text
    stage.request("DELETE", run_id, "/secret-free?token=hush")
    wait_until(lambda: any(line.get("run") == run_id for line in log))
    line = next(line for line in log if line.get("run") == run_id)
    assert (line["event"], line["path"], line["status"]) == ("request", f"/served/{run_id}/secret-free", 200)
    assert "hush" not in json.dumps(log, default=str)
    assert f"{metric} 1.0" in stage.client.get("/metrics").text


def test_usage_is_recorded_once_a_minute(stage: Stage, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    assert stage.run(run_id).last_used_at is None
    stage.request("GET", run_id)
    first = stage.run(run_id)
    assert first.last_used_at is not None
    for _ in range(3):
        stage.request("GET", run_id)
    assert stage.run(run_id) == first


# URLs


def test_run_url_is_returned(stage: Stage, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    assert stage.site.get(f"/runs/{run_id}/url") == {
        "url": f"{stage.url}/served/{run_id}/",
        "browser": True,
        "ready": True,
        "message": "answers",
    }
    waiting = stage.serve(endpoint, state="starting", reason="Starting", message="loads a model")
    url_info = stage.site.get(f"/runs/{waiting}/url")
    assert (url_info["ready"], url_info["message"]) == (False, f"run {waiting} is starting (Starting): loads a model")


@pytest.mark.parametrize("route", ["GET /url", "POST /open"])
def test_run_that_serves_nothing_has_no_url(stage: Stage, endpoint: Endpoint, route: str) -> None:
    method, path = route.split()
    job = stage.site.post("/projects/alpha/runs", {"function": {"name": "a", "kind": "container", "image": "a/b:1"}})
    assert (
        "is a job and has no URL" in problem_of(stage.site.request(method, f"/runs/{job['id']}{path}"), 409)["detail"]
    )
    ended = stage.serve(endpoint, state="stopped", active=False, message="stopped by ann")
    assert "is stopped: stopped by ann" in problem_of(stage.site.request(method, f"/runs/{ended}{path}"), 409)["detail"]
    workspace, viewer = stage.serve(endpoint, "workspace"), stage.site.token_of(method, viewer="project/alpha")
    problem_of(stage.site.request(method, f"/runs/{workspace}{path}", token=viewer), 403)


def test_error_is_a_problem_response(stage: Stage, endpoint: Endpoint) -> None:
    job = stage.site.post("/projects/alpha/runs", {"function": {"name": "a", "kind": "container", "image": "a/b:1"}})
    response = stage.request("GET", job["id"], headers={"Accept": "text/html"})
    assert (response.status_code, response.headers["content-type"]) == (409, PROBLEM)
    assert response.headers["x-frame-options"] == "DENY"
