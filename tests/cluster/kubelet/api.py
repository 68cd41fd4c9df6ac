"""The fake kubelet's API client. Like a real kubelet, it retries during outages."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2

from tests.cluster.clients import STRATEGIC, ApiError, Object, make_context

RETRY_SECONDS = 0.1
TEMPORARY_ERRORS = (429, 500, 502, 503, 504)


class Api:
    """An API server client for one event loop."""

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
        self._pending: set[asyncio.Task[httpx2.Response]] = set()

    async def close(self) -> None:
        """Close the connections after all pending requests have completed."""
        await asyncio.gather(*self._pending, return_exceptions=True)
        await self._http.aclose()

    async def request(
        self, method: str, path: str, body: Object | None = None, kind: str = "json", **params: Any
    ) -> Any:
        """Send a request and return the response. Raises ApiError on a permanent error."""
        headers, content = {"Content-Type": f"application/{kind}"}, None if body is None else json.dumps(body)
        while True:
            try:
                response = await self._send(method, path, params=params, headers=headers, content=content)
            except httpx2.TransportError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if response.is_success:
                return response.json()
            if response.status_code not in TEMPORARY_ERRORS:
                raise ApiError(response)
            await asyncio.sleep(RETRY_SECONDS)

    async def find(self, path: str) -> Any:
        """Get an object, or None if it does not exist."""
        try:
            return await self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def report(self, pod: Object, status: Object) -> bool:
        """Update a pod's status. Return False if the pod no longer exists."""
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        try:
            await self.request("PATCH", f"{pod_path(pod)}/status", body, STRATEGIC)
        except ApiError as error:
            if error.status in (404, 409, 422):
                return False
            raise
        return True

    async def watch(self, path: str, **params: Any) -> AsyncIterator[tuple[str, Any]]:
        """Yield ("LISTED", all objects), then each change. Lists again after a lost watch. Never ends."""
        while True:
            try:
                listed = await self.request("GET", path, **params)
                yield "LISTED", listed["items"]
                watch_params = {**params, "watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
                timeout = httpx2.Timeout(30, read=None)
                async with self._http.stream("GET", path, params=watch_params, timeout=timeout) as response:
                    if response.is_success:
                        async for line in response.aiter_lines():
                            event = json.loads(line)
                            if event["type"] == "ERROR":
                                break
                            yield event["type"], event["object"]
            except (httpx2.TransportError, json.JSONDecodeError, ApiError):
                pass  # including 410 Gone: the next list has everything
            await asyncio.sleep(RETRY_SECONDS)

    async def _send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Read a response to the end even if the caller was canceled: aborting would leak a connection."""
        task = asyncio.create_task(self._http.request(method, path, **options))
        self._pending.add(task)
        task.add_done_callback(self._discard_pending)
        return await asyncio.shield(task)

    def _discard_pending(self, task: asyncio.Task[httpx2.Response]) -> None:
        self._pending.discard(task)
        if not task.cancelled():
            task.exception()  # retrieve the exception; otherwise asyncio logs a warning


def pod_path(pod: Object) -> str:
    """The path of a pod."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
