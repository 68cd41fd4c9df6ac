"""The way to what runs serve, past everything else: who asks is let in or not, and the run answers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from anyio import CapacityLimiter
from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlead.errors import FairleadError, NotFound, Unauthenticated
from fairlead.ports import MakeId
from fairlead.server.middleware import AccessLog, Metrics, mark, read_address, read_request_id
from fairlead.server.problem_details import Problem, render_unknown
from fairlead.server.proxy import browser_sign_in
from fairlead.server.proxy.access_renewal import AccessRenewal
from fairlead.server.proxy.headers import find_header
from fairlead.server.proxy.http import ProxyConfig, exchange
from fairlead.server.proxy.targets import Target, find_target
from fairlead.server.proxy.websockets import converse
from fairlead.server.request_context import Services
from fairlead.services.calls import Call
from fairlead.services.serving import ServedHosts

ROUTE = "/served/{run_id}/{path}"  # the one name under which all of them are counted
BEGINNINGS = ("http.response.start", "websocket.http.response.start", "websocket.accept")
GONE = 499  # the status of what nobody waited for any more
THREADS = 8  # that ask who may speak to a run, and how: some of them wait for a cluster


class Proxy:
    """Passes on what is for a run, and lets all else through."""

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
        """Serve a request or a WebSocket."""
        target = find_target(scope, self.hosts) if scope["type"] in ("http", "websocket") else None
        if target is None:
            await self.app(scope, receive, send)
            return
        scope["request_id"] = request_id = read_request_id(scope) or self.make_id()
        method, address = scope.get("method", "WEBSOCKET"), read_address(scope)
        noted = AccessLog(request_id, method, scope["path"], address, ROUTE, GONE, target.run_id)
        answered = False

        async def send_noted(message: Message) -> None:
            nonlocal answered
            if message["type"] in BEGINNINGS:
                answered, noted.status = True, message.get("status", 101)
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        with self.metrics.noting(noted):
            try:
                answer = await self._serve(target, scope, receive, send_noted)
            except FairleadError as error:
                answer = browser_sign_in.explain(error, scope, target, self.hosts)
            except OSError:  # so says a WebSocket whose caller has gone away
                return
            except Exception as error:
                answer = render_unknown(request_id, scope["path"], error)
            if answer is not None and not answered:
                noted.status = answer.status_code
                answer.raw_headers = mark(answer.raw_headers, request_id)
                await answer(scope, receive, send)

    async def _serve(self, target: Target, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """Let a run answer; or say what the server itself answers."""
        call = Call(address=read_address(scope), request_id=scope["request_id"])
        if target.is_own_host and f"{scope['path']}/".startswith(browser_sign_in.OURS):
            return await self._enter(call, target, scope)
        admit: Any = partial(self._perform, self.services.serving.admit)
        if target.is_own_host:
            browser_sign_in.refuse_foreign(scope, target, self.hosts)
            admit = partial(admit, call, target.run_id, browser_sign_in.read_ticket(scope, self.hosts))
        else:
            admit = partial(admit, Call(read_bearer(scope), call.address, call.request_id), target.run_id)
        admitted = await admit()
        pass_on = converse if scope["type"] == "websocket" else exchange
        use = AccessRenewal(admit, self.proxy_config.renewal_interval_seconds)
        await pass_on(self.proxy_config, target, admitted.endpoint, use, scope=scope, receive=receive, send=send)
        return None

    async def _enter(self, call: Call, target: Target, scope: Scope) -> Response:
        """Let a browser in that comes with a word."""
        if scope["path"] != browser_sign_in.ENTER:
            raise NotFound(f"there is nothing at {scope['path'][:200]}")
        if scope.get("method") == "HEAD":
            return Response(status_code=204)  # whoever previews a link must not use it up
        if scope.get("method") != "GET":
            raise Problem(405, "method", "nothing but GET is done here", "open the address in a browser")
        enter = self.services.serving.enter
        ticket = await self._perform(enter, call, target.run_id, browser_sign_in.read_word(scope))
        return browser_sign_in.let_in(ticket, self.hosts)

    async def _perform(self, use_case: Callable[..., Any], *args: Any) -> Any:
        return await anyio.to_thread.run_sync(lambda: use_case(*args), limiter=self.limiter)


def read_bearer(scope: Scope) -> str:
    """The token of a request. No cookie counts: a page that a run serves here would ask as whoever reads it."""
    kind, _, token = (find_header(scope, b"authorization") or "").partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        hint = "send the header Authorization: Bearer <token>; in a browser, open the run from its page"
        raise Unauthenticated("no token was sent, and no cookie counts here", hint)
    return token.strip()
