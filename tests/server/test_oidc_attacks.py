"""Attacks on sign-in with OpenID Connect: injected codes, mixed parts of two sign-ins, repeated parameters."""

from collections.abc import Iterator
from dataclasses import dataclass
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest
from httpx2 import Response

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.services.registry import SignInOptions
from tests.adapters.issuers import ISSUER, Issuer
from tests.server.sites import COOKIE, URL, Site, open_site


@dataclass(frozen=True)
class SignIn:
    """A sign-in up to the identity provider's redirect: the browser's cookie and the redirect's parameters."""

    name: str
    cookie: str
    params: dict[str, str]


@dataclass(frozen=True)
class Attack:
    """A site, its identity provider, and the sign-ins of an attacker and a victim."""

    site: Site
    issuer: Issuer
    attacker: SignIn
    victim: SignIn

    def finish(self, cookie: str, params: dict[str, str] | list[tuple[str, str]]) -> Response:
        """Follow the identity provider's redirect with a cookie and parameters."""
        headers = {"Cookie": f"{self.victim.name}={cookie}"}
        return self.site.request("GET", f"/login/callback?{urlencode(params)}", token=None, headers=headers)


@pytest.fixture
def attack(sqlite_store: DatabaseStore) -> Iterator[Attack]:
    """A site with OIDC sign-in, and two sign-ins."""
    issuer = Issuer()
    with open_site(sqlite_store, sign_in=SignInOptions(issuer.identity(), issuer.login())) as site:
        yield Attack(site, issuer, begin(site, issuer), begin(site, issuer))


def begin(site: Site, issuer: Issuer) -> SignIn:
    """Start a sign-in, and sign in at the identity provider."""
    response = site.request("GET", "/login/oidc", token=None)
    (cookie,) = SimpleCookie(response.headers["set-cookie"]).values()
    callback = issuer.login_endpoints.authorize(response.headers["location"])
    return SignIn(
        cookie.key, cookie.value, {key: value[0] for key, value in parse_qs(urlsplit(callback).query).items()}
    )


def check_rejected(response: Response) -> None:
    """Check that the browser got the sign-in page and no session."""
    assert response.status_code == 303
    assert urlsplit(response.headers["location"])[:3] == ("", "", "/sign-in")
    assert f"{COOKIE}=" not in str(response.headers.get_list("set-cookie"))


def test_code_of_another_sign_in_is_rejected_because_of_its_pkce_challenge(attack: Attack) -> None:
    """Code injection: the attacker has the victim's code, and sends it as the response to their own sign-in."""
    stolen = {**attack.attacker.params, "code": attack.victim.params["code"]}
    check_rejected(attack.finish(attack.attacker.cookie, stolen))
    assert len(attack.issuer.login_endpoints.exchanged) == 1  # the issuer rejects it, and the code is used up
    check_rejected(attack.finish(attack.victim.cookie, attack.victim.params))


def test_code_of_another_sign_in_is_rejected_because_of_its_nonce(attack: Attack) -> None:
    """The issuer ignores PKCE here: the attacker's cookie contains the verifier of the victim."""
    state, nonce, _, landing = attack.attacker.cookie.split(".", 3)
    verifier = attack.victim.cookie.split(".", 3)[2]
    stolen = {**attack.attacker.params, "code": attack.victim.params["code"]}
    check_rejected(attack.finish(".".join((state, nonce, verifier, landing)), stolen))
    assert len(attack.issuer.login_endpoints.exchanged) == 1


def test_attackers_code_does_not_sign_the_victim_in_as_the_attacker(attack: Attack) -> None:
    """Login CSRF: the victim follows a link with the attacker's code and state."""
    for params in (attack.attacker.params, {**attack.attacker.params, "state": attack.victim.params["state"]}):
        check_rejected(attack.finish(attack.victim.cookie, params))


@pytest.mark.parametrize("name", ["state", "code", "iss"])
def test_repeated_parameters_do_not_replace_checked_ones(attack: Attack, name: str) -> None:
    """Otherwise one value could be checked and the other one used."""
    own = list(attack.victim.params.items())
    other = (name, {**attack.attacker.params, "iss": "https://evil.example.org"}[name])
    for params in ([*own, other], [other, *own]):
        response = attack.finish(attack.victim.cookie, params)
        if response.headers["location"] == "/":
            assert attack.issuer.login_endpoints.exchanged[-1]["code"] == attack.victim.params["code"]
        else:
            check_rejected(response)


def test_only_redirects_finish_a_sign_in(attack: Attack) -> None:
    """A form on another site cannot send the response in a POST, for which browsers omit the login cookie anyway."""
    headers = {"Cookie": f"{attack.victim.name}={attack.victim.cookie}", "Origin": "https://evil.example.org"}
    path = f"/login/callback?{urlencode(attack.victim.params)}"
    assert attack.site.request("POST", path, token=None, headers=headers).status_code in (403, 405)
    assert attack.issuer.login_endpoints.exchanged == []


def test_redirect_uri_does_not_depend_on_the_host_header(attack: Attack) -> None:
    """Otherwise the code would be sent to the attacker's host."""
    headers = {"Host": "evil.example.org", "X-Forwarded-Host": "evil.example.org", "Forwarded": "host=evil.example.org"}
    response = attack.site.request("GET", "/login/oidc", token=None, headers=headers)
    location = response.headers.get("location", "")
    assert "evil" not in location
    if response.status_code == 303:
        assert f"redirect_uri={quote(f'{URL}/login/callback', safe='')}" in location
        assert location.startswith(ISSUER)
