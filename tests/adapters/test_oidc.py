"""Verification of OIDC tokens: accepted claims, and every reason for rejection."""

import hmac
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import Key, OctKey

from fairlead.errors import Unauthenticated, Unreadable
from fairlead.ports import Authenticator, Principal
from tests.adapters.issuers import (
    ALL,
    EC,
    EC_384,
    ED,
    ISSUER,
    NOW,
    OTHER_RSA,
    RSA,
    Issuer,
    make_claims,
    make_part,
    make_token,
    publish,
)

SECONDS = int(NOW.timestamp())
IDENTITY = Issuer().identity()


def error_for(token: str, identity: Authenticator = IDENTITY) -> str:
    """The error for a token. It has a hint and does not contain the token."""
    with pytest.raises(Unauthenticated) as caught:
        identity.authenticate(token)
    text = f"{caught.value} {caught.value.hint}"
    assert caught.value.hint
    assert not [part for part in token.split(".") if len(part) > 20 and part in text]
    return str(caught.value)


def test_valid_token_gives_user_and_groups() -> None:
    assert IDENTITY.authenticate(make_token()) == Principal("ada", ("vision",), "oidc")


@pytest.mark.parametrize(
    ("key", "alg"),
    [(RSA, alg) for alg in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")]
    + [(EC, "ES256"), (EC_384, "ES384"), (ED, "EdDSA"), (ED, "Ed25519")],
)
def test_every_asymmetric_algorithm_is_supported(key: Key, alg: str) -> None:
    assert IDENTITY.authenticate(make_token(key=key, alg=alg)).user == "ada"


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "", None, "HS256", "ES512", "ES256K", ["RS256"], 1])
@pytest.mark.parametrize("signature", ["", "AAAA"])
def test_other_algorithms_are_rejected(alg: Any, signature: str) -> None:
    token = f"{make_part({'alg': alg, 'kid': 'rsa'})}.{make_part(make_claims())}.{signature}"
    assert "allowed algorithms: RS256" in error_for(token)


@pytest.mark.parametrize(
    "secret", [RSA.as_pem(private=False), RSA.as_der(private=False), RSA.as_pem(private=False)[:-1]]
)
def test_public_key_is_not_accepted_as_a_shared_secret(secret: bytes) -> None:
    signed = f"{make_part({'alg': 'HS256', 'kid': 'rsa'})}.{make_part(make_claims())}"
    forged = f"{signed}.{make_part(hmac.digest(secret, signed.encode(), 'sha256'))}"
    assert "signed with 'HS256'" in error_for(forged)


def test_published_shared_secret_is_never_used() -> None:
    secret = OctKey.generate_key(256, {"kid": "shared"})
    issuer = Issuer(RSA, secret)
    issuer.documents[f"{ISSUER}/keys"]["keys"].append(secret.as_dict())
    assert "does not have" in error_for(make_token(kid="shared"), issuer.identity())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"iss": "https://evil.example.org"}, f"issued by 'https://evil.example.org'; this server trusts '{ISSUER}'"),
        ({"iss": f"{ISSUER}/"}, "this server trusts"),
        ({"iss": None}, "issued by nothing"),
        ({"iss": [ISSUER]}, "issued by a list"),
        ({"aud": "other"}, "has the audience 'other'; this server expects 'fairlead'"),
        ({"aud": ["a", "b"]}, "has the audience 'a', 'b'; this server"),
        ({"aud": [f"a{number}" for number in range(9)]}, "'a4', ...; this server"),
        ({"aud": []}, "has the audience []"),
        ({"aud": None}, "has the audience nothing"),
        ({"aud": "fairlead-admin"}, "has the audience 'fairlead-admin'"),
        ({"aud": {"fairlead": 1}}, "has the audience a mapping"),
        ({"exp": None}, "has no expiry time"),
        ({"exp": SECONDS - 60}, "expired at 2026-11-15 11:59:00 UTC; it is now 2026-11-15 12:00:00 UTC"),
        ({"exp": "soon"}, "the token's 'exp' claim is not a valid time"),
        ({"exp": True}, "the token's 'exp' claim is not a valid time"),
        ({"exp": -1}, "the token's 'exp' claim is not a valid time"),
        ({"exp": 10**30}, "the token's 'exp' claim is not a valid time"),
        ({"exp": SECONDS * 1000}, "the token's 'exp' claim is not a valid time"),
        ({"nbf": SECONDS + 61}, "is not valid before 2026-11-15 12:01:01 UTC (nbf)"),
        ({"nbf": []}, "the token's 'nbf' claim is not a valid time"),
        ({"iat": SECONDS + 61}, "was issued at 2026-11-15 12:01:01 UTC (iat)"),
        ({"sub": None}, "the token's 'sub' claim is not a valid user name: nothing"),
        ({"sub": ""}, "is not a valid user name"),
        ({"sub": "  "}, "is not a valid user name"),
        ({"sub": 7}, "is not a valid user name"),
        ({"sub": "ada\n"}, "is not a valid user name"),
        ({"sub": "ada\u202e"}, "is not a valid user name"),
        ({"sub": "\ud800"}, "is not a valid user name"),
        ({"sub": "a" * 251}, "(251 characters)"),
        ({"groups": {"vision": True}}, "the token's 'groups' claim is not a list of groups: a mapping"),
        ({"groups": 7}, "is not a list of groups"),
        ({"groups": ["vision", 7]}, "the token's 'groups' claim contains an invalid group name: 7"),
        ({"groups": ["vision", ["admins"]]}, "an invalid group name"),
        ({"groups": ["g" * 251]}, "(251 characters)"),
        ({"groups": [""]}, "an invalid group name"),
    ],
)
def test_signed_token_with_wrong_claims_is_rejected(changed: dict[str, Any], message: str) -> None:
    assert message in error_for(make_token(make_claims(**changed)))


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": SECONDS - 59},
        {"exp": SECONDS + 0.5},
        {"nbf": SECONDS + 60},
        {"iat": SECONDS + 60},
        {"iat": None},
        {"aud": ["other", "fairlead"]},
    ],
)
def test_clock_skew_of_a_minute_and_additional_audiences_are_accepted(changed: dict[str, Any]) -> None:
    assert IDENTITY.authenticate(make_token(make_claims(**changed))).user == "ada"


@pytest.mark.parametrize(
    ("groups", "expected"),
    [(None, ()), ([], ()), ("vision", ("vision",)), (["b", "a", "b"], ("b", "a"))],
)
def test_groups_are_a_list_or_a_string(groups: Any, expected: tuple[str, ...]) -> None:
    assert IDENTITY.authenticate(make_token(make_claims(groups=groups))).groups == expected


def test_null_groups_are_rejected() -> None:
    claims = make_claims() | {"groups": None}
    assert "is not a list of groups" in error_for(make_token(claims))


def test_claims_for_user_and_groups_are_configurable() -> None:
    identity = Issuer().identity(user_claim="email", groups_claim="roles")
    claims = make_claims(email="ada@example.org", email_verified=True, roles=["r"])
    assert identity.authenticate(make_token(claims)) == Principal("ada@example.org", ("r",), "oidc")


@pytest.mark.parametrize("verified", [False, "false"])
def test_unverified_email_is_rejected(verified: Any) -> None:
    claims = make_claims(email="boss@example.org", email_verified=verified)
    assert "has not verified" in error_for(make_token(claims), Issuer().identity(user_claim="email"))


def test_key_unknown_to_the_issuer_is_rejected() -> None:
    assert "the key 'elsewhere', which https://login" in error_for(make_token(kid="elsewhere"))


def test_forged_token_with_a_valid_key_id_is_rejected() -> None:
    assert "the token's signature is not from" in error_for(make_token(key=OTHER_RSA))


@pytest.mark.parametrize(
    ("alg", "kid"), [("RS256", "ec"), ("ES256", "rsa"), ("ES256", "ec-384"), ("EdDSA", "rsa"), ("RS256", "ed")]
)
def test_key_id_of_another_key_type_is_rejected(alg: str, kid: str) -> None:
    token = make_token(key=EC if alg == "ES256" else ED if alg == "EdDSA" else RSA, alg=alg, kid=kid)
    assert "has no such key for that algorithm" in error_for(token)


@pytest.mark.parametrize("kid", ["../../dev/null", "' or 1=1 --", "", "k" * 2000])
def test_unusual_key_id_is_reported_as_unknown(kid: str) -> None:
    assert "does not have" in error_for(make_token(kid=kid))


@pytest.mark.parametrize("kid", [1, ["rsa"], {"rsa": 1}])
def test_key_id_must_be_a_string(kid: Any) -> None:
    token = f"{make_part({'alg': 'RS256', 'kid': kid})}.{make_part(make_claims())}.AAAA"
    assert "neither a token from this server" in error_for(token)


@pytest.mark.parametrize("kid", ["rsa", "mine"])
def test_keys_in_the_token_header_are_ignored(kid: str) -> None:
    issuer = Issuer(RSA)
    identity = issuer.identity()
    header: dict[str, Any] = {
        "jwk": publish(OTHER_RSA, kid=kid),
        "jku": "https://evil.example.org/keys",
        "x5c": ["MIIB"],
    }
    header["x5u"] = "https://evil.example.org/chain"
    error_for(make_token(key=OTHER_RSA, kid=kid, **header), identity)
    assert not [address for address in issuer.requests if "evil" in address]
    assert (
        identity.authenticate(make_token(**header)).user == "ada"
    )  # and they do not invalidate a token that does not need them


def test_only_suitable_key_is_used_without_a_key_id() -> None:
    assert IDENTITY.authenticate(make_token(kid=None)).user == "ada"
    issuer = Issuer(RSA, OTHER_RSA)
    assert "has 2 keys" in error_for(make_token(kid=None), issuer.identity())


def test_all_keys_with_the_same_id_are_tried() -> None:
    identity = Issuer(OTHER_RSA, RSA).identity()
    assert identity.authenticate(make_token()).user == identity.authenticate(make_token(key=OTHER_RSA)).user == "ada"


@pytest.mark.parametrize("typ", ["logout+jwt", "dpop+jwt", "application/secevent+jwt", "", 1])
def test_token_of_another_type_is_rejected(typ: Any) -> None:
    token = f"{make_part({'alg': 'RS256', 'kid': 'rsa', 'typ': typ})}.{make_part(make_claims())}.AAAA"
    assert "do not identify a caller" in error_for(token)


@pytest.mark.parametrize("typ", [None, "JWT", "jwt", "at+jwt", "application/at+JWT"])
def test_common_token_types_are_accepted(typ: str | None) -> None:
    assert IDENTITY.authenticate(make_token(typ=typ)).user == "ada"


@pytest.mark.parametrize(
    "header", [{"crit": ["b64"], "b64": False}, {"crit": ["exp"], "exp": 1}, {"crit": 5}, {"b64": 0}]
)
def test_critical_extensions_are_rejected(header: dict[str, Any]) -> None:
    token = f"{make_part({'alg': 'RS256', 'kid': 'rsa'} | header)}.{make_part(make_claims())}.AAAA"
    assert "extensions" in error_for(token)


def test_unknown_headers_are_ignored() -> None:
    assert IDENTITY.authenticate(make_token(nonce="abc", x=[1])).user == "ada"


@pytest.mark.parametrize(
    "payload",
    [
        b'{"iss": "%s", "aud": "fairlead", "sub": "ada", "sub": "root", "exp": 9999999999}' % ISSUER.encode(),
        b'{"iss": "%s", "exp": NaN}' % ISSUER.encode(),
        b'{"iss": "%s", "exp": Infinity}' % ISSUER.encode(),
        json.dumps(make_claims()).encode("utf-16"),
        b"[" * 5000,
        b"9" * 5000,
        b"[]",
        b"null",
        b"\xff\xfe",
        b"",
    ],
)
def test_claims_that_are_not_a_plain_object_are_rejected(payload: bytes) -> None:
    assert "neither a token from this server" in error_for(make_token(payload))


def test_infinite_number_is_not_a_valid_time() -> None:
    payload = json.dumps(make_claims(exp=0)).replace('"exp": 0', '"exp": 1e999').encode()
    assert "the token's 'exp' claim is not a valid time: inf" in error_for(make_token(payload))


@pytest.mark.parametrize("header", [[], "alg", 1, None, b'{"alg": "RS256", "alg": "none"}', b"{" * 5000, b"\xff"])
def test_header_that_is_not_a_plain_object_is_rejected(header: Any) -> None:
    assert "neither a token" in error_for(f"{make_part(header)}.{make_part(make_claims())}.AAAA")


@pytest.mark.parametrize(
    "token", ["", ".", "..", "...", "a.b", "a.b.c", "a.b.c.d", "é.é.é", "\ud800.a.b", "fl_123", "\0"]
)
def test_malformed_token_is_reported(token: str) -> None:
    assert "neither a token from this server" in error_for(token)


def test_maximum_token_length_is_16_kibibytes() -> None:
    assert IDENTITY.authenticate(make_token(make_claims(more="m" * 11_000))).user == "ada"
    assert "the limit is 16384" in error_for(make_token(make_claims(more="m" * 13_000)))
    assert "has 10000000 characters" in error_for("a" * 10_000_000)


@pytest.mark.parametrize("key", ALL, ids=lambda key: key.kid)
def test_truncated_token_is_rejected(key: Key) -> None:
    token = make_token(key=key, alg={"rsa": "RS256", "ec": "ES256", "ec-384": "ES384", "ed": "EdDSA"}[key.kid or ""])
    for length in [*range(0, len(token), 7), len(token) - 1]:
        error_for(token[:length])


def test_token_with_any_changed_character_is_rejected() -> None:
    token = make_token()
    rng = random.Random(7)
    for index in range(len(token)):
        other = rng.choice([letter for letter in "ABab01-_.=+/ " if letter != token[index]])
        error_for(token[:index] + other + token[index + 1 :])


@given(
    st.text() | st.binary().map(lambda noise: f"{make_part({'alg': 'RS256'})}.{make_part(noise)}.{make_part(noise)}")
)
def test_random_text_is_rejected(noise: str) -> None:
    error_for(noise)


@pytest.mark.parametrize(
    "issuer", ["", "login.example.org", "http://login.example.org", "file:///etc/passwd", "https://"]
)
@pytest.mark.parametrize("tail", ["", "?a=b", "#a"])
def test_issuer_must_be_an_https_url(issuer: str, tail: str) -> None:
    with pytest.raises(Unreadable, match="invalid issuer URL"):
        Issuer().identity(issuer=issuer + tail)


@pytest.mark.parametrize("option", ["audience", "user_claim", "groups_claim"])
def test_empty_setting_is_rejected(option: str) -> None:
    with pytest.raises(Unreadable):
        Issuer().identity(**{option: ""})
