"""Real browsers on real servers. What a test asks for: a `page` that is signed in, and the `site` that it is of."""

import contextlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from tests.processes.machines import Launcher, Machine
from tests.ui import chromium
from tests.ui.browsing import ARGUMENTS, PATIENCE, Browsing, Mishaps, keep_evidence
from tests.ui.sites import Site

FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember with a test that it failed, so that its page can be kept."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


# Of the package, not of the session: as long as Playwright runs, nothing else in this process can use asyncio.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium, for all tests of this worker."""
    try:
        path = chromium.find()
    except chromium.Missing as missing:
        pytest.fail(str(missing), pytrace=False)
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        # Chromium's sandbox does not work as root.
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, chromium_sandbox=os.geteuid() != 0)
        yield started
        started.close()


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Site]:
    """A server that the tests of this worker share: each uses names of its own."""
    opened = Site(Machine(tmp_path_factory.mktemp("site"), launcher))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def module_site(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Site]:
    """A server that the tests of a module share, for a module that counts or changes what all tests see."""
    opened = Site(Machine(tmp_path_factory.mktemp("site"), launcher))
    yield opened
    opened.close()


@pytest.fixture
def own_site(tmp_path: Path, launcher: Launcher) -> Iterator[Site]:
    """A server of one test alone: with nothing on it, or to be stopped."""
    opened = Site(Machine(tmp_path, launcher))
    yield opened
    opened.close()


@pytest.fixture
def mishaps() -> Iterator[Mishaps]:
    """What may go wrong in the browsers of a test: `mishaps.expect("status of 404")`. All else fails it."""
    noted = Mishaps()
    yield noted
    noted.check()


@pytest.fixture
def browsing(browser: Browser, mishaps: Mishaps, request: pytest.FixtureRequest) -> Iterator[Browsing]:
    """Opens more pages: of others, of nobody, dark, on a phone."""
    if "own_site" in request.fixturenames:  # a browser goes before its server does
        request.getfixturevalue("own_site")
    opened = Browsing(browser, mishaps)
    yield opened
    if request.node.stash.get(FAILED, False):
        for number, page in enumerate(opened.pages):
            with contextlib.suppress(Error):  # a page that does not answer is what failed
                print("the page as it was:", keep_evidence(page, f"{request.node.name}-{number}"))
    opened.close()


@pytest.fixture
def page(browsing: Browsing, site: Site) -> Page:
    """An empty page in a browser of its own, signed in as the administrator of the site."""
    return browsing.open(site)
