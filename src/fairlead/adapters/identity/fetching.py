"""How an issuer is asked: over HTTPS, bounded in time and size, and never somebody else in its place."""

import time
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPErrorProcessor, OpenerDirector, ProxyHandler, Request, build_opener

from fairlead.model.hosts import is_loopback

PATIENCE_SECONDS = 5
MOST_BYTES = 1024 * 1024
CHUNK = 64 * 1024
HEADERS = {"Accept": "application/json", "User-Agent": "fairlead"}


def is_fetchable(address: str, *, plain: bool) -> bool:
    """Whether this is an address that may be asked: HTTPS, or where `plain` says so, HTTP on this very machine."""
    try:
        parts = urlsplit(address)
        port = parts.port  # raises where it is no number
    except ValueError:
        return False
    # A password would be shown in messages, and a space or a line break would end the request early.
    if not parts.hostname or port == 0 or "@" in parts.netloc or not address.isascii() or not address.isprintable():
        return False
    safe = parts.scheme == "https" or (plain and parts.scheme == "http" and is_loopback(parts.hostname))
    return safe and " " not in address


def fetch(address: str) -> bytes:
    """The document at an address. Raise `OSError` where it cannot be had."""
    status, content = _ask(address, None, HEADERS)
    if not 200 <= status < 300:
        raise OSError(f"{address} answers with status {status}")
    return content


def send(address: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
    """The status and the content of the answer to a form, a refusal too. Raise `OSError` where there is none."""
    return _ask(address, urlencode(form).encode(), {**HEADERS, **headers})


def _ask(address: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
    if not is_fetchable(address, plain=True):
        raise OSError(f"{address!r} is no https address")
    request = Request(address, data=body, headers=dict(headers))
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        with _opener_for(address).open(request, timeout=PATIENCE_SECONDS) as response:
            return response.status, _read(response, deadline)
    except HTTPException as error:
        raise OSError(f"{address} does not answer as HTTP says: {error!r}") from error
    except OSError as error:
        raise OSError(f"asking {address}: {getattr(error, 'reason', error)}") from error


class _AsAnswered(HTTPErrorProcessor):
    """Takes every status as an answer, and so follows no redirect: whom we trust is written in the settings."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:  # noqa: ARG002
        return response

    https_response = http_response


def _opener_for(address: str) -> OpenerDirector:
    if is_loopback(urlsplit(address).hostname or ""):
        return build_opener(_AsAnswered, ProxyHandler({}))  # no proxy reaches our own machine
    return build_opener(_AsAnswered)


def _read(response: HTTPResponse, deadline: float) -> bytes:
    """All of the answer. The socket's patience begins anew with every byte, so the whole has a deadline of its own."""
    content = bytearray()
    while chunk := response.read1(CHUNK):
        content += chunk
        if len(content) > MOST_BYTES:
            raise OSError(f"the answer is longer than {MOST_BYTES} bytes")
        if time.monotonic() > deadline:
            raise OSError(f"the answer takes longer than {PATIENCE_SECONDS} seconds")
    return bytes(content)
