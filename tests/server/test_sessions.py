"""Signing in with a browser: links, cookies, and who may use them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from httpx2 import Response

from fairlead.composition import SignInOptions
from tests.adapters.issuers import Issuer, make_claims, make_token
from tests.server.samples import ELSEWHERE, address_of, body_of
from tests.server.sites import COOKIE, URL, Operation, Site, cookie_in, open_site, paths_of, problem_of, told

NAMED = {"name": "one", "description": "before"}
OWN_PAGE = {"Origin": URL, "Sec-Fetch-Site": "same-origin"}


# Signing in


def test_sign_in_with_a_token_sets_an_http_only_cookie(site: Site) -> None:
    answer = sign_in(site)
    assert (answer.status_code, answer.content) == (204, b"")
    morsel = cookie_in(answer)
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
        assert cookie_in(sign_in(site))["secure"] is True


def test_sign_in_link_works_once(site: Site) -> None:
    word = site.invite()
    first = site.ask("GET", f"/login?code={word}", token=None)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    session = cookie_in(first).value
    assert site.get("/me", token=None, headers={"Cookie": f"{COOKIE}={session}"})["user"] == "ann"
    for again in (word, "", "nothing"):
        answer = site.ask("GET", f"/login?code={again}", token=None)
        problem_of(answer, 401)
        assert "set-cookie" not in answer.headers


def test_code_of_a_link_is_not_a_token(site: Site) -> None:
    word = site.invite()
    problem_of(site.ask("GET", "/me", token=word), 401)
    assert site.ask("GET", f"/login?code={word}", token=None).status_code == 303


def test_only_the_first_of_two_requests_with_a_link_signs_in(site: Site) -> None:
    word = site.invite()
    answers = [site.ask("GET", f"/login?code={word}", token=None) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [303, 401]


FOREIGN: tuple[dict[str, str], ...] = (
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


def test_change_with_a_cookie_must_come_from_our_own_page(
    common_site: Site, operations: list[Operation], things: dict[str, str]
) -> None:
    cookie = {"Cookie": f"{COOKIE}={cookie_in(sign_in(common_site)).value}"}
    for item in operations:
        if item.method == "GET":
            continue
        for foreign in FOREIGN:
            headers = {**cookie, **foreign}
            answer = common_site.ask(item.method, address_of(item, things), body_of(item), token=None, headers=headers)
            assert problem_of(answer, 403)["code"] == "foreign_site", f"{item.key} {foreign}"
    made = common_site.ask("POST", "/departments", {"name": "own"}, token=None, headers={**cookie, **OWN_PAGE})
    assert made.status_code == 201


def test_authorization_header_takes_precedence_over_the_cookie(site: Site) -> None:
    cookie = {"Cookie": f"{COOKIE}={cookie_in(sign_in(site)).value}"}
    token = site.token_of("bob", viewer="platform")
    assert site.get("/me", token=token, headers=cookie)["user"] == "bob"
    problem_of(site.ask("GET", "/me", token="fl_nobody", headers=cookie), 401)
    assert site.ask("POST", "/departments", {"name": "x"}, headers={**cookie, **FOREIGN[1]}).status_code == 201


def test_sign_out_ends_only_the_session(site: Site) -> None:
    cookie = {"Cookie": f"{COOKIE}={cookie_in(sign_in(site)).value}"}
    answer = site.ask("DELETE", "/sessions", token=None, headers={**cookie, **OWN_PAGE})
    assert answer.status_code == 204
    assert cookie_in(answer)["max-age"] == "0"
    problem_of(site.ask("GET", "/me", token=None, headers=cookie), 401)
    assert site.ask("DELETE", "/sessions").status_code == 204  # a token is not a session
    assert site.get("/me")["user"] == "ann"


def test_revoked_token_is_rejected(site: Site) -> None:
    made = site.make("/tokens", {"name": "old"})
    assert site.get("/me", token=made["token"])["via"] == "api:old"
    assert site.ask("DELETE", f"/tokens/{made['id']}").status_code == 204
    problem_of(site.ask("GET", "/me", token=made["token"]), 401)
    problem_of(site.ask("DELETE", f"/tokens/{made['id']}"), 404)


# Sign-in links


def test_link_is_created_with_a_token_and_signs_in_once(site: Site) -> None:
    answer = site.ask("POST", "/sessions/link", {}, token=site.token_of("bob"))
    made = told(answer)
    assert (answer.status_code, sorted(made)) == (201, ["expires_at", "url"])
    assert answer.headers["cache-control"] == "no-store"
    assert made["url"].startswith(f"{URL}/login?code=fl_")
    left = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=14) < left <= timedelta(minutes=15)
    assert site.ask("HEAD", made["url"].removeprefix(URL), token=None).status_code == 204  # it is not used up
    first = site.ask("GET", made["url"].removeprefix(URL), token=None)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    me = site.get("/me", token=None, headers={"Cookie": f"{COOKIE}={cookie_in(first).value}"})
    assert (me["user"], me["via"]) == ("bob", "session:browser")
    problem_of(site.ask("GET", made["url"].removeprefix(URL), token=None), 401)


def test_link_needs_no_body(site: Site) -> None:
    assert site.make("/sessions/link", None)["url"].startswith(f"{URL}/login?code=fl_")


@pytest.mark.parametrize("url", ["https://fairlead.test", "https://fairlead.test/"])
def test_link_uses_the_public_url(sqlite_store: Any, url: str) -> None:
    with open_site(sqlite_store, url=url) as site:
        assert site.make("/sessions/link", {})["url"].startswith("https://fairlead.test/login?code=fl_")


@pytest.mark.parametrize(
    "landing", ["/", "", "/policies", "/compute-resources?search=a b&sort=-name#c", "/größe", "/%41"]
)
def test_link_redirects_to_the_requested_page(site: Site, landing: str) -> None:
    url = site.make("/sessions/link", {"next": landing})["url"]
    followed = site.ask("GET", url.removeprefix(URL), token=None)
    assert (followed.status_code, followed.headers["location"]) == (303, quote(landing or "/", safe="/?&=-#%"))


@pytest.mark.parametrize("landing", ELSEWHERE)
def test_link_to_another_site_is_rejected(site: Site, landing: str) -> None:
    problem = problem_of(site.ask("POST", "/sessions/link", {"next": landing}), 422)
    assert paths_of(problem) == ["next"]
    assert "path of this server" in problem["violations"][0]["hint"]


def test_session_cannot_create_a_link(site: Site) -> None:
    session = cookie_in(sign_in(site)).value
    cookie = {"Cookie": f"{COOKIE}={session}", **OWN_PAGE}
    for asked in ({"token": session}, {"token": None, "headers": cookie}):
        problem = problem_of(site.ask("POST", "/sessions/link", {}, **asked), 403)
        assert problem["code"] == "forbidden"
        assert "not session:browser" in problem["detail"]


def test_oidc_token_cannot_create_a_link(sqlite_store: Any) -> None:
    issuer = Issuer()
    with open_site(sqlite_store, sign_in=SignInOptions(issuer.identity(), issuer.login())) as site:
        token = make_token(make_claims())
        assert site.get("/me", token=token)["user"] == "ada"
        assert "not oidc" in problem_of(site.ask("POST", "/sessions/link", {}, token=token), 403)["detail"]


def test_revoked_token_ends_its_links_and_sessions(site: Site) -> None:
    made = site.make("/tokens", {"name": "lost"})
    url = site.make("/sessions/link", {}, token=made["token"])["url"].removeprefix(URL)
    other = site.make("/sessions/link", {}, token=made["token"])["url"].removeprefix(URL)
    cookie = {"Cookie": f"{COOKIE}={cookie_in(site.ask('GET', url, token=None)).value}"}
    assert site.get("/me", token=None, headers=cookie)["user"] == "ann"
    assert site.ask("DELETE", f"/tokens/{made['id']}").status_code == 204
    problem_of(site.ask("GET", "/me", token=None, headers=cookie), 401)
    problem_of(site.ask("GET", other, token=None), 401)


def sign_in(site: Site) -> Response:
    """A browser signs in with the administrator's token."""
    return site.ask("POST", "/sessions", {"token": site.token}, token=None)
