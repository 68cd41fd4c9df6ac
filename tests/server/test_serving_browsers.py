"""Served runs in browsers: each run has its own host and session cookie."""

import base64
import time
from datetime import timedelta
from typing import Any

import pytest
from httpx2.websockets import WebSocketUpgradeError

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.model.records import AuditRecord
from fairlead.model.runs import Endpoint
from fairlead.services import registry
from fairlead.services.runs.serving import ServedHosts
from tests.adapters.issuers import Issuer, make_claims, make_token
from tests.server.conftest import Lines
from tests.server.sites import cookie_in, problem_of
from tests.server.stages import COOKIE, Stage, open_stage
from tests.server.test_sessions import sign_in
from tests.server.upstreams import TIMEOUT_SECONDS, Program

HTML = {"Accept": "text/html,*/*;q=0.8"}
RUN, OTHER = "0" * 32, "f" * 32


@pytest.fixture
def advance_clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Advances the clock of servers that are created later."""
    passed, now = [timedelta()], registry.now
    monkeypatch.setattr(registry, "now", lambda: now() + passed[0])
    return lambda **time: passed.append(passed.pop() + timedelta(**time))


# Hosts


@pytest.mark.parametrize(("url", "served_host", "origin"), [
    ("http://127.0.0.1:8470", None, f"http://{RUN}.localhost:8470"),
    ("http://localhost:8470", None, f"http://{RUN}.localhost:8470"),
    ("http://[::1]:8470", None, f"http://{RUN}.localhost:8470"),
    ("http://0.0.0.0:8470", None, None),
    ("https://fairlead.example.com", None, None),
    ("https://fairlead.example.com", "apps.example.com", f"https://{RUN}.apps.example.com"),
    ("https://fairlead.example.com:8443/", "apps.example.com", f"https://{RUN}.apps.example.com:8443"),
    ("http://127.0.0.1:8470", "apps.example.com", f"http://{RUN}.apps.example.com:8470"),
])  # fmt: skip
def test_each_run_has_its_own_host(url: str, served_host: str | None, origin: str | None) -> None:
    hosts = ServedHosts.of(url, served_host)
    assert hosts.origin_of(RUN) == origin
    assert hosts.url_of(RUN) == f"{url.rstrip('/')}/served/{RUN}/"


@pytest.mark.parametrize("host", [
    f"{RUN}.localhost",
    f"{RUN}.localhost:8470",
    f"{RUN}.localhost:",
    f"{RUN}.LOCALHOST:1",
    f"{RUN}.localhost.",
    f"{RUN}.localhost.:8470",
])  # fmt: skip
def test_run_host_is_recognized_in_any_spelling(host: str) -> None:
    assert ServedHosts.of("http://127.0.0.1:8470").find_run(host) == RUN
    assert ServedHosts.of("http://127.0.0.1:8470").find_run(host.replace("0" * 32, "A" * 32)) == "a" * 32


@pytest.mark.parametrize("host", [
    "",
    "localhost",
    "127.0.0.1:8470",
    f"{RUN}",
    f"{RUN}.localhost.evil.example",
    f"{RUN}.evil.example",
    f"x.{RUN}.localhost",
    f"{RUN}x.localhost",
    f"{RUN[1:]}.localhost",
    f"{RUN}.localhost..",
    f"{RUN}.localhost:80:80",
    f"{RUN}.localhost@evil.example",
    f"{RUN}.apps.example.com",
])  # fmt: skip
def test_other_hosts_belong_to_no_run(host: str) -> None:
    assert ServedHosts.of("http://127.0.0.1:8470").find_run(host) is None


def test_unknown_hosts_are_served_by_the_server_itself(stage: Stage) -> None:
    for host in ("rebound.example", f"x.{RUN}.localhost", f"{RUN}.evil.example"):
        response = stage.client.get("/api/v1/sessions", headers={"Host": host})
        assert response.json()["token"] is True


def test_missing_served_host_is_reported_with_a_hint(sqlite_store: DatabaseStore, endpoint: Endpoint) -> None:
    with open_stage(sqlite_store, url="https://fairlead.example.com") as stage:
        run_id = stage.serve(endpoint)
        url_info = stage.site.get(f"/runs/{run_id}/url")
        assert (url_info["browser"], url_info["ready"]) == (False, True)
        assert url_info["message"] == "answers; browsers cannot open it: served_host is not set on this server"
        problem = problem_of(stage.site.request("POST", f"/runs/{run_id}/open"), 409)
        assert "set served_host" in problem["hint"]
        response = stage.client.get("/", headers={"Host": f"{run_id}.localhost"})
        assert response.status_code == 200
        assert "Fairlead" in response.text


# Sign-in


def test_browser_signs_in_with_a_code_and_then_uses_a_cookie(stage: Stage, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    response = stage.browse(run_id, stage.open(run_id))
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["cache-control"] == "no-store"
    morsel = cookie_in(response, COOKIE)
    assert (morsel["httponly"], morsel["samesite"], morsel["path"], morsel["domain"]) == (True, "lax", "/", "")
    assert int(morsel["max-age"]) == 12 * 3600
    response = stage.browse(
        run_id, "/a%2Fb?c=d", cookie=morsel.value, headers={"Cookie": f"own=1; {COOKIE}={morsel.value}"}
    )
    request = response.json()
    assert (request["path"], request["query"]) == ("/a%2Fb", "c=d")
    headers = dict(request["headers"])
    assert headers["host"] == headers["x-forwarded-host"] == stage.host(run_id)
    assert headers["cookie"] == "own=1"
    assert "x-forwarded-prefix" not in headers
    assert "content-security-policy" not in response.headers
    with stage.site.store.reading() as tx:
        opened = [entry for entry in tx.find(AuditRecord) if entry.action == "run.open"]
    assert [(entry.user, entry.object_id) for entry in opened] == [("ann", run_id)]


def test_cookie_is_bound_to_the_host_with_tls(sqlite_store: DatabaseStore, endpoint: Endpoint) -> None:
    with open_stage(sqlite_store, url="https://fairlead.test", served_host="apps.test") as stage:
        run_id = stage.serve(endpoint)
        url = stage.site.post(f"/runs/{run_id}/open", None)["url"]
        path = url.removeprefix(f"https://{run_id}.apps.test")
        response = stage.browse(run_id, path, headers={"Host": f"{run_id}.apps.test"})
        morsel = cookie_in(response, f"__Host-{COOKIE}")
        assert (morsel["secure"], morsel["path"], morsel["domain"]) == (True, "/", "")
        headers = {"Host": f"{run_id}.Apps.Test", "Cookie": f"__Host-{COOKIE}={morsel.value}"}
        assert stage.browse(run_id, headers=headers).status_code == 200
        unprefixed = {"Host": f"{run_id}.apps.test", "Cookie": f"{COOKIE}={morsel.value}"}
        assert stage.browse(run_id, headers=unprefixed).status_code == 401


def test_two_session_cookies_of_a_run_are_rejected(stage: Stage, program: Program, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    cookie = stage.sign_in(run_id)
    problem_of(stage.browse(run_id, headers={"Cookie": f"{COOKIE}=x; {COOKIE}={cookie}"}), 401)
    assert program.requests == []


def test_code_works_once_in_any_spelling(stage: Stage, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    path = stage.open(run_id)
    assert stage.browse(run_id, path, method="HEAD").status_code == 204  # a link preview does not consume the code
    assert stage.browse(run_id, path).status_code == 303
    for variant in (path, f"{path}=", f"{path}%3D%3D", _rewrite(path)):
        response = stage.browse(run_id, variant)
        problem_of(response, 401)
        assert "set-cookie" not in response.headers


def test_code_used_on_one_server_is_rejected_by_another(stage: Stage, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    path = stage.open(run_id, stage.site.token_of("bob", viewer="platform"))
    with open_stage(stage.site.store) as second:
        second.machine.endpoints[run_id] = endpoint
        host = {"Host": f"{run_id}.localhost"}
        assert second.browse(run_id, path, headers=host).status_code == 303
        assert second.browse(run_id, path, headers=host).status_code == 401
    assert stage.browse(run_id, path).status_code == 401


def test_code_is_valid_for_a_minute_and_a_cookie_for_twelve_hours(
    advance_clock: Any, sqlite_store: DatabaseStore, endpoint: Endpoint
) -> None:
    with open_stage(sqlite_store) as stage:
        run_id = stage.serve(endpoint)
        path = stage.open(run_id)
        advance_clock(seconds=61)
        assert "has expired" in problem_of(stage.browse(run_id, path), 401)["detail"]
        cookie = stage.sign_in(run_id)
        advance_clock(hours=11, minutes=59)
        assert stage.browse(run_id, cookie=cookie).status_code == 200
        advance_clock(minutes=2)
        assert "has expired" in problem_of(stage.browse(run_id, cookie=cookie), 401)["detail"]


def test_codes_and_cookies_are_not_interchangeable(stage: Stage, endpoint: Endpoint) -> None:
    run_id, other = stage.serve(endpoint), stage.serve(endpoint)
    code = stage.open(run_id).partition("code=")[2]
    cookie = stage.sign_in(run_id)
    for invalid in (code, "", "x", "x.y", stage.site.token, cookie[:-2], "é"):
        assert stage.browse(run_id, headers={"Cookie": f"{COOKIE}={invalid}".encode()}).status_code == 401
    for invalid in (cookie, "", "x.y", stage.site.token, stage.open(other).partition("code=")[2]):
        assert stage.browse(run_id, f"/.fairlead/sign-in?code={invalid}").status_code == 401
    problem_of(stage.site.request("GET", "/me", token=cookie), 401)
    problem_of(stage.site.request("GET", "/me", token=code), 401)
    assert stage.browse(other, cookie=cookie).status_code == 401
    assert stage.browse(run_id, f"/.fairlead/sign-in?code={code}").status_code == 303


@pytest.mark.parametrize("path", ["/.fairlead/", "/.fairlead/x", "/%2efairlead/sign-in/", "/.fairlead/sign-in/.."])
def test_reserved_paths_are_never_forwarded_to_the_run(
    stage: Stage, program: Program, endpoint: Endpoint, path: str
) -> None:
    run_id = stage.serve(endpoint)
    assert stage.browse(run_id, path, cookie=stage.sign_in(run_id)).status_code == 404
    assert stage.browse(run_id, "/.fairlead/sign-in", method="POST").status_code == 405
    assert program.requests == []


@pytest.mark.parametrize("landing", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_sign_in_redirects_only_to_the_root(stage: Stage, endpoint: Endpoint, landing: str) -> None:
    run_id = stage.serve(endpoint)
    response = stage.browse(run_id, f"{stage.open(run_id)}&next={landing}&location={landing}")
    assert (response.status_code, response.headers["location"]) == (303, "/")


def test_code_is_never_logged(stage: Stage, endpoint: Endpoint, log: Lines) -> None:
    run_id = stage.serve(endpoint)
    path = stage.open(run_id)
    stage.browse(run_id, path)
    stage.browse(run_id, path)
    assert path.partition("code=")[2] not in str(log)


# Codes for one browser


def begin(stage: Stage, run_id: str, host: str | None = None) -> tuple[str, str]:
    """Open a run from the web UI: the path at the server after the run's host has set a nonce, and the nonce."""
    session = cookie_in(sign_in(stage.site)).value
    url = stage.site.post(f"/runs/{run_id}/open", None, token=None, headers=own_page(session))["url"]
    assert url.startswith(f"http://{stage.host(run_id)}/.fairlead/start?at=")
    assert "code" not in url
    response = stage.browse(run_id, f"/.fairlead/start?at={host or '127.0.0.1'}")
    nonce = cookie_in(response, "fairlead_run_nonce")
    assert (response.status_code, nonce["httponly"], nonce["samesite"]) == (303, True, "lax")
    return response.headers["location"], nonce.value


def own_page(session: str) -> dict[str, str]:
    return {"Cookie": f"fairlead_session={session}", "Sec-Fetch-Site": "same-origin"}


def get_code(stage: Stage, location: str, session: str | None) -> Any:
    """Follow the redirect to the server."""
    stage.client.cookies.clear()
    headers = {} if session is None else {"Cookie": f"fairlead_session={session}"}
    return stage.client.get(location.removeprefix(stage.url), headers=headers)


def test_code_from_the_web_ui_works_only_in_the_browser_that_asked(stage: Stage, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    location, nonce = begin(stage, run_id)
    assert location.startswith(f"{stage.url}/open/{run_id}?state=")
    assert nonce not in location
    session = cookie_in(sign_in(stage.site)).value
    url = get_code(stage, location, session).headers["location"]
    path = url.removeprefix(f"http://{stage.host(run_id)}")
    assert path.startswith("/.fairlead/sign-in?code=")
    for cookies in ({}, {"Cookie": f"fairlead_run_nonce={'x' * 43}"}, {"Cookie": "fairlead_run_nonce=x"}):
        problem = problem_of(stage.browse(run_id, path, headers=cookies), 401)
        assert problem["detail"] == "this link was requested in another browser"
    response = stage.browse(run_id, path, headers={"Cookie": f"fairlead_run_nonce={nonce}"})
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert stage.browse(run_id, cookie=cookie_in(response, COOKIE).value).status_code == 200


def test_browser_without_a_session_is_sent_to_the_runs_page(stage: Stage, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    location, _ = begin(stage, run_id)
    page = get_code(stage, location, None)
    assert (page.status_code, 'http-equiv="refresh"' in page.text) == (200, True)
    for session in (None, "fl_ended"):
        response = get_code(stage, f"{location}&again=true", session)
        assert (response.status_code, response.headers["location"]) == (303, f"/runs/{run_id}")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1@evil.example", "", "x.localhost"])
def test_sign_in_at_a_run_redirects_only_to_the_server(stage: Stage, endpoint: Endpoint, host: str) -> None:
    response = stage.browse(stage.serve(endpoint), f"/.fairlead/start?at={host}")
    assert response.headers["location"].startswith(f"{stage.url}/open/")


# Permissions


def test_session_cookie_is_required(stage: Stage, program: Program, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    session = cookie_in(sign_in(stage.site)).value
    for headers in (
        {},
        {"Authorization": f"Bearer {stage.site.token}"},
        {"Cookie": f"fairlead_session={session}"},
    ):
        problem_of(stage.browse(run_id, headers=headers), 401)
    assert program.requests == []


def test_sign_in_page_does_not_reveal_whether_the_run_exists(stage: Stage, endpoint: Endpoint) -> None:
    responses = [stage.browse(run_id, headers=HTML) for run_id in (stage.serve(endpoint), OTHER)]
    for response in responses:
        assert (response.status_code, response.headers["content-type"]) == (401, "text/html; charset=utf-8")
        assert "This browser is not signed in to the run" in response.text
        assert f'<a href="{stage.url}/runs/' in response.text
        assert "default-src 'none'" in response.headers["content-security-policy"]


def test_page_of_a_starting_run_refreshes_until_it_is_ready(stage: Stage, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint, state="starting", message="<b>loads</b>")
    response = stage.browse(run_id, cookie=stage.sign_in(run_id), headers=HTML)
    assert (response.status_code, response.headers["refresh"]) == (503, "2")
    assert "&lt;b&gt;loads&lt;/b&gt;" in response.text


def end_session(stage: Stage, session: str) -> None:
    headers = {"Cookie": f"fairlead_session={session}", "Sec-Fetch-Site": "same-origin"}
    assert stage.site.request("DELETE", "/sessions", token=None, headers=headers).status_code == 204


@pytest.mark.parametrize("end", ["role", "token", "session", "run"])
def test_session_cookie_ends_with_its_session_token_role_or_run(stage: Stage, endpoint: Endpoint, end: str) -> None:
    run_id, site = stage.serve(endpoint, "workspace"), stage.site
    role = site.post("/roles", {"subject": "user:bob", "role": "member", "scope": "project/alpha"})
    token = site.post("/tokens", {"name": "one", "user": "bob"})
    session = cookie_in(site.request("POST", "/sessions", {"token": token["token"]}, token=None)).value
    cookie = stage.sign_in(run_id, token=session if end == "session" else token["token"])
    assert stage.browse(run_id, cookie=cookie).status_code == 200
    status = {"role": 404, "token": 401, "session": 401, "run": 409}[end]
    if end == "session":
        end_session(stage, session)
    elif end == "run":
        site.post(f"/runs/{run_id}/stop", None)
    else:
        site.request("DELETE", f"/roles/{role['id']}" if end == "role" else f"/tokens/{token['id']}")
    problem_of(stage.browse(run_id, cookie=cookie), status)


def test_oidc_user_signs_in_with_their_groups(sqlite_store: DatabaseStore, endpoint: Endpoint) -> None:
    with open_stage(sqlite_store, sign_in=registry.SignInOptions(Issuer().identity())) as stage:
        run_id = stage.serve(endpoint, "workspace")
        stage.site.post("/roles", {"subject": "group:ml", "role": "member", "scope": "project/alpha"})
        expiry = {"exp": int(time.time()) + 600}
        bearer = make_token(make_claims(sub="grace", groups=["ml"], **expiry))
        assert stage.browse(run_id, cookie=stage.sign_in(run_id, token=bearer)).status_code == 200
        large_token = make_token(
            make_claims(sub="grace", groups=["ml", *(f"group-{number}" * 9 for number in range(50))])
        )
        problem = problem_of(stage.site.request("POST", f"/runs/{run_id}/open", token=large_token), 409)
        assert problem["detail"] == "grace is in 51 groups, more than a cookie can hold"


# Requests from other sites

CROSS_SITE: tuple[tuple[str, dict[str, str]], ...] = (
    ("GET", {"Origin": "https://evil.example"}),
    ("GET", {"Origin": "null"}),
    ("POST", {}),
    ("POST", {"Origin": "http://{other}"}),
    ("POST", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}),
    ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}),
    ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}),
    ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}),
)
ALLOWED: tuple[tuple[str, dict[str, str]], ...] = (
    ("GET", {}),
    ("GET", {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}),
    ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}),
    ("POST", {"Origin": "http://{own}", "Sec-Fetch-Site": "same-origin"}),
    ("DELETE", {"Origin": "http://{own}"}),
    ("POST", {"Sec-Fetch-Site": "same-origin"}),
)


@pytest.mark.parametrize(("method", "headers", "status"), [
    *((method, headers, 403) for method, headers in CROSS_SITE),
    *((method, headers, 200) for method, headers in ALLOWED),
])  # fmt: skip
def test_cross_site_request_does_not_use_the_cookie(
    stage: Stage, program: Program, endpoint: Endpoint, method: str, headers: dict[str, str], status: int
) -> None:
    run_id, other = stage.serve(endpoint), stage.serve(endpoint)
    cookie = stage.sign_in(run_id)
    names = {"own": stage.host(run_id), "other": stage.host(other)}
    sent_headers = {name: value.format(**names) for name, value in headers.items()}
    response = stage.browse(run_id, method=method, cookie=cookie, headers=sent_headers)
    assert response.status_code == status
    assert len(program.requests) == (1 if status == 200 else 0)


@pytest.mark.parametrize(("origin", "status"), [("http://{own}", None), (None, None), ("http://{other}", 403)])
def test_websocket_is_opened_only_from_pages_of_the_run(
    stage: Stage, endpoint: Endpoint, origin: str | None, status: int | None
) -> None:
    run_id, other = stage.serve(endpoint), stage.serve(endpoint)
    headers = {"Cookie": f"{COOKIE}={stage.sign_in(run_id)}"}
    if origin is not None:
        headers["Origin"] = origin.format(own=stage.host(run_id), other=stage.host(other))
    if status is None:
        with stage.open_websocket(run_id, "/echo", host=stage.host(run_id), headers=headers) as websocket:
            websocket.send_text("hello")
            assert websocket.receive_text(TIMEOUT_SECONDS) == "hello"
    else:
        with (
            pytest.raises(WebSocketUpgradeError) as caught,
            stage.open_websocket(run_id, "/echo", host=stage.host(run_id), headers=headers),
        ):
            pass
        assert caught.value.response.status_code == status


@pytest.mark.parametrize(("set_cookie", "expected"), [
    ("a=1; Domain=localhost; Path=/", "a=1; Path=/"),
    ("a=1;domain=.localhost;Secure", "a=1;Secure"),
    (f"{COOKIE}=x; Path=/", None),
    (f"__Host-{COOKIE}=x", None),
    (f"={COOKIE}=x", None),
])  # fmt: skip
def test_cookies_of_a_run_stay_at_its_host(
    stage: Stage, endpoint: Endpoint, set_cookie: str, expected: str | None
) -> None:
    run_id = stage.serve(endpoint)
    query = {"set-cookie": set_cookie, "content-length": "0"}
    response = stage.browse(run_id, "/say", cookie=stage.sign_in(run_id), params=query)
    assert response.headers.get_list("set-cookie") == ([] if expected is None else [expected])


def _rewrite(path: str) -> str:
    """A different encoding of the one-time code: the last character has unused bits."""
    start, _, text = path.rpartition(".")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    spellings = [text[:-1] + letter for letter in letters if _decode(text[:-1] + letter) == _decode(text)]
    return f"{start}.{spellings[-1]}"


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
