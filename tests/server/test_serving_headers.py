"""Headers to and from served runs: no credentials, no effect outside the run."""

import json
import socket

import pytest

from fairlead.model.runs import Endpoint
from fairlead.server.proxy.headers import Target, make_response_headers
from tests.server.sites import COOKIE
from tests.server.stages import Stage
from tests.server.upstreams import TIMEOUT_SECONDS, Program, headers_of, read_all


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


@pytest.fixture
def endpoint(endpoints: dict[str, Endpoint]) -> Endpoint:
    """The endpoint of the program."""
    return endpoints["port"]


def send_raw(stage: Stage, text: bytes) -> bytes:
    """The response to raw bytes, until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", stage.port), timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(text)
        return read_all(connection)


# Headers that are never forwarded


def test_tokens_and_cookies_of_fairlead_are_not_forwarded(stage: Stage, endpoint: Endpoint) -> None:
    cookies = [f"{COOKIE}=a", "own=1", "__Host-fairlead_run_session=b", "FAIRLEAD_LOGIN=c", "Fairlead_x=d", "two=2"]
    headers = [
        ("Authorization", f"Bearer {stage.site.token}"),
        ("Cookie", "; ".join(cookies)),
        ("Cookie", f"three=3;{COOKIE}=e"),
        ("Proxy-Authorization", "Basic f"),
    ]
    response = stage.client.get(f"/served/{stage.serve(endpoint)}/", headers=headers)
    forwarded = headers_of(response.json())
    assert forwarded["cookie"] == "own=1; two=2; three=3"
    assert not forwarded.keys() & {"authorization", "proxy-authorization"}
    assert stage.site.token not in response.text


def test_forged_forwarding_headers_are_removed(stage: Stage, endpoint: Endpoint) -> None:
    forged = {
        "X-Forwarded-Prefix": "/evil",
        "X_Forwarded_Prefix": "/evil",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-User": "root",
        "x-forwarded_for": "evil",
        "Forwarded": "for=evil",
        "X-Real-IP": "6.6.6.6",
    }
    forwarded = headers_of(stage.request("GET", stage.serve(endpoint), headers=forged).json())
    assert "evil" not in json.dumps(forwarded)
    assert not forwarded.keys() & {"forwarded", "x-real-ip", "x-forwarded-user"}


def test_hop_by_hop_headers_are_removed(stage: Stage, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    request = (
        f"GET /served/{run_id}/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {stage.site.token}\r\n"
        "Connection: close, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nTrailer: X-End\r\n"
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nProxy-Connection: keep-alive\r\nX-Kept: 2\r\n\r\n"
    )
    head, _, body = send_raw(stage, request.encode()).partition(b"\r\n\r\n")
    forwarded = headers_of(json.loads(body))
    assert forwarded["x-kept"] == "2"
    hidden = {"connection", "x-secret", "keep-alive", "te", "trailer", "upgrade", "http2-settings", "proxy-connection"}
    assert not forwarded.keys() & hidden
    assert b"connection: close" in head


@pytest.mark.parametrize("framing", [
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Content-Length: 5\r\nContent-Length: 44",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding : chunked",
])  # fmt: skip
def test_request_smuggling_is_prevented(stage: Stage, program: Program, endpoint: Endpoint, framing: str) -> None:
    run_id = stage.serve(endpoint)
    smuggled = f"GET /smuggled HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {stage.site.token}\r\n\r\n"
    request = (
        f"POST /served/{run_id}/count HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Authorization: Bearer {stage.site.token}\r\n{framing}\r\n\r\n0\r\n\r\n{smuggled}"
    )
    send_raw(stage, request.encode())
    assert [recorded["path"] for recorded in program.requests if recorded["path"] != "/count"] == []


@pytest.mark.parametrize("path", ["/../x", "/a/%2e%2e/b", "/a/..%2fb", "/.", "/a\\..\\b", "/%2E%2e"])
def test_path_that_leaves_the_run_is_rejected(stage: Stage, program: Program, endpoint: Endpoint, path: str) -> None:
    run_id = stage.serve(endpoint)
    request = f"GET /served/{run_id}{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {stage.site.token}\r\n"
    response = send_raw(stage, f"{request}Connection: close\r\n\r\n".encode())
    assert response.startswith(b"HTTP/1.1 400")
    assert program.requests == []


# Response headers


def test_pages_below_the_server_url_are_sandboxed(stage: Stage, endpoint: Endpoint) -> None:
    query = (
        "content-security-policy=default-src%20*&clear-site-data=%22cookies%22&strict-transport-security=max-age%3D1"
        "&service-worker-allowed=/&alt-svc=h3&x-kept=1&content-length=0"
    )
    headers = stage.request("GET", stage.serve(endpoint), f"/say?{query}").headers
    assert headers.get_list("content-security-policy") == ["default-src *", "sandbox"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-kept"] == "1"
    removed = {"clear-site-data", "strict-transport-security", "service-worker-allowed", "alt-svc"}
    assert not set(headers) & removed


@pytest.mark.parametrize(("set_cookie", "expected_cookie"), [
    ("a=1", "a=1"),
    ("a=1; Path=/", "a=1; Path={prefix}/"),
    ("a=1; path = /deep ;HttpOnly", "a=1; Path={prefix}/deep;HttpOnly"),
    ("a=1; Domain=127.0.0.1; Path=/; DOMAIN=.localhost", "a=1; Path={prefix}/"),
    ("a=1; Path={prefix}/x", "a=1; Path={prefix}/x"),
    ("a=1; Path=elsewhere", "a=1; Path={prefix}/"),
    ("fairlead_session=x; Path=/", None),
    (" __Host-fairlead_run_session=x", None),
    ("Fairlead_Login=x", None),
    ("=fairlead_session=x", None),
    ("fairlead_session", None),
])  # fmt: skip
def test_cookies_are_restricted_to_the_path_of_the_run(
    stage: Stage, endpoint: Endpoint, set_cookie: str, expected_cookie: str | None
) -> None:
    run_id = stage.serve(endpoint)
    prefix = f"/served/{run_id}"
    query = {"set-cookie": set_cookie.format(prefix=prefix), "content-length": "0"}
    response = stage.request("GET", run_id, "/say", params=query)
    expected = [] if expected_cookie is None else [expected_cookie.format(prefix=prefix)]
    assert response.headers.get_list("set-cookie") == expected


@pytest.mark.parametrize(("location", "expected"), [
    ("/login?next=/", "{prefix}/login?next=/"),
    ("{prefix}/x", "{prefix}/x"),
    ("relative#part", "{prefix}/relative#part"),
    ("?page=2", "{prefix}/say?page=2"),
    ("http://{host}/a", "{prefix}/a"),
    ("http://u@{host}/api/v1/runs", "{prefix}/api/v1/runs"),
        ("http:/api/v1/runs", "{prefix}/api/v1/runs"),
    ("../../api/v1/runs", "{prefix}/api/v1/runs"),
    ("{prefix}/../../api/v1/runs", "{prefix}/api/v1/runs"),
    ("{prefix}/%2E%2e/%2e./api/v1/runs", "{prefix}/api/v1/runs"),
    ("..\\..\\api", "{prefix}/..%5C..%5Capi"),
    ("///api", "{prefix}/api"),
    ("{prefix}", "{prefix}/"),
    ("{prefix}//elsewhere.example/a", "{prefix}/elsewhere.example/a"),
    ("http://{host}", "{prefix}/"),
    ("https://u:p@elsewhere.example:8443/a?b#c", "https://elsewhere.example:8443/a?b#c"),
    ("{upstream}", "{prefix}/"),
    ("https://elsewhere.example/a", "https://elsewhere.example/a"),
    ("//elsewhere.example/a", "//elsewhere.example/a"),
])  # fmt: skip
def test_redirects_are_rewritten_to_the_path_of_the_run(
    stage: Stage, endpoint: Endpoint, location: str, expected: str
) -> None:
    run_id = stage.serve(endpoint)
    values = {"prefix": f"/served/{run_id}", "host": f"127.0.0.1:{stage.port}", "upstream": endpoint.url}
    query = {"status": "302", "location": location.format(**values), "content-length": "0"}
    assert stage.request("GET", run_id, "/say", params=query).headers["location"] == expected.format(**values)


@pytest.mark.parametrize(("host", "location"), [
    ("fairlead.example", "http://fairlead.example:80/api"),
    ("fairlead.example", "https://fairlead.example:443/api"),
    ("fairlead.example", "//FAIRLEAD.example./api"),
    ("fairlead.example:443", "https://fairlead.example/api"),
])  # fmt: skip
def test_hosts_in_redirects_are_compared_normalized(host: str, location: str) -> None:
    target = Target("r", b"/deep/say", b"", host, "/served/r")
    headers = make_response_headers([(b"Location", location.encode())], target, Endpoint("http://localhost"))
    assert dict(headers)[b"location"] == b"/served/r/api"


def test_redirect_without_a_host_is_forwarded() -> None:
    target = Target("r", b"/", b"", "fairlead.example", "/served/r")
    headers = make_response_headers([(b"Location", b"mailto:ada@example.com")], target, Endpoint("http://localhost"))
    assert dict(headers)[b"location"] == b"mailto:ada@example.com"
