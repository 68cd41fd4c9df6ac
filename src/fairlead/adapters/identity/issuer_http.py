"""Sends requests to an issuer: HTTPS only, with limits on time and size, and without redirects."""

import time
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPErrorProcessor, OpenerDirector, ProxyHandler, Request, build_opener

from fairlead.model.names import is_loopback

TIMEOUT_SECONDS = 5
MAX_BYTES = 1024 * 1024  # metadata and keys are a few kilobytes; more would only fill memory
CHUNK = 64 * 1024
HEADERS = {"Accept": "application/json", "User-Agent": "fairlead"}


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


def fetch(url: str) -> bytes:
    """Fetch a document. Raises `OSError` if that fails."""
    status, content = _request(url, None, HEADERS)
    if not 200 <= status < 300:
        raise OSError(f"{url} responded with status {status}")
    return content


def send(url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Post a form and return the response's status and body. Raises `OSError` if there is no response."""
    return _request(url, urlencode(form).encode(), {**HEADERS, **headers})


def _request(url: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
    # urllib also opens file: and ftp: URLs.
    if not is_safe_url(url, plain=True):
        raise OSError(f"{url!r} is not an https URL")
    request = Request(url, data=body, headers=dict(headers))
    deadline = time.monotonic() + TIMEOUT_SECONDS
    try:
        with _opener_for(url).open(request, timeout=TIMEOUT_SECONDS) as response:
            return response.status, _read(response, deadline)
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


def _read(response: HTTPResponse, deadline: float) -> bytes:
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
