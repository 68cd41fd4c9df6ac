"""Runs a trivial job with Ray and prints the results as JSON. Runs in Ray's environment.

ray_driver URL wait COUNT            seconds of each job, one after the other
ray_driver URL many COUNT SECONDS    all at once: the number of completed runs, and the seconds
"""

import json
import sys
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

from ray.job_submission import JobStatus, JobSubmissionClient  # type: ignore[import-not-found]

ENTRYPOINT = "python -c 'print(1+1)'"
POLL_SECONDS = 0.05
CHECK_SECONDS = 0.2
REST_SECONDS = 2
TIMEOUT_SECONDS = 60
CLIENTS = 8


def main() -> None:
    client, mode, count = JobSubmissionClient(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if mode == "many":
        results: object = _run_many(client, count, float(sys.argv[4]))
    else:
        _time_job(client)  # warm up
        results = [_time_job(client) for _ in range(count)]
    print(json.dumps(results))


def _time_job(client: JobSubmissionClient) -> float:
    started = time.perf_counter()
    job = client.submit_job(entrypoint=ENTRYPOINT)
    while not (status := client.get_job_status(job)).is_terminal():
        assert time.perf_counter() - started < TIMEOUT_SECONDS, status
        time.sleep(POLL_SECONDS)
    seconds = time.perf_counter() - started
    assert status == JobStatus.SUCCEEDED, status
    return seconds


def _run_many(client: JobSubmissionClient, count: int, limit_seconds: float) -> dict[str, float]:
    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        submits = [pool.submit(client.submit_job, entrypoint=ENTRYPOINT) for _ in range(count)]
        # Poll one job after the other: listing all of them takes Ray 100 ms or more, during which it runs nothing.
        waiting = deque(submits)
        while waiting and time.perf_counter() - started < limit_seconds:
            if waiting[0].done() and client.get_job_status(waiting[0].result()).is_terminal():
                waiting.popleft()
            else:
                time.sleep(CHECK_SECONDS)
        seconds = time.perf_counter() - started
        statuses = list(_statuses(client, submits).values())
        for submit in submits:
            submit.cancel()
    left = _stop(client, submits, limit_seconds)
    finished = statuses.count(JobStatus.SUCCEEDED)
    failed = sum(status.is_terminal() for status in statuses) - finished
    return {"finished": finished, "failed": failed, "seconds": seconds, "left": left}


def _statuses(client: JobSubmissionClient, submits: list[Future[str]]) -> dict[str, JobStatus]:
    jobs = {submit.result() for submit in submits if submit.done() and not submit.cancelled()}
    return {job.submission_id: job.status for job in client.list_jobs() if job.submission_id in jobs}


def _stop(client: JobSubmissionClient, submits: list[Future[str]], timeout_seconds: float) -> int:
    """Stop all jobs; return how many did not end in time. Ray starts a pending job before it stops it."""
    until = time.perf_counter() + timeout_seconds
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client.stop_job, _active_jobs(client, submits)))
    while (left := _active_jobs(client, submits)) and time.perf_counter() < until:
        time.sleep(REST_SECONDS)
    return len(left)


def _active_jobs(client: JobSubmissionClient, submits: list[Future[str]]) -> list[str]:
    return [job for job, status in _statuses(client, submits).items() if not status.is_terminal()]


if __name__ == "__main__":
    main()
