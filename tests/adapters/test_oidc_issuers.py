"""Issuer keys: discovery, caching, and outages."""

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

from fairlead.adapters.identity import issuers
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
SHORT_MODULUS = make_part((2**1023 + 1155).to_bytes(128, "big"))  # 1024 bits, which is too short to be secure
DOCUMENT_URLS = [f"{ISSUER}/.well-known/openid-configuration", f"{ISSUER}/keys"]


def make_long_lived_token(key: RSAKey = RSA, **header: Any) -> str:
    """A token that outlives the cached keys."""
    return make_token(make_claims(exp=int(NOW.timestamp()) + 100_000), key, **header)


def rejection_of(identity: Authenticator, token: str) -> str:
    """The error for a token."""
    with pytest.raises(Unauthenticated) as caught:
        identity.authenticate(token)
    return str(caught.value)


def outage_of(identity: Authenticator, token: str) -> Unavailable:
    """The error while the issuer is unavailable."""
    with pytest.raises(Unavailable) as caught:
        identity.authenticate(token)
    assert caught.value.hint
    return caught.value


def test_issuer_is_not_contacted_before_the_first_token() -> None:
    issuer = Issuer()
    issuer.identity()
    assert issuer.requests == []


def test_keys_are_cached_for_an_hour() -> None:
    issuer = Issuer()
    identity, token = issuer.identity(), make_long_lived_token()
    for _ in range(60):
        identity.authenticate(token)
        issuer.advance(seconds=59)
    assert issuer.requests == DOCUMENT_URLS
    issuer.advance(minutes=1)
    identity.authenticate(token)
    assert issuer.requests == DOCUMENT_URLS * 2


def test_forged_key_ids_cause_at_most_one_request_in_30_seconds() -> None:
    issuer = Issuer()
    identity = issuer.identity()
    for number in range(600):  # ten minutes of two forged tokens a second, and one valid token
        for forged in ("x", "y"):
            assert "does not have" in rejection_of(identity, make_long_lived_token(kid=f"{forged}{number}"))
        identity.authenticate(make_long_lived_token())
        issuer.advance(seconds=1)
    assert len(issuer.requests) == 20 * len(DOCUMENT_URLS)


def test_tokens_of_other_issuers_cause_no_request() -> None:
    issuer = Issuer()
    assert "issued by 'https://evil'" in rejection_of(issuer.identity(), make_token(make_claims(iss="https://evil")))
    assert issuer.requests == []


def test_new_key_is_fetched_on_first_use() -> None:
    issuer = Issuer(RSA)
    identity = issuer.identity()
    identity.authenticate(make_token())
    issuer.rotate(NEW)
    assert "does not have" in rejection_of(identity, make_token(key=NEW))  # keys were fetched a moment ago
    assert identity.authenticate(make_token()).user == "ada"
    issuer.advance(seconds=30)
    assert identity.authenticate(make_token(key=NEW)).user == "ada"
    assert "does not have" in rejection_of(identity, make_token())  # the old key is no longer accepted
    assert issuer.requests == DOCUMENT_URLS * 2


def test_withdrawn_key_is_accepted_for_an_hour_at_most() -> None:
    issuer = Issuer(RSA, EC)
    identity = issuer.identity()
    identity.authenticate(make_long_lived_token())
    issuer.rotate(EC)
    issuer.advance(minutes=59)
    identity.authenticate(make_long_lived_token())
    issuer.advance(minutes=1)
    assert "does not have" in rejection_of(identity, make_long_lived_token())


def test_recovered_issuer_is_contacted_again_after_a_pause() -> None:
    issuer = Issuer()
    issuer.down = True
    identity = issuer.identity()
    for _ in range(100):
        error = outage_of(identity, make_token())
    assert len(issuer.requests) == 1
    assert str(error) == f"cannot read the keys of the issuer {ISSUER}: connection refused"
    assert error.retry_after_seconds == 5
    issuer.down = False
    outage_of(identity, make_token())
    issuer.advance(seconds=5)
    assert identity.authenticate(make_token()).user == "ada"


def test_cached_keys_are_used_while_the_issuer_is_down_until_they_expire() -> None:
    issuer = Issuer()
    identity = issuer.identity()
    identity.authenticate(make_long_lived_token())
    issuer.down = True
    issuer.advance(minutes=30)
    assert outage_of(identity, make_long_lived_token(kid="x")).retry_after_seconds == 30
    assert outage_of(identity, make_long_lived_token(kid="y")).retry_after_seconds == 30
    assert len(issuer.requests) == 3
    assert identity.authenticate(make_long_lived_token()).user == "ada"
    issuer.advance(minutes=30)
    outage_of(identity, make_long_lived_token())
    issuer.down = False
    issuer.advance(seconds=5)
    assert identity.authenticate(make_long_lived_token()).user == "ada"
    assert "does not have" in rejection_of(identity, make_long_lived_token(kid="x"))


def test_clock_that_is_set_back_does_not_extend_the_cache() -> None:
    issuer = Issuer()
    identity = issuer.identity()
    issuer.advance(days=300)
    identity.authenticate(make_token(make_claims(exp=int(issuer.now.timestamp()) + 600)))
    issuer.advance(days=-300)
    identity.authenticate(make_token())
    assert issuer.requests == DOCUMENT_URLS * 2


def test_concurrent_threads_share_one_request() -> None:
    issuer = Issuer()
    identity, token = issuer.identity(), make_token()
    barrier = threading.Barrier(8)

    def authenticate(_: int) -> str:
        barrier.wait(timeout=10)
        return identity.authenticate(token).user

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(authenticate, range(8))) == ["ada"] * 8
    assert issuer.requests == DOCUMENT_URLS


def test_forged_key_ids_do_not_block_threads_while_the_issuer_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "WAIT_FOR_UNKNOWN_SECONDS", 0.01)
    issuer = Issuer()
    requested, release = threading.Event(), threading.Event()

    def fetch_slowly(address: str) -> bytes:
        if issuer.now > NOW:
            requested.set()
            assert release.wait(timeout=10)
        return issuer.fetch(address)

    identity = issuer.identity(fetch=fetch_slowly)
    identity.authenticate(make_token())
    issuer.advance(minutes=1)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(rejection_of, identity, make_token(kid="x"))
        assert requested.wait(timeout=10)
        assert "are being read" in str(outage_of(identity, make_token(kid="y")))
        assert identity.authenticate(make_token()).user == "ada"
        release.set()
        assert "does not have" in first.result(timeout=10)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"issuer": "https://evil.example.org", "jwks_uri": DOCUMENT_URLS[1]},
            "the issuer in its metadata is 'https://evil.example.org'",
        ),
        ({"issuer": f"{ISSUER}/", "jwks_uri": DOCUMENT_URLS[1]}, "the issuer in its metadata is"),
        ({"jwks_uri": DOCUMENT_URLS[1]}, "the issuer in its metadata is nothing"),
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
def test_invalid_discovery_document_is_an_issuer_error(metadata: Any, message: str) -> None:
    issuer = Issuer()
    issuer.documents[DOCUMENT_URLS[0]] = metadata
    assert message in str(outage_of(issuer.identity(), make_token()))


@pytest.mark.parametrize(
    "document",
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
def test_issuer_without_a_usable_key_is_an_issuer_error(document: Any) -> None:
    issuer = Issuer()
    issuer.documents[DOCUMENT_URLS[1]] = document
    assert "no key for verifying signatures" in str(outage_of(issuer.identity(), make_token()))


def test_invalid_key_does_not_affect_other_keys() -> None:
    issuer = Issuer()
    entries = [{"kty": "AKP", "kid": "quantum"}, publish(EC, crv="P-512"), publish(RSA, x5c="?", use="sig")]
    issuer.documents[DOCUMENT_URLS[1]] = {"keys": entries}
    assert issuer.identity().authenticate(make_token()).user == "ada"


@pytest.mark.parametrize("content", [b"", b"<html>", b"[" * 100_000, b"\xff", b'{"issuer": 1, "issuer": 2}'])
def test_invalid_response_is_an_issuer_error(content: bytes) -> None:
    assert "not the expected JSON" in str(outage_of(Issuer().identity(fetch=lambda _: content), make_token()))


def test_issuer_url_can_end_with_a_slash() -> None:
    issuer = Issuer()
    issuer.documents[DOCUMENT_URLS[0]] = {"issuer": f"{ISSUER}/", "jwks_uri": DOCUMENT_URLS[1]}
    identity = issuer.identity(issuer=f"{ISSUER}/")
    assert identity.authenticate(make_token(make_claims(iss=f"{ISSUER}/"))).user == "ada"


@pytest.mark.parametrize("address", ["file:///etc/passwd", "http://example.org/", "ftp://127.0.0.1/", "data:,{}", ""])
def test_only_https_urls_are_fetched(address: str) -> None:
    with pytest.raises(OSError, match="is not an https URL"):
        issuers.fetch_document(address)


def test_local_issuer_is_contacted_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # the proxy must not be used
    monkeypatch.delenv("no_proxy", raising=False)
    handlers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
    with run_server(handlers) as address:
        issuer = Issuer(issuer=address)
        for path, document in issuer.documents.items():
            handlers[path.removeprefix(address)] = make_reply(200, json.dumps(document).encode())
        handlers["/moved"] = make_reply(302, b"", Location=f"{address}/keys")
        handlers["/big"] = make_reply(200, b"x" * (issuers.MAX_BYTES + 1))
        handlers["/odd"] = reply_without_http
        handlers["/slow"] = reply_slowly

        identity = OidcAuthenticator(issuer=address, audience=AUDIENCE, clock=lambda: NOW)
        assert identity.authenticate(make_token(make_claims(iss=address))).user == "ada"
        for path, message in [
            ("/moved", "status 302"),
            ("/missing", "status 404"),
            ("/big", "larger than 1048576 bytes"),
            ("/odd", "sent an invalid HTTP response"),
        ]:
            with pytest.raises(OSError, match=re.escape(address + path) + f".*{message}"):
                issuers.fetch_document(address + path)
        monkeypatch.setattr(issuers, "TIMEOUT_SECONDS", 0.2)
        with pytest.raises(OSError, match=r"took longer than 0\.2 seconds"):
            issuers.fetch_document(f"{address}/slow")
    with pytest.raises(OSError, match="refused"):
        issuers.fetch_document(address)


@contextmanager
def run_server(handlers: dict[str, Callable[[BaseHTTPRequestHandler], None]]) -> Iterator[str]:
    """Run a local HTTP server, and return its URL."""

    class Handler(BaseHTTPRequestHandler):
        """Responds based on the path."""

        timeout = 5

        def do_GET(self) -> None:
            handlers.get(self.path, make_reply(404, b""))(self)

        def log_message(self, *_: Any) -> None:
            """Disable logging."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(timeout=10)


def make_reply(status: int, content: bytes, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """A handler that sends a response."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        with suppress(OSError):  # the client may have closed the connection
            handler.wfile.write(content)

    return reply


def reply_without_http(handler: BaseHTTPRequestHandler) -> None:
    """Send a response that is not HTTP."""
    handler.wfile.write(b"SSH-2.0-OpenSSH\r\n")


def reply_slowly(handler: BaseHTTPRequestHandler) -> None:
    """Send a response byte by byte. No single byte takes a long time."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        for _ in range(100):
            handler.wfile.write(b" ")
            threading.Event().wait(0.02)
