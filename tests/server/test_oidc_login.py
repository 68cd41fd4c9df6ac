"""Browser sign-in with OIDC: cookies, redirects and attacks."""

import re
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from http.cookies import Morsel, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from httpx2 import Response

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.composition import SignInOptions
from tests.adapters.issuers import ISSUER, NOW, OTHER_RSA, Issuer, make_claims, make_token
from tests.adapters.login_endpoints import SECRET
from tests.server.samples import ELSEWHERE
from tests.server.sites import COOKIE, URL, Site, open_site, problem_of

LOGIN_COOKIE = "fairlead_login"
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@dataclass
class Browser:
    """A browser with an identity provider. It stores cookies only if a test says so."""

    site: Site
    issuer: Issuer

    def begin(self, query: str = "") -> tuple[Response, str]:
        """Begin a sign-in, and return the response and its cookies."""
        answer = self.site.ask("GET", f"/login/oidc{query}", token=None)
        assert answer.status_code == 303, answer.text
        return answer, cookies_in(answer)[LOGIN_COOKIE].value

    def go(self, query: str = "") -> tuple[str, str]:
        """There and back: the address that the issuer sends the browser to, and what it keeps."""
        answer, login_cookie = self.begin(query)
        back = self.issuer.login_endpoints.authorize(answer.headers["location"])
        assert back.startswith(f"{URL}/login/callback?")
        return back.removeprefix(URL), login_cookie

    def come(self, back: str, login_cookie: str | None) -> Response:
        """Return from the identity provider."""
        headers = {} if login_cookie is None else {"Cookie": f"{LOGIN_COOKIE}={login_cookie}"}
        return self.site.ask("GET", back, token=None, headers=headers)

    def sign_in(self, query: str = "") -> Response:
        """The complete sign-in."""
        return self.come(*self.go(query))


@pytest.fixture
def browser(sqlite_store: DatabaseStore) -> Iterator[Browser]:
    """A site that signs people in at an issuer."""
    issuer = Issuer()
    with open_site(sqlite_store, sign_in=SignInOptions(issuer.identity(), issuer.login())) as site:
        yield Browser(site, issuer)


def test_sign_in_redirects_to_the_issuer_with_a_login_cookie(browser: Browser) -> None:
    answer, login_cookie = browser.begin()
    asked = {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
    assert answer.headers["location"].startswith(f"{ISSUER}/authorize?")
    assert asked["redirect_uri"] == f"{URL}/login/callback"
    state, nonce, verifier, landing = login_cookie.split(".", 3)
    assert (asked["state"], asked["nonce"], landing) == (state, nonce, "%2F")
    assert len({state, nonce, verifier}) == 3
    assert all(len(word) == 43 for word in (state, nonce, verifier))
    assert verifier not in answer.headers["location"]
    morsel = cookies_in(answer)[LOGIN_COOKIE]
    assert (morsel["path"], morsel["samesite"], morsel["max-age"]) == ("/login", "lax", "600")
    assert morsel["httponly"] is True
    assert not morsel["secure"]
    assert login_cookie != browser.begin()[1]


def test_callback_signs_the_browser_in(browser: Browser) -> None:
    answer = browser.sign_in()
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookies = cookies_in(answer)
    assert cookies[LOGIN_COOKIE].value == ""
    assert (cookies[LOGIN_COOKIE]["max-age"], cookies[LOGIN_COOKIE]["path"]) == ("0", "/login")
    session = cookies[COOKIE]
    assert (session["path"], session["samesite"], session["max-age"]) == ("/", "strict", str(12 * 3600))
    assert session["httponly"] is True
    me = browser.site.get("/me", token=None, headers={"Cookie": f"{COOKIE}={session.value}"})
    assert me == {"user": "ada", "groups": ["vision"], "via": "session:browser", "roles": []}


def test_session_has_the_groups_of_the_id_token_and_is_audited(browser: Browser) -> None:
    browser.site.make("/roles", {"subject": "group:speech", "role": "viewer", "scope": "platform"})
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
        begun = site.ask("GET", "/login/oidc", token=None)
        login_cookie = cookies_in(begun)[LOGIN_COOKIE]
        back = issuer.login_endpoints.authorize(begun.headers["location"])
        assert back.startswith("https://fairlead.test/login/callback?")
        headers = {"Cookie": f"{LOGIN_COOKIE}={login_cookie.value}"}
        answer = site.ask("GET", back.removeprefix("https://fairlead.test"), token=None, headers=headers)
    assert login_cookie["secure"] is True
    assert cookies_in(answer)[COOKIE]["secure"] is True


@pytest.mark.parametrize(
    "landing", ["/", "/compute-resources?search=a&sort=-name", "/a?next=//b#c", "/100%25", "/größe?x=a b", ""]
)
def test_browser_is_redirected_to_the_requested_page(browser: Browser, landing: str) -> None:
    expected = quote(landing or "/", safe="/?&=-#%")
    query = f"?next={quote(landing, safe='')}"
    assert browser.sign_in(query).headers["location"] == expected
    by_link = browser.site.ask("GET", f"/login{query}&code={browser.site.invite()}", token=None, headers=HTML)
    assert (by_link.status_code, by_link.headers["location"]) == (303, expected)


@pytest.mark.parametrize("landing", ELSEWHERE)
def test_open_redirects_are_rejected(browser: Browser, landing: str) -> None:
    query = f"?next={quote(landing, safe='')}"
    assert "in next" in sentence_of(browser.site.ask("GET", f"/login/oidc{query}", token=None))
    back, login_cookie = browser.go()
    planted = login_cookie.rpartition(".")[0] + "." + quote(landing, safe="")  # by who can write cookies of this site
    assert "in next" in sentence_of(browser.come(back, planted))
    word = browser.site.invite()
    by_link = f"/login{query}&code={word}"
    assert "in next" in sentence_of(browser.site.ask("GET", by_link, token=None, headers=HTML))
    problem_of(browser.site.ask("GET", by_link, token=None), 400)
    assert browser.site.ask("GET", f"/login?code={word}", token=None).status_code == 303  # it was not used up


def test_callback_of_another_sign_in_is_rejected(browser: Browser) -> None:
    """Login CSRF: a link with the code of the attacker would sign the victim in as the attacker."""
    back, _ = browser.go()
    _, other = browser.go()
    assert "does not belong to the last sign-in of this browser" in sentence_of(browser.come(back, other))
    state = back.partition("state=")[2].partition("&")[0]
    for wrong in ("", "x", "ä", state[:-1], state + "x", state.swapcase()):
        changed = back.replace(f"state={state}", f"state={quote(wrong)}")
        assert "does not belong" in sentence_of(browser.come(changed, other))
    assert browser.issuer.login_endpoints.exchanged == []


@pytest.mark.parametrize("login_cookie", [None, "", ".", "...", "....", "a.b.c.%2F", "é", "x" * 5000])
def test_callback_without_a_login_cookie_is_rejected(browser: Browser, login_cookie: str | None) -> None:
    back, _ = browser.go()
    for address in (back, "/login/callback", "/login/callback?state=&code=x", "/login/callback?error=x"):
        assert f"did not start to sign in here within the last 10 minutes: sign in again at {URL}" in sentence_of(
            browser.come(address, login_cookie)
        )
    assert browser.issuer.login_endpoints.exchanged == []


def test_callback_works_once(browser: Browser) -> None:
    back, login_cookie = browser.go()
    assert browser.come(back, login_cookie).headers["location"] == "/"
    assert "did not start" in sentence_of(browser.come(back, None))
    # If a browser keeps the deleted cookie, the code has still been used at the issuer.
    assert "rejected the sign-in with status 400: 'invalid_grant'" in sentence_of(browser.come(back, login_cookie))


def test_issuer_error_is_reported(browser: Browser) -> None:
    browser.issuer.login_endpoints.error = {"error": "access_denied", "error_description": "ada is not <b>assigned</b>"}
    said = sentence_of(browser.sign_in())
    assert said.startswith(
        f"{ISSUER} rejected the sign-in: 'access_denied' ('ada is not <b>assigned</b>'): sign in again"
    )
    browser.issuer.login_endpoints.error = {"error": "access_denied", "error_description": "x" * 5000}
    assert len(sentence_of(browser.sign_in())) <= 300
    browser.issuer.login_endpoints.error = {"session_state": "neither a code nor an error"}
    assert "rejected the sign-in: nothing" in sentence_of(browser.sign_in())
    assert browser.issuer.login_endpoints.exchanged == []


@pytest.mark.parametrize("other", ["https://evil.example.org", ISSUER + "/", ""])
def test_callback_of_another_issuer_is_rejected(browser: Browser, other: str) -> None:
    back, login_cookie = browser.go()
    changed = back.replace(f"iss={quote(ISSUER, safe='')}", f"iss={quote(other, safe='')}")
    assert changed != back
    assert "but the issuer is" in sentence_of(browser.come(changed, login_cookie))
    assert browser.issuer.login_endpoints.exchanged == []


def test_callback_without_iss_is_accepted(browser: Browser) -> None:
    back, login_cookie = browser.go()
    assert browser.come(re.sub(r"&iss=[^&]*", "", back), login_cookie).headers["location"] == "/"


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ({"nonce": "other"}, "from another sign-in"),
        ({"aud": "grafana"}, "has the audience 'grafana'"),
        ({"iss": "https://evil.example.org"}, "issued by 'https://evil"),
        ({"exp": int(NOW.timestamp()) - 61}, "expired at"),
        ({"sub": "root@localhost"}, "the user name root@localhost is reserved for the server"),
    ],
)
def test_invalid_id_token_is_rejected(browser: Browser, said: dict[str, Any], refused: str) -> None:
    browser.issuer.login_endpoints.claims = said
    assert refused in sentence_of(browser.sign_in())


def test_forged_id_token_is_rejected(browser: Browser) -> None:
    browser.issuer.login_endpoints.sign_with = lambda claims: make_token(make_claims(**claims), OTHER_RSA)
    assert "the signature of the token is not from" in sentence_of(browser.sign_in())


def test_unavailable_issuer_is_reported(browser: Browser) -> None:
    browser.issuer.down = True
    assert ": connection refused" in sentence_of(browser.site.ask("GET", "/login/oidc", token=None))
    browser.issuer.down = False
    browser.issuer.advance(seconds=5)
    back, login_cookie = browser.go()
    browser.issuer.down = True
    assert "cannot get the user from" in sentence_of(browser.come(back, login_cookie))


def test_failed_sign_in_is_logged_without_secrets(browser: Browser, log: list[MutableMapping[str, Any]]) -> None:
    back, login_cookie = browser.go()
    answer = browser.come(back, login_cookie)
    session = cookies_in(answer)[COOKIE].value
    browser.come(back, login_cookie)
    browser.site.ask("GET", "/login?code=fl_PLANTED", token=None, headers=HTML)
    reasons = [line["reason"] for line in log if line["event"] == "sign-in failed"]
    assert len(reasons) == 2
    for planted in (*login_cookie.split(".")[:3], session, "c0de", "fl_PLANTED", SECRET, "Pl4nted"):
        assert planted not in repr(log), planted


def test_used_link_shows_the_sign_in_page(browser: Browser) -> None:
    for word in ("", "nothing", "fl_" + "x" * 43):
        answer = browser.site.ask("GET", f"/login?code={word}", token=None, headers=HTML)
        assert "sign in with a token" in sentence_of(answer)
        problem_of(browser.site.ask("GET", f"/login?code={word}", token=None, headers={"Accept": "*/*"}), 401)


def test_missing_oidc_configuration_is_reported(site: Site) -> None:
    for path in ("/login/oidc", "/login/oidc?next=/a"):
        assert "sign-in with OpenID Connect is not configured" in sentence_of(site.ask("GET", path, token=None))
    login_cookie = f"{LOGIN_COOKIE}={'.'.join(['x' * 43] * 3)}.%2F"
    answer = site.ask("GET", "/login/callback?state=x", token=None, headers={"Cookie": login_cookie})
    assert "sign-in with OpenID Connect is not configured" in sentence_of(answer)


def test_only_the_callback_accepts_unknown_parameters(browser: Browser) -> None:
    back, login_cookie = browser.go()
    assert browser.come(f"{back}&color=red&state_of=x", login_cookie).headers["location"] == "/"
    problem_of(browser.site.ask("GET", "/login/oidc?color=red", token=None), 422)
    problem_of(browser.site.ask("GET", "/login?color=red", token=None), 422)


def test_sign_in_methods_are_public(browser: Browser, site: Site, sqlite_store: DatabaseStore) -> None:
    version = site.get("/healthz")["version"]
    assert site.get("/sessions", token=None) == {"token": True, "link": False, "oidc": None, "version": version}
    oidc = {"issuer": ISSUER, "url": "/login/oidc"}
    told = {"token": True, "link": False, "oidc": oidc, "version": version}
    assert browser.site.get("/sessions", token=None) == browser.site.get("/sessions", token="fl_nobody") == told
    with open_site(sqlite_store, sign_in=SignInOptions(link=True)) as local:
        assert local.get("/sessions", token=None)["link"] is True


def sentence_of(answer: Response) -> str:
    """The error of a failed sign-in, as passed to the web UI."""
    assert answer.status_code == 303, answer.text
    parts = urlsplit(answer.headers["location"])
    assert (parts.scheme, parts.netloc, parts.path) == ("", "", "/sign-in")
    assert COOKIE not in cookies_in(answer)
    (said,) = parse_qs(parts.query, strict_parsing=True).pop("failed")
    assert 0 < len(said) <= 300
    return said


def cookies_in(answer: Response) -> dict[str, Morsel[str]]:
    """The cookies that an answer sets."""
    found: dict[str, Morsel[str]] = {}
    for header in answer.headers.get_list("set-cookie"):
        found |= SimpleCookie(header)
    return found
