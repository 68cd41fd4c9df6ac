"""Measures the web UI: transferred bytes, time until tables are usable, and scrolling.

A real browser and a real server run on this machine. Sizes are of compressed responses. Times are medians of several
loads with an empty cache, each followed by a load with a warm cache; a table is usable when a row can be clicked. Each
step of scrolling through all loaded rows draws one frame, which takes 17 ms at 60 frames per second. Ratios compare
figures from the same run.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from fairlead.model.records import RunRecord
from tests.processes.machines import Launcher, Machine
from tests.ui import chromium
from tests.ui.browsing import ARGUMENTS, LAPTOP
from tests.ui.running import submit_like, wait_for_end
from tests.ui.sites import Site

OPENINGS = 7
GOAL_KB = 300
FIRST_ROW = "tbody td[data-first] a"
LINES = 50_000
STEPS = 120
SCROLL = """async ([selector, steps]) => {
    const frame = document.querySelector(selector);
    const times = [];
    let before = await new Promise(requestAnimationFrame);
    for (let step = 1; step <= steps; step++) {
        frame.scrollTop = (frame.scrollHeight - frame.clientHeight) * step / steps;
        const now = await new Promise(requestAnimationFrame);
        times.push(now - before);
        before = now;
    }
    return times;
}"""


class Table(NamedTuple):
    """A table that is measured with few and with many rows."""

    path: str
    few: int
    many: int


RESOURCES = Table("/compute-resources", 10, 1000)
RUNS = Table("/runs", 10, 10_000)
SLEEPER = {"function": {"name": "sleeper", "command": ["true"]}, "resources": {"mem": "16Mi"}}
WRITER = {
    "function": {"name": "writer", "command": ["bash", "-c", f"seq -f 'line %.0f of a long log' {LINES}"]},
    "resources": {"mem": "64Mi"},
}


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder, sync_playwright() as playwright:
        launcher = Launcher(Path(folder))
        (home := Path(folder) / "site").mkdir()
        site = Site(Machine(home, launcher))
        browser = playwright.chromium.launch(
            executable_path=chromium.find(), args=ARGUMENTS, chromium_sandbox=os.geteuid() != 0
        )
        try:
            _print_sizes(_measure_sizes(browser, site))
            site.make_resources(RESOURCES.few, prefix="few")
            first = _measure_openings(browser, site, RESOURCES)
            site.make_resources(RESOURCES.many - RESOURCES.few)
            _print_openings(RESOURCES, first, _measure_openings(browser, site, RESOURCES))
            writer_id = wait_for_end(site, submit_like(site, WRITER))["id"]
            for _ in range(RUNS.few - 1):
                wait_for_end(site, submit_like(site, SLEEPER))
            first = _measure_openings(browser, site, RUNS)
            site.multiply(RunRecord, RUNS.many - RUNS.few)
            _print_openings(RUNS, first, _measure_openings(browser, site, RUNS))
            _measure_scrolling(browser, site, writer_id)
        finally:
            browser.close()
            site.close()
            launcher.close()


def _open(browser: Browser, site: Site) -> BrowserContext:
    context = browser.new_context(base_url=site.url, viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    response = context.request.post("/api/v1/sessions", data={"token": site.token})
    assert response.status == 204, response.text()
    return context


def _measure_sizes(browser: Browser, site: Site) -> dict[str, int]:
    """Return the bytes transferred for the first page, by resource type."""
    context = _open(browser, site)
    page = context.new_page()
    sizes: dict[str, int] = {}

    def record_size(request: Request) -> None:
        if "/api/" not in request.url:
            sent = request.sizes()["responseBodySize"]
            sizes[request.resource_type] = sizes.get(request.resource_type, 0) + sent

    page.on("requestfinished", record_size)
    page.goto("/")
    page.get_by_role("heading", name="Runs", level=1).wait_for()
    page.get_by_role("status").filter(has_text="0 runs").wait_for()
    context.close()
    return sizes


def _print_sizes(sizes: dict[str, int]) -> None:
    total = sum(sizes.values()) / 1000
    for kind, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"{kind:<12} {size / 1000:7.1f} kB  {size / 10 / total:4.0f}%")
    print(f"{'first page':<12} {total:7.1f} kB  goal {GOAL_KB} kB {'met' if total < GOAL_KB else 'MISSED'}")


def _measure_openings(browser: Browser, site: Site, table: Table) -> tuple[float, float]:
    """Return the median seconds until a row can be clicked, with an empty and with a warm cache."""
    cold, warm = [], []
    for _ in range(OPENINGS):
        context = _open(browser, site)
        cold.append(_time_opening(context, table))
        warm.append(_time_opening(context, table))
        context.close()
    return statistics.median(cold), statistics.median(warm)


def _time_opening(context: BrowserContext, table: Table) -> float:
    page = context.new_page()
    started = time.perf_counter()
    page.goto(table.path, wait_until="commit")
    page.locator(FIRST_ROW).first.click(trial=True)
    seconds = time.perf_counter() - started
    page.close()
    return seconds


def _print_openings(table: Table, few: tuple[float, float], many: tuple[float, float]) -> None:
    for rows, (cold, warm) in ((table.few, few), (table.many, many)):
        print(
            f"{table.path:<20} {rows:>6,} rows  first {cold * 1000:5.0f} ms  x {cold / few[0]:.2f}"
            f"   again {warm * 1000:5.0f} ms  x {warm / few[1]:.2f}"
        )


def _measure_scrolling(browser: Browser, site: Site, run_id: str) -> None:
    """Measure the duration of frames in the table of runs and in a long log."""
    context = _open(browser, site)
    page = context.new_page()
    page.goto(RUNS.path)
    page.locator(FIRST_ROW).first.click(trial=True)
    _print_frames("table of runs", page, "section[aria-label=Runs]")
    started = time.perf_counter()
    page.goto(f"/runs/{run_id}/logs")
    page.get_by_text(f"line {LINES} of a long log", exact=True).wait_for()
    print(f"{f'log of {LINES:,} lines':<24} last line visible after {(time.perf_counter() - started) * 1000:5.0f} ms")
    _print_frames("log", page, "[role=log]")
    context.close()


def _print_frames(name: str, page: Page, selector: str) -> None:
    frames = sorted(page.evaluate(SCROLL, [selector, STEPS]))
    worst = frames[int(len(frames) * 0.95)]
    print(f"{'scrolling the ' + name:<24} frame {statistics.median(frames):4.0f} ms, 95% below {worst:4.0f} ms")


if __name__ == "__main__":
    main()
