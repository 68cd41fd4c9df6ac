"""Signing in with a browser: links, cookies, and who may use them."""

from typing import Any

from httpx2 import Response

from tests.server.samples import address_of, body_of
from tests.server.sites import COOKIE, URL, Operation, Site, cookie_in, open_site, problem_of

NAMED = {"name": "one", "description": "before"}
OWN_PAGE = {"Origin": URL, "Sec-Fetch-Site": "same-origin"}


# Signing in


def test_a_browser_signs_in_with_a_token_and_gets_a_cookie_that_no_script_reads(site: Site) -> None:
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


def test_a_cookie_of_a_server_with_https_goes_there_alone(sqlite_store: Any) -> None:
    with open_site(sqlite_store, url="https://fairlead.test") as site:
        assert cookie_in(sign_in(site))["secure"] is True


def test_a_sign_in_link_works_once(site: Site) -> None:
    word = site.invite()
    first = site.ask("GET", f"/login?word={word}", token=None)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    session = cookie_in(first).value
    assert site.get("/me", token=None, headers={"Cookie": f"{COOKIE}={session}"})["user"] == "ann"
    for again in (word, "", "nothing"):
        answer = site.ask("GET", f"/login?word={again}", token=None)
        problem_of(answer, 401)
        assert "set-cookie" not in answer.headers


def test_the_word_of_a_link_is_no_token(site: Site) -> None:
    word = site.invite()
    problem_of(site.ask("GET", "/me", token=word), 401)
    assert site.ask("GET", f"/login?word={word}", token=None).status_code == 303


def test_two_who_follow_a_link_at_once_are_one(site: Site) -> None:
    word = site.invite()
    answers = [site.ask("GET", f"/login?word={word}", token=None) for _ in range(2)]
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


def test_a_change_with_a_cookie_must_come_from_our_own_page(
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


def test_the_header_counts_more_than_the_cookie(site: Site) -> None:
    cookie = {"Cookie": f"{COOKIE}={cookie_in(sign_in(site)).value}"}
    token = site.token_of("bob", viewer="platform")
    assert site.get("/me", token=token, headers=cookie)["user"] == "bob"
    problem_of(site.ask("GET", "/me", token="fl_nobody", headers=cookie), 401)
    assert site.ask("POST", "/departments", {"name": "x"}, headers={**cookie, **FOREIGN[1]}).status_code == 201


def test_signing_out_ends_the_session_and_nothing_else(site: Site) -> None:
    cookie = {"Cookie": f"{COOKIE}={cookie_in(sign_in(site)).value}"}
    answer = site.ask("DELETE", "/sessions", token=None, headers={**cookie, **OWN_PAGE})
    assert answer.status_code == 204
    assert cookie_in(answer)["max-age"] == "0"
    problem_of(site.ask("GET", "/me", token=None, headers=cookie), 401)
    assert site.ask("DELETE", "/sessions").status_code == 204  # a token is no session
    assert site.get("/me")["user"] == "ann"


def test_a_token_that_is_revoked_lets_nobody_in_and_ends_no_other(site: Site) -> None:
    made = site.make("/tokens", {"name": "old"})
    assert site.get("/me", token=made["token"])["via"] == "api:old"
    assert site.ask("DELETE", f"/tokens/{made['id']}").status_code == 204
    problem_of(site.ask("GET", "/me", token=made["token"]), 401)
    problem_of(site.ask("DELETE", f"/tokens/{made['id']}"), 404)


# What every answer has


def sign_in(site: Site) -> Response:
    """A browser signs in with the administrator's token."""
    return site.ask("POST", "/sessions", {"token": site.token}, token=None)
