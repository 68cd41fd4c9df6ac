"""What an issuer says of itself, and its keys: where they are, how long they are believed, how often they are read."""

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
from fairlead.adapters.identity.fetching import is_fetchable
from fairlead.errors import Unavailable, Unreadable
from fairlead.model.parsing import short_repr
from fairlead.ports import Clock

Fetch = Callable[[str], bytes]

DISCOVERY = "/.well-known/openid-configuration"
KEPT = timedelta(hours=1)
PAUSE = timedelta(seconds=30)  # forged key ids make us ask the issuer no more often than this
PAUSE_AFTER_FAILURE = timedelta(seconds=5)  # without any keys, every request would ask
# Whoever needs keys waits for the one who reads them. Who only has an unknown key id waits less: forged ones must
# not hold every thread of the server while an issuer is slow.
WAIT_SECONDS = 10
WAIT_FOR_UNKNOWN_SECONDS = 1

SHORTEST_RSA_BITS = 2048
CURVES = {"EC": ("P-256", "P-384"), "OKP": ("Ed25519", "Ed448")}
PUBLIC = ("kty", "kid", "alg", "n", "e", "crv", "x", "y")
NOT_A_KEY = (JoseError, UnsupportedAlgorithm, ValueError, TypeError, LookupError)


@dataclass(frozen=True)
class _Known:
    """What is known of an issuer: what it says of itself, its keys, when they were read, how the last try went."""

    described: Mapping[str, Any] = field(default_factory=dict)
    keys: tuple[Key, ...] = ()
    read_at: datetime | None = None
    tried_at: datetime | None = None
    failure: str = ""


class IssuerKeys:
    """The keys of one issuer. Any number of threads may ask; one of them reads."""

    def __init__(self, issuer: str, clock: Clock, fetch: Fetch) -> None:
        self._plain = issuer.startswith("http:")
        if not is_fetchable(issuer, plain=True) or "?" in issuer or "#" in issuer:
            hint = "write it as in `issuer` of its openid-configuration: https://<host>/..., http only on localhost"
            raise Unreadable(f"{short_repr(issuer)} is no address of an issuer", hint)
        self.issuer = issuer
        self._clock = clock
        self._fetch = fetch
        self._known = _Known()  # replaced as a whole, so that it is read without a lock
        self._reading = threading.Lock()

    def find(self, key_id: str | None) -> tuple[Key, ...]:
        """The keys of this id, none where the issuer has none; without an id, all. Raise `Unavailable`."""
        known = self._known
        fresh = _is_within(known.read_at, self._clock(), KEPT)
        if fresh and (found := _of_id(known.keys, key_id)):
            return found
        if not self._reading.acquire(timeout=WAIT_FOR_UNKNOWN_SECONDS if fresh else WAIT_SECONDS):
            raise Unavailable(f"the keys of the issuer {self.issuer} are being read", "try again in a moment")
        try:
            return self._find_anew(key_id)
        finally:
            self._reading.release()

    def describe(self) -> Mapping[str, Any]:
        """What the issuer says of itself, read together with its keys. Raise `Unavailable`."""
        self.find(None)
        return self._known.described

    def check_address(self, described: Mapping[str, Any], name: str, of: str) -> str:
        """An address that the issuer names. Raise `ValueError` where it is none that may be asked."""
        address = described.get(name)
        if not isinstance(address, str) or "#" in address or not is_fetchable(address, plain=self._plain):
            raise ValueError(f"the issuer has no safe address of its {of} ({name}): {short_repr(address)}")
        return address

    def _find_anew(self, key_id: str | None) -> tuple[Key, ...]:
        known, now = self._known, self._clock()  # the one who read before us may have found it
        fresh = _is_within(known.read_at, now, KEPT)
        if fresh and (found := _of_id(known.keys, key_id)):
            return found
        pause = PAUSE if fresh else PAUSE_AFTER_FAILURE
        if not _is_within(known.tried_at, now, pause):
            known = self._known = self._read(known)
        if known.failure:
            message = f"the keys of the issuer {self.issuer} cannot be read: {known.failure}"
            hint = "try again; where this stays, check that this server reaches the issuer, and its setting"
            raise Unavailable(message, hint, retry_after_seconds=int(pause.total_seconds()))
        return _of_id(known.keys, key_id)

    def _read(self, known: _Known) -> _Known:
        try:
            described, keys = self._read_documents()
        except (OSError, ValueError) as error:
            # The pause begins when the try ends: a slow issuer would outlast it.
            return replace(known, tried_at=self._clock(), failure=str(error))
        now = self._clock()
        return _Known(described, keys, read_at=now, tried_at=now)

    def _read_documents(self) -> tuple[Mapping[str, Any], tuple[Key, ...]]:
        described = self._read_document(self.issuer.removesuffix("/") + DISCOVERY)
        if described.get("issuer") != self.issuer:
            raise ValueError(f"the issuer calls itself {short_repr(described.get('issuer'))}")
        address = self.check_address(described, "jwks_uri", "keys")
        listed = self._read_document(address).get("keys")
        parsed = map(_parse_key, listed if isinstance(listed, list) else [])
        keys = tuple(key for key in parsed if key is not None)
        if not keys:
            raise ValueError(f"{address} has no key that signatures can be checked with")
        return described, keys

    def _read_document(self, address: str) -> dict[str, Any]:
        content = self._fetch(address)
        try:
            return parse_object(content)
        except ValueError as error:
            raise ValueError(f"what {address} answers is not JSON as expected: {error}") from error


def _is_within(moment: datetime | None, now: datetime, span: timedelta) -> bool:
    # A moment in the future means that the clock was set back; nothing is believed because of that.
    return moment is not None and timedelta(0) <= now - moment < span


def _of_id(keys: tuple[Key, ...], key_id: str | None) -> tuple[Key, ...]:
    return keys if key_id is None else tuple(key for key in keys if key.kid == key_id)


def _parse_key(entry: Any) -> Key | None:
    """A key that checks signatures. None for others, and for one that is broken: the rest of the set is still good."""
    if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", *CURVES):
        return None  # above all `oct`: a secret that is published is none
    if "d" in entry:
        return None  # the private key is published, so that a signature proves nothing
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
        modulus = base64.urlsafe_b64decode(public["n"] + "==")
        return int.from_bytes(modulus, "big").bit_length() >= SHORTEST_RSA_BITS
    return public.get("crv") in CURVES[public["kty"]]
