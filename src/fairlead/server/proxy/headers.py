"""What of headers is passed on: to a run nothing that lets in at Fairlead, from it nothing that reaches beyond it."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import urljoin, urlsplit, urlunsplit

from starlette.types import Scope

from fairlead.model.observations import Endpoint
from fairlead.server.middleware import read_address
from fairlead.server.proxy.connections import UpstreamError
from fairlead.server.proxy.targets import Target

Headers = list[tuple[bytes, bytes]]

# Of one connection, and not of what is sent through it.
HOP_BY_HOP = {
    *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    *(b"proxy-authenticate", b"proxy-authorization", b"http2-settings"),
}
# What a run is told by the server alone. Some programs take X_Real_IP for X-Real-IP.
OWN = {b"host", b"authorization", b"cookie", b"content-length", b"expect", b"forwarded", b"x-real-ip", b"x-request-id"}
OWN_PREFIXES = (b"x-forwarded-", b"sec-websocket-")
# What holds for a whole host, which below /served is Fairlead's.
OF_A_HOST = {
    *(b"alt-svc", b"clear-site-data", b"nel", b"report-to", b"reporting-endpoints", b"service-worker-allowed"),
    b"strict-transport-security",
}
SANDBOX = [(b"content-security-policy", b"sandbox"), (b"x-content-type-options", b"nosniff")]
OUR_COOKIE = re.compile(r"\s*(__(Host|Secure)-)?fairlead_", re.IGNORECASE)
PORTS = {"http": 80, "https": 443}
PLAIN_HOST = re.compile(r"([\w.-]+|\[[0-9a-f:.]+\])(:\d+)?", re.ASCII | re.IGNORECASE)
ENCODED_DOT = re.compile("%2e", re.IGNORECASE)
UNSENDABLE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def read_cookies(scope: Scope) -> Iterator[str]:
    """Every cookie of a request, as `name=value`."""
    for name, value in scope["headers"]:
        if name == b"cookie":
            yield from (part.strip() for part in value.decode("latin-1").split(";") if part.strip())


def find_header(scope: Scope, wanted: bytes) -> str | None:
    """The first header of a name."""
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), None)


def make_request_headers(scope: Scope, target: Target, endpoint: Endpoint) -> Headers:
    """The headers with which a run is asked, but for those of its body's length and of an upgrade."""
    passed = [pair for pair in drop_hop_by_hop(scope["headers"]) if not _is_own(pair[0])]
    cookies = "; ".join(cookie for cookie in read_cookies(scope) if not OUR_COOKIE.match(cookie))
    said = {
        "x-forwarded-for": read_address(scope),
        "x-forwarded-host": target.host,
        "x-forwarded-proto": {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"]),
        "x-forwarded-prefix": target.prefix,
        "x-request-id": scope["request_id"],
        "cookie": cookies,
    }
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in said.items() if value]
    parts = urlsplit(endpoint.url)
    given = {name.lower().encode(): value.encode("latin-1") for name, value in endpoint.headers.items()}
    # Who speaks TLS is some other server, by whose name it is found; a run sees the name by which it was asked.
    host = parts.netloc if parts.scheme == "https" or not target.host else target.host
    given.setdefault(b"host", host.encode("latin-1"))
    if endpoint.prefix:
        given[b"accept-encoding"] = b"identity"  # what is compressed cannot be mended on its way back
        # It was looked at already, and would be compared with a host that is the API server's.
        passed = [pair for pair in passed if pair[0] != b"origin"]
    kept = [(name, value) for name, value in (*passed, *headers) if name not in given]
    return [*given.items(), *kept]


def make_answer_headers(headers: Iterable[tuple[bytes, bytes]], target: Target, endpoint: Endpoint) -> Headers:
    """The headers of a run's answer, as they are sent on."""
    passed: Headers = []
    for name, value in drop_hop_by_hop((name.lower(), value) for name, value in headers):
        if name in (b"date", b"x-request-id") or (target.prefix and name in OF_A_HOST):
            continue
        if name == b"location":
            value = _move_location(value, target, endpoint)
        elif name == b"set-cookie":
            cookie = _confine_cookie(value.decode("latin-1"), target)
            if cookie is None:
                continue
            value = cookie.encode("latin-1")
        passed.append((name, value))
    return passed + (SANDBOX if target.prefix else [])


def drop_hop_by_hop(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers without those of the connection that they came by, and those that it names."""
    found = list(headers)
    lists = [value for name, value in found if name == b"connection"]
    named = {part.strip().lower() for value in lists for part in value.split(b",")}
    return [(name, value) for name, value in found if name not in HOP_BY_HOP and name not in named]


def _is_own(name: bytes) -> bool:
    plain = name.replace(b"_", b"-")
    return plain in OWN or plain.startswith(OWN_PREFIXES)


def _move_location(value: bytes, target: Target, endpoint: Endpoint) -> bytes:
    """Where a run sends its caller: to another host, or below the address by which it was asked.

    Nowhere else on that host: a program that follows would do there as its user whatever the run likes.
    """
    text = value.decode("latin-1")
    try:
        parts = urlsplit(text)
        place = None if not parts.netloc else (parts.hostname or "", parts.port or PORTS.get(parts.scheme))
        here = place is None or _is_here(place, target.host) or _is_here(place, urlsplit(endpoint.url).netloc)
    except ValueError:
        raise UpstreamError(f"it sends its caller to {text[:200]!r}, which is no address") from None
    if parts.scheme not in ("", *PORTS):
        return value
    if not here:
        host = parts.netloc.rpartition("@")[2]
        if not PLAIN_HOST.fullmatch(host):
            raise UpstreamError(f"it sends its caller to {text[:200]!r}, which names no plain host")
        return urlunsplit(parts._replace(netloc=host)).encode("latin-1")
    path = ENCODED_DOT.sub(".", parts.path.replace("\\", "%5C"))
    if place is not None or path.startswith("/"):
        for above in ("", endpoint.prefix, target.prefix):
            below = path.removeprefix(above) if f"{path}/".startswith(f"{above}/") else path
            path = "/" + below.lstrip("/")  # two slashes would be another host
    inner = urlsplit(urljoin(f"http://run{target.path.decode('latin-1')}", path)).path
    query = parts.query or ("" if path else target.query.decode("latin-1"))
    return urlunsplit(("", "", f"{target.prefix}/{inner.lstrip('/')}", query, parts.fragment)).encode("latin-1")


def _is_here(place: tuple[str, int | None], host: str) -> bool:
    """Whether an address is at a host, which may leave its port out."""
    own = urlsplit(f"//{host}")
    ports = {own.port} if own.port is not None else {None, *PORTS.values()}
    return place[0].rstrip(".") == (own.hostname or "").rstrip(".") and place[1] in {None, *ports}


def _confine_cookie(text: str, target: Target) -> str | None:
    """A cookie as a run may set it: for its own host or path, and under no name that is Fairlead's."""
    first, *attributes = text.split(";")
    name, equals, _ = first.partition("=")
    if not equals or not name.strip() or OUR_COOKIE.match(first):
        return None  # one without a name is sent as its value, which may look like any other
    kept = [first]
    for attribute in attributes:
        word, _, value = attribute.partition("=")
        if word.strip().lower() == "path" and target.prefix:
            below = value.strip() if value.strip().startswith("/") else "/"
            kept.append(f" Path={below if below.startswith(f'{target.prefix}/') else target.prefix + below}")
        elif word.strip().lower() != "domain":
            kept.append(attribute)
    return ";".join(kept)
