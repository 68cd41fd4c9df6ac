"""Browser sign-in with OIDC: cookies, redirects and attacks."""

import re
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from http.cookies import Morsel, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
import structlog
from httpx2 import Response

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.services.registry import SignInOptions
from tests.adapters.issuers import ISSUER, NOW, OTHER_RSA, Issuer, make_claims, make_token
from tests.adapters.login_endpoints import SECRET
from tests.server.samples import INVALID_REDIRECTS
from tests.server.sites import COOKIE, URL, Site, open_site, problem_of

LOGIN_COOKIE = "fairlead_login"
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Site": "none"}


@dataclass
class Browser:
    """A browser with an identity provider. It stores no cookies between requests."""

    site: Site
    issuer: Issuer

    def begin(self, query: str = "") -> tuple[Response, str]:
        """Begin a sign-in, and return the response and its cookies."""
        response = self.site.request("GET", f"/login/oidc{query}", token=None)
        assert response.status_code == 303, response.text
        return response, cookies_in(response)[LOGIN_COOKIE].value

    def visit_issuer(self, query: str = "") -> tuple[str, str]:
        """Sign in through the issuer, and return the callback path and the login cookie."""
        response, login_cookie = self.begin(query)
        callback = self.issuer.login_endpoints.authorize(response.headers["location"])
        assert callback.startswith(f"{URL}/login/callback?")
        return callback.removeprefix(URL), login_cookie

    def finish(self, callback: str, login_cookie: str | None) -> Response:
        """Follow the identity provider's redirect."""
        headers = {} if login_cookie is None else {"Cookie": f"{LOGIN_COOKIE}={login_cookie}"}
        return self.site.request("GET", callback, token=None, headers=headers)

    def sign_in(self, query: str = "") -> Response:
        """The complete sign-in."""
        return self.finish(*self.visit_issuer(query))


@pytest.fixture
def browser(sqlite_store: DatabaseStore) -> Iterator[Browser]:
    """A site with OIDC sign-in."""
    issuer = Issuer()
    with open_site(sqlite_store, sign_in=SignInOptions(issuer.identity(), issuer.login())) as site:
        yield Browser(site, issuer)


def test_sign_in_redirects_to_the_issuer_with_a_login_cookie(browser: Browser) -> None:
    response, login_cookie = browser.begin()
    query = {name: values[0] for name, values in parse_qs(urlsplit(response.headers["location"]).query).items()}
    assert response.headers["location"].startswith(f"{ISSUER}/authorize?")
    assert query["redirect_uri"] == f"{URL}/login/callback"
    state, nonce, verifier, landing = login_cookie.split(".", 3)
    assert (query["state"], query["nonce"], landing) == (state, nonce, "%2F")
    assert len({state, nonce, verifier}) == 3
    assert all(len(value) == 43 for value in (state, nonce, verifier))
    assert verifier not in response.headers["location"]
    morsel = cookies_in(response)[LOGIN_COOKIE]
    assert (morsel["path"], morsel["samesite"], morsel["max-age"]) == ("/login", "lax", "600")
    assert morsel["httponly"] is True
    assert not morsel["secure"]
    assert login_cookie != browser.begin()[1]


def test_callback_signs_the_browser_in(browser: Browser) -> None:
    response = browser.sign_in()
    assert (response.status_code, response.headers["location"]) == (303, "/")
    cookies = cookies_in(response)
    assert cookies[LOGIN_COOKIE].value == ""
    assert (cookies[LOGIN_COOKIE]["max-age"], cookies[LOGIN_COOKIE]["path"]) == ("0", "/login")
    session = cookies[COOKIE]
    assert (session["path"], session["samesite"], session["max-age"]) == ("/", "strict", str(12 * 3600))
    assert session["httponly"] is True
    me = browser.site.get("/me", token=None, headers={"Cookie": f"{COOKIE}={session.value}"})
    assert me == {"user": "ada", "groups": ["vision"], "via": "session:browser", "roles": []}


def test_session_has_the_groups_of_the_id_token_and_is_audited(browser: Browser) -> None:
    browser.site.post("/roles", {"subject": "group:speech", "role": "viewer", "scope": "platform"})
    browser.issuer.login_endpoints.claims = {"sub": "grace", "groups": ["speech"]}
    session = cookies_in(browser.sign_in())[COOKIE].value
    me = browser.site.get("/me", token=None, headers={"Cookie": f"{COOKIE}={session}"})
    assert (me["user"], me["groups"], me["roles"]) == ("grace", ["speech"], [{"role": "viewer", "scope": "platform"}])
    entry = browser.site.get("/audit?action=token.create&limit=1")["items"][0]
    assert (entry["user"], entry["via"], entry["name"]) == ("grace", "oidc", "browser")
    token = browser.site.get("/tokens?purpose=session")["items"][0]
    assert (token["user"], token["created_by"]) == ("grace", "grace")


def test_cookies_are_secure_if_the_server_uses_https(sqlite_store: DatabaseStore) -> None:
    issuer = Issuer()
    sign_in = SignInOptions(issuer.identity(), issuer.login())
    with open_site(sqlite_store, url="https://fairlead.test/", sign_in=sign_in) as site:
        start = site.request("GET", "/login/oidc", token=None)
        login_cookie = cookies_in(start)[f"__Host-{LOGIN_COOKIE}"]
        callback = issuer.login_endpoints.authorize(start.headers["location"])
        assert callback.startswith("https://fairlead.test/login/callback?")
        headers = {"Cookie": f"__Host-{LOGIN_COOKIE}={login_cookie.value}"}
        response = site.request("GET", callback.removeprefix("https://fairlead.test"), token=None, headers=headers)
    assert (login_cookie["secure"], login_cookie["path"]) == (True, "/")
    assert cookies_in(response)[f"__Host-{COOKIE}"]["secure"] is True


@pytest.mark.parametrize(
    "landing", ["/", "/compute-resources?search=a&sort=-name", "/a?next=//b#c", "/100%25", "/größe?x=a b", ""]
)
def test_browser_is_redirected_to_the_requested_page(browser: Browser, landing: str) -> None:
    expected = quote(landing or "/", safe="/?&=-#%")
    query = f"?next={quote(landing, safe='')}"
    assert browser.sign_in(query).headers["location"] == expected
    by_link = browser.site.request(
        "GET", f"/login{query}&code={browser.site.create_login_code()}", token=None, headers=HTML
    )
    assert (by_link.status_code, by_link.headers["location"]) == (303, expected)


@pytest.mark.parametrize("landing", INVALID_REDIRECTS)
def test_open_redirects_are_rejected(browser: Browser, landing: str) -> None:
    query = f"?next={quote(landing, safe='')}"
    assert "in next" in error_message(browser.site.request("GET", f"/login/oidc{query}", token=None))
    callback, login_cookie = browser.visit_issuer()
    forged_cookie = (
        login_cookie.rpartition(".")[0] + "." + quote(landing, safe="")
    )  # set by an attacker who can write cookies for this site
    assert "in next" in error_message(browser.finish(callback, forged_cookie))
    code = browser.site.create_login_code()
    by_link = f"/login{query}&code={code}"
    assert "in next" in error_message(browser.site.request("GET", by_link, token=None, headers=HTML))
    problem_of(browser.site.request("GET", by_link, token=None), 400)
    assert (
        browser.site.request("GET", f"/login?code={code}", token=None).status_code == 303
    )  # the code has not been used


def test_callback_of_another_sign_in_is_rejected(browser: Browser) -> None:
    """Login CSRF: a link with the attacker's code would sign the victim in as the attacker."""
    callback, _ = browser.visit_issuer()
    _, other = browser.visit_issuer()
    assert "does not belong to this browser's last sign-in" in error_message(browser.finish(callback, other))
    state = callback.partition("state=")[2].partition("&")[0]
    for invalid in ("", "x", "ä", state[:-1], state + "x", state.swapcase()):
        changed = callback.replace(f"state={state}", f"state={quote(invalid)}")
        assert "does not belong" in error_message(browser.finish(changed, other))
    assert browser.issuer.login_endpoints.exchanged == []


@pytest.mark.parametrize("login_cookie", [None, "", ".", "...", "....", "a.b.c.%2F", "é", "x" * 5000])
def test_callback_without_a_login_cookie_is_rejected(browser: Browser, login_cookie: str | None) -> None:
    callback, _ = browser.visit_issuer()
    for address in (callback, "/login/callback", "/login/callback?state=&code=x", "/login/callback?error=x"):
        assert f"did not start a sign-in here within the last 10 minutes: sign in again at {URL}" in error_message(
            browser.finish(address, login_cookie)
        )
    assert browser.issuer.login_endpoints.exchanged == []


def test_callback_works_once(browser: Browser) -> None:
    callback, login_cookie = browser.visit_issuer()
    assert browser.finish(callback, login_cookie).headers["location"] == "/"
    assert "did not start" in error_message(browser.finish(callback, None))
    # If a browser keeps the deleted cookie, the issuer still considers the code used.
    assert "rejected the sign-in with status 400: 'invalid_grant'" in error_message(
        browser.finish(callback, login_cookie)
    )


def test_issuer_error_is_reported(browser: Browser) -> None:
    browser.issuer.login_endpoints.error = {"error": "access_denied", "error_description": "ada is not <b>assigned</b>"}
    message = error_message(browser.sign_in())
    assert message.startswith(
        f"{ISSUER} rejected the sign-in: 'access_denied' ('ada is not <b>assigned</b>'): sign in again"
    )
    browser.issuer.login_endpoints.error = {"error": "access_denied", "error_description": "x" * 5000}
    assert len(error_message(browser.sign_in())) <= 300
    browser.issuer.login_endpoints.error = {"session_state": "neither a code nor an error"}
    assert "rejected the sign-in: nothing" in error_message(browser.sign_in())
    assert browser.issuer.login_endpoints.exchanged == []


@pytest.mark.parametrize("other", ["https://evil.example.org", ISSUER + "/", ""])
def test_callback_of_another_issuer_is_rejected(browser: Browser, other: str) -> None:
    callback, login_cookie = browser.visit_issuer()
    changed = callback.replace(f"iss={quote(ISSUER, safe='')}", f"iss={quote(other, safe='')}")
    assert changed != callback
    assert "but the issuer is" in error_message(browser.finish(changed, login_cookie))
    assert browser.issuer.login_endpoints.exchanged == []


def test_callback_without_iss_is_accepted(browser: Browser) -> None:
    callback, login_cookie = browser.visit_issuer()
    assert browser.finish(re.sub(r"&iss=[^&]*", "", callback), login_cookie).headers["location"] == "/"


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"nonce": "other"}, "from another sign-in"),
        ({"aud": "grafana"}, "has the audience 'grafana'"),
        ({"iss": "https://evil.example.org"}, "issued by 'https://evil"),
        ({"exp": int(NOW.timestamp()) - 61}, "expired at"),
        ({"sub": "root@localhost"}, "the user name root@localhost is reserved for the server"),
    ],
)
def test_invalid_id_token_is_rejected(browser: Browser, claims: dict[str, Any], message: str) -> None:
    browser.issuer.login_endpoints.claims = claims
    assert message in error_message(browser.sign_in())


def test_forged_id_token_is_rejected(browser: Browser) -> None:
    browser.issuer.login_endpoints.sign_with = lambda claims: make_token(make_claims(**claims), OTHER_RSA)
    assert "the token's signature is not from" in error_message(browser.sign_in())


def test_unavailable_issuer_is_reported(browser: Browser) -> None:
    browser.issuer.down = True
    assert ": connection refused" in error_message(browser.site.request("GET", "/login/oidc", token=None))
    browser.issuer.down = False
    browser.issuer.advance(seconds=5)
    callback, login_cookie = browser.visit_issuer()
    browser.issuer.down = True
    assert "cannot get the user from" in error_message(browser.finish(callback, login_cookie))


def test_failed_sign_in_is_logged_without_secrets(browser: Browser, log: list[MutableMapping[str, Any]]) -> None:
    callback, login_cookie = browser.visit_issuer()
    response = browser.finish(callback, login_cookie)
    session = cookies_in(response)[COOKIE].value
    browser.finish(callback, login_cookie)
    browser.site.request("GET", "/login?code=fl_PLANTED", token=None, headers=HTML)
    reasons = [line["reason"] for line in log if line["event"] == "sign-in failed"]
    assert len(reasons) == 2
    for planted in (*login_cookie.split(".")[:3], session, "c0de", "fl_PLANTED", SECRET, "Pl4nted"):
        assert planted not in repr(log), planted


def test_used_link_shows_the_sign_in_page(browser: Browser) -> None:
    for code in ("", "nothing", "fl_" + "x" * 43):
        response = browser.site.request("GET", f"/login?code={code}", token=None, headers=HTML)
        assert "sign in with a token" in error_message(response)
        problem_of(browser.site.request("GET", f"/login?code={code}", token=None, headers={"Accept": "*/*"}), 401)


def test_missing_oidc_configuration_is_reported(site: Site) -> None:
    for path in ("/login/oidc", "/login/oidc?next=/a"):
        assert "sign-in with OpenID Connect is not configured" in error_message(site.request("GET", path, token=None))
    login_cookie = f"{LOGIN_COOKIE}={'.'.join(['x' * 43] * 3)}.%2F"
    response = site.request("GET", "/login/callback?state=x", token=None, headers={"Cookie": login_cookie})
    assert "sign-in with OpenID Connect is not configured" in error_message(response)


def test_only_the_callback_accepts_unknown_parameters(browser: Browser) -> None:
    callback, login_cookie = browser.visit_issuer()
    assert browser.finish(f"{callback}&color=red&state_of=x", login_cookie).headers["location"] == "/"
    problem_of(browser.site.request("GET", "/login/oidc?color=red", token=None), 422)
    problem_of(browser.site.request("GET", "/login?color=red", token=None), 422)


def test_sign_in_methods_are_public(browser: Browser, site: Site, sqlite_store: DatabaseStore) -> None:
    version = site.get("/healthz")["version"]
    assert site.get("/sessions", token=None) == {"token": True, "link": False, "oidc": None, "version": version}
    oidc = {"issuer": ISSUER, "url": "/login/oidc"}
    expected = {"token": True, "link": False, "oidc": oidc, "version": version}
    assert browser.site.get("/sessions", token=None) == browser.site.get("/sessions", token="fl_nobody") == expected
    with open_site(sqlite_store, sign_in=SignInOptions(link=True)) as local:
        assert local.get("/sessions", token=None)["link"] is True


def error_message(response: Response) -> str:
    """The reason for a failed sign-in, which is in the log. The web UI receives only a code."""
    assert response.status_code == 303
    path, _, code = response.headers["location"].partition("?failed=")
    assert path == "/sign-in"
    assert code in ("link", "issuer", "limit", "unavailable", "method", "path")
    entries = structlog.get_config()["processors"][0].entries
    request_id = response.headers["x-request-id"]
    (reason,) = [line["reason"] for line in entries if line.get("request_id") == request_id and "reason" in line]
    assert len(reason) <= 300
    assert COOKIE not in cookies_in(response)
    return str(reason)


def cookies_in(response: Response) -> dict[str, Morsel[str]]:
    """The cookies that a response sets."""
    cookies: dict[str, Morsel[str]] = {}
    for header in response.headers.get_list("set-cookie"):
        cookies |= SimpleCookie(header)
    return cookies
