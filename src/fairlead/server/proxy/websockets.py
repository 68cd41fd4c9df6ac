"""WebSocket proxy: forwards messages between a client and a run."""

import base64
import contextlib
import secrets
from typing import Any

import anyio
import h11
from anyio.abc import TaskGroup
from starlette.types import Receive, Scope, Send
from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Message, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, generate_accept_token

from fairlead.model.runs import Endpoint
from fairlead.server.proxy.connections import RunConnection, UpstreamError
from fairlead.server.proxy.headers import Target, drop_hop_by_hop, make_request_headers
from fairlead.server.proxy.http import (
    ProxyConfig,
    read_response_headers,
    response_timed_out,
    upstream_failed,
    write_request,
)
from fairlead.server.proxy.sign_in import AccessRenewal

MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # ASGI has no fragments, so a whole message is held in memory
# Close codes from RFC 6455.
NORMAL_CLOSURE, POLICY_VIOLATION, MESSAGE_TOO_BIG, INTERNAL_ERROR = 1000, 1008, 1009, 1011
# Reserved codes, which report a missing close frame and must not be sent.
RESERVED_CODES = {1005: NORMAL_CLOSURE, 1006: INTERNAL_ERROR, 1015: INTERNAL_ERROR}
# The ASGI server writes these headers for its own handshake with the client.
HANDSHAKE_HEADERS = (b"sec-websocket-accept", b"sec-websocket-protocol", b"sec-websocket-extensions", b"content-length")


async def proxy_websocket(
    proxy_config: ProxyConfig,
    target: Target,
    endpoint: Endpoint,
    access: AccessRenewal,
    *,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Connect a WebSocket to a run and forward messages until one side closes it.

    Raises `Problem` if the run does not respond to the handshake.
    """
    await receive()  # the websocket.connect message
    key = base64.b64encode(secrets.token_bytes(16))
    # No extensions are offered, so the run does not compress messages. This server and the client can still do so.
    upgrade = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket"), (b"sec-websocket-version", b"13")]
    protocols = [(b"sec-websocket-protocol", ", ".join(scope["subprotocols"]).encode("latin-1"))]
    headers = [*make_request_headers(scope, target, endpoint), *upgrade, (b"sec-websocket-key", key)]
    request = write_request("GET", headers + (protocols if scope["subprotocols"] else []), target, endpoint)
    # Needs a new connection, because the handshake is not retried if an idle one has just been closed.
    async with proxy_config.connections.to(target.run_id, endpoint, fresh=True) as connection:
        head: h11.Response | h11.InformationalResponse | None = None
        try:
            with anyio.move_on_after(proxy_config.response_timeout_seconds):
                await connection.send(request)
                await connection.send(h11.EndOfMessage())
                head = await connection.receive_head()
            if head is None:
                raise response_timed_out(target.run_id, proxy_config.response_timeout_seconds)
            headers = read_response_headers(head, target, endpoint)
            if isinstance(head, h11.Response):
                await _forward_rejection(connection, head.status_code, headers, send)
                return
            if dict(headers).get(b"sec-websocket-accept") != generate_accept_token(key):
                raise UpstreamError("invalid WebSocket handshake")
        except (UpstreamError, OSError) as error:
            raise upstream_failed(target.run_id, error) from error
        protocol = dict(headers).get(b"sec-websocket-protocol")
        forwarded = [pair for pair in drop_hop_by_hop(headers) if pair[0] not in HANDSHAKE_HEADERS]
        accepted = {"subprotocol": None if protocol is None else protocol.decode("latin-1"), "headers": forwarded}
        await send({"type": "websocket.accept", **accepted})
        await _WebSocketSession(connection, access, receive, send).run()


async def _forward_rejection(connection: RunConnection, status: int, headers: Any, send: Send) -> None:
    """Forward the HTTP response from a run that rejected the WebSocket."""
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    while isinstance(event := await connection.receive(), h11.Data):
        await send({"type": "websocket.http.response.body", "body": bytes(event.data), "more_body": True})
    await send({"type": "websocket.http.response.body", "body": b"", "more_body": False})


class _WebSocketSession:
    """An open WebSocket between a client and a run."""

    def __init__(self, connection: RunConnection, access: AccessRenewal, receive: Receive, send: Send) -> None:
        self.connection, self.access, self.receive, self.send = connection, access, receive, send
        # The trailing data contains any frames that arrived together with the response.
        self.frames = Frames(ConnectionType.CLIENT, trailing_data=connection.http.trailing_data[0])
        self.fragments = bytearray()
        self.is_closed = False  # on the client side
        self.write_lock = anyio.Lock()  # both directions write to the run: messages, and replies to pings

    async def run(self) -> None:
        """Forward messages in both directions until one side closes the WebSocket."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._forward_from_client, tasks)
            try:
                await self._forward_from_run(tasks)
            except (UpstreamError, OSError, LocalProtocolError):
                await self._close(INTERNAL_ERROR, "connection to the run lost")
            tasks.cancel_scope.cancel()
        if self.access.error is not None:
            await self._close(POLICY_VIOLATION, "access was revoked")

    async def _forward_from_client(self, tasks: TaskGroup) -> None:
        while True:
            message = await self.receive()
            try:
                if message["type"] == "websocket.disconnect":
                    self.is_closed = True
                    code, reason = int(message.get("code") or NORMAL_CLOSURE), message.get("reason") or None
                    await self._send_to_run(CloseConnection(code=RESERVED_CODES.get(code, code), reason=reason))
                    tasks.cancel_scope.cancel()
                    return
                text, content = message.get("text"), message.get("bytes")
                await self._send_to_run(Message(data=text if text is not None else content or b""))
            except (OSError, LocalProtocolError):
                return  # the other direction finds the reason
            self.access.on_activity(tasks)

    async def _forward_from_run(self, tasks: TaskGroup) -> None:
        while True:
            for event in self.frames.events():
                if isinstance(event, TextMessage | BytesMessage):
                    if not await self._add_fragment(event):
                        return
                    self.access.on_activity(tasks)
                elif isinstance(event, Ping):
                    await self._send_to_run(event.response())
                elif isinstance(event, CloseConnection):
                    await self._close(RESERVED_CODES.get(event.code, event.code), event.reason or "")
                    await self._send_to_run(event.response())
                    return
            data = await self.connection.read()
            if not data:
                raise UpstreamError("the run closed the connection")
            self.frames.receive_data(data)

    async def _add_fragment(self, event: TextMessage | BytesMessage) -> bool:
        """Add a fragment and send the message once it is complete. Returns False if the message is too large."""
        is_text = isinstance(event, TextMessage)
        self.fragments += event.data.encode() if isinstance(event, TextMessage) else event.data
        if len(self.fragments) > MAX_MESSAGE_BYTES:
            await self._close(MESSAGE_TOO_BIG, f"message with more than {MAX_MESSAGE_BYTES:,} bytes")
            return False
        if event.message_finished:
            content, self.fragments = bytes(self.fragments), bytearray()
            message: dict[str, Any] = {"text": content.decode()} if is_text else {"bytes": content}
            await self.send({"type": "websocket.send", **message})
        return True

    async def _send_to_run(self, event: Event) -> None:
        async with self.write_lock:
            await self.connection.stream.write(self.frames.send(event))

    async def _close(self, code: int, reason: str) -> None:
        """Close the client's WebSocket, only once."""
        if not self.is_closed:
            self.is_closed = True
            with contextlib.suppress(OSError):  # the client has disconnected
                await self.send({"type": "websocket.close", "code": code, "reason": reason})
