"""ASGI middleware that forwards requests and WebSockets to runs after checking access."""

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from anyio import CapacityLimiter
from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlead.errors import FairleadError, NotFound, Unauthenticated
from fairlead.ports import MakeId
from fairlead.server.http.middleware import (
    CLIENT_CLOSED,
    AccessLog,
    Metrics,
    add_headers,
    client_address,
    read_request_id,
)
from fairlead.server.http.problem_details import Problem, render_unknown
from fairlead.server.proxy import sign_in
from fairlead.server.proxy.headers import Target, find_header
from fairlead.server.proxy.http import ProxyConfig, proxy_http
from fairlead.server.proxy.sign_in import AccessRenewal
from fairlead.server.proxy.websockets import proxy_websocket
from fairlead.services.registry import Services
from fairlead.services.runs.serving import RUN_ID, ServedHosts
from fairlead.services.transactions.unit_of_work import Call

SERVED = b"/served/"
ROUTE = "/served/{run_id}/{path}"  # all runs share one route in metrics
RESPONSE_STARTS = ("http.response.start", "websocket.http.response.start", "websocket.accept")
THREADS = 8  # for checking access and finding endpoints, which may wait for a cluster


class Proxy:
    """Forwards requests for runs; all others go to the application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        services: Services,
        hosts: ServedHosts,
        proxy_config: ProxyConfig,
        metrics: Metrics,
        make_id: MakeId,
    ) -> None:
        self.app, self.services, self.hosts, self.proxy_config = app, services, hosts, proxy_config
        self.metrics, self.make_id = metrics, make_id
        self.limiter = CapacityLimiter(THREADS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = _find_target(scope, self.hosts) if scope["type"] in ("http", "websocket") else None
        if target is None:
            await self.app(scope, receive, send)
            return
        scope["request_id"] = request_id = read_request_id(scope) or self.make_id()
        method, address = scope.get("method", "WEBSOCKET"), client_address(scope)
        entry = AccessLog(request_id, method, scope["path"], address, ROUTE, CLIENT_CLOSED, target.run_id)
        responded = False

        async def send_tracked(message: Message) -> None:
            nonlocal responded
            if message["type"] in RESPONSE_STARTS:
                responded, entry.status = True, message.get("status", 101)
                # The server's security headers are not added, because a run sets the policies for its own pages.
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        with self.metrics.record(entry):
            try:
                response = await self._forward(target, scope, receive, send_tracked)
            except FairleadError as error:
                response = sign_in.render_error(error, scope, target, self.hosts)
            except OSError:  # raised by a WebSocket whose client has disconnected
                return
            except Exception as error:
                response = render_unknown(request_id, scope["path"], error)
            if response is not None and not responded:
                entry.status = response.status_code
                response.raw_headers = add_headers(response.raw_headers, request_id)
                await response(scope, receive, send)

    async def _forward(self, target: Target, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """Forward a request to its run. Returns a response if the server responds itself."""
        call = Call(address=client_address(scope), request_id=scope["request_id"])
        if target.is_own_host and f"{scope['path']}/".startswith(sign_in.RESERVED_PATH):
            return await self._sign_in(call, target, scope)
        # This is a function, because the check is repeated during long requests.
        authorize: Any = partial(self._run_in_thread, self.services.serving.authorize)
        if target.is_own_host:
            sign_in.reject_cross_site(scope, target, self.hosts)
            authorize = partial(authorize, call, target.run_id, sign_in.read_session_cookie(scope, self.hosts))
        else:
            authorize = partial(authorize, Call(read_bearer(scope), call.address, call.request_id), target.run_id)
        access = await authorize()
        forward = proxy_websocket if scope["type"] == "websocket" else proxy_http
        renewal = AccessRenewal(authorize, self.proxy_config.renewal_interval_seconds)
        await forward(self.proxy_config, target, access.endpoint, renewal, scope=scope, receive=receive, send=send)
        return None

    async def _sign_in(self, call: Call, target: Target, scope: Scope) -> Response:
        """Start signing a browser in, or exchange its one-time code for a session cookie."""
        if scope["path"] not in (sign_in.START_PATH, sign_in.SIGN_IN_PATH):
            raise NotFound(f"no such path: {scope['path'][:200]}")
        if scope.get("method") == "HEAD":
            return Response(status_code=204)  # link previews send HEAD and must not use up the code
        if scope.get("method") != "GET":
            raise Problem(405, "method", "only GET is allowed here", "open the URL in a browser")
        if scope["path"] == sign_in.START_PATH:
            return sign_in.begin_sign_in(scope, target, self.hosts)
        code, nonce = sign_in.read_parameter(scope, "code"), sign_in.read_nonce(scope, self.hosts)
        cookie = await self._run_in_thread(self.services.serving.redeem_code, call, target.run_id, code, nonce)
        return sign_in.start_session(cookie, self.hosts)

    async def _run_in_thread(self, use_case: Callable[..., Any], *args: Any) -> Any:
        return await anyio.to_thread.run_sync(lambda: use_case(*args), limiter=self.limiter)


def read_bearer(scope: Scope) -> str:
    """The bearer token of a request.

    Cookies are not accepted, because a run's page under /served could send requests as the user who opens it.
    """
    kind, _, token = (find_header(scope, b"authorization") or "").partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        hint = "send Authorization: Bearer <token>; in a browser, open the run from its page"
        raise Unauthenticated("no token was sent, and cookies are not accepted here", hint)
    return token.strip()


def _find_target(scope: Scope, hosts: ServedHosts) -> Target | None:
    """The run that a request is for, or None if it is for the server itself."""
    host_headers = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    path, query = scope.get("raw_path") or scope["path"].encode(), scope["query_string"]
    # The host takes precedence: on a run's own host, all paths belong to the run, including /served.
    for host in host_headers:
        if (run_id := hosts.find_run(host)) is not None:
            return Target(run_id, path, query, host)
    if not path.startswith(SERVED):
        return None
    run_id, _, rest = path.removeprefix(SERVED).decode("latin-1").partition("/")
    if not RUN_ID.fullmatch(run_id):
        return None
    run_path = b"/" + rest.encode("latin-1")
    return Target(run_id, run_path, query, host_headers[0] if host_headers else "", f"{SERVED.decode()}{run_id}")
