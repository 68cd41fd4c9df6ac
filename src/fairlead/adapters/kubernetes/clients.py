"""A client for the Kubernetes API that works with plain JSON objects."""

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
from fairlead.model.project_objects import Connection
from fairlead.model.runs import JSON, Endpoint

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MANAGER = "fairlead"
RETRYABLE = (408, 429, 500, 502, 503, 504)  # the same request may succeed later
READ_SECONDS, CONNECT_SECONDS = 15.0, 5.0
# A watch without any event is considered lost after this time. The API server sends bookmarks about once a minute.
SILENT_SECONDS = 100.0
MAX_LINE_BYTES = 1 << 20  # longer lines are split
TOKEN_SECONDS = 60.0  # how often a token file is reread
MAX_RETRY_AFTER_SECONDS = 60  # the longest Retry-After that is honored
PAGE_SIZE = 500  # kubectl's default; larger pages need more memory in the API server
MERGE = "application/merge-patch+json"


class ApiError(FairleadError):
    """The API server rejected a request."""

    code = "refused"

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


def path_of(api_version: str, plural: str, namespace: str | None = None, name: str | None = None) -> str:
    """The URL path of a resource, or of one object."""
    root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
    within = f"/namespaces/{namespace}" if namespace is not None else ""
    return f"{root}{within}/{plural}" + (f"/{name}" if name is not None else "")


class KubernetesClient:
    """A client for one API server. Thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._server, self._bearer = connection.server.rstrip("/"), _Bearer(connection)
        with _raising_unavailable():
            self._ssl_context = _create_ssl_context(connection)
            self._client = httpx2.Client(
                base_url=connection.server,
                verify=self._ssl_context,
                auth=self._bearer,
                headers={"User-Agent": MANAGER, "Accept": "application/json"},
                timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
                # Each watch and each followed log takes up a connection, so a limit would block other requests.
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32),
                trust_env=False,  # the server's proxy variables must not apply to clusters
            )
        name = connection.tls_server_name
        self._extensions: JSON = {} if name is None else {"sni_hostname": name}

    def get(self, path: str, **params: Any) -> JSON:
        """Get an object. Raises `ApiError` with status 404 if it does not exist."""
        return self._call("GET", path, params=params)

    def list(self, path: str, **params: Any) -> JSON:
        """List all objects of a resource, with the items from all pages."""
        page = self._call("GET", path, params={"limit": PAGE_SIZE, **params})
        items = page["items"]
        # All pages show the state at the first page's resource version.
        while token := page["metadata"].get("continue"):
            page = self._call("GET", path, params={"limit": PAGE_SIZE, **params, "continue": token})
            items += page["items"]
        return {**page, "items": items}

    def create(self, path: str, body: JSON, **params: Any) -> JSON:
        """Create an object. The server rejects unknown fields."""
        params = {"fieldManager": MANAGER, "fieldValidation": "Strict", **params}
        return self._call("POST", path, params=params, content=msgspec.json.encode(body))

    def patch(self, path: str, body: JSON, **params: Any) -> JSON:
        """Change an object with a JSON merge patch."""
        params = {"fieldManager": MANAGER, "fieldValidation": "Strict", **params}
        return self._call("PATCH", path, params=params, content=msgspec.json.encode(body), kind=MERGE)

    def delete(self, path: str, *, uid: str | None = None, propagation: str = "Background") -> None:
        """Delete an object and its dependents. Does nothing if it is gone or has a different UID."""
        body: JSON = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            self._call("DELETE", path, content=msgspec.json.encode(body))
        except ApiError as error:
            if error.status not in (404, 409):  # 409: the precondition failed, because a new object has the same name
                raise

    @contextlib.contextmanager
    def watch(self, path: str, **params: Any) -> Iterator[Iterator[JSON]]:
        """Watch a resource until the server closes the watch. Raises `ApiError` if the resource version is too old."""
        # Bookmarks keep the version recent while nothing changes, so that the next watch can resume from it.
        params = {"watch": "true", "allowWatchBookmarks": "true", **params}
        with self._stream(path, params, SILENT_SECONDS) as response:
            yield _read_events(response)

    @contextlib.contextmanager
    def read(self, path: str, **params: Any) -> Iterator[Iterator[bytes]]:
        """Stream text, such as a log, line by line."""
        # A silent connection may be a quiet log or a dead connection. After a timeout, the caller reconnects.
        with self._stream(path, params, SILENT_SECONDS if params.get("follow") else READ_SECONDS) as response:
            yield _split(response)

    def proxy_endpoint(self, path: str) -> Endpoint:
        """An endpoint for one of the API server's proxy paths, with this client's credentials."""
        with _raising_unavailable():
            token = self._bearer.read()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return Endpoint(
            self._server + path,
            headers=headers,
            verify=self._ssl_context,
            server_name=self._extensions.get("sni_hostname"),
            prefix=urlsplit(self._server).path + path,
        )

    @contextlib.contextmanager
    def _stream(self, path: str, params: JSON, silence: float | None) -> Iterator[httpx2.Response]:
        timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, read=silence)
        with (
            _raising_unavailable(),
            self._client.stream("GET", path, params=params, timeout=timeout, extensions=self._extensions) as response,
        ):
            if not response.is_success:
                _check(response, response.read())
            yield response

    def _call(
        self, method: str, path: str, *, params: Any = None, content: bytes | None = None, kind: str = ""
    ) -> JSON:
        headers = {"Content-Type": kind or "application/json"} if content is not None else None
        with _raising_unavailable():
            response = self._client.request(
                method, path, params=params, content=content, headers=headers, extensions=self._extensions
            )
        _check(response, response.content)
        try:
            answer = msgspec.json.decode(response.content)
        except msgspec.DecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise Unavailable(f"{response.url} did not return a Kubernetes object")
        return answer


class _Bearer(httpx2.Auth):
    """Bearer authentication. A token from a file is reread every minute, because Kubernetes rotates it."""

    def __init__(self, connection: Connection) -> None:
        self._token, self._file = connection.token, connection.token_file
        self._read_at = 0.0

    def read(self) -> str:
        """The current token, or an empty string."""
        if self._file is not None and time.monotonic() - self._read_at > TOKEN_SECONDS:
            self._token, self._read_at = Path(self._file).read_text("utf-8").strip(), time.monotonic()
        return self._token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        if token := self.read():
            request.headers["Authorization"] = f"Bearer {token}"
        yield request


def connect_from_within() -> Connection:
    """The connection to the cluster that this server runs in. Raises `Unavailable` if the server is not in a pod."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = SERVICE_ACCOUNT / "token"
    if host is None or not token.exists():
        message = "the connection is in_cluster, but this server is not running in a cluster"
        raise Unavailable(message, "run the server in the cluster, or connect the cluster with a kubeconfig")
    shown = f"[{host}]" if ":" in host else host
    return Connection(
        f"https://{shown}:{port}", ca=(SERVICE_ACCOUNT / "ca.crt").read_text("utf-8"), token_file=str(token)
    )


def _create_ssl_context(connection: Connection) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=connection.ca)
        if connection.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if connection.certificate is not None and connection.key is not None:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:  # ssl can only read files
                pair.write(f"{connection.certificate}\n{connection.key}")
                pair.flush()
                context.load_cert_chain(pair.name, password="")  # None would prompt on the terminal
    except (ssl.SSLError, ValueError) as error:
        raise Unavailable(f"invalid certificates for {connection.server}: {error}") from error
    return context


@contextlib.contextmanager
def _raising_unavailable() -> Iterator[None]:
    """Raise `Unavailable` for network errors."""
    try:
        yield
    # UnicodeError: a host name that cannot be encoded.
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ssl.SSLError, UnicodeError, OSError) as error:
        raise Unavailable(f"the cluster is unreachable: {str(error) or type(error).__name__}") from error


def _check(response: httpx2.Response, content: bytes) -> None:
    if response.is_success:
        return
    try:
        status = msgspec.json.decode(content)
    except msgspec.DecodeError:  # not from the API server, but from a proxy
        status = {"message": content[:500].decode("utf-8", "replace").strip()}
    wait = response.headers.get("Retry-After", "")
    raise _api_error(response.status_code, status if isinstance(status, dict) else {}, wait)


def _api_error(code: int, status: JSON, wait: str = "") -> FairleadError:
    message = status.get("message") or f"HTTP status {code}"
    if code in RETRYABLE:
        seconds = min(int(wait), MAX_RETRY_AFTER_SECONDS) if wait.isdecimal() and len(wait) < 6 else 1
        return Unavailable(f"the cluster is temporarily unavailable: {message}", retry_after_seconds=seconds)
    return ApiError(code, status.get("reason", ""), message)


def _read_events(response: httpx2.Response) -> Iterator[JSON]:
    decode = msgspec.json.Decoder().decode
    try:
        for line in response.iter_lines():
            event: JSON = decode(line)
            if event["type"] == "ERROR":
                raise _api_error(event["object"].get("code", 500), event["object"])
            yield event
    except httpx2.ReadTimeout:  # no events, or a dead connection; the caller opens a new watch
        return


def _split(response: httpx2.Response) -> Iterator[bytes]:
    """Lines as bytes, including line endings, because a log may contain any bytes."""
    left = b""
    for piece in response.iter_bytes():
        *lines, left = (left + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
        if len(left) >= MAX_LINE_BYTES:
            yield left
            left = b""
    if left:
        yield left
