"""Browsers that look at a site: signed in, watched for everything that should not happen."""

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

PATIENCE = 20_000  # milliseconds: a busy machine takes several times as long as a quiet one
LAPTOP = (1440, 900)
PHONE = (390, 844)
AXE = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")
# Chromium calls these mistakes of the page. They are what the server answers to people: who are you, not this, not now.
ANSWERS = re.compile(r"Failed to load resource: the server responded with a status of (401|409|412|422) ")
# A name is never looked up: whatever the page asks for elsewhere, nobody hears of it.
ARGUMENTS = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE *.localhost"]

ANEW = 3000  # milliseconds in which a check of what is typed is done
# What is half faded in has half of its contrast.
AT_REST = """() => Promise.all(document.getAnimations()
    .filter(animation => animation.effect.getComputedTiming().endTime !== Infinity)
    .map(animation => animation.finished.catch(() => null))).then(() => null)"""

Scheme = Literal["light", "dark"]


class Mishaps:
    """What went wrong in browsers, and what of it a test wanted."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._expected: list[str] = []

    def expect(self, pattern: str) -> None:
        """Let what matches a pattern happen, once or often. It has to happen."""
        self._expected.append(pattern)

    def check(self) -> None:
        """Fail where something happened that nobody expected, or did not that somebody did."""
        surprises = [said for said in self.found if not any(re.search(pattern, said) for pattern in self._expected)]
        missed = [pattern for pattern in self._expected if not any(re.search(pattern, said) for said in self.found)]
        assert surprises == [], "\n".join(["in the browser:", *surprises])
        assert missed == [], f"never happened: {', '.join(missed)}"

    def watch(self, context: BrowserContext, site: Site) -> None:
        """Note errors in the console (a broken Content-Security-Policy is one), of scripts, and foreign requests."""

        def note_console(message: ConsoleMessage) -> None:
            answered = ANSWERS.match(message.text) and f"{site.url}/api/" in message.location.get("url", "")
            if message.type == "error" and not answered:
                self.found.append(f"console: {message.text} ({message.location.get('url', '')})")

        def note_request(request: Request) -> None:
            asked = urlsplit(request.url)
            if asked.scheme not in ("data", "blob") and f"{asked.scheme}://{asked.netloc}" != site.url:
                self.found.append(f"request to another host: {request.method} {request.url[:500]}")

        context.on("console", note_console)
        context.on("weberror", lambda error: self.found.append(f"script: {error.error}"))
        context.on("request", note_request)


class Browsing:
    """Opens pages in browsers that know nothing of each other."""

    def __init__(self, browser: Browser, mishaps: Mishaps) -> None:
        self._browser, self._mishaps = browser, mishaps
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
        """An empty page, signed in as the administrator, unless another token or none is given.

        `page.goto("/policies")` goes to that address of the site.
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
        context.set_default_timeout(PATIENCE)
        if token is not None:
            answer = context.request.post("/api/v1/sessions", data={"token": token or site.token})
            assert answer.status == 204, answer.text()
        self._mishaps.watch(context, site)
        page = context.new_page()
        self.pages.append(page)
        return page

    def close(self) -> None:
        """Close them all."""
        for page in self.pages:
            page.context.close()


def check_accessibility(page: Page, *, ignored: Sequence[str] = (), only: Sequence[str] = ()) -> None:
    """Fail where axe finds something serious or critical on a page as it is now. Rules are named by their ids.

    What is about to be told anew is pale for that moment, which is waited for; it stays so where that cannot be told.
    """
    with contextlib.suppress(TimeoutError):
        page.locator("[data-stale]").first.wait_for(state="detached", timeout=ANEW)
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))
    page.evaluate(AT_REST)
    asked = {"resultTypes": ["violations"], **({"runOnly": list(only)} if only else {})}
    found: list[dict[str, Any]] = page.evaluate("asked => axe.run(document, asked)", asked)["violations"]
    told = [
        f"{item['impact']}: {item['id']}: {item['help']}\n"
        + "\n".join(
            f"  {node['target']}  {node['html'][:200]}\n  {node['failureSummary']}" for node in item["nodes"][:5]
        )
        for item in found
        if item["impact"] in GRAVE and item["id"] not in ignored
    ]
    assert told == [], "\n".join([f"axe at {page.url}:", *told])


def take_screenshot(page: Page, name: str, *, full: bool = False) -> None:
    """A picture of a page, or of all that it scrolls to, where `make screenshots` wants it in docs/screenshots."""
    page.evaluate("document.fonts.ready.then(() => null)")
    if kept := os.environ.get("SCREENSHOTS"):
        file = ROOT / kept / f"{name}.webp"
        file.parent.mkdir(parents=True, exist_ok=True)
        how: Any = {"type": "webp", "quality": 90, "animations": "disabled", "caret": "hide"}
        file.write_bytes(page.screenshot(**how, full_page=full))


def keep_evidence(page: Page, name: str) -> Path:
    """What a page showed when a test failed, as a picture."""
    file = ROOT / ".pytest_cache" / "ui" / f"{re.sub(r'[^a-zA-Z0-9_-]+', '-', name)}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=file)
    return file
