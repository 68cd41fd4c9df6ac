"""WebSockets: messages between a browser or program and a run, each framed anew on the other side."""

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

from fairlead.model.observations import Endpoint
from fairlead.server.proxy.access_renewal import AccessRenewal
from fairlead.server.proxy.connections import RunConnection, UpstreamError
from fairlead.server.proxy.headers import drop_hop_by_hop, make_request_headers
from fairlead.server.proxy.http import ProxyConfig, broke_off, not_answered, read_answer_headers, write_request
from fairlead.server.proxy.targets import Target

LARGEST_MESSAGE = 64 * 1024 * 1024
NORMAL, TOO_LARGE, BROKEN, REFUSED = 1000, 1009, 1011, 1008
UNSENT = {1005: NORMAL, 1006: BROKEN, 1015: BROKEN}  # codes that only say that there was none
OF_THE_HANDSHAKE = (b"sec-websocket-accept", b"sec-websocket-protocol", b"sec-websocket-extensions", b"content-length")


async def converse(
    proxy_config: ProxyConfig, target: Target, endpoint: Endpoint, use: AccessRenewal, *, scope: Scope, receive: Receive, send: Send
) -> None:
    """Connect a WebSocket to a run, and pass on messages until one of them ends it. Raise where the run does not."""
    await receive()  # that it wants to be connected
    key = base64.b64encode(secrets.token_bytes(16))
    upgrade = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket"), (b"sec-websocket-version", b"13")]
    offered = [(b"sec-websocket-protocol", ", ".join(scope["subprotocols"]).encode("latin-1"))]
    headers = [*make_request_headers(scope, target, endpoint), *upgrade, (b"sec-websocket-key", key)]
    request = write_request("GET", headers + (offered if scope["subprotocols"] else []), target, endpoint)
    async with proxy_config.connections.to(target.run_id, endpoint, fresh=True) as connection:
        head: h11.Response | h11.InformationalResponse | None = None
        try:
            with anyio.move_on_after(proxy_config.response_timeout_seconds):
                await connection.send(request)
                await connection.send(h11.EndOfMessage())
                head = await connection.receive_head()
            if head is None:
                raise not_answered(target.run_id, proxy_config.response_timeout_seconds)
            headers = read_answer_headers(head, target, endpoint)
            if isinstance(head, h11.Response):
                await _refuse(connection, head.status_code, headers, send)
                return
            if dict(headers).get(b"sec-websocket-accept") != generate_accept_token(key):
                raise UpstreamError("it does not speak of WebSockets as it should")
        except (UpstreamError, OSError) as error:
            raise broke_off(target.run_id, error) from error
        protocol = dict(headers).get(b"sec-websocket-protocol")
        kept = [pair for pair in drop_hop_by_hop(headers) if pair[0] not in OF_THE_HANDSHAKE]
        accepted = {"subprotocol": None if protocol is None else protocol.decode("latin-1"), "headers": kept}
        await send({"type": "websocket.accept", **accepted})
        await _Conversation(connection, use, receive, send).run()


async def _refuse(connection: RunConnection, status: int, headers: Any, send: Send) -> None:
    """Pass on that a run wants no WebSocket, with its words."""
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    while isinstance(event := await connection.receive(), h11.Data):
        await send({"type": "websocket.http.response.body", "body": bytes(event.data), "more_body": True})
    await send({"type": "websocket.http.response.body", "body": b"", "more_body": False})


class _Conversation:
    """A WebSocket that both sides have agreed to."""

    def __init__(self, connection: RunConnection, use: AccessRenewal, receive: Receive, send: Send) -> None:
        self.connection, self.use, self.receive, self.send = connection, use, receive, send
        self.frames = Frames(ConnectionType.CLIENT, trailing_data=connection.http.trailing_data[0])
        self.pieces = bytearray()
        self.is_over = False  # to the caller
        self.writing = anyio.Lock()  # both ways write: messages on one, what answers pings on the other

    async def run(self) -> None:
        """Pass on messages, either way, until one side ends it."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, tasks)
            try:
                await self._bring(tasks)
            except (UpstreamError, OSError, LocalProtocolError):
                await self._end(BROKEN, "the run broke off")
            tasks.cancel_scope.cancel()
        if self.use.refused is not None:
            await self._end(REFUSED, "this may not be used any more")

    async def _listen(self, tasks: TaskGroup) -> None:
        """Pass on what the caller says."""
        while True:
            said = await self.receive()
            try:
                if said["type"] == "websocket.disconnect":
                    self.is_over = True
                    code, reason = int(said.get("code") or NORMAL), said.get("reason") or None
                    await self._say(CloseConnection(code=UNSENT.get(code, code), reason=reason))
                    tasks.cancel_scope.cancel()
                    return
                text, content = said.get("text"), said.get("bytes")
                await self._say(Message(data=text if text is not None else content or b""))
            except (OSError, LocalProtocolError):
                return  # whoever brings what the run says finds out why
            self.use.go_on(tasks)

    async def _bring(self, tasks: TaskGroup) -> None:
        """Pass on what the run says, message by message."""
        while True:
            for event in self.frames.events():
                if isinstance(event, TextMessage | BytesMessage):
                    if not await self._gather(event):
                        return
                    self.use.go_on(tasks)
                elif isinstance(event, Ping):
                    await self._say(event.response())
                elif isinstance(event, CloseConnection):
                    await self._end(UNSENT.get(event.code, event.code), event.reason or "")
                    await self._say(event.response())
                    return
            data = await self.connection.read()
            if not data:
                raise UpstreamError("it closed the connection")
            self.frames.receive_data(data)

    async def _gather(self, event: TextMessage | BytesMessage) -> bool:
        """Pass on a message once all of it is there; False where it is too large."""
        is_text = isinstance(event, TextMessage)
        self.pieces += event.data.encode() if isinstance(event, TextMessage) else event.data
        if len(self.pieces) > LARGEST_MESSAGE:
            await self._end(TOO_LARGE, f"a message has more than {LARGEST_MESSAGE:,} bytes")
            return False
        if event.message_finished:
            whole, self.pieces = bytes(self.pieces), bytearray()
            said: dict[str, Any] = {"text": whole.decode()} if is_text else {"bytes": whole}
            await self.send({"type": "websocket.send", **said})
        return True

    async def _say(self, event: Event) -> None:
        async with self.writing:
            await self.connection.line.write(self.frames.send(event))

    async def _end(self, code: int, reason: str) -> None:
        """Tell the caller that it is over, once."""
        if not self.is_over:
            self.is_over = True
            with contextlib.suppress(OSError):  # who has gone away hears nothing
                await self.send({"type": "websocket.close", "code": code, "reason": reason})
