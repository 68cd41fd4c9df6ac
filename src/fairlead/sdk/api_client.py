"""The HTTP client for the API: authentication, pagination, long polling, and problem details as exceptions."""

import contextlib
import os
import sys
import time
import weakref
import webbrowser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from fairlead.errors import (
    Changed,
    Conflict,
    FairleadError,
    Forbidden,
    NotFound,
    PreviewOutdated,
    QueueFull,
    RequestRejected,
    RevisionMissing,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    Unreadable,
)
from fairlead.model.names import is_loopback
from fairlead.model.plans import Layer, Source, Violation
from fairlead.sdk import server_identity, starting

SECONDS = 60.0
MAX_REDIRECTS = 10  # stops redirect loops
STREAM_SECONDS = 45.0  # read timeout for streams; the server sends a keep-alive every 15 s
NOT_MODIFIED = 304
RETRY_PAUSES = (0.2, 1.0)  # seconds before a GET request is sent again
# The server was killed after the connection was established, or closed the connection at that moment.
LOST = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
PROBLEM, PROBLEM_TYPE = "application/problem+json", "urn:fairlead:problem:"
ERRORS: Mapping[str, type[FairleadError]] = {
    error.code: error
    for error in (
        Unauthenticated,
        Forbidden,
        NotFound,
        Conflict,
        Changed,
        PreviewOutdated,
        QueueFull,
        RevisionMissing,
        TooManyRequests,
        Unavailable,
    )
}

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")  # without one of these, `webbrowser` falls back to a text browser


@dataclass(frozen=True)
class ApiClient:
    """A client for one server. Requests share a connection pool, because connecting costs more than a small request."""

    url: str
    token: str
    data: Path | None = field(default=None, compare=False)  # folder of this user's local server; otherwise None

    def get(self, path: str, /, **parameters: Any) -> Any:
        """Send a GET request and return the decoded response."""
        return self._send("GET", path, params=parameters)

    def list(self, path: str, /, **filters: Any) -> Iterator[dict[str, Any]]:
        """Iterate over all items of a list, loading pages on demand."""
        page = self.get(path, **filters)
        yield from page["items"]
        while page["next_cursor"] is not None:
            # The cursor does not contain the filters, so they are sent again.
            page = self.get(path, **filters | {"cursor": page["next_cursor"]})
            yield from page["items"]

    def post(self, path: str, body: Any, /, **parameters: Any) -> Any:
        """Send a POST request and return the decoded response."""
        return self._send("POST", path, json=body, params=parameters)

    def put(self, path: str, body: Any, /, *, revision: int | None = None, **parameters: Any) -> Any:
        """Send a PUT request and return the decoded response. `revision` becomes an If-Match header."""
        return self._send("PUT", path, json=body, params=parameters, revision=revision)

    def patch(self, path: str, body: Any, /, *, revision: int | None = None, **parameters: Any) -> Any:
        """Send a PATCH request and return the decoded response. `revision` becomes an If-Match header."""
        return self._send("PATCH", path, json=body, params=parameters, revision=revision)

    def delete(self, path: str, /, **parameters: Any) -> None:
        """Send a DELETE request."""
        self._send("DELETE", path, params=parameters)

    def put_bytes(self, path: str, content: bytes) -> Any:
        """Upload bytes with a PUT request and return the decoded response."""
        return self._send("PUT", path, content=content)

    def watch(self, path: str, tag: str | None, seconds: int) -> tuple[Any, str | None]:
        """Long poll: return a resource and its ETag as soon as it differs from `tag`, or after `seconds`."""
        known = {} if tag is None else {"If-None-Match": tag}
        # The server responds within `seconds`. The timeout is longer, so it only affects lost connections.
        answer = self._ask("GET", path, headers=known, params={"wait": seconds} if tag else {}, timeout=seconds + 30)
        return (None if answer.status_code == NOT_MODIFIED else answer.json()), answer.headers.get("etag", tag)

    @contextlib.contextmanager
    def stream(self, path: str, /, **parameters: Any) -> Iterator[httpx2.Response]:
        """Open a streaming response."""
        with self._translated():
            answer = self._request("GET", path, stream=True, params=parameters, timeout=STREAM_SECONDS)
            with contextlib.closing(answer):
                if not answer.is_success:
                    answer.read()  # a streamed response has no content until it is read
                    raise _error_of(answer)
                yield answer

    def call(self, run_id: str, path: str, method: str, **options: Any) -> httpx2.Response:
        """Send a request to a served run. Raises an error if the run returns one or is not reachable."""
        with self._translated():
            below = httpx2.URL(f"{self.url}/served/{quote(run_id, safe='')}/")
            # follow_redirects is not used, because it would send the token to any path on the same host.
            answer = self._client.request(method, f"{below}{path.removeprefix('/')}", **options)
            for _ in range(MAX_REDIRECTS):
                if (onward := answer.next_request) is None:
                    break
                # Following this redirect would send the caller's token to another endpoint on the host.
                if _is_outside_run(onward.url, below):
                    message = f"run {run_id} redirects to {onward.url}, which is outside the run"
                    raise FairleadError(message, "report this to the run's owner")
                answer = self._client.send(onward)
        if answer.is_success:
            return answer
        # A run may also respond with problem details. Only those from the server contain the URN.
        if answer.headers.get("content-type") == PROBLEM and PROBLEM_TYPE in answer.text:
            raise _error_of(answer)  # the server responded, not the run
        raise FairleadError(
            f"run {run_id} responded with {answer.status_code}: {answer.text[:500]}", "read the run's log"
        )

    # cached_property writes to __dict__ directly, so it works even though the dataclass is frozen.
    @cached_property
    def _client(self) -> httpx2.Client:
        # Do not send a local server's token through a proxy. Skip the TLS setup for plain HTTP: it takes 100 ms.
        url, headers = httpx2.URL(self.url), {"Authorization": f"Bearer {self.token}"}
        tls, elsewhere = url.scheme == "https", self.data is None and not is_loopback(url.host)
        # Connections to other machines may go through a proxy, whose owner says nothing about the server.
        hooks = {} if elsewhere else {"request": [self._prepare]}
        client = httpx2.Client(headers=headers, timeout=SECONDS, verify=tls, trust_env=elsewhere, event_hooks=hooks)
        weakref.finalize(self, client.close)  # when the client is garbage collected, or at exit
        return client

    def _prepare(self, request: httpx2.Request) -> None:
        """Start the local server if none is running, and check who listens before a token is sent."""
        if self.data is not None:
            # While runs are active, the address stays open without a server, and requests would wait for the next one.
            url, _ = starting.find_running(self.data) or starting.start_server(self.data)
            if url != self.url:
                raise Unavailable(f"the server moved from {self.url} to {url}", "try again")
        request.extensions["trace"] = server_identity.Verifier(self.data)

    def _send(self, method: str, path: str, revision: int | None = None, **options: Any) -> Any:
        condition = {} if revision is None else {"If-Match": f'"{revision}"'}
        answer = self._ask(method, path, headers=condition, **options)
        with contextlib.suppress(ValueError):  # an HTML page: this is not a Fairlead server
            return answer.json() if answer.content else None
        raise _error_of(answer)

    def _ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        with self._translated():
            answer = self._request(method, path, **options)
        if not answer.is_success and answer.status_code != NOT_MODIFIED:
            raise _error_of(answer)
        return answer

    def _request(self, method: str, path: str, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send a request. GET requests are sent again if the connection is lost, for example in a restart."""
        # Other requests are not repeated: the server may have executed them before the connection was lost.
        for pause in RETRY_PAUSES if method == "GET" else ():
            with contextlib.suppress(*LOST):
                return self._send_once(method, path, stream=stream, **options)
            time.sleep(pause)
        return self._send_once(method, path, stream=stream, **options)

    def _send_once(self, method: str, path: str, *, stream: bool, **options: Any) -> httpx2.Response:
        request = self._client.build_request(method, f"{self.url}/api/v1{path}", **options)
        return self._client.send(request, stream=stream)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate the HTTP library's errors into Fairlead errors."""
        try:
            yield
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            hint = "check that the server is running, or start one with `fairlead up`"
            raise Unavailable(f"no response from {self.url}: {error}", hint) from error
        # Command-line arguments that are not UTF-8 contain lone surrogates.
        except UnicodeEncodeError as error:
            raise Unreadable("the request contains text that is not valid UTF-8", "encode it as UTF-8") from error


def find_api_client(environment: Mapping[str, str] = os.environ) -> ApiClient:
    """Connect to the server in FAIRLEAD_URL, or to this user's local server, which is started if necessary."""
    url, token = environment.get("FAIRLEAD_URL"), environment.get("FAIRLEAD_TOKEN")
    if url:
        # HTTP headers are ASCII, and the HTTP library's error would not name the variable.
        if not token or not token.isascii():
            problem = "is not a valid token" if token else "is not set"
            raise Unreadable(
                f"FAIRLEAD_URL is set, but FAIRLEAD_TOKEN {problem}", "set FAIRLEAD_TOKEN to a token for that server"
            )
        return ApiClient(url.rstrip("/"), token)
    data = starting.find_data(environment)
    found_url, found_token = starting.find_running(data) or starting.start_server(data)
    # FAIRLEAD_TOKEN alone selects a different user on the local server.
    return ApiClient(found_url, token or found_token, data)


def path_of(*parts: str) -> str:
    """Build a URL path from segments, percent-encoded. Only the last segment, a file path, may contain slashes."""
    *above, last = parts
    # HTTP clients and proxies normalize such segments, so the request would reach a different resource.
    if any(part in ("", ".", "..") for part in (*above, *last.split("/"))):
        raise NotFound(f"not found: {'/'.join(parts)!r}")
    return "/" + "/".join([*(quote(part, safe="") for part in above), quote(last)])


def read_content(answer: httpx2.Response) -> Any:
    """Decode a response: JSON to data, text to str, anything else to bytes; an empty body to None."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not answer.content:
        return None
    if kind == "application/json" or kind.endswith("+json"):
        return answer.json()
    return answer.text if kind.startswith("text/") else answer.content


def renew_client(api: ApiClient) -> ApiClient:
    """A client for the same server after a restart. The server's port may have changed."""
    # A configured server keeps its address. Only a local server, started with port 0, may get a different port.
    if api.data is None:
        return api
    running = starting.find_running(api.data)
    return api if running is None else ApiClient(running[0], api.token, api.data)


def _is_outside_run(url: httpx2.URL, below: httpx2.URL) -> bool:
    """Whether a URL is on the same host as another URL but outside its path."""
    same = (url.scheme, url.host, url.port) == (below.scheme, below.host, below.port)
    return same and not url.path.startswith(below.path)


def _error_of(answer: httpx2.Response) -> FairleadError:
    try:
        problem = answer.json()
        code, detail, hint = problem["code"], problem["detail"], problem.get("hint")
    # A proxy or another program responded.
    except (ValueError, KeyError, TypeError):
        return Unavailable(f"the server responded with {answer.status_code} and no readable error")
    if code == RequestRejected.code:
        return RequestRejected(_violation_of(violation) for violation in problem["violations"])
    if issubclass(ERRORS.get(code, FairleadError), Conflict):
        return ERRORS[code](detail, hint, problem.get("used_by", ()))  # type: ignore[call-arg]
    if issubclass(ERRORS.get(code, FairleadError), Unavailable):
        return ERRORS[code](detail, hint, problem.get("retry_after_seconds", 1))  # type: ignore[call-arg]
    error = ERRORS.get(code, FairleadError)(detail, hint)
    # A newer server may send a code that this version does not know.
    error.code = code
    return error


def _violation_of(data: Mapping[str, Any]) -> Violation:
    source = data.get("source")
    known = None if source is None else Source(**{**source, "layer": Layer(source["layer"])})
    return Violation(data["path"], data["rule"], data["message"], data.get("hint"), known, data.get("location"))


def open_in_browser(url: str) -> bool:
    """Open a URL in a browser. Return False if there is none."""
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in DISPLAYS):
        return False
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
