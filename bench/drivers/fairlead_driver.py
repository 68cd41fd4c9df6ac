"""Runs a trivial function with Fairlead and prints the results as JSON.

fairlead_driver wait COUNT            seconds of each run, one after the other
fairlead_driver many COUNT SECONDS    all at once: the number of completed runs, and the seconds
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fairlead as fl
from fairlead.sdk.functions import Function
from fairlead.sdk.runs import Run

SOURCE = Path(__file__).with_name("fairlead_function.py")
CLIENTS = 8
CHECK_SECONDS = 0.2


def main() -> None:
    mode, count = sys.argv[1], int(sys.argv[2])
    function = fl.project("bench").function("tiny", source=str(SOURCE), handler="main")
    if mode == "many":
        results: object = _run_many(function, count, float(sys.argv[3]))
    else:
        _time_run(function)  # warm up
        results = [_time_run(function) for _ in range(count)]
    print(json.dumps(results))


def _time_run(function: Function) -> float:
    started = time.perf_counter()
    run = function.run()
    run.wait(progress=False)
    seconds = time.perf_counter() - started
    assert run.result == 2, run
    return seconds


def _run_many(function: Function, count: int, limit_seconds: float) -> dict[str, float]:
    project = fl.project("bench")
    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        runs: list[Run] = list(pool.map(lambda _: function.run(), range(count)))
    until = started + limit_seconds
    while len(project.runs(limit=1, active="true")) and time.perf_counter() < until:
        time.sleep(CHECK_SECONDS)
    seconds = time.perf_counter() - started
    states = [run.state for run in runs]
    for run in runs:
        run.stop()
    return {"finished": states.count("completed"), "failed": states.count("failed"), "seconds": seconds}  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
