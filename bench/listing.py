"""Measures pages of 50 runs in lists of 10,000 and 1,000,000 runs, over HTTP, with SQLite and PostgreSQL.

All servers run at the same time and all cases take turns, so that other processes on the machine disturb all of them
alike. Each figure is the median of the least disturbed of several rounds, with one connection. The last columns are the
ratios of the long list to the short one in the same run.
"""

import json
import time
from collections.abc import Mapping
from statistics import median

from bench.http_load import MakeRequest, fetch, send_load, write_request
from bench.seed_database import VIEWER, fill_with_runs
from bench.sites import Site, running_sites

SIZES = SHORT, LONG = 10_000, 1_000_000
DATABASES = ("SQLite", "PostgreSQL")
ROUNDS = 3
CASE_SECONDS = 0.25
GOAL_SECONDS = 0.010
DEPTH = 5000  # runs before the page of the case `page 101`
LIST = "/api/v1/runs"
PROJECT_LIST = "/api/v1/projects/lab-7/runs"
CASES: Mapping[str, str] = {
    "list": LIST,
    "page 101": f"{LIST}?cursor=",
    "by function": f"{LIST}?sort=function",
    "by state": f"{LIST}?sort=state",
    "filter, nearly all": f"{LIST}?state=completed",
    "filter, 1 in 1,000": f"{LIST}?state=failed",
    "filter, none": f"{LIST}?active=true",
    "part of a name, 1 in 20": f"{LIST}?function=train-7",
    "compute resource, 1 in 50": f"{LIST}?compute_resource=gpu-7",
    "compute resource, none": f"{LIST}?compute_resource=nowhere",
    "one project of 200": PROJECT_LIST,
    "project, filter": f"{PROJECT_LIST}?state=failed",
    "search, found often": f"{LIST}?search=train",
    "search, found nowhere": f"{LIST}?search=nowhere",
    "viewer of few": LIST,
    "total": f"{LIST}?total=true",
}


def main() -> None:
    """Measure and print."""
    started = time.perf_counter()
    with running_sites(SIZES, fill_with_runs) as sites:
        print(f"{time.perf_counter() - started:.0f} s to fill the databases")
        seconds = _measure(sites)
    print(f"\n{'milliseconds':28}{'SQLite':>22}{'PostgreSQL':>22}{'ratio':>9}")
    print(f"{'':28}" + 2 * f"{SHORT:>11,}{LONG:>11,}" + f"{'SQLite':>9}{'PostgreSQL':>12}")
    for case in CASES:
        times = {key: min(seconds[case, *key]) for key in ((kind, size) for kind in DATABASES for size in SIZES)}
        ratios = [times[kind, LONG] / times[kind, SHORT] for kind in DATABASES]
        met = all(times[kind, LONG] < GOAL_SECONDS for kind in DATABASES)
        shown = "".join(f"{value * 1000:11.2f}" for value in times.values())
        print(f"{case:28}{shown}{ratios[0]:9.2f}{ratios[1]:12.2f}  {'' if met else 'MISSED'}")
    print(f"goal: a page of {LONG:,} runs in under {GOAL_SECONDS * 1000:.0f} ms")
    print(f"{time.perf_counter() - started:.0f} s in total")


def _measure(sites: list[Site]) -> dict[tuple[str, str, int], list[float]]:
    requests = {
        (case, site.database, site.rows): (site.port, _make_request(site, case, path))
        for case, path in CASES.items()
        for site in sites
    }
    seconds: dict[tuple[str, str, int], list[float]] = {key: [] for key in requests}
    for _ in range(ROUNDS):
        for key, (port, make_request) in requests.items():
            burst = send_load(port, make_request, connections=1, seconds=CASE_SECONDS)
            seconds[key].append(median(burst.latencies))
    return seconds


def _make_request(site: Site, case: str, path: str) -> MakeRequest:
    token = VIEWER if case == "viewer of few" else site.token
    if path.endswith("cursor="):
        path += _cursor(site)
    request = write_request("GET", path, token)
    return lambda: request


def _cursor(site: Site) -> str:
    cursor = ""
    for _ in range(DEPTH // 500):
        path = f"{LIST}?limit=500" + (f"&cursor={cursor}" if cursor else "")
        cursor = json.loads(fetch(site.port, write_request("GET", path, site.token)))["next_cursor"]
    return cursor


if __name__ == "__main__":
    main()
