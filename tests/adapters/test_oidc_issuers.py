"""The keys of an issuer: how they are found, how often it is asked, and what happens while it does not answer."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey

from fairlead.adapters.identity import issuer_http, issuers
from fairlead.adapters.identity.oidc import OidcAuthenticator
from fairlead.errors import Unauthenticated, Unavailable
from fairlead.ports import Authenticator
from tests.adapters.issuers import (
    AUDIENCE,
    EC,
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

NEW = RSAKey.import_key(OTHER_RSA.as_dict(private=True), {"kid": "new"})
SHORT_MODULUS = make_part((2**1023 + 1155).to_bytes(128, "big"))  # of 1024 bits, so short that it may be broken
BOTH = [f"{ISSUER}/.well-known/openid-configuration", f"{ISSUER}/keys"]


def make_lasting_token(key: RSAKey = RSA, **header: Any) -> str:
    """A token with a longer lifetime than cached keys."""
    return make_token(make_claims(exp=int(NOW.timestamp()) + 100_000), key, **header)


def refuse(identity: Authenticator, token: str) -> str:
    """The error for a token."""
    with pytest.raises(Unauthenticated) as caught:
        identity.authenticate(token)
    return str(caught.value)


def fail(identity: Authenticator, token: str) -> Unavailable:
    """The error if the issuer is unavailable."""
    with pytest.raises(Unavailable) as caught:
        identity.authenticate(token)
    assert caught.value.hint
    return caught.value


def test_issuer_is_not_contacted_before_the_first_token() -> None:
    issuer = Issuer()
    issuer.identity()
    assert issuer.asked == []


def test_keys_are_cached_for_an_hour() -> None:
    issuer = Issuer()
    identity, token = issuer.identity(), make_lasting_token()
    for _ in range(60):
        identity.authenticate(token)
        issuer.wait(seconds=59)
    assert issuer.asked == BOTH
    issuer.wait(minutes=1)
    identity.authenticate(token)
    assert issuer.asked == BOTH * 2


def test_forged_key_ids_cause_at_most_one_request_in_30_seconds() -> None:
    issuer = Issuer()
    identity = issuer.identity()
    for number in range(600):  # ten minutes, two forged tokens a second, one good one
        for forged in ("x", "y"):
            assert "does not have" in refuse(identity, make_lasting_token(kid=f"{forged}{number}"))
        identity.authenticate(make_lasting_token())
        issuer.wait(seconds=1)
    assert len(issuer.asked) == 20 * len(BOTH)


def test_tokens_of_other_issuers_cause_no_request() -> None:
    issuer = Issuer()
    assert "issued by 'https://evil'" in refuse(issuer.identity(), make_token(make_claims(iss="https://evil")))
    assert issuer.asked == []


def test_new_key_is_fetched_on_first_use() -> None:
    issuer = Issuer(RSA)
    identity = issuer.identity()
    identity.authenticate(make_token())
    issuer.rotate(NEW)
    assert "does not have" in refuse(identity, make_token(key=NEW))  # the issuer was asked a moment ago
    assert identity.authenticate(make_token()).user == "ada"
    issuer.wait(seconds=30)
    assert identity.authenticate(make_token(key=NEW)).user == "ada"
    assert "does not have" in refuse(identity, make_token())  # the old key is not believed any longer
    assert issuer.asked == BOTH * 2


def test_withdrawn_key_is_accepted_for_an_hour_at_most() -> None:
    issuer = Issuer(RSA, EC)
    identity = issuer.identity()
    identity.authenticate(make_lasting_token())
    issuer.rotate(EC)
    issuer.wait(minutes=59)
    identity.authenticate(make_lasting_token())
    issuer.wait(minutes=1)
    assert "does not have" in refuse(identity, make_lasting_token())


def test_recovered_issuer_is_contacted_again_after_a_pause() -> None:
    issuer = Issuer()
    issuer.down = True
    identity = issuer.identity()
    for _ in range(100):
        error = fail(identity, make_token())
    assert len(issuer.asked) == 1
    assert str(error) == f"cannot read the keys of the issuer {ISSUER}: connection refused"
    assert error.retry_after_seconds == 5
    issuer.down = False
    fail(identity, make_token())
    issuer.wait(seconds=5)
    assert identity.authenticate(make_token()).user == "ada"


def test_cached_keys_are_used_while_the_issuer_is_down_until_they_expire() -> None:
    issuer = Issuer()
    identity = issuer.identity()
    identity.authenticate(make_lasting_token())
    issuer.down = True
    issuer.wait(minutes=30)
    assert fail(identity, make_lasting_token(kid="x")).retry_after_seconds == 30
    assert fail(identity, make_lasting_token(kid="y")).retry_after_seconds == 30
    assert len(issuer.asked) == 3
    assert identity.authenticate(make_lasting_token()).user == "ada"
    issuer.wait(minutes=30)
    fail(identity, make_lasting_token())
    issuer.down = False
    issuer.wait(seconds=5)
    assert identity.authenticate(make_lasting_token()).user == "ada"
    assert "does not have" in refuse(identity, make_lasting_token(kid="x"))


def test_clock_that_is_set_back_does_not_extend_the_cache() -> None:
    issuer = Issuer()
    identity = issuer.identity()
    issuer.wait(days=300)
    identity.authenticate(make_token(make_claims(exp=int(issuer.now.timestamp()) + 600)))
    issuer.wait(days=-300)
    identity.authenticate(make_token())
    assert issuer.asked == BOTH * 2


def test_concurrent_threads_share_one_request() -> None:
    issuer = Issuer()
    identity, token = issuer.identity(), make_token()
    together = threading.Barrier(8)

    def authenticate(_: int) -> str:
        together.wait(timeout=10)
        return identity.authenticate(token).user

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(authenticate, range(8))) == ["ada"] * 8
    assert issuer.asked == BOTH


def test_forged_key_ids_do_not_block_threads_while_the_issuer_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "WAIT_FOR_UNKNOWN_SECONDS", 0.01)
    issuer = Issuer()
    asked, answer = threading.Event(), threading.Event()

    def fetch_slowly(address: str) -> bytes:
        if issuer.now > NOW:
            asked.set()
            assert answer.wait(timeout=10)
        return issuer.fetch(address)

    identity = issuer.identity(fetch=fetch_slowly)
    identity.authenticate(make_token())
    issuer.wait(minutes=1)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(refuse, identity, make_token(kid="x"))
        assert asked.wait(timeout=10)
        assert "are being read" in str(fail(identity, make_token(kid="y")))
        assert identity.authenticate(make_token()).user == "ada"
        answer.set()
        assert "does not have" in first.result(timeout=10)


@pytest.mark.parametrize(
    ("described", "said"),
    [
        (
            {"issuer": "https://evil.example.org", "jwks_uri": BOTH[1]},
            "the issuer in its metadata is 'https://evil.example.org'",
        ),
        ({"issuer": f"{ISSUER}/", "jwks_uri": BOTH[1]}, "the issuer in its metadata is"),
        ({"jwks_uri": BOTH[1]}, "the issuer in its metadata is nothing"),
        ({"issuer": ISSUER}, "no safe URL for its keys"),
        ({"issuer": ISSUER, "jwks_uri": ["https://a"]}, "no safe URL for its keys"),
        ({"issuer": ISSUER, "jwks_uri": "http://login.example.org/keys"}, "no safe URL for its keys"),
        ({"issuer": ISSUER, "jwks_uri": "http://127.0.0.1/keys"}, "no safe URL for its keys"),
        ({"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"}, "no safe URL for its keys"),
        ({"issuer": ISSUER, "jwks_uri": "https://a:b@login.example.org/"}, "no safe URL for its keys"),
        ({"issuer": ISSUER, "jwks_uri": "https://[login/"}, "no safe URL for its keys"),
        ({"issuer": ISSUER, "jwks_uri": "https://login.example.org/a b"}, "no safe URL for its keys"),
        ([], "is not a JSON object"),
    ],
)
def test_invalid_discovery_document_is_an_issuer_error(described: Any, said: str) -> None:
    issuer = Issuer()
    issuer.documents[BOTH[0]] = described
    assert said in str(fail(issuer.identity(), make_token()))


@pytest.mark.parametrize(
    "listed",
    [
        {},
        {"keys": None},
        {"keys": {}},
        {"keys": []},
        {"keys": [None, 1, "key", [], {}]},
        {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "rsa"}]},
        {"keys": [publish(RSA, use="enc")]},
        {"keys": [publish(RSA, key_ops=["encrypt"])]},
        {"keys": [publish(RSA, key_ops=1)]},
        {"keys": [publish(RSA, n=SHORT_MODULUS)]},
        {"keys": [publish(RSA, n="!")]},
        {"keys": [publish(RSA, n=7)]},
        {"keys": [publish(RSA, e="AQ")]},
        {"keys": [RSA.as_dict(private=True)]},  # every reader could sign with it
        {"keys": [publish(EC, x="AAAA")]},
        {"keys": [publish(EC, crv="P-512")]},
        {"keys": [publish(ECKey.generate_key("secp256k1"))]},
        {"keys": [publish(OKPKey.generate_key("X25519"))]},
    ],
)
def test_issuer_without_a_usable_key_is_an_issuer_error(listed: Any) -> None:
    issuer = Issuer()
    issuer.documents[BOTH[1]] = listed
    assert "no key for verifying signatures" in str(fail(issuer.identity(), make_token()))


def test_invalid_key_does_not_affect_other_keys() -> None:
    issuer = Issuer()
    entries = [{"kty": "AKP", "kid": "quantum"}, publish(EC, crv="P-512"), publish(RSA, x5c="?", use="sig")]
    issuer.documents[BOTH[1]] = {"keys": entries}
    assert issuer.identity().authenticate(make_token()).user == "ada"


@pytest.mark.parametrize("content", [b"", b"<html>", b"[" * 100_000, b"\xff", b'{"issuer": 1, "issuer": 2}'])
def test_invalid_response_is_an_issuer_error(content: bytes) -> None:
    assert "not the expected JSON" in str(fail(Issuer().identity(fetch=lambda _: content), make_token()))


def test_issuer_url_can_end_with_a_slash() -> None:
    issuer = Issuer()
    issuer.documents[BOTH[0]] = {"issuer": f"{ISSUER}/", "jwks_uri": BOTH[1]}
    identity = issuer.identity(issuer=f"{ISSUER}/")
    assert identity.authenticate(make_token(make_claims(iss=f"{ISSUER}/"))).user == "ada"


@pytest.mark.parametrize("address", ["file:///etc/passwd", "http://example.org/", "ftp://127.0.0.1/", "data:,{}", ""])
def test_only_https_urls_are_fetched(address: str) -> None:
    with pytest.raises(OSError, match="is not an https URL"):
        issuer_http.fetch(address)


def test_local_issuer_is_contacted_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # whatever it is, it is not asked
    monkeypatch.delenv("no_proxy", raising=False)
    answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
    with serving(answers) as address:
        issuer = Issuer(issuer=address)
        for path, document in issuer.documents.items():
            answers[path.removeprefix(address)] = replying(200, json.dumps(document).encode())
        answers["/moved"] = replying(302, b"", Location=f"{address}/keys")
        answers["/big"] = replying(200, b"x" * (issuer_http.MAX_BYTES + 1))
        answers["/odd"] = speaking_another_language
        answers["/slow"] = dripping

        identity = OidcAuthenticator(issuer=address, audience=AUDIENCE, clock=lambda: NOW)
        assert identity.authenticate(make_token(make_claims(iss=address))).user == "ada"
        for path, said in [
            ("/moved", "status 302"),
            ("/missing", "status 404"),
            ("/big", "larger than 1048576 bytes"),
            ("/odd", "sent an invalid HTTP response"),
        ]:
            with pytest.raises(OSError, match=re.escape(address + path) + f".*{said}"):
                issuer_http.fetch(address + path)
        monkeypatch.setattr(issuer_http, "TIMEOUT_SECONDS", 0.2)
        with pytest.raises(OSError, match=r"takes longer than 0\.2 seconds"):
            issuer_http.fetch(f"{address}/slow")
    with pytest.raises(OSError, match="refused"):
        issuer_http.fetch(address)


@contextmanager
def serving(answers: dict[str, Callable[[BaseHTTPRequestHandler], None]]) -> Iterator[str]:
    """A real server on this machine; its address."""

    class Handler(BaseHTTPRequestHandler):
        """Answers by path."""

        timeout = 5

        def do_GET(self) -> None:
            answers.get(self.path, replying(404, b""))(self)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(timeout=10)


def replying(status: int, content: bytes, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """A way to answer."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        with suppress(OSError):  # who asked may have heard enough
            handler.wfile.write(content)

    return reply


def speaking_another_language(handler: BaseHTTPRequestHandler) -> None:
    """A way to answer that is not HTTP."""
    handler.wfile.write(b"SSH-2.0-OpenSSH\r\n")


def dripping(handler: BaseHTTPRequestHandler) -> None:
    """A way to answer so slowly that no single byte takes long."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        for _ in range(100):
            handler.wfile.write(b" ")
            threading.Event().wait(0.02)
