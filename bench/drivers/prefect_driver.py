"""Asks Prefect to run the trivial flow, and prints how that went as JSON. Runs in Prefect's environment.

prefect_driver deployed COUNT            seconds of each run in a process of its own, one after the other
prefect_driver within COUNT              seconds of each run within this process
prefect_driver many COUNT SECONDS        all at once: how many were done, and when
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Any, TypeVar

from prefect import get_client  # type: ignore[import-not-found]
from prefect.client.schemas.filters import FlowRunFilter  # type: ignore[import-not-found]
from prefect.deployments import run_deployment  # type: ignore[import-not-found]
from prefect.exceptions import PrefectHTTPStatusError  # type: ignore[import-not-found]

from bench.drivers.prefect_flow import tiny

POLL_SECONDS = 0.05
LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 60
CLIENTS = 8
T = TypeVar("T")
TAG = "many"
ENDED = ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"]


def main() -> None:
    way, count = sys.argv[1], int(sys.argv[2])
    if way == "many":
        told: object = asyncio.run(_many(count, float(sys.argv[3])))
    else:
        run = {"deployed": _deployed, "within": _within}[way]
        run()  # the first pays for what the others find ready
        told = [_seconds(run) for _ in range(count)]
    print(json.dumps(told))


def _seconds(run: Any) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _deployed() -> None:
    ended = run_deployment("tiny/tiny", timeout=PATIENCE_SECONDS, poll_interval=POLL_SECONDS)
    assert ended.state.is_completed(), ended.state


def _within() -> None:
    assert tiny() == 2


async def _many(count: int, limit_seconds: float) -> dict[str, float]:
    gate, refused, ended = asyncio.Semaphore(CLIENTS), 0, 0
    async with get_client() as client:
        deployment = (await client.read_deployment_by_name("tiny/tiny")).id

        async def submit() -> None:
            nonlocal refused
            async with gate:
                while (await _unless_busy(client.create_flow_run_from_deployment(deployment, tags=[TAG]))) is None:
                    refused += 1

        started = time.perf_counter()
        submits = asyncio.gather(*(submit() for _ in range(count)))
        while ended < count and time.perf_counter() - started < limit_seconds:
            await asyncio.sleep(LOOK_SECONDS)
            ended = await _count(client, ENDED) or ended
            if submits.done():
                submits.result()  # raises where one did
        seconds = time.perf_counter() - started
        submits.cancel()
        while (finished := await _count(client, ["COMPLETED"])) is None:
            pass  # its client has waited
    return {"finished": finished, "failed": max(ended - finished, 0), "seconds": seconds, "refused": refused}


async def _count(client: Any, states: list[str]) -> int | None:
    runs = FlowRunFilter(tags={"all_": [TAG]}, state={"type": {"any_": states}})
    return await _unless_busy(client.count_flow_runs(flow_run_filter=runs))


async def _unless_busy(answer: Awaitable[T]) -> T | None:
    """The answer; none where SQLite was locked by others all the time that Prefect's client tried, five times."""
    try:
        return await answer
    except PrefectHTTPStatusError as error:
        if error.response.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return None


if __name__ == "__main__":
    main()
