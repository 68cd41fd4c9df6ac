"""Browser sign-in: links, cookies, and permissions."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from httpx2 import Response

from fairlead.server.http.cookies import Cookie
from fairlead.services.registry import SignInOptions
from tests.adapters.issuers import Issuer, make_claims, make_token
from tests.server.samples import INVALID_REDIRECTS, address_of, body_of
from tests.server.sites import COOKIE, URL, Operation, Site, cookie_in, decode, open_site, paths_of, problem_of

NAMED = {"name": "one", "description": "before"}
OWN_PAGE = {"Origin": URL, "Sec-Fetch-Site": "same-origin"}


CROSS_SITE_HEADERS: tuple[dict[str, str], ...] = (
    {},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://fairlead.test.evil.example"},
    {"Origin": "http://fairlead.test:8080"},
    {"Origin": "https://fairlead.test"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "cross-site", "Origin": URL},
)


# Signing in


def test_sign_in_with_a_token_sets_an_http_only_cookie(site: Site) -> None:
    response = sign_in(site)
    assert (response.status_code, response.content) == (204, b"")
    morsel = cookie_in(response)
    assert morsel["httponly"] is True
    assert morsel["samesite"] == "strict"
    assert morsel["path"] == "/"
    assert int(morsel["max-age"]) == 12 * 3600
    assert not morsel["secure"]
    assert morsel.value != site.token
    me = site.get("/me", token=None, headers={"Cookie": f"{COOKIE}={morsel.value}"})
    assert (me["user"], me["via"]) == ("ann", "session:browser")


def test_cookie_is_secure_if_the_server_uses_https(sqlite_store: Any) -> None:
    with open_site(sqlite_store, url="https://fairlead.test") as site:
        morsel = cookie_in(sign_in(site), f"__Host-{COOKIE}")
        assert (morsel["secure"], morsel["path"], morsel["domain"]) == (True, "/", "")
        with_prefix = {"Cookie": f"__Host-{COOKIE}={morsel.value}"}
        assert site.get("/me", token=None, headers=with_prefix)["user"] == "ann"
        problem_of(site.request("GET", "/me", token=None, headers={"Cookie": f"{COOKIE}={morsel.value}"}), 401)


@pytest.mark.parametrize("first", [b"\x85", b"\xa0"])
def test_cookie_from_another_host_is_not_taken_for_one_with_the_prefix(first: bytes) -> None:
    # Browsers reject a `__Host-` cookie from a sibling host, but accept one whose name begins with another byte. The
    # test client would send this byte as UTF-8.
    cookie = Cookie(COOKIE, "https://fairlead.test")
    own, tossed = b"__Host-fairlead_session=own", first + b"__Host-fairlead_session=tossed"
    for header, value in ((tossed, None), (own + b"; " + tossed, "own"), (tossed + b";\t" + own, "own")):
        assert cookie.read({"headers": [(b"cookie", header)]}) == value


@pytest.mark.parametrize("cookies", ["{0}=x; {0}={1}", "{0}={1}; {0}=x", "{0}=; {0}={1}"])
def test_two_session_cookies_are_rejected(common_site: Site, cookies: str) -> None:
    session = cookie_in(sign_in(common_site)).value
    headers = {"Cookie": cookies.format(COOKIE, session)}
    problem = problem_of(common_site.request("GET", "/me", token=None, headers=headers), 401)
    assert "2 cookies named fairlead_session" in problem["detail"]


def test_sign_in_link_works_once(site: Site) -> None:
    code = site.create_login_code()
    first = site.request("GET", f"/login?code={code}", token=None)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    session = cookie_in(first).value
    assert site.get("/me", token=None, headers={"Cookie": f"{COOKIE}={session}"})["user"] == "ann"
    for value in (code, "", "nothing"):
        response = site.request("GET", f"/login?code={value}", token=None)
        problem_of(response, 401)
        assert "set-cookie" not in response.headers


# Sign-in links in browsers

HTML = {"Accept": "text/html"}
FROM_TERMINAL = {**HTML, "Sec-Fetch-Site": "none"}


def test_link_for_another_user_asks_before_it_replaces_the_session(site: Site) -> None:
    session = cookie_in(site.request("POST", "/sessions", {"token": site.token_of("bob")}, token=None)).value
    cookie = {"Cookie": f"{COOKIE}={session}"}
    code = site.create_login_code()
    page = site.request("GET", f"/login?code={code}&next=/policies", token=None, headers=FROM_TERMINAL | cookie)
    assert (page.status_code, page.headers["referrer-policy"]) == (200, "same-origin")
    assert "You are signed in as bob. This link signs this browser in as ann." in page.text
    assert "set-cookie" not in page.headers
    assert site.get("/me", token=None, headers=cookie)["user"] == "bob"
    form = f"code={code}&next=%2Fpolicies".encode()
    headers = {"Origin": URL, "Content-Type": "application/x-www-form-urlencoded"}
    response = site.request("POST", "/login", form, token=None, headers=headers | cookie)
    assert (response.status_code, response.headers["location"]) == (303, "/policies")
    replaced = {"Cookie": f"{COOKIE}={cookie_in(response).value}"}
    assert site.get("/me", token=None, headers=replaced)["user"] == "ann"
    problem_of(site.request("POST", "/login", form, token=None, headers=headers), 401)


@pytest.mark.parametrize("session", ["none", "own", "ended"])
def test_link_signs_in_without_a_question_if_no_other_user_is_signed_in(site: Site, session: str) -> None:
    cookie = {"own": cookie_in(sign_in(site)).value, "ended": "fl_ended"}.get(session)
    headers = FROM_TERMINAL | ({} if cookie is None else {"Cookie": f"{COOKIE}={cookie}"})
    response = site.request("GET", f"/login?code={site.create_login_code()}", token=None, headers=headers)
    assert (response.status_code, response.headers["location"]) == (303, "/")


@pytest.mark.parametrize("origin", ["cross-site", "same-site"])
def test_link_from_another_site_is_opened_again_with_the_session_cookie(site: Site, origin: str) -> None:
    code = site.create_login_code()
    headers = HTML | {"Sec-Fetch-Site": origin}
    response = site.request("GET", f"/login?code={code}&next=/a", token=None, headers=headers)
    assert f'content="0;url=/login?code={code}&amp;next=%2Fa"' in response.text
    assert "set-cookie" not in response.headers


def test_link_in_a_browser_that_sends_no_site_always_asks(site: Site) -> None:
    response = site.request("GET", f"/login?code={site.create_login_code()}", token=None, headers=HTML)
    assert response.status_code == 200
    assert "This link signs this browser in as ann." in response.text
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize("headers", CROSS_SITE_HEADERS)
def test_confirmation_must_come_from_our_own_page(common_site: Site, headers: dict[str, str]) -> None:
    form = f"code={common_site.create_login_code()}".encode()
    problem_of(common_site.request("POST", "/login", form, token=None, headers=headers), 403)


def test_markup_in_a_user_name_is_escaped(site: Site) -> None:
    token = site.post("/tokens", {"name": "one", "user": "<b>x</b>"})["token"]
    response = site.request("GET", f"/login?code={token}", token=None, headers=HTML)
    assert "&lt;b&gt;x&lt;/b&gt;" in response.text
    assert "<b>" not in response.text


def test_code_of_a_link_is_not_a_token(site: Site) -> None:
    code = site.create_login_code()
    problem_of(site.request("GET", "/me", token=code), 401)
    assert site.request("GET", f"/login?code={code}", token=None).status_code == 303


def test_only_the_first_of_two_requests_with_a_link_signs_in(site: Site) -> None:
    code = site.create_login_code()
    responses = [site.request("GET", f"/login?code={code}", token=None) for _ in range(2)]
    assert [response.status_code for response in responses] == [303, 401]


def test_change_with_a_cookie_must_come_from_our_own_page(
    common_site: Site, operations: list[Operation], objects: dict[str, str]
) -> None:
    cookie = {"Cookie": f"{COOKIE}={cookie_in(sign_in(common_site)).value}"}
    for item in operations:
        if item.method == "GET":
            continue
        for cross_site in CROSS_SITE_HEADERS:
            headers = {**cookie, **cross_site}
            response = common_site.request(
                item.method, address_of(item, objects), body_of(item), token=None, headers=headers
            )
            assert problem_of(response, 403)["code"] == "foreign_site", f"{item.key} {cross_site}"
    created = common_site.request("POST", "/departments", {"name": "own"}, token=None, headers={**cookie, **OWN_PAGE})
    assert created.status_code == 201


def test_authorization_header_takes_precedence_over_the_cookie(site: Site) -> None:
    cookie = {"Cookie": f"{COOKIE}={cookie_in(sign_in(site)).value}"}
    token = site.token_of("bob", viewer="platform")
    assert site.get("/me", token=token, headers=cookie)["user"] == "bob"
    problem_of(site.request("GET", "/me", token="fl_nobody", headers=cookie), 401)
    assert (
        site.request("POST", "/departments", {"name": "x"}, headers={**cookie, **CROSS_SITE_HEADERS[1]}).status_code
        == 201
    )


def test_sign_out_ends_only_the_session(site: Site) -> None:
    cookie = {"Cookie": f"{COOKIE}={cookie_in(sign_in(site)).value}"}
    response = site.request("DELETE", "/sessions", token=None, headers={**cookie, **OWN_PAGE})
    assert response.status_code == 204
    assert cookie_in(response)["max-age"] == "0"
    problem_of(site.request("GET", "/me", token=None, headers=cookie), 401)
    assert site.request("DELETE", "/sessions").status_code == 204  # a token is not a session
    assert site.get("/me")["user"] == "ann"


def test_revoked_token_is_rejected(site: Site) -> None:
    created = site.post("/tokens", {"name": "old"})
    assert site.get("/me", token=created["token"])["via"] == "api:old"
    assert site.request("DELETE", f"/tokens/{created['id']}").status_code == 204
    problem_of(site.request("GET", "/me", token=created["token"]), 401)
    problem_of(site.request("DELETE", f"/tokens/{created['id']}"), 404)


# Sign-in links


def test_link_is_created_with_a_token_and_signs_in_once(site: Site) -> None:
    response = site.request("POST", "/sessions/link", {}, token=site.token_of("bob"))
    created = decode(response)
    assert (response.status_code, sorted(created)) == (201, ["expires_at", "url"])
    assert response.headers["cache-control"] == "no-store"
    assert created["url"].startswith(f"{URL}/login?code=fl_")
    remaining = datetime.fromisoformat(created["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=14) < remaining <= timedelta(minutes=15)
    assert (
        site.request("HEAD", created["url"].removeprefix(URL), token=None).status_code == 204
    )  # HEAD does not use the code
    first = site.request("GET", created["url"].removeprefix(URL), token=None)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    me = site.get("/me", token=None, headers={"Cookie": f"{COOKIE}={cookie_in(first).value}"})
    assert (me["user"], me["via"]) == ("bob", "session:browser")
    problem_of(site.request("GET", created["url"].removeprefix(URL), token=None), 401)


def test_link_needs_no_body(site: Site) -> None:
    assert site.post("/sessions/link", None)["url"].startswith(f"{URL}/login?code=fl_")


@pytest.mark.parametrize("url", ["https://fairlead.test", "https://fairlead.test/"])
def test_link_uses_the_public_url(sqlite_store: Any, url: str) -> None:
    with open_site(sqlite_store, url=url) as site:
        assert site.post("/sessions/link", {})["url"].startswith("https://fairlead.test/login?code=fl_")


@pytest.mark.parametrize(
    "landing", ["/", "", "/policies", "/compute-resources?search=a b&sort=-name#c", "/größe", "/%41"]
)
def test_link_redirects_to_the_requested_page(site: Site, landing: str) -> None:
    url = site.post("/sessions/link", {"next": landing})["url"]
    followed = site.request("GET", url.removeprefix(URL), token=None)
    assert (followed.status_code, followed.headers["location"]) == (303, quote(landing or "/", safe="/?&=-#%"))


@pytest.mark.parametrize("landing", INVALID_REDIRECTS)
def test_link_to_another_site_is_rejected(site: Site, landing: str) -> None:
    problem = problem_of(site.request("POST", "/sessions/link", {"next": landing}), 422)
    assert paths_of(problem) == ["next"]
    assert "path on this server" in problem["violations"][0]["hint"]


def test_session_cannot_create_a_link(site: Site) -> None:
    session = cookie_in(sign_in(site)).value
    cookie = {"Cookie": f"{COOKIE}={session}", **OWN_PAGE}
    for options in ({"token": session}, {"token": None, "headers": cookie}):
        problem = problem_of(site.request("POST", "/sessions/link", {}, **options), 403)
        assert problem["code"] == "forbidden"
        assert "not session:browser" in problem["detail"]


def test_oidc_token_cannot_create_a_link(sqlite_store: Any) -> None:
    issuer = Issuer()
    with open_site(sqlite_store, sign_in=SignInOptions(issuer.identity(), issuer.login())) as site:
        token = make_token(make_claims())
        assert site.get("/me", token=token)["user"] == "ada"
        assert "not oidc" in problem_of(site.request("POST", "/sessions/link", {}, token=token), 403)["detail"]


def test_revoked_token_ends_its_links_and_sessions(site: Site) -> None:
    created = site.post("/tokens", {"name": "lost"})
    url = site.post("/sessions/link", {}, token=created["token"])["url"].removeprefix(URL)
    other = site.post("/sessions/link", {}, token=created["token"])["url"].removeprefix(URL)
    cookie = {"Cookie": f"{COOKIE}={cookie_in(site.request('GET', url, token=None)).value}"}
    assert site.get("/me", token=None, headers=cookie)["user"] == "ann"
    assert site.request("DELETE", f"/tokens/{created['id']}").status_code == 204
    problem_of(site.request("GET", "/me", token=None, headers=cookie), 401)
    problem_of(site.request("GET", other, token=None), 401)


def sign_in(site: Site) -> Response:
    """A browser signs in with the administrator's token."""
    return site.request("POST", "/sessions", {"token": site.token}, token=None)
