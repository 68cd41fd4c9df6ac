"""Runs the trivial flow with Prefect and prints the results as JSON. Runs in Prefect's environment.

prefect_driver deployed COUNT            seconds of each run in its own process, one after the other
prefect_driver within COUNT              seconds of each run in this process
prefect_driver many COUNT SECONDS        all at once: the number of completed runs, and the seconds
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
CHECK_SECONDS = 0.5
TIMEOUT_SECONDS = 60
CLIENTS = 8
T = TypeVar("T")
TAG = "many"
ENDED = ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"]


def main() -> None:
    mode, count = sys.argv[1], int(sys.argv[2])
    if mode == "many":
        results: object = asyncio.run(_run_many(count, float(sys.argv[3])))
    else:
        run = {"deployed": _run_deployed, "within": _run_in_process}[mode]
        run()  # warm up
        results = [_time_run(run) for _ in range(count)]
    print(json.dumps(results))


def _time_run(run: Any) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _run_deployed() -> None:
    flow_run = run_deployment("tiny/tiny", timeout=TIMEOUT_SECONDS, poll_interval=POLL_SECONDS)
    assert flow_run.state.is_completed(), flow_run.state


def _run_in_process() -> None:
    assert tiny() == 2


async def _run_many(count: int, limit_seconds: float) -> dict[str, float]:
    semaphore, rejected, ended = asyncio.Semaphore(CLIENTS), 0, 0
    async with get_client() as client:
        deployment = (await client.read_deployment_by_name("tiny/tiny")).id

        async def submit() -> None:
            nonlocal rejected
            async with semaphore:
                while (await _unless_busy(client.create_flow_run_from_deployment(deployment, tags=[TAG]))) is None:
                    rejected += 1

        started = time.perf_counter()
        submits = asyncio.gather(*(submit() for _ in range(count)))
        while ended < count and time.perf_counter() - started < limit_seconds:
            await asyncio.sleep(CHECK_SECONDS)
            ended = await _count(client, ENDED) or ended
            if submits.done():
                submits.result()  # raises if a submission failed
        seconds = time.perf_counter() - started
        submits.cancel()
        while (finished := await _count(client, ["COMPLETED"])) is None:
            pass  # the client waits between attempts
    return {"finished": finished, "failed": max(ended - finished, 0), "seconds": seconds, "rejected": rejected}


async def _count(client: Any, states: list[str]) -> int | None:
    runs = FlowRunFilter(tags={"all_": [TAG]}, state={"type": {"any_": states}})
    return await _unless_busy(client.count_flow_runs(flow_run_filter=runs))


async def _unless_busy(response: Awaitable[T]) -> T | None:
    """Return the response; None if SQLite was locked during all five attempts of Prefect's client."""
    try:
        return await response
    except PrefectHTTPStatusError as error:
        if error.response.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return None


if __name__ == "__main__":
    main()
