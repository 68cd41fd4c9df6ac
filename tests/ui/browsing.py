"""Signed-in browser pages that record unexpected errors."""

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, TimeoutError

from tests.architecture.modules import ROOT
from tests.ui.sites import Site

TIMEOUT_MS = 20_000  # generous, because a busy machine takes several times as long
LAPTOP = (1440, 900)
PHONE = (390, 844)
AXE = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
FAILING_IMPACTS = ("serious", "critical")
# Chromium reports these responses as errors, but the page handles them.
HANDLED_STATUS = re.compile(r"Failed to load resource: the server responded with a status of (401|409|412|422) ")
# Resolve no host names, so that requests to other hosts never leave the machine.
ARGUMENTS = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE *.localhost"]

STALE_TIMEOUT_MS = 3000  # how long form validation can take
# Wait for animations, because elements that fade in have less contrast.
FINISH_ANIMATIONS = """() => Promise.all(document.getAnimations()
    .filter(animation => animation.effect.getComputedTiming().endTime !== Infinity)
    .map(animation => animation.finished.catch(() => null))).then(() => null)"""

Scheme = Literal["light", "dark"]


class BrowserErrors:
    """Errors in browsers, and the patterns that a test expects."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self._expected: list[str] = []

    def expect(self, pattern: str) -> None:
        """Expect at least one error that matches the pattern."""
        self._expected.append(pattern)

    def check(self) -> None:
        """Fail on unexpected errors, and on expected errors that did not occur."""
        expected = self._expected
        unexpected = [text for text in self.messages if not any(re.search(pattern, text) for pattern in expected)]
        missing = [pattern for pattern in expected if not any(re.search(pattern, text) for text in self.messages)]
        assert unexpected == [], "\n".join(["unexpected errors in the browser:", *unexpected])
        assert missing == [], f"expected errors did not occur: {', '.join(missing)}"

    def watch(self, context: BrowserContext, site: Site) -> None:
        """Record console errors, including Content-Security-Policy ones, script errors and requests to other hosts."""

        def record_console_error(message: ConsoleMessage) -> None:
            is_handled = HANDLED_STATUS.match(message.text) and f"{site.url}/api/" in message.location.get("url", "")
            if message.type == "error" and not is_handled:
                self.messages.append(f"console: {message.text} ({message.location.get('url', '')})")

        def record_foreign_request(request: Request) -> None:
            url = urlsplit(request.url)
            if url.scheme not in ("data", "blob") and f"{url.scheme}://{url.netloc}" != site.url:
                self.messages.append(f"request to another host: {request.method} {request.url[:500]}")

        context.on("console", record_console_error)
        context.on("weberror", lambda error: self.messages.append(f"script: {error.error}"))
        context.on("request", record_foreign_request)


class Browsing:
    """Opens pages in separate browser contexts."""

    def __init__(self, browser: Browser, errors: BrowserErrors) -> None:
        self._browser, self._errors = browser, errors
        self.pages: list[Page] = []

    def open(
        self,
        site: Site,
        *,
        token: str | None = "",
        scheme: Scheme = "light",
        size: tuple[int, int] = LAPTOP,
        **options: Any,
    ) -> Page:
        """Open an empty page, signed in as the administrator unless another token, or none, is given.

        `page.goto("/policies")` opens that path on the site.
        """
        context = self._browser.new_context(
            base_url=site.url,
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="UTC",
            **options,
        )
        context.set_default_timeout(TIMEOUT_MS)
        if token is not None:
            response = context.request.post("/api/v1/sessions", data={"token": token or site.token})
            assert response.status == 204, response.text()
        self._errors.watch(context, site)
        page = context.new_page()
        self.pages.append(page)
        return page

    def close(self) -> None:
        """Close all pages."""
        for page in self.pages:
            page.context.close()


def check_accessibility(page: Page, *, ignored: Sequence[str] = (), only: Sequence[str] = ()) -> None:
    """Fail if axe reports a serious or critical violation on the page. Rules are given by their IDs.

    Results that are being refreshed have less contrast, so wait for them first. Some stay stale if they cannot load.
    """
    with contextlib.suppress(TimeoutError):
        page.locator("[data-stale]").first.wait_for(state="detached", timeout=STALE_TIMEOUT_MS)
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))
    page.evaluate(FINISH_ANIMATIONS)
    options = {"resultTypes": ["violations"], **({"runOnly": list(only)} if only else {})}
    violations: list[dict[str, Any]] = page.evaluate("options => axe.run(document, options)", options)["violations"]
    messages = [
        f"{item['impact']}: {item['id']}: {item['help']}\n"
        + "\n".join(
            f"  {node['target']}  {node['html'][:200]}\n  {node['failureSummary']}" for node in item["nodes"][:5]
        )
        for item in violations
        if item["impact"] in FAILING_IMPACTS and item["id"] not in ignored
    ]
    assert messages == [], "\n".join([f"axe at {page.url}:", *messages])


def take_screenshot(page: Page, name: str, *, full: bool = False) -> None:
    """Save a screenshot of the page, or of the full scrolled page, if `make screenshots` is running."""
    page.evaluate("document.fonts.ready.then(() => null)")
    if folder := os.environ.get("SCREENSHOTS"):
        file = ROOT / folder / f"{name}.webp"
        file.parent.mkdir(parents=True, exist_ok=True)
        options: Any = {"type": "webp", "quality": 90, "animations": "disabled", "caret": "hide"}
        file.write_bytes(page.screenshot(**options, full_page=full))


def save_failure_screenshot(page: Page, name: str) -> Path:
    """Save what the page showed when a test failed."""
    file = ROOT / ".pytest_cache" / "ui" / f"{re.sub(r'[^a-zA-Z0-9_-]+', '-', name)}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=file)
    return file
