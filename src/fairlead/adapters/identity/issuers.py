"""An OpenID Connect issuer: requests to it, its metadata and signing keys (cached), and checks of token claims."""

import base64
import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.client import HTTPException, HTTPResponse
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPErrorProcessor, OpenerDirector, ProxyHandler, Request, build_opener

from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.errors import JoseError
from joserfc.jwk import Key, import_key

from fairlead.errors import Unauthenticated, Unavailable, Unreadable
from fairlead.model.names import is_loopback
from fairlead.model.parsing import short_repr
from fairlead.model.project_objects import MAX_NAME_LENGTH
from fairlead.ports import Clock

TIMEOUT_SECONDS = 5
MAX_BYTES = 1024 * 1024  # metadata and keys are a few kilobytes; more would only fill memory
CHUNK = 64 * 1024
HEADERS = {"Accept": "application/json", "User-Agent": "fairlead"}

LEEWAY = timedelta(seconds=60)  # allowed difference between clocks
END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC).timestamp()  # datetime cannot represent years after 9999
MAX_SHOWN = 5
SIGN_IN = "sign in with the identity provider again and use the new token"
ASK_ADMINISTRATOR = "ask the identity provider's administrator to correct the tokens that it issues for this server"

Claims = Mapping[str, Any]

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


def is_safe_url(url: str, *, plain: bool) -> bool:
    """Whether requests may be sent to a URL: HTTPS or, with `plain`, HTTP on this machine."""
    try:
        parts = urlsplit(url)
        port = parts.port  # raises ValueError for an invalid port
    except ValueError:
        return False
    # Messages would show a password, and a space or a line break would end the request line early.
    if not parts.hostname or port == 0 or "@" in parts.netloc or not url.isascii() or not url.isprintable():
        return False
    is_safe = parts.scheme == "https" or (plain and parts.scheme == "http" and is_loopback(parts.hostname))
    return is_safe and " " not in url


def fetch_document(url: str) -> bytes:
    """Fetch a document. Raises `OSError` if that fails."""
    status, content = _send_request(url, None, HEADERS)
    if not 200 <= status < 300:
        raise OSError(f"{url} responded with status {status}")
    return content


def post_form(url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Post a form and return the response's status and body. Raises `OSError` if there is no response."""
    return _send_request(url, urlencode(form).encode(), {**HEADERS, **headers})


def _send_request(url: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
    # urllib also opens file: and ftp: URLs.
    if not is_safe_url(url, plain=True):
        raise OSError(f"{url!r} is not an https URL")
    request = Request(url, data=body, headers=dict(headers))
    deadline = time.monotonic() + TIMEOUT_SECONDS
    try:
        with _opener_for(url).open(request, timeout=TIMEOUT_SECONDS) as response:
            return response.status, _read_response(response, deadline)
    except HTTPException as error:
        raise OSError(f"{url} sent an invalid HTTP response: {error!r}") from error
    except OSError as error:
        raise OSError(f"cannot reach {url}: {getattr(error, 'reason', error)}") from error


class _NoRedirects(HTTPErrorProcessor):
    """Returns every response unchanged. Redirects are not followed: only the issuer in the settings is trusted."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:  # noqa: ARG002
        return response

    https_response = http_response


def _opener_for(url: str) -> OpenerDirector:
    if is_loopback(urlsplit(url).hostname or ""):
        return build_opener(_NoRedirects, ProxyHandler({}))  # a proxy cannot reach this machine's loopback address
    return build_opener(_NoRedirects)


def _read_response(response: HTTPResponse, deadline: float) -> bytes:
    """Read the whole response before the deadline. The socket's timeout limits only each single read."""
    content = bytearray()
    # read1 returns what has arrived. read would wait for a full chunk, past the deadline if the issuer sends slowly.
    while chunk := response.read1(CHUNK):
        content += chunk
        if len(content) > MAX_BYTES:
            raise OSError(f"the response is larger than {MAX_BYTES} bytes")
        if time.monotonic() > deadline:
            raise OSError(f"the response took longer than {TIMEOUT_SECONDS} seconds")
    return bytes(content)


def parse_object(content: bytes) -> dict[str, Any]:
    """Parse a JSON object, rejecting duplicate names and non-finite numbers. Raises `ValueError`."""
    try:
        # Decode first: json.loads would also accept bytes in UTF-16 and UTF-32.
        value = json.loads(content.decode(), object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def check_issuer(claims: Claims, issuer: str) -> None:
    """Check that a token is from the trusted issuer. The URLs must be exactly equal."""
    value = claims.get("iss")
    if value != issuer:
        message = f"the token was issued by {short_repr(value)}; this server trusts {short_repr(issuer)}"
        raise Unauthenticated(message, f"get a token from {issuer}")


def check_audience(claims: Claims, audience: str) -> None:
    """Check that a token is for this server."""
    value = claims.get("aud")
    audiences = value if isinstance(value, list) else [value]
    if audience not in audiences:
        shown = ", ".join(map(short_repr, audiences[:MAX_SHOWN])) + (", ..." if len(audiences) > MAX_SHOWN else "")
        message = f"the token has the audience {shown or '[]'}; this server expects {short_repr(audience)}"
        raise Unauthenticated(message, f"request a token with the audience {audience} from the identity provider")


def check_login(claims: Claims, client: str, nonce: str) -> None:
    """Check that an ID token is from this sign-in and for this client."""
    if claims.get("nonce") != nonce:
        raise Unauthenticated("the token is from another sign-in (nonce)", "sign in again")
    # The issuer may list this client among the audiences of a token that it issued to another client.
    if claims.get("azp", client) != client:
        message = f"the token was issued to {short_repr(claims['azp'])} (azp); this server is {short_repr(client)}"
        raise Unauthenticated(message, ASK_ADMINISTRATOR)


def parse_end(claims: Claims) -> datetime:
    """Return when a token expires."""
    expires = _timestamp(claims, "exp")
    if expires is None:
        raise Unauthenticated("the token has no expiry time (exp)", ASK_ADMINISTRATOR)
    return expires


def check_times(claims: Claims, now: datetime) -> None:
    """Check that a token is valid now."""
    expires = parse_end(claims)
    if now >= expires + LEEWAY:
        raise Unauthenticated(f"the token expired at {_format_time(expires)}; it is now {_format_time(now)}", SIGN_IN)
    for name, text in (("nbf", "is not valid before"), ("iat", "was issued at")):
        begins = _timestamp(claims, name)
        if begins is not None and now < begins - LEEWAY:
            message = f"the token {text} {_format_time(begins)} ({name}); it is now {_format_time(now)}"
            raise Unauthenticated(message, "check the clocks of this server and the identity provider")


def parse_user(claims: Claims, name: str) -> str:
    """Return the user that a token identifies."""
    value = claims.get(name)
    if not isinstance(value, str) or not _is_name(value):
        message = f"the token's {name!r} claim is not a valid user name: {short_repr(value)}"
        hint = f"it must have 1 to {MAX_NAME_LENGTH} printable characters; {ASK_ADMINISTRATOR}"
        raise Unauthenticated(message, hint)
    # If anyone can sign up with any address, an unverified address would let them impersonate its owner.
    # Issuers that verify all addresses may omit the claim, and some issuers send it as a string.
    if name == "email" and claims.get("email_verified") in (False, "false"):
        message = f"the identity provider has not verified the email address {short_repr(value)}"
        raise Unauthenticated(message, "verify the address with the identity provider, then sign in again")
    return value


def parse_groups(claims: Claims, name: str) -> tuple[str, ...]:
    """Return the user's groups. The claim can be a string, a list, or missing."""
    value = claims.get(name, [])
    groups = [value] if isinstance(value, str) else value
    if not isinstance(groups, list):
        message = f"the token's {name!r} claim is not a list of groups: {short_repr(value)}"
        raise Unauthenticated(message, ASK_ADMINISTRATOR)
    for group in groups:
        if not isinstance(group, str) or not _is_name(group):
            message = f"the token's {name!r} claim contains an invalid group name: {short_repr(group)}"
            hint = f"names must have 1 to {MAX_NAME_LENGTH} printable characters; {ASK_ADMINISTRATOR}"
            raise Unauthenticated(message, hint)
    return tuple(dict.fromkeys(groups))


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. Duplicate names are rejected, because different parsers might use different values."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("it has duplicate names")
    return value


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"it contains {name}, which is not JSON")


def _timestamp(claims: Claims, name: str) -> datetime | None:
    if name not in claims:
        return None
    value = claims[name]
    # A JSON number such as 1e999 is parsed as infinity, and True is an int in Python.
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not 0 <= value < END_OF_TIME:
        message = f"the token's {name!r} claim is not a valid time: {short_repr(value)}"
        raise Unauthenticated(message, ASK_ADMINISTRATOR)
    return datetime.fromtimestamp(value, UTC)


def _format_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= MAX_NAME_LENGTH and text.isprintable() and not text.isspace()


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
