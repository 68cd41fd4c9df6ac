"""Upstream programs for served runs: one that records requests and streams, and misbehaving ones."""

import asyncio
import contextlib
import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from starlette.types import Receive, Scope, Send

from fairlead.model.runs import Endpoint

TIMEOUT_SECONDS = 60.0
MEBIBYTE = 1024 * 1024
Handler = Callable[[socket.socket], None]


class Program:
    """An ASGI program with a handler per path. It records requests."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.disconnected = threading.Event()  # an event listener disconnected
        self.proceed = threading.Event()  # lets the stream send the second event

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        self.requests.append(describe_request(scope))
        name = scope["path"].strip("/").partition("/")[0].replace("-", "_") or "describe"
        if scope["type"] == "websocket":
            await getattr(self, f"ws_{name}")(scope, receive, send)
        else:
            await getattr(self, name, self.describe)(scope, receive, send)

    async def describe(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Return the request as JSON."""
        await respond(send, json.dumps(describe_request(scope)).encode(), (b"content-type", b"application/json"))

    async def count(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Return the size and the digest of the body."""
        size, digest, more = 0, hashlib.sha256(), True
        while more:
            message = await receive()
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
            digest.update(message.get("body", b""))
        await respond(send, json.dumps({"size": size, "digest": digest.hexdigest()}).encode())

    async def echo(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Echo the body as it arrives."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        more = True
        while more:
            message = await receive()
            more = message.get("more_body", False)
            await send({"type": "http.response.body", "body": message.get("body", b""), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def big(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """A response of several MiB."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(int(scope["query_string"])):
            await send({"type": "http.response.body", "body": b"x" * MEBIBYTE, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def events(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send one event immediately, one when the test allows it, then keep the stream open."""
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await asyncio.to_thread(self.proceed.wait, TIMEOUT_SECONDS)
        await send({"type": "http.response.body", "body": b"data: 2\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        self.disconnected.set()

    async def ticks(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """A byte every few milliseconds."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(int(TIMEOUT_SECONDS * 100)):
            await send({"type": "http.response.body", "body": b".", "more_body": True})
            await asyncio.sleep(0.01)

    async def say(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Respond with the status and headers from the query."""
        pairs = [(name.encode(), value.encode()) for name, value in parse_qsl(scope["query_string"].decode())]
        status = int(dict(pairs).get(b"status", b"200"))
        headers = [pair for pair in pairs if pair[0] != b"status"]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def ws_echo(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Echo messages; close with 4001 on request."""
        await receive()
        chosen = scope["subprotocols"][-1] if scope["subprotocols"] else None
        await send({"type": "websocket.accept", "subprotocol": chosen, "headers": [(b"x-of-the-run", b"yes")]})
        while (message := await receive())["type"] == "websocket.receive":
            if message.get("text") == "end":
                await send({"type": "websocket.close", "code": 4001, "reason": "as you say"})
                return
            await send({"type": "websocket.send", **{key: message[key] for key in ("text", "bytes") if key in message}})
        self.requests.append({"closed": message["code"]})
        self.disconnected.set()

    async def ws_refuse(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Reject the WebSocket."""
        start = {"type": "websocket.http.response.start", "status": 418, "headers": [(b"content-type", b"text/plain")]}
        await send(start)
        await send({"type": "websocket.http.response.body", "body": b"a teapot", "more_body": False})


def describe_request(scope: Scope) -> dict[str, Any]:
    """A request, as it is recorded."""
    headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
    path, query = scope["raw_path"].decode(), scope["query_string"].decode()
    return {"method": scope.get("method", "WEBSOCKET"), "path": path, "query": query, "headers": headers}


async def respond(send: Send, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Send a response with a body."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def run_server(
    app: Any, *, path: Path | None = None, listener: socket.socket | None = None, **config: Any
) -> Iterator[Endpoint]:
    """Run a program on a Unix socket or a local port, and return its endpoint."""
    options: dict[str, Any] = {"log_config": None, "access_log": False, "ws": "wsproto", "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(app, **(options | config), ws_max_size=64 * MEBIBYTE))
    with listener or listen(path) as bound_socket:
        thread = threading.Thread(target=lambda: server.run(sockets=[bound_socket]), daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        try:
            yield endpoint_of(bound_socket, path)
        finally:
            server.should_exit = True
            thread.join(TIMEOUT_SECONDS)


@contextlib.contextmanager
def run_raw_server(handle: Handler) -> Iterator[Endpoint]:
    """Run a function for each connection, and close the connection when it returns."""
    with listen(None) as bound_socket:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = bound_socket.accept()
                    threading.Thread(target=serve_connection, args=(connection,), daemon=True).start()

        def serve_connection(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                handle(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield endpoint_of(bound_socket, None)
        bound_socket.shutdown(socket.SHUT_RDWR)


def hold_open(done: threading.Event) -> Handler:
    """A handler that neither reads nor writes until the event is set."""

    def handle(_connection: socket.socket) -> None:
        done.wait(TIMEOUT_SECONDS)

    return handle


def listen(path: Path | None) -> socket.socket:
    """A listening socket."""
    bound_socket = socket.socket(socket.AF_INET if path is None else socket.AF_UNIX)
    bound_socket.bind(("127.0.0.1", 0) if path is None else str(path))
    bound_socket.listen(100)
    return bound_socket


def endpoint_of(listener: socket.socket, path: Path | None) -> Endpoint:
    """The endpoint of a program that listens on a socket."""
    if path is not None:
        return Endpoint("http://run", socket=str(path))
    return Endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}")


def read_head(connection: socket.socket) -> bytes:
    """Read until the head of a request is complete."""
    data = b""
    while b"\r\n\r\n" not in data and (chunk := connection.recv(65536)):
        data += chunk
    return data


def headers_of(request: dict[str, Any]) -> dict[str, str]:
    """The request headers, without duplicates."""
    names = [name for name, _ in request["headers"]]
    assert len(names) == len(set(names)), names
    return dict(request["headers"])


def read_all(connection: socket.socket) -> bytes:
    """Read until the connection is closed."""
    chunks = []
    while chunk := connection.recv(MEBIBYTE):
        chunks.append(chunk)
    return b"".join(chunks)


def wait_until(condition: Callable[[], Any], seconds: float = TIMEOUT_SECONDS) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.005)
