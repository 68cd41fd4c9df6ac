"""Speaks to an API server of Kubernetes: plain objects in, plain objects out, and an error for each way to fail."""

import contextlib
import os
import ssl
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec

from fairlead.errors import FairleadError, Unavailable
from fairlead.model.connections import Connection
from fairlead.model.observations import JSON, Endpoint

OF_A_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MANAGER = "fairlead"
PASSING = (408, 429, 500, 502, 503, 504)  # the same request may succeed later
READ_SECONDS, CONNECT_SECONDS = 15.0, 5.0
SILENT_SECONDS = 100.0  # after so long without a word, not even a bookmark, a watch is lost
LONGEST_LINE = 1 << 20  # what is longer comes in pieces
TOKEN_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 60  # that a cluster may ask for, which has more to do than it can
AT_ONCE = 500
MERGE = "application/merge-patch+json"


class ApiError(FairleadError):
    """The API server has understood, and says no."""

    code = "refused"

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


def path_of(api_version: str, plural: str, namespace: str | None = None, name: str | None = None) -> str:
    """Where objects of a kind are, or one of them."""
    root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
    within = f"/namespaces/{namespace}" if namespace is not None else ""
    return f"{root}{within}/{plural}" + (f"/{name}" if name is not None else "")


class ApiClient:
    """One API server. Threads may share it."""

    def __init__(self, connection: Connection) -> None:
        self._server, self._bearer = connection.server.rstrip("/"), _Bearer(connection)
        with _telling():
            self._trusted = _trust(connection)
            self._client = httpx2.Client(
                base_url=connection.server,
                verify=self._trusted,
                auth=self._bearer,
                headers={"User-Agent": MANAGER, "Accept": "application/json"},
                timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32),
                trust_env=False,
            )
        name = connection.tls_server_name
        self._extensions: JSON = {} if name is None else {"sni_hostname": name}

    def get(self, path: str, **params: Any) -> JSON:
        """One object. Raise `Refused` with status 404 where there is none."""
        return self._call("GET", path, params=params)

    def list(self, path: str, **params: Any) -> JSON:
        """All objects of a kind, however many pages that takes, as one list."""
        found = self._call("GET", path, params={"limit": AT_ONCE, **params})
        items = found["items"]
        while more := found["metadata"].get("continue"):
            found = self._call("GET", path, params={"limit": AT_ONCE, **params, "continue": more})
            items += found["items"]
        return {**found, "items": items}

    def create(self, path: str, body: JSON, **params: Any) -> JSON:
        """A new object. Nothing that it says is dropped: what the server does not know, it refuses."""
        params = {"fieldManager": MANAGER, "fieldValidation": "Strict", **params}
        return self._call("POST", path, params=params, content=msgspec.json.encode(body))

    def patch(self, path: str, body: JSON, **params: Any) -> JSON:
        """An object with some of its fields changed."""
        params = {"fieldManager": MANAGER, "fieldValidation": "Strict", **params}
        return self._call("PATCH", path, params=params, content=msgspec.json.encode(body), kind=MERGE)

    def delete(self, path: str, *, uid: str | None = None, propagation: str = "Background") -> None:
        """Remove an object and what it owns; one that is gone, or another of its name, is left alone."""
        body: JSON = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            self._call("DELETE", path, content=msgspec.json.encode(body))
        except ApiError as refused:
            if refused.status not in (404, 409):
                raise

    @contextlib.contextmanager
    def watch(self, path: str, **params: Any) -> Iterator[Iterator[JSON]]:
        """What happens to objects of a kind, until the server ends it. Raise `Refused` where it lost the thread."""
        params = {"watch": "true", "allowWatchBookmarks": "true", **params}
        with self._stream(path, params, SILENT_SECONDS) as response:
            yield _read_events(response)

    @contextlib.contextmanager
    def read(self, path: str, **params: Any) -> Iterator[Iterator[bytes]]:
        """Text that comes line by line, such as a log."""
        # What is followed may be silent for long; a connection that is dead is, too: whoever reads on begins anew.
        with self._stream(path, params, SILENT_SECONDS if params.get("follow") else READ_SECONDS) as response:
            yield _split(response)

    def proxy_endpoint(self, path: str) -> Endpoint:
        """How others speak to what is behind a path of the server, as who this is."""
        with _telling():
            token = self._bearer.read()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return Endpoint(
            self._server + path,
            headers=headers,
            verify=self._trusted,
            server_name=self._extensions.get("sni_hostname"),
            prefix=urlsplit(self._server).path + path,
        )

    @contextlib.contextmanager
    def _stream(self, path: str, params: JSON, silence: float | None) -> Iterator[httpx2.Response]:
        timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, read=silence)
        with (
            _telling(),
            self._client.stream("GET", path, params=params, timeout=timeout, extensions=self._extensions) as response,
        ):
            if not response.is_success:
                _check(response, response.read())
            yield response

    def _call(
        self, method: str, path: str, *, params: Any = None, content: bytes | None = None, kind: str = ""
    ) -> JSON:
        headers = {"Content-Type": kind or "application/json"} if content is not None else None
        with _telling():
            response = self._client.request(
                method, path, params=params, content=content, headers=headers, extensions=self._extensions
            )
        _check(response, response.content)
        try:
            answer = msgspec.json.decode(response.content)
        except msgspec.DecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise Unavailable(f"{response.url} answers, and not as Kubernetes does")
        return answer


class _Bearer(httpx2.Auth):
    """The token of a connection; one from a file is read again from time to time."""

    def __init__(self, connection: Connection) -> None:
        self._token, self._file = connection.token, connection.token_file
        self._read_at = 0.0

    def read(self) -> str:
        """The token; empty where there is none."""
        if self._file is not None and time.monotonic() - self._read_at > TOKEN_SECONDS:
            self._token, self._read_at = Path(self._file).read_text("utf-8").strip(), time.monotonic()
        return self._token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        if token := self.read():
            request.headers["Authorization"] = f"Bearer {token}"
        yield request


def connect_from_within() -> Connection:
    """The cluster that this server is a pod of. Raise `Unavailable` where it is none."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = OF_A_POD / "token"
    if host is None or not token.exists():
        message = "its connection is in_cluster, and this server is no pod of a cluster"
        raise Unavailable(message, "run the server in the cluster, or give it a kubeconfig")
    shown = f"[{host}]" if ":" in host else host
    return Connection(f"https://{shown}:{port}", ca=(OF_A_POD / "ca.crt").read_text("utf-8"), token_file=str(token))


def _trust(connection: Connection) -> ssl.SSLContext:
    """Whom to believe to be the server, and how to show who we are."""
    try:
        context = ssl.create_default_context(cadata=connection.ca)
        if connection.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if connection.certificate is not None and connection.key is not None:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:  # ssl reads them from files only
                pair.write(f"{connection.certificate}\n{connection.key}")
                pair.flush()
                context.load_cert_chain(pair.name, password="")  # or it would ask on the terminal
    except (ssl.SSLError, ValueError) as error:
        raise Unavailable(f"the certificates of {connection.server} cannot be used: {error}") from error
    return context


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    """Turn what the network does into an error that says: not now."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ssl.SSLError, UnicodeError, OSError) as error:
        raise Unavailable(f"the cluster does not answer: {str(error) or type(error).__name__}") from error


def _check(response: httpx2.Response, content: bytes) -> None:
    if response.is_success:
        return
    try:
        status = msgspec.json.decode(content)
    except msgspec.DecodeError:
        status = {"message": content[:500].decode("utf-8", "replace").strip()}
    wait = response.headers.get("Retry-After", "")
    raise _refusal(response.status_code, status if isinstance(status, dict) else {}, wait)


def _refusal(code: int, status: JSON, wait: str = "") -> FairleadError:
    message = status.get("message") or f"answered {code}"
    if code in PASSING:
        seconds = min(int(wait), LONGEST_WAIT_SECONDS) if wait.isdecimal() and len(wait) < 6 else 1
        return Unavailable(f"the cluster cannot answer now: {message}", retry_after_seconds=seconds)
    return ApiError(code, status.get("reason", ""), message)


def _read_events(response: httpx2.Response) -> Iterator[JSON]:
    decode = msgspec.json.Decoder().decode
    try:
        for line in response.iter_lines():
            event: JSON = decode(line)
            if event["type"] == "ERROR":
                raise _refusal(event["object"].get("code", 500), event["object"])
            yield event
    except httpx2.ReadTimeout:  # nothing has happened, or nobody is there any more: the next watch tells
        return


def _split(response: httpx2.Response) -> Iterator[bytes]:
    """Lines as bytes, with their ends: a log need not be text."""
    left = b""
    for piece in response.iter_bytes():
        *lines, left = (left + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
        if len(left) >= LONGEST_LINE:
            yield left
            left = b""
    if left:
        yield left
