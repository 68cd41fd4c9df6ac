"""Sign-in through an OIDC issuer: the authorization request, the token response, and rejected ID tokens."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from fairlead.adapters.identity import issuers
from fairlead.adapters.identity.logins import OidcLogin
from fairlead.errors import FairleadError, Unauthenticated, Unavailable
from fairlead.ports import LoginAttempt, Principal
from tests.adapters.issuers import EC, ISSUER, NOW, OTHER_RSA, Issuer, make_claims, make_part, make_token
from tests.adapters.login_endpoints import CLIENT, SECRET
from tests.processes import providers

ATTEMPT = LoginAttempt("state" * 9, "nonce" * 9, "verifier" * 6)
CALLBACK_URL = "https://fairlead.example.org/login/callback"
SECONDS = int(NOW.timestamp())


def get_code(issuer: Issuer, login: OidcLogin, attempt: LoginAttempt = ATTEMPT) -> str:
    """The authorization code in the issuer's redirect."""
    redirect = issuer.login_endpoints.authorize(login.begin(attempt, CALLBACK_URL))
    return dict(parse_qsl(urlsplit(redirect).query))["code"]


def sign_in(issuer: Issuer, **options: Any) -> Principal:
    """Run the sign-in flow, and return the user."""
    login = issuer.login(**options)
    return login.finish(ATTEMPT, CALLBACK_URL, get_code(issuer, login))


def rejection_of(issuer: Issuer, kind: type[FairleadError] = Unauthenticated) -> str:
    """The error from a failed sign-in. It has a hint, and contains no secret."""
    with pytest.raises(kind) as caught:
        sign_in(issuer)
    assert caught.value.hint
    message = f"{caught.value} {caught.value.hint}"
    assert not [text for text in (SECRET, "c0de", "Pl4nted", "verifier" * 6, "nonce" * 9) if text in message]
    return str(caught.value)


def test_authorization_url_has_all_required_parameters() -> None:
    address = Issuer().login().begin(ATTEMPT, CALLBACK_URL)
    assert address.startswith(f"{ISSUER}/authorize?")
    challenge = base64.urlsafe_b64encode(hashlib.sha256(ATTEMPT.verifier.encode()).digest()).decode().rstrip("=")
    assert dict(parse_qsl(urlsplit(address).query)) == {
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": CALLBACK_URL,
        "scope": "openid profile email",
        "state": ATTEMPT.state,
        "nonce": ATTEMPT.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    assert ATTEMPT.verifier not in address
    assert SECRET not in address


@pytest.mark.parametrize(
    ("supported", "requested"), [(["openid", "groups"], True), (["openid"], False), ("groups", False), (None, False)]
)
def test_groups_scope_is_requested_if_the_issuer_supports_it(supported: Any, requested: bool) -> None:
    issuer = Issuer()
    issuer.describe(scopes_supported=supported)
    assert ("groups" in issuer.login().begin(ATTEMPT, CALLBACK_URL)) == requested


def test_query_of_the_authorization_endpoint_is_preserved() -> None:
    issuer = Issuer()
    issuer.describe(authorization_endpoint=f"{ISSUER}/authorize?tenant=lab")
    query = dict(parse_qsl(urlsplit(issuer.login().begin(ATTEMPT, CALLBACK_URL)).query))
    assert (query["tenant"], query["client_id"]) == ("lab", CLIENT)


def test_signed_in_user_comes_from_the_id_token() -> None:
    issuer = Issuer()
    assert sign_in(issuer) == Principal("ada", ("vision",), "oidc")
    (form,) = issuer.login_endpoints.exchanged
    assert form.keys() == {"grant_type", "code", "redirect_uri", "code_verifier"}
    assert (form["grant_type"], form["code_verifier"]) == ("authorization_code", ATTEMPT.verifier)


def test_claims_for_user_and_groups_are_configurable() -> None:
    issuer = Issuer()
    issuer.login_endpoints.claims = {"email": "ada@example.org", "roles": ["r"]}
    assert sign_in(issuer, user_claim="email", groups_claim="roles") == Principal("ada@example.org", ("r",), "oidc")


def test_bearer_audience_and_client_id_are_distinguished() -> None:
    """A bearer token cannot sign a browser in, and an ID token is not a bearer token."""
    issuer = Issuer()
    issuer.login_endpoints.claims = {"aud": "fairlead"}
    assert "has the audience 'fairlead'; this server expects 'fairlead: web'" in rejection_of(issuer)
    with pytest.raises(Unauthenticated, match="has the audience 'fairlead: web'"):
        issuer.identity().authenticate(make_token(make_claims(aud=CLIENT)))


@pytest.mark.parametrize(
    ("secret", "methods"),
    [
        (SECRET, ("client_secret_basic",)),
        (SECRET, ("client_secret_post",)),
        (SECRET, ("client_secret_post", "client_secret_basic")),
        (None, ("client_secret_basic",)),
        (None, ("none",)),
    ],
)
def test_client_authentication_method_follows_the_issuer(secret: str | None, methods: tuple[str, ...]) -> None:
    issuer = Issuer()
    issuer.login_endpoints.secret, issuer.login_endpoints.methods = secret, methods
    issuer.describe(token_endpoint_auth_methods_supported=list(methods))
    assert sign_in(issuer).user == "ada"


def test_client_secret_is_sent_in_the_header_by_default() -> None:
    issuer = Issuer()
    issuer.describe(token_endpoint_auth_methods_supported=None)
    assert sign_in(issuer).user == "ada"


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"nonce": "another"}, "from another sign-in"),
        ({"nonce": None}, "from another sign-in"),
        ({"nonce": [ATTEMPT.nonce]}, "from another sign-in"),
        ({"azp": "grafana"}, "was issued to 'grafana' (azp)"),
        ({"aud": "grafana"}, "has the audience 'grafana'"),
        ({"aud": None}, "has the audience 'fairlead'"),  # the audience of a bearer token
        ({"aud": []}, "has the audience []"),
        ({"iss": "https://evil.example.org"}, "issued by 'https://evil.example.org'"),
        ({"exp": SECONDS - 60}, "expired at"),
        ({"nbf": SECONDS + 600}, "is not valid before"),
        ({"sub": ""}, "is not a valid user name"),
        ({"groups": {"vision": 1}}, "is not a list of groups"),
    ],
)
def test_id_token_of_another_sign_in_is_rejected(claims: dict[str, Any], message: str) -> None:
    issuer = Issuer()
    issuer.login_endpoints.claims = claims
    assert message in rejection_of(issuer)


@pytest.mark.parametrize("claims", [{"aud": [CLIENT]}, {"aud": ["other", CLIENT], "azp": CLIENT}, {"azp": CLIENT}])
def test_id_token_can_have_additional_audiences(claims: dict[str, Any]) -> None:
    issuer = Issuer()
    issuer.login_endpoints.claims = claims
    assert sign_in(issuer).user == "ada"


def _unsigned(claims: dict[str, Any]) -> str:
    return f"{make_part({'alg': 'none'})}.{make_part(make_claims(**claims))}."


@pytest.mark.parametrize(
    ("sign", "message"),
    [
        (lambda claims: make_token(make_claims(**claims), OTHER_RSA), "the token's signature is not from"),
        (lambda claims: make_token(make_claims(**claims), kid="no-such-key"), "which https://login"),
        (lambda claims: make_token(make_claims(**claims), typ="logout+jwt"), "do not identify a caller"),
        (_unsigned, "allowed algorithms: RS256"),
    ],
)
def test_id_token_with_a_foreign_signature_is_rejected(sign: Callable[[dict[str, Any]], str], message: str) -> None:
    issuer = Issuer()
    issuer.login_endpoints.sign_with = sign
    assert message in rejection_of(issuer)


def test_every_signature_algorithm_of_the_issuer_is_accepted() -> None:
    issuer = Issuer()
    issuer.login_endpoints.sign_with = lambda claims: make_token(make_claims(**claims), EC, "ES256")
    assert sign_in(issuer).user == "ada"


def test_code_is_valid_once_and_only_for_its_client() -> None:
    issuer = Issuer()
    login = issuer.login()
    code = get_code(issuer, login)
    for attempt, redirect_uri, sent_code in (
        (ATTEMPT, CALLBACK_URL, "made up"),
        (ATTEMPT, "https://evil.example.org/login/callback", code),
        (LoginAttempt(ATTEMPT.state, ATTEMPT.nonce, "guessed"), CALLBACK_URL, get_code(issuer, login)),
    ):
        with pytest.raises(Unauthenticated, match="rejected the sign-in with status 400: 'invalid_grant'"):
            login.finish(attempt, redirect_uri, sent_code)
    code = get_code(issuer, login)
    assert login.finish(ATTEMPT, CALLBACK_URL, code).user == "ada"
    with pytest.raises(Unauthenticated, match="'invalid_grant'"):
        login.finish(ATTEMPT, CALLBACK_URL, code)


def test_token_of_one_sign_in_does_not_finish_another() -> None:
    issuer = Issuer()
    login = issuer.login()
    code = get_code(issuer, login)
    with pytest.raises(Unauthenticated, match="from another sign-in"):
        login.finish(LoginAttempt(ATTEMPT.state, "other", ATTEMPT.verifier), CALLBACK_URL, code)


def test_unknown_client_is_reported() -> None:
    issuer = Issuer()
    login = OidcLogin(issuer.identity(), CLIENT, "wrong-secret", issuer.login_endpoints.send)
    with pytest.raises(Unauthenticated, match="status 401: 'invalid_client'") as caught:
        login.finish(ATTEMPT, CALLBACK_URL, "code")
    assert "check oidc_client_id" in str(caught.value.hint)
    assert "wrong-secret" not in repr(caught.value)


@pytest.mark.parametrize(
    ("status", "content", "kind", "message"),
    [
        (200, b"", Unavailable, "sent no signed ID token"),
        (200, b"<html>", Unavailable, "sent no signed ID token"),
        (200, b"[]", Unavailable, "sent no signed ID token"),
        (200, b'{"id_token": 7}', Unavailable, "sent no signed ID token"),
        (200, b'{"id_token": "a.b.c.d.e"}', Unavailable, "sent no signed ID token"),  # encrypted
        (200, b'{"access_token": "a.b.c"}', Unavailable, "sent no signed ID token"),
        (200, b'{"id_token": "a.b.c"}', Unauthenticated, "signed JSON Web Token"),
        (302, b"", Unavailable, "responded with status 302"),
        (500, b'{"error": "oops"}', Unavailable, "responded with status 500"),
        (400, b"<html>", Unauthenticated, "status 400: nothing"),
        (400, json.dumps({"error": "x" * 5000}).encode(), Unauthenticated, "(5000 characters)"),
        (403, b'{"error": {"a": 1}}', Unauthenticated, "a mapping"),
    ],
)
def test_invalid_issuer_response_fails_the_sign_in(
    status: int, content: bytes, kind: type[FairleadError], message: str
) -> None:
    login = OidcLogin(Issuer().identity(), CLIENT, SECRET, lambda *_: (status, content))
    with pytest.raises(kind) as caught:
        login.finish(ATTEMPT, CALLBACK_URL, "code")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        None,
        7,
        "",
        "/authorize",
        "http://login.example.org/authorize",
        "http://127.0.0.1/authorize",
        "javascript:alert(1)",
        "https://a:b@login.example.org/",
        "https://login.example.org/a b",
        "https://login.example.org/#/authorize",
    ],
)
@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint"])
def test_unsafe_issuer_urls_are_not_used(name: str, address: Any) -> None:
    issuer = Issuer()
    issuer.describe(**{name: address})
    login = issuer.login()
    operation = login.begin if name == "authorization_endpoint" else partial(login.finish, code="code")
    with pytest.raises(Unavailable, match=f"no safe URL for its .* \\({name}\\)"):
        operation(ATTEMPT, CALLBACK_URL)
    assert issuer.login_endpoints.exchanged == []


def test_failed_issuer_is_not_contacted_again_immediately() -> None:
    issuer = Issuer()
    issuer.down = True
    login = issuer.login()
    for _ in range(10):
        with pytest.raises(Unavailable, match="connection refused"):
            login.begin(ATTEMPT, CALLBACK_URL)
    assert len(issuer.requests) == 1
    issuer.down = False
    issuer.advance(seconds=5)
    code = get_code(issuer, login)
    issuer.down = True
    with pytest.raises(Unavailable, match=r"cannot get the user from .*: connection refused"):
        login.finish(ATTEMPT, CALLBACK_URL, code)


def test_discovery_document_is_cached_with_the_keys() -> None:
    issuer = Issuer()
    login = issuer.login()
    for _ in range(3):
        login.finish(ATTEMPT, CALLBACK_URL, get_code(issuer, login))
    assert len(issuer.requests) == 2


def test_repr_of_an_attempt_hides_its_secrets() -> None:
    assert repr(ATTEMPT) == "LoginAttempt()"


def test_token_request_is_a_form_with_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    with providers.running() as provider:
        form, headers = {"code": "a&b=c"}, {"Authorization": "Basic Ojo="}
        status, content = issuers.post_form(f"{provider.issuer}/token", form, headers)
        assert (status, json.loads(content)) == (401, {"error": "invalid_client"})
        assert provider.login_endpoints.exchanged == [form]
        assert issuers.post_form(f"{provider.issuer}/nothing", form, {})[0] == 404
        with pytest.raises(OSError, match="is not an https URL"):
            issuers.post_form("http://example.org/token", form, {})

        def exchange_slowly(_form: Mapping[str, str], _authorization: str) -> tuple[int, dict[str, Any]]:
            released.wait(30)
            return 200, {}

        released = threading.Event()
        monkeypatch.setattr(issuers, "TIMEOUT_SECONDS", 0.1)
        monkeypatch.setattr(provider.login_endpoints, "exchange", exchange_slowly)
        started = time.monotonic()
        with pytest.raises(OSError, match=r"cannot reach .*/token: .*timed out"):
            issuers.post_form(f"{provider.issuer}/token", form, {})
        assert time.monotonic() - started < 15
        released.set()
