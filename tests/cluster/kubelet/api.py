"""How the fake kubelet asks the API server: like a real one, it waits through outages."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2

from tests.cluster.clients import STRATEGIC, Object, Refused, make_context

AGAIN_SECONDS = 0.1
NOT_NOW = (429, 500, 502, 503, 504)


class Api:
    """The API server, for one event loop."""

    def __init__(self, url: str, authority: Path, token: str) -> None:
        limits = httpx2.Limits(max_connections=100, max_keepalive_connections=20)
        self._http = httpx2.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            verify=make_context(authority),
            timeout=30,
            limits=limits,
            trust_env=False,
        )
        self._asked: set[asyncio.Task[httpx2.Response]] = set()

    async def close(self) -> None:
        """Let go of the connections, once what was asked is answered."""
        await asyncio.gather(*self._asked, return_exceptions=True)
        await self._http.aclose()

    async def ask(self, method: str, path: str, body: Object | None = None, kind: str = "json", **params: Any) -> Any:
        """Send a request and return the response. Raises Refused on an error response."""
        headers, content = {"Content-Type": f"application/{kind}"}, None if body is None else json.dumps(body)
        while True:
            try:
                answer = await self._send(method, path, params=params, headers=headers, content=content)
            except httpx2.TransportError:
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if answer.is_success:
                return answer.json()
            if answer.status_code not in NOT_NOW:
                raise Refused(answer)
            await asyncio.sleep(AGAIN_SECONDS)

    async def find(self, path: str) -> Any:
        """Get an object, or None if it does not exist."""
        try:
            return await self.ask("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    async def report(self, pod: Object, status: Object) -> bool:
        """Update the status of a pod. Return False if the pod no longer exists."""
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        try:
            await self.ask("PATCH", f"{pod_path(pod)}/status", body, STRATEGIC)
        except Refused as refused:
            if refused.status in (404, 409, 422):
                return False
            raise
        return True

    async def watch(self, path: str, **params: Any) -> AsyncIterator[tuple[str, Any]]:
        """Yield ("LISTED", all objects), then each change. Lists again after a lost watch. Never ends."""
        while True:
            try:
                listed = await self.ask("GET", path, **params)
                yield "LISTED", listed["items"]
                asked = {**params, "watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
                timeout = httpx2.Timeout(30, read=None)
                async with self._http.stream("GET", path, params=asked, timeout=timeout) as answer:
                    if answer.is_success:
                        async for line in answer.aiter_lines():
                            event = json.loads(line)
                            if event["type"] == "ERROR":
                                break
                            yield event["type"], event["object"]
            except (httpx2.TransportError, json.JSONDecodeError, Refused):
                pass  # also 410 Gone: the next list has everything
            await asyncio.sleep(AGAIN_SECONDS)

    async def _send(self, method: str, path: str, **asked: Any) -> httpx2.Response:
        """Read a response to its end even if the caller was canceled: aborting would leak a connection."""
        task = asyncio.create_task(self._http.request(method, path, **asked))
        self._asked.add(task)
        task.add_done_callback(self._answered)
        return await asyncio.shield(task)

    def _answered(self, task: asyncio.Task[httpx2.Response]) -> None:
        self._asked.discard(task)
        if not task.cancelled():
            task.exception()  # retrieve the exception, or asyncio logs a warning


def pod_path(pod: Object) -> str:
    """The address of a pod."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
