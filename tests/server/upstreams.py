"""Programs that runs serve: one that tells what it was asked and streams both ways, and ones that misbehave."""

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

from fairlead.model.observations import Endpoint

PATIENCE = 60.0
MEBIBYTE = 1024 * 1024
Handler = Callable[[socket.socket], None]


class Program:
    """An ASGI program with a handler per path. It records requests."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.left = threading.Event()  # an event listener disconnected
        self.go_on = threading.Event()  # that lets it send the second event

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        self.asked.append(told(scope))
        name = scope["path"].strip("/").partition("/")[0].replace("-", "_") or "tell"
        if scope["type"] == "websocket":
            await getattr(self, f"ws_{name}")(scope, receive, send)
        else:
            await getattr(self, name, self.tell)(scope, receive, send)

    async def tell(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Say what was asked."""
        await answer(send, json.dumps(told(scope)).encode(), (b"content-type", b"application/json"))

    async def count(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Say how much was sent."""
        size, digest, more = 0, hashlib.sha256(), True
        while more:
            message = await receive()
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
            digest.update(message.get("body", b""))
        await answer(send, json.dumps({"size": size, "digest": digest.hexdigest()}).encode())

    async def echo(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send back what comes, while it comes."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        more = True
        while more:
            message = await receive()
            more = message.get("more_body", False)
            await send({"type": "http.response.body", "body": message.get("body", b""), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def big(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """A response of some MiB."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(int(scope["query_string"])):
            await send({"type": "http.response.body", "body": b"x" * MEBIBYTE, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def events(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send one event immediately, one when the test says so, then keep the stream open."""
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await asyncio.to_thread(self.go_on.wait, PATIENCE)
        await send({"type": "http.response.body", "body": b"data: 2\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()

    async def ticks(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """A byte every few milliseconds."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(int(PATIENCE * 100)):
            await send({"type": "http.response.body", "body": b".", "more_body": True})
            await asyncio.sleep(0.01)

    async def say(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """The headers and the status that the query says."""
        said = [(name.encode(), value.encode()) for name, value in parse_qsl(scope["query_string"].decode())]
        status = int(dict(said).get(b"status", b"200"))
        headers = [pair for pair in said if pair[0] != b"status"]
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
        self.asked.append({"closed": message["code"]})
        self.left.set()

    async def ws_refuse(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Want no WebSocket."""
        start = {"type": "websocket.http.response.start", "status": 418, "headers": [(b"content-type", b"text/plain")]}
        await send(start)
        await send({"type": "websocket.http.response.body", "body": b"a teapot", "more_body": False})


def told(scope: Scope) -> dict[str, Any]:
    """A recorded request."""
    headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
    path, query = scope["raw_path"].decode(), scope["query_string"].decode()
    return {"method": scope.get("method", "WEBSOCKET"), "path": path, "query": query, "headers": headers}


async def answer(send: Send, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Answer with a body."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def serving(
    app: Any, *, path: Path | None = None, listener: socket.socket | None = None, **more: Any
) -> Iterator[Endpoint]:
    """A program on a Unix socket, or on a port of this machine; how it is reached."""
    options: dict[str, Any] = {"log_config": None, "access_log": False, "ws": "wsproto", "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(app, **options, **more, ws_max_size=64 * MEBIBYTE))
    with listener or listen(path) as opened:
        thread = threading.Thread(target=lambda: server.run(sockets=[opened]), daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        try:
            yield reach_of(opened, path)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


@contextlib.contextmanager
def misbehaving(handle: Handler) -> Iterator[Endpoint]:
    """A program that does as a function says with each connection; the connection is closed when that returns."""
    with listen(None) as opened:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = opened.accept()
                    threading.Thread(target=attend, args=(connection,), daemon=True).start()

        def attend(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                handle(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield reach_of(opened, None)
        opened.shutdown(socket.SHUT_RDWR)


def silent(over: threading.Event) -> Handler:
    """A connection that neither sends nor receives until the end."""

    def handle(_connection: socket.socket) -> None:
        over.wait(PATIENCE)

    return handle


def listen(path: Path | None) -> socket.socket:
    """A socket that takes connections."""
    opened = socket.socket(socket.AF_INET if path is None else socket.AF_UNIX)
    opened.bind(("127.0.0.1", 0) if path is None else str(path))
    opened.listen(100)
    return opened


def reach_of(listener: socket.socket, path: Path | None) -> Endpoint:
    """How a program that listens on a socket is reached."""
    if path is not None:
        return Endpoint("http://run", socket=str(path))
    return Endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}")


def read_head(connection: socket.socket) -> bytes:
    """All that is sent until the head of a request is there."""
    data = b""
    while b"\r\n\r\n" not in data and (piece := connection.recv(65536)):
        data += piece
    return data


def headers_of(asked: dict[str, Any]) -> dict[str, str]:
    """The request headers, without duplicates."""
    names = [name for name, _ in asked["headers"]]
    assert len(names) == len(set(names)), names
    return dict(asked["headers"])


def read_all(connection: socket.socket) -> bytes:
    """Read until the connection is closed."""
    pieces = []
    while piece := connection.recv(MEBIBYTE):
        pieces.append(piece)
    return b"".join(pieces)


def wait_until(holds: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.005)
