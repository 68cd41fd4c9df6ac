"""Targets, headers and links of proxied requests.

Runs do not receive Fairlead credentials, and their responses cannot affect other hosts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote_from_bytes, unquote_to_bytes, urljoin, urlsplit, urlunsplit

from starlette.types import Scope

from fairlead.model.runs import Endpoint
from fairlead.server.http.cookies import read_cookies
from fairlead.server.http.middleware import client_address
from fairlead.server.http.problem_details import Problem
from fairlead.server.proxy.connections import UpstreamError

PRINTABLE = bytes(range(0x21, 0x7F))  # other bytes are percent-encoded, because h11 rejects them

Headers = list[tuple[bytes, bytes]]

# Headers for a single connection, which must not be forwarded (RFC 9110, section 7.6.1).
HOP_BY_HOP = {
    *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    *(b"proxy-authenticate", b"proxy-authorization", b"http2-settings"),
}
# Headers that only this server sets. `_` counts as `-`, because some programs treat X_Real_IP as X-Real-IP.
OWN = {b"host", b"authorization", b"cookie", b"content-length", b"expect", b"forwarded", b"x-real-ip", b"x-request-id"}
OWN_PREFIXES = (b"x-forwarded-", b"sec-websocket-")
# Headers that affect the whole host, which is Fairlead's own host for paths under /served.
HOST_WIDE = {
    *(b"alt-svc", b"clear-site-data", b"nel", b"report-to", b"reporting-endpoints", b"service-worker-allowed"),
    b"strict-transport-security",
}
# Pages under /served share Fairlead's origin. The sandbox gives them an opaque one without access to its cookies.
SANDBOX = [(b"content-security-policy", b"sandbox"), (b"x-content-type-options", b"nosniff")]
# Fairlead's cookies, in any spelling. Runs neither receive nor set them.
OWN_COOKIE = re.compile(r"\s*(__(Host|Secure)-)?fairlead_", re.IGNORECASE)
PORTS = {"http": 80, "https": 443}
# Hosts that all URL parsers read the same way. Browsers could read others as this host even if urlsplit() does not.
PLAIN_HOST = re.compile(r"([\w.-]+|\[[0-9a-f:.]+\])(:\d+)?", re.ASCII | re.IGNORECASE)
ENCODED_DOT = re.compile("%2e", re.IGNORECASE)  # browsers resolve it like a dot
# Control characters except tab, which are invalid in headers.
UNSENDABLE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class PrefixRemover:
    """Removes all occurrences of a prefix from a stream of chunks, even if one is split between two chunks."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix, self._pending = prefix, b""

    def feed(self, chunk: bytes) -> bytes:
        """The chunk without the prefix. Buffers the end of a chunk if it may be the start of a prefix."""
        text = (self._pending + chunk).replace(self._prefix, b"")
        longest = min(len(self._prefix) - 1, len(text))
        size = next((length for length in range(longest, 0, -1) if text.endswith(self._prefix[:length])), 0)
        self._pending = text[len(text) - size :]
        return text[: len(text) - size]

    def finish(self) -> bytes:
        """Return the buffered rest at the end of the stream."""
        rest, self._pending = self._pending, b""
        return rest


@dataclass(frozen=True)
class Target:
    """A run and the path requested from it. `prefix` is the run's path on this server; empty on its own host."""

    run_id: str
    path: bytes  # percent-encoded, as received
    query: bytes
    host: str  # as in the Host header
    prefix: str = ""

    @property
    def is_own_host(self) -> bool:
        """Whether the request uses the run's own host, as browsers do."""
        return not self.prefix


def format_target(target: Target, base_path: str) -> bytes:
    """The request target under a run's base path.

    Rejects dot segments, because a proxy in front of a cluster's API server could resolve them and leave the base path.
    """
    # Percent-encoded dots and backslashes also count, because some servers decode them first.
    parts = re.split(rb"[/\\]", unquote_to_bytes(target.path))
    if b".." in parts or b"." in parts:
        message = "the URL path contains . or .."
        raise Problem(400, "address", message, "use the resolved path")
    request_target = base_path.encode() + target.path + (b"?" + target.query if target.query else b"")
    return quote_from_bytes(request_target, safe=PRINTABLE).encode("ascii")


def find_header(scope: Scope, wanted: bytes) -> str | None:
    """The value of the first header with the wanted name, or None."""
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), None)


def make_request_headers(scope: Scope, target: Target, endpoint: Endpoint) -> Headers:
    """Headers of a request to a run, except those for the length of the body and for upgrades."""
    passed = [pair for pair in drop_hop_by_hop(scope["headers"]) if not _is_own(pair[0])]
    cookies = "; ".join(cookie for cookie in read_cookies(scope) if not OWN_COOKIE.match(cookie))
    forwarded = {
        "x-forwarded-for": client_address(scope),
        "x-forwarded-host": target.host,
        "x-forwarded-proto": {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"]),
        "x-forwarded-prefix": target.prefix,
        "x-request-id": scope["request_id"],
        "cookie": cookies,
    }
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in forwarded.items() if value]
    parts = urlsplit(endpoint.url)
    fixed = {name.lower().encode(): value.encode("latin-1") for name, value in endpoint.headers.items()}
    # A TLS endpoint is an API server, which needs its own name. A run receives the host that the client used.
    host = parts.netloc if parts.scheme == "https" or not target.host else target.host
    fixed.setdefault(b"host", host.encode("latin-1"))
    if endpoint.prefix:
        fixed[b"accept-encoding"] = b"identity"  # links in compressed pages cannot be rewritten
        # Origin has already been checked. The run would compare it with the Host header, which names the API server.
        passed = [pair for pair in passed if pair[0] != b"origin"]
    # The endpoint's headers, such as cluster credentials, replace the client's headers.
    others = [(name, value) for name, value in (*passed, *headers) if name not in fixed]
    return [*fixed.items(), *others]


def make_response_headers(headers: Iterable[tuple[bytes, bytes]], target: Target, endpoint: Endpoint) -> Headers:
    """Headers of the response to the client."""
    passed: Headers = []
    for name, value in drop_hop_by_hop((name.lower(), value) for name, value in headers):
        # This server sets the first two itself.
        if name in (b"date", b"x-request-id") or (target.prefix and name in HOST_WIDE):
            continue
        if name == b"location":
            value = _rewrite_location(value, target, endpoint)
        elif name == b"set-cookie":
            cookie = _confine_cookie(value.decode("latin-1"), target)
            if cookie is None:
                continue
            value = cookie.encode("latin-1")
        passed.append((name, value))
    return passed + (SANDBOX if target.prefix else [])


def drop_hop_by_hop(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers without hop-by-hop headers, including those that the Connection header lists."""
    headers = list(headers)
    lists = [value for name, value in headers if name == b"connection"]
    connection_specific = {part.strip().lower() for value in lists for part in value.split(b",")}
    return [(name, value) for name, value in headers if name not in HOP_BY_HOP and name not in connection_specific]


def _is_own(name: bytes) -> bool:
    plain = name.replace(b"_", b"-")
    return plain in OWN or plain.startswith(OWN_PREFIXES)


def _rewrite_location(value: bytes, target: Target, endpoint: Endpoint) -> bytes:
    """Rewrite a Location header so that it leads to another host or stays under the run's path.

    It must not lead anywhere else on this host: a client that followed it would send requests chosen by the run with
    the client's own credentials.
    """
    text = value.decode("latin-1")
    try:
        parts = urlsplit(text)
        destination = None if not parts.netloc else (parts.hostname or "", parts.port or PORTS.get(parts.scheme))
        is_run = (
            destination is None
            or _is_at_host(destination, target.host)
            or _is_at_host(destination, urlsplit(endpoint.url).netloc)
        )
    except ValueError:
        raise UpstreamError(f"invalid URL in its Location header: {text[:200]!r}") from None
    # For example mailto:, which does not lead to this host.
    if parts.scheme not in ("", *PORTS):
        return value
    if not is_run:
        # User information is removed, because parsers disagree about where it ends.
        host = parts.netloc.rpartition("@")[2]
        if not PLAIN_HOST.fullmatch(host):
            raise UpstreamError(f"invalid host in its Location header: {text[:200]!r}")
        return urlunsplit(parts._replace(netloc=host)).encode("latin-1")
    # Browsers treat a backslash like a slash. Encoded, it cannot form a `..` segment.
    path = ENCODED_DOT.sub(".", parts.path.replace("\\", "%5C"))
    if destination is not None or path.startswith("/"):
        # Remove the API server's prefix and this server's prefix, which leaves the path that the run knows.
        for above in ("", endpoint.prefix, target.prefix):
            below = path.removeprefix(above) if f"{path}/".startswith(f"{above}/") else path
            path = "/" + below.lstrip("/")  # a path that starts with two slashes would name another host
    # Dot segments are resolved here, because a client could resolve them to a path outside the run's own.
    inner = urlsplit(urljoin(f"http://run{target.path.decode('latin-1')}", path)).path
    # A reference without a path keeps the query (RFC 3986, section 5.2.2).
    query = parts.query or ("" if path else target.query.decode("latin-1"))
    return urlunsplit(("", "", f"{target.prefix}/{inner.lstrip('/')}", query, parts.fragment)).encode("latin-1")


def _is_at_host(destination: tuple[str, int | None], host: str) -> bool:
    """Whether a hostname and port match a host, which may have no port."""
    own = urlsplit(f"//{host}")
    # If the Host header has no port, either default is possible, because a proxy may terminate TLS.
    ports = {own.port} if own.port is not None else {None, *PORTS.values()}
    return destination[0].rstrip(".") == (own.hostname or "").rstrip(".") and destination[1] in {None, *ports}


def _confine_cookie(text: str, target: Target) -> str | None:
    """Restrict a Set-Cookie header to the run's host or path. Returns None for names reserved for Fairlead."""
    first, *attributes = text.split(";")
    name, equals, _ = first.partition("=")
    if not equals or not name.strip() or OWN_COOKIE.match(first):
        return None  # browsers send a nameless cookie as its bare value, which could imitate another cookie
    parts = [first]
    for attribute in attributes:
        key, _, value = attribute.partition("=")
        if key.strip().lower() == "path" and target.prefix:
            below = value.strip() if value.strip().startswith("/") else "/"
            parts.append(f" Path={below if below.startswith(f'{target.prefix}/') else target.prefix + below}")
        elif key.strip().lower() != "domain":
            parts.append(attribute)
    return ";".join(parts)
