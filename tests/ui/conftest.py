"""Fixtures for real browsers and real servers: a signed-in `page`, and its `site`."""

import contextlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from tests.processes.machines import Launcher, Machine
from tests.ui import chromium
from tests.ui.browsing import ARGUMENTS, TIMEOUT_MS, BrowserErrors, Browsing, save_failure_screenshot
from tests.ui.sites import Site

FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record that a test failed, so that its page can be saved."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


# Package scope instead of session scope, because nothing else in this process can use asyncio while Playwright runs.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium, for all of this worker's tests."""
    try:
        path = chromium.find()
    except chromium.Missing as missing:
        pytest.fail(str(missing), pytrace=False)
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        # Chromium's sandbox does not work as root.
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, chromium_sandbox=os.geteuid() != 0)
        yield started
        started.close()


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Site]:
    """A server shared by all of this worker's tests, so each test uses unique names."""
    opened = Site(Machine(tmp_path_factory.mktemp("site"), launcher))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def module_site(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Site]:
    """A server shared by the tests in a module, for modules that count or change global state."""
    opened = Site(Machine(tmp_path_factory.mktemp("site"), launcher))
    yield opened
    opened.close()


@pytest.fixture
def own_site(tmp_path: Path, launcher: Launcher) -> Iterator[Site]:
    """A server for a single test that needs an empty platform or stops the server."""
    opened = Site(Machine(tmp_path, launcher))
    yield opened
    opened.close()


@pytest.fixture
def browser_errors() -> Iterator[BrowserErrors]:
    """Expected browser errors: `browser_errors.expect("status of 404")`. Any other error fails the test."""
    errors = BrowserErrors()
    yield errors
    errors.check()


@pytest.fixture
def browsing(browser: Browser, browser_errors: BrowserErrors, request: pytest.FixtureRequest) -> Iterator[Browsing]:
    """Opens more pages: for other users, without a session, in dark mode or on a phone."""
    if "own_site" in request.fixturenames:  # requested first, so that browsers close before their server
        request.getfixturevalue("own_site")
    opened = Browsing(browser, browser_errors)
    yield opened
    if request.node.stash.get(FAILED, False):
        for number, page in enumerate(opened.pages):
            with contextlib.suppress(Error):  # the page itself may be unresponsive
                print("screenshot of the page:", save_failure_screenshot(page, f"{request.node.name}-{number}"))
    opened.close()


@pytest.fixture
def page(browsing: Browsing, site: Site) -> Page:
    """An empty page in a separate browser context, signed in as the site's administrator."""
    return browsing.open(site)
