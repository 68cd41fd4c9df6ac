"""What the web page costs whoever opens it: bytes that are sent, and the time until its table can be used.

A real browser on a real server, both on this machine. Sizes are what travels, compressed as the server sends it. Times
are medians of several openings in browsers that have nothing of it yet, and once more with what they then kept; the
table is usable when a row of it can be clicked. Ratios are of one run.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Request, sync_playwright

from tests.processes.machines import Launcher, Machine
from tests.ui import chromium
from tests.ui.browsing import ARGUMENTS, LAPTOP
from tests.ui.sites import Site

FEW, MANY = 10, 1000
OPENINGS = 7
GOAL_KB = 300
PATH = "/compute-resources"
FIRST_ROW = "tbody td[data-first] a"


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
            site.make_resources(FEW, prefix="few")
            took = {FEW: _measure_openings(browser, site)}
            site.make_resources(MANY - FEW)
            took[MANY] = _measure_openings(browser, site)
        finally:
            browser.close()
            site.close()
            launcher.close()
    for rows, (first, again) in took.items():
        print(
            f"table of {rows:>5,}  first {first * 1000:5.0f} ms  x {first / took[FEW][0]:.2f}"
            f"   again {again * 1000:5.0f} ms  x {again / took[FEW][1]:.2f}"
        )


def _open(browser: Browser, site: Site) -> BrowserContext:
    context = browser.new_context(base_url=site.url, viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    answer = context.request.post("/api/v1/sessions", data={"token": site.token})
    assert answer.status == 204, answer.text()
    return context


def _measure_sizes(browser: Browser, site: Site) -> dict[str, int]:
    """What is sent for the first page, by kind of file."""
    context = _open(browser, site)
    page = context.new_page()
    sizes: dict[str, int] = {}

    def note(request: Request) -> None:
        if "/api/" not in request.url:
            sent = request.sizes()["responseBodySize"]
            sizes[request.resource_type] = sizes.get(request.resource_type, 0) + sent

    page.on("requestfinished", note)
    page.goto(PATH)
    page.get_by_text("No compute resources yet").wait_for()
    page.wait_for_load_state("networkidle")
    context.close()
    return sizes


def _print_sizes(sizes: dict[str, int]) -> None:
    total = sum(sizes.values()) / 1000
    for kind, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"{kind:<12} {size / 1000:7.1f} kB  {size / 10 / total:4.0f}%")
    print(f"{'first page':<12} {total:7.1f} kB  goal {GOAL_KB} kB {'met' if total < GOAL_KB else 'MISSED'}")


def _measure_openings(browser: Browser, site: Site) -> tuple[float, float]:
    """Seconds until a row can be clicked: with nothing kept, and with what was."""
    firsts, agains = [], []
    for _ in range(OPENINGS):
        context = _open(browser, site)
        firsts.append(_time_opening(context))
        agains.append(_time_opening(context))
        context.close()
    return statistics.median(firsts), statistics.median(agains)


def _time_opening(context: BrowserContext) -> float:
    page = context.new_page()
    started = time.perf_counter()
    page.goto(PATH, wait_until="commit")
    page.locator(FIRST_ROW).first.click(trial=True)
    took = time.perf_counter() - started
    page.close()
    return took


if __name__ == "__main__":
    main()
