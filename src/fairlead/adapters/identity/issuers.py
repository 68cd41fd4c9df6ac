"""Reads and caches an issuer's metadata and signing keys."""

import base64
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.errors import JoseError
from joserfc.jwk import Key, import_key

from fairlead.adapters.identity.claims import parse_object
from fairlead.adapters.identity.issuer_http import is_safe_url
from fairlead.errors import Unavailable, Unreadable
from fairlead.model.parsing import short_repr
from fairlead.ports import Clock

Fetch = Callable[[str], bytes]

DISCOVERY = "/.well-known/openid-configuration"
CACHE_TIME = timedelta(hours=1)  # also how long a key that the issuer has withdrawn is still accepted
PAUSE = timedelta(seconds=30)  # forged key IDs must not cause more frequent requests to the issuer
PAUSE_AFTER_FAILURE = timedelta(seconds=5)  # without any keys, every request would query the issuer
# Callers wait for the thread that reads the keys. With an unknown key ID, the wait is shorter: forged IDs must
# not block all of the server's threads while an issuer is slow.
WAIT_SECONDS = 10  # two documents, at most five seconds each
WAIT_FOR_UNKNOWN_SECONDS = 1

MIN_RSA_BITS = 2048  # required by RFC 7518
CURVES = {"EC": ("P-256", "P-384"), "OKP": ("Ed25519", "Ed448")}
PUBLIC = ("kty", "kid", "alg", "n", "e", "crv", "x", "y")
NOT_A_KEY = (JoseError, UnsupportedAlgorithm, ValueError, TypeError, LookupError)


@dataclass(frozen=True)
class _CachedIssuer:
    """An issuer's metadata and keys, when they were read, and the error from the last attempt."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    keys: tuple[Key, ...] = ()
    read_at: datetime | None = None
    tried_at: datetime | None = None
    failure: str = ""


class IssuerKeys:
    """The keys of an issuer. Thread-safe: one thread reads them for all others."""

    def __init__(self, issuer: str, clock: Clock, fetch: Fetch) -> None:
        self._plain = issuer.startswith("http:")
        if not is_safe_url(issuer, plain=True) or "?" in issuer or "#" in issuer:
            hint = "use the `issuer` from its openid-configuration: https://<host>/..., or http only on localhost"
            raise Unreadable(f"invalid issuer URL {short_repr(issuer)}", hint)
        self.issuer = issuer
        self._clock = clock
        self._fetch = fetch
        self._cached = _CachedIssuer()  # replaced as a whole, so that it can be read without a lock
        self._reading = threading.Lock()

    def find(self, key_id: str | None) -> tuple[Key, ...]:
        """Return the keys with this ID, or all keys if it is None. Raises `Unavailable` if they cannot be read."""
        cached = self._cached
        fresh = _is_within(cached.read_at, self._clock(), CACHE_TIME)
        if fresh and (keys := _with_id(cached.keys, key_id)):
            return keys
        if not self._reading.acquire(timeout=WAIT_FOR_UNKNOWN_SECONDS if fresh else WAIT_SECONDS):
            raise Unavailable(f"the keys of the issuer {self.issuer} are being read", "try again in a moment")
        try:
            return self._find_or_read(key_id)
        finally:
            self._reading.release()

    def metadata(self) -> Mapping[str, Any]:
        """Return the issuer's metadata, which is read together with its keys. Raises `Unavailable`."""
        self.find(None)
        return self._cached.metadata

    def check_url(self, metadata: Mapping[str, Any], name: str, purpose: str) -> str:
        """Return a URL from the metadata. Raises `ValueError` if requests may not be sent to it."""
        url = metadata.get(name)
        # Only an issuer with an http URL, which must be on this machine, may refer to http URLs.
        if not isinstance(url, str) or "#" in url or not is_safe_url(url, plain=self._plain):
            raise ValueError(f"the issuer has no safe URL for its {purpose} ({name}): {short_repr(url)}")
        return url

    def _find_or_read(self, key_id: str | None) -> tuple[Key, ...]:
        cached, now = self._cached, self._clock()  # the previous lock holder may have read the key
        fresh = _is_within(cached.read_at, now, CACHE_TIME)
        if fresh and (keys := _with_id(cached.keys, key_id)):
            return keys
        pause = PAUSE if fresh else PAUSE_AFTER_FAILURE
        if not _is_within(cached.tried_at, now, pause):
            cached = self._cached = self._read(cached)
        # The key may be a new one that could not be read, so it is unknown whether the token is valid.
        if cached.failure:
            message = f"cannot read the keys of the issuer {self.issuer}: {cached.failure}"
            hint = "try again; if the problem persists, check oidc_issuer and that this server can reach the issuer"
            raise Unavailable(message, hint, retry_after_seconds=int(pause.total_seconds()))
        return _with_id(cached.keys, key_id)

    def _read(self, cached: _CachedIssuer) -> _CachedIssuer:
        try:
            metadata, keys = self._read_documents()
        except (OSError, ValueError) as error:
            # Keys from an earlier read stay valid until they expire. The pause begins when the attempt ends, because a
            # slow attempt can take longer than the pause.
            return replace(cached, tried_at=self._clock(), failure=str(error))
        now = self._clock()
        return _CachedIssuer(metadata, keys, read_at=now, tried_at=now)

    def _read_documents(self) -> tuple[Mapping[str, Any], tuple[Key, ...]]:
        metadata = self._read_document(self.issuer.removesuffix("/") + DISCOVERY)
        # Required by OpenID Connect Discovery: otherwise one issuer could publish another's metadata.
        if metadata.get("issuer") != self.issuer:
            raise ValueError(f"the issuer in its metadata is {short_repr(metadata.get('issuer'))}")
        url = self.check_url(metadata, "jwks_uri", "keys")
        entries = self._read_document(url).get("keys")
        parsed = map(_parse_key, entries if isinstance(entries, list) else [])
        keys = tuple(key for key in parsed if key is not None)
        if not keys:
            raise ValueError(f"{url} has no key for verifying signatures")
        return metadata, keys

    def _read_document(self, url: str) -> dict[str, Any]:
        content = self._fetch(url)
        try:
            return parse_object(content)
        except ValueError as error:
            raise ValueError(f"the response from {url} is not the expected JSON: {error}") from error


def _is_within(moment: datetime | None, now: datetime, span: timedelta) -> bool:
    # A time in the future means that the clock was set back, so the cache counts as expired.
    return moment is not None and timedelta(0) <= now - moment < span


def _with_id(keys: tuple[Key, ...], key_id: str | None) -> tuple[Key, ...]:
    return keys if key_id is None else tuple(key for key in keys if key.kid == key_id)


def _parse_key(entry: Any) -> Key | None:
    """Return a key for verifying signatures; None if the key is invalid or for another use."""
    if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", *CURVES):
        return None  # above all `oct`, a symmetric key, which is not secret once published
    if "d" in entry:
        return None  # the private key is published, so signatures prove nothing
    operations = entry.get("key_ops", ["verify"])
    if entry.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return None
    public = {name: entry[name] for name in PUBLIC if isinstance(entry.get(name), str)}
    try:
        return import_key(public) if _is_strong(public) else None
    except NOT_A_KEY:
        return None


def _is_strong(public: dict[str, str]) -> bool:
    if public["kty"] == "RSA":
        modulus = base64.urlsafe_b64decode(public["n"] + "==")  # JWKs have no padding, and extra padding is ignored
        return int.from_bytes(modulus, "big").bit_length() >= MIN_RSA_BITS
    return public.get("crv") in CURVES[public["kty"]]
