"""A server with an identity provider: accepted and rejected tokens, and an unreachable provider."""

import hmac
import time
from collections.abc import Callable, Iterator

import httpx2
import pytest

from tests.adapters.issuers import EC, OTHER_RSA, RSA, make_part, make_token
from tests.processes import providers
from tests.processes.machines import CLIENT_OPTIONS, Machine, RunningServer
from tests.processes.providers import Provider

MAX_SECONDS = 3.0  # the goal is 1 on an idle machine


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """The identity provider that the server trusts."""
    with providers.running() as provider:
        yield provider


@pytest.fixture(scope="module")
def server(shared_machine: Machine, provider: Provider) -> RunningServer:
    """A server that trusts the identity provider."""
    return shared_machine.up(variables=provider.sign_in)


def test_valid_token_authenticates_its_user(server: RunningServer, provider: Provider) -> None:
    for token in (provider.token(groups=["vision"]), make_token(provider.claims(groups="vision"), EC, "ES256")):
        with server.client(token) as client:
            response = client.get("/me")
        assert response.status_code == 200, response.text
        assert response.json() == {"user": "ada", "groups": ["vision"], "via": "oidc", "roles": []}


def test_groups_grant_roles(server: RunningServer, provider: Provider) -> None:
    with server.client(provider.token(sub="grace", groups=["platform-admins"])) as admin:
        assert admin.get("/me").json()["roles"] == [{"role": "admin", "scope": "platform"}]
        role = {"subject": "group:vision", "role": "member", "scope": "project/default"}
        assert admin.post("/roles", json=role).status_code == 201
        entry = admin.get("/audit", params={"action": "role.create", "limit": "1"}).json()["items"][0]
        assert (entry["user"], entry["via"]) == ("grace", "oidc")
    with server.client(provider.token(groups=["speech", "vision"])) as member:
        assert member.get("/projects/default").status_code == 200
        assert member.put("/projects/default/secrets/MINE", json={"value": "x"}).status_code == 201
        assert member.post("/departments", json={"name": "mine", "parent": "cluster/local"}).status_code in (403, 404)
        assert member.get("/audit").status_code == 403
    with server.client(provider.token(groups=["speech"])) as stranger:
        assert stranger.get("/projects/default").status_code == 404


def test_user_with_an_oidc_token_can_create_an_api_token(server: RunningServer, provider: Provider) -> None:
    with server.client(provider.token(sub="linus")) as client:
        created = client.post("/tokens", json={"name": "for a script"}).json()
    with server.client(created["token"]) as client:
        assert client.get("/me").json()["user"] == "linus"


def _forge_none(provider: Provider) -> str:
    return f"{make_part({'alg': 'none', 'typ': 'JWT'})}.{make_part(provider.claims())}."


def _forge_with_the_public_key(provider: Provider) -> str:
    # Valid only if the public key is misused as an HMAC secret.
    content = f"{make_part({'alg': 'HS256', 'typ': 'JWT', 'kid': RSA.kid})}.{make_part(provider.claims())}"
    return f"{content}.{make_part(hmac.digest(RSA.as_pem(private=False), content.encode(), 'sha256'))}"


def _forge_claims(provider: Provider) -> str:
    header, _, signature = provider.token().split(".")
    return f"{header}.{make_part(provider.claims(sub='root'))}.{signature}"


INVALID_TOKENS: dict[str, Callable[[Provider], str]] = {
    "expired": lambda provider: provider.token(exp=int(time.time()) - 120),
    "without expiry": lambda provider: provider.token(exp=None),
    "not yet valid": lambda provider: provider.token(nbf=int(time.time()) + 600),
    "unsigned": _forge_none,
    "signed with the public key": _forge_with_the_public_key,
    "signed by another key": lambda provider: make_token(provider.claims(), OTHER_RSA),
    "claims changed after signing": _forge_claims,
    "another issuer": lambda provider: provider.token(iss="https://login.example.org"),
    "another audience": lambda provider: provider.token(aud="grafana"),
    "without audience": lambda provider: provider.token(aud=None),
    "signed with an unknown key": lambda provider: make_token(provider.claims(), kid="no-such-key"),
    "empty subject": lambda provider: provider.token(sub=""),
    "truncated": lambda provider: provider.token()[:-40],
    "not a JWT": lambda _: "a.b.c",
    "unknown API token": lambda _: "fl_forged",
    "very long": lambda _: "a" * 60_000,
    "invalid UTF-8": lambda _: "\udcff\udcfe",
}


@pytest.mark.parametrize("case", INVALID_TOKENS)
def test_invalid_token_is_rejected_immediately(server: RunningServer, provider: Provider, case: str) -> None:
    token = INVALID_TOKENS[case](provider)
    header = b"Bearer " + token.encode("utf-8", "surrogateescape")
    with server.anonymous_client() as client:
        for method, path in (("GET", "/api/v1/me"), ("POST", "/api/v1/compute-resources"), ("GET", "/api/v1/export")):
            started = time.monotonic()
            response = client.request(method, path, headers={b"Authorization": header})
            assert time.monotonic() - started < MAX_SECONDS
            _check_unauthenticated(response)
            assert len(token) < 20 or token not in response.text


@pytest.mark.parametrize("header", ["", "Bearer", "Basic cm9vdDpyb290", "Token abc", "Bearer,"])
def test_missing_token_is_rejected(server: RunningServer, header: str) -> None:
    with server.anonymous_client() as client:
        _check_unauthenticated(client.get("/api/v1/me", headers={"Authorization": header} if header else {}))


def test_token_is_rejected_by_a_server_without_this_provider(shared_machine: Machine, provider: Provider) -> None:
    other_server = shared_machine.up(data="alone")
    with other_server.client(provider.token(groups=["platform-admins"])) as client:
        _check_unauthenticated(client.get("/me"))
    with other_server.anonymous_client() as browser:
        _check_unauthenticated(browser.post("/api/v1/sessions", json={"token": provider.token()}))


def test_unreachable_provider_gives_503_while_api_tokens_work(shared_machine: Machine) -> None:
    with providers.running() as provider:
        pass  # stopped, so its port is closed
    server = shared_machine.up(data="waiting", variables=provider.variables)
    for _ in range(2):
        with server.client(provider.token()) as client:
            response = client.get("/me")
        assert response.status_code == 503, response.text
        assert response.headers["content-type"] == "application/problem+json"
        assert int(response.headers["retry-after"]) >= 1
        assert provider.issuer in response.json()["detail"]
        with server.client() as client:
            assert client.get("/me").status_code == 200
        with server.client("fl_forged") as client:
            _check_unauthenticated(client.get("/me"))
    assert httpx2.get(f"{server.url}/readyz", **CLIENT_OPTIONS).status_code == 200


def test_browser_sign_in_returns_to_the_requested_page(server: RunningServer, provider: Provider) -> None:
    provider.login_endpoints.claims = {"sub": "grace", "groups": ["platform-admins"]}
    with server.anonymous_client() as browser:
        methods = browser.get("/api/v1/sessions").json()
        assert (methods["link"], methods["oidc"]) == (False, {"issuer": provider.issuer, "url": "/login/oidc"})
        url, *redirects = _follow(browser, f"{methods['oidc']['url']}?next=/compute-resources%3Fsearch%3Da")
        assert url == f"{server.url}/compute-resources?search=a"
        assert [address.partition("?")[0] for address in redirects] == [
            f"{server.url}/login/callback",
            f"{provider.issuer}/authorize",
        ]
        assert dict(browser.cookies).keys() == {"fairlead_session"}
        me = browser.get("/api/v1/me").json()
        assert (me["user"], me["groups"], me["via"]) == ("grace", ["platform-admins"], "session:browser")
        assert me["roles"] == [{"role": "admin", "scope": "platform"}]
        own_page = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
        assert browser.post("/api/v1/departments", json={"name": "signed-in"}, headers=own_page).status_code == 201
        entry = browser.get("/api/v1/audit", params={"action": "token.create", "limit": "1"}).json()["items"][0]
        assert (entry["user"], entry["via"]) == ("grace", "oidc")
        repeated = browser.get(redirects[0])
        assert "failed=issuer" in repeated.headers["location"]
        assert browser.delete("/api/v1/sessions", headers=own_page).status_code == 204
        _check_unauthenticated(browser.get("/api/v1/me"))


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"nonce": "other"}, "another sign-in"),
        ({"aud": "grafana"}, "grafana"),
        ({"exp": 1}, "expired"),
        ({"sub": "root@localhost"}, "reserved for the server"),
    ],
)
def test_claims_of_a_browser_sign_in_are_validated(
    server: RunningServer, provider: Provider, claims: dict[str, object], message: str
) -> None:
    provider.login_endpoints.claims = claims
    with server.anonymous_client() as browser:
        url, *_ = _follow(browser, "/login/oidc")
        assert url.startswith(f"{server.url}/sign-in?failed=issuer")
        reasons = [line for line in server.process.output[1].splitlines() if "sign-in failed" in line]
        assert message in reasons[-1]
        assert not browser.cookies


def test_public_client_without_a_secret_can_sign_in(shared_machine: Machine) -> None:
    with providers.running() as provider:
        provider.login_endpoints.secret = None
        server = shared_machine.up(data="public", variables=provider.sign_in)
        with server.anonymous_client() as browser:
            assert _follow(browser, "/login/oidc")[0] == f"{server.url}/"
            assert browser.get("/api/v1/me").json()["user"] == "ada"


def test_unreachable_provider_is_reported_in_the_browser_while_api_tokens_work(shared_machine: Machine) -> None:
    with providers.running() as provider:
        pass  # stopped, so its port is closed
    server = shared_machine.up(data="gone", variables=provider.sign_in)
    with server.anonymous_client() as browser:
        url, *_ = _follow(browser, "/login/oidc")
        assert url.startswith(f"{server.url}/sign-in?failed=unavailable")
        assert browser.get("/api/v1/sessions").status_code == 200
    with server.client() as client:
        assert client.get("/me").status_code == 200


def _follow(browser: httpx2.Client, path: str) -> list[str]:
    """Follow redirects like a browser, and return the URLs, last first. The last URL does not have to exist."""
    urls = [path]
    while (response := browser.get(urls[0])).is_redirect:
        assert response.status_code in (302, 303), response.text
        urls.insert(0, str(response.next_request.url) if response.next_request else "")
        if not urls[0].partition("?")[0].endswith(("/authorize", "/login/callback")):
            return urls[:-1]
    raise AssertionError(response.text)


def _check_unauthenticated(response: httpx2.Response) -> None:
    assert response.status_code == 401, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert response.json()["code"] == "unauthenticated"
    assert response.json()["detail"]
