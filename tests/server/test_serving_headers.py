"""Headers to and from served runs: no credentials, no effect outside of the run."""

import json
import socket

import pytest

from fairlead.model.observations import Endpoint
from fairlead.server.proxy.headers import make_response_headers
from fairlead.server.proxy.targets import Target
from tests.server.sites import COOKIE
from tests.server.stages import Stage
from tests.server.upstreams import PATIENCE, Program, headers_of, read_all


@pytest.fixture
def stage(common_stage: Stage) -> Stage:
    """A server that all tests of this file share: each has runs of its own."""
    return common_stage


@pytest.fixture
def program(common_program: Program) -> Program:
    """The shared program, without recorded requests."""
    common_program.asked.clear()
    common_program.left.clear()
    common_program.go_on.clear()
    return common_program


@pytest.fixture
def endpoint(endpoints: dict[str, Endpoint]) -> Endpoint:
    """How that is reached."""
    return endpoints["port"]


def send_raw(stage: Stage, text: bytes) -> bytes:
    """The response to raw bytes, until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", stage.port), timeout=PATIENCE) as connection:
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
    answer = stage.client.get(f"/served/{stage.serve(endpoint)}/", headers=headers)
    asked = headers_of(answer.json())
    assert asked["cookie"] == "own=1; two=2; three=3"
    assert not asked.keys() & {"authorization", "proxy-authorization"}
    assert stage.site.token not in answer.text


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
    asked = headers_of(stage.ask("GET", stage.serve(endpoint), headers=forged).json())
    assert "evil" not in json.dumps(asked)
    assert not asked.keys() & {"forwarded", "x-real-ip", "x-forwarded-user"}


def test_hop_by_hop_headers_are_removed(stage: Stage, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    sent = (
        f"GET /served/{run_id}/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {stage.site.token}\r\n"
        "Connection: close, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nTrailer: X-End\r\n"
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nProxy-Connection: keep-alive\r\nX-Kept: 2\r\n\r\n"
    )
    head, _, body = send_raw(stage, sent.encode()).partition(b"\r\n\r\n")
    asked = headers_of(json.loads(body))
    assert asked["x-kept"] == "2"
    hidden = {"connection", "x-secret", "keep-alive", "te", "trailer", "upgrade", "http2-settings", "proxy-connection"}
    assert not asked.keys() & hidden
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
    sent = (
        f"POST /served/{run_id}/count HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Authorization: Bearer {stage.site.token}\r\n{framing}\r\n\r\n0\r\n\r\n{smuggled}"
    )
    send_raw(stage, sent.encode())
    assert [asked["path"] for asked in program.asked if asked["path"] != "/count"] == []


@pytest.mark.parametrize("path", ["/../x", "/a/%2e%2e/b", "/a/..%2fb", "/.", "/a\\..\\b", "/%2E%2e"])
def test_path_that_leaves_the_run_is_rejected(stage: Stage, program: Program, endpoint: Endpoint, path: str) -> None:
    run_id = stage.serve(endpoint)
    sent = f"GET /served/{run_id}{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {stage.site.token}\r\n"
    answer = send_raw(stage, f"{sent}Connection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400")
    assert program.asked == []


# Response headers


def test_pages_below_the_server_url_are_sandboxed(stage: Stage, endpoint: Endpoint) -> None:
    said = (
        "content-security-policy=default-src%20*&clear-site-data=%22cookies%22&strict-transport-security=max-age%3D1"
        "&service-worker-allowed=/&alt-svc=h3&x-kept=1&content-length=0"
    )
    headers = stage.ask("GET", stage.serve(endpoint), f"/say?{said}").headers
    assert headers.get_list("content-security-policy") == ["default-src *", "sandbox"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-kept"] == "1"
    gone = {"clear-site-data", "strict-transport-security", "service-worker-allowed", "alt-svc"}
    assert not set(headers) & gone


@pytest.mark.parametrize(("said", "found"), [
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
    stage: Stage, endpoint: Endpoint, said: str, found: str | None
) -> None:
    run_id = stage.serve(endpoint)
    prefix = f"/served/{run_id}"
    query = {"set-cookie": said.format(prefix=prefix), "content-length": "0"}
    answer = stage.ask("GET", run_id, "/say", params=query)
    expected = [] if found is None else [found.format(prefix=prefix)]
    assert answer.headers.get_list("set-cookie") == expected


@pytest.mark.parametrize(("said", "found"), [
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
    ("{reach}", "{prefix}/"),
    ("https://elsewhere.example/a", "https://elsewhere.example/a"),
    ("//elsewhere.example/a", "//elsewhere.example/a"),
])  # fmt: skip
def test_redirects_are_rewritten_to_the_path_of_the_run(
    stage: Stage, endpoint: Endpoint, said: str, found: str
) -> None:
    run_id = stage.serve(endpoint)
    words = {"prefix": f"/served/{run_id}", "host": f"127.0.0.1:{stage.port}", "reach": endpoint.url}
    query = {"status": "302", "location": said.format(**words), "content-length": "0"}
    assert stage.ask("GET", run_id, "/say", params=query).headers["location"] == found.format(**words)


@pytest.mark.parametrize(("host", "said"), [
    ("fairlead.example", "http://fairlead.example:80/api"),
    ("fairlead.example", "https://fairlead.example:443/api"),
    ("fairlead.example", "//FAIRLEAD.example./api"),
    ("fairlead.example:443", "https://fairlead.example/api"),
])  # fmt: skip
def test_hosts_in_redirects_are_compared_normalized(host: str, said: str) -> None:
    target = Target("r", b"/deep/say", b"", host, "/served/r")
    headers = make_response_headers([(b"Location", said.encode())], target, Endpoint("http://localhost"))
    assert dict(headers)[b"location"] == b"/served/r/api"


def test_redirect_without_a_host_is_forwarded() -> None:
    target = Target("r", b"/", b"", "fairlead.example", "/served/r")
    headers = make_response_headers([(b"Location", b"mailto:ada@example.com")], target, Endpoint("http://localhost"))
    assert dict(headers)[b"location"] == b"mailto:ada@example.com"
