"""The run log: following, searching, long and unusual output, and server restarts."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.processes.execution import open_folder
from tests.ui.browsing import BrowserErrors, Browsing
from tests.ui.running import CONNECTION_ERROR, finish, hide, open_run, show, stop, submit, submit_like, wait
from tests.ui.sites import Site

LONG = 50_000
MAX_ROWS = 120
# Ends after a few minutes, because a failed test never opens the gate.
COUNT = """
i=0
while [ ! -e "{gate}" ] && [ $i -lt 9999 ]; do i=$((i+1)); echo "number $i"; sleep 0.01; done
echo "the last is $i"
"""


@pytest.fixture
def gate() -> Iterator[Path]:
    """A file, readable by all users, whose creation ends a run."""
    with open_folder(0o755) as folder:
        yield folder / "open"
        (folder / "open").touch()


def open_logs(page: Page, run: dict[str, Any]) -> Locator:
    open_run(page, run, "logs")
    log = page.get_by_role("log")
    expect(log).to_be_visible()
    return log


def lines(page: Page) -> Locator:
    return page.get_by_role("log").locator("[data-index]")


def phase(page: Page) -> Locator:
    return page.get_by_role("region", name="Log", exact=True).get_by_role("status").last


def read_all(page: Page) -> list[str]:
    """Read all lines by scrolling through them."""
    texts: list[str] = page.evaluate(
        """async () => {
            const frame = document.querySelector('[role=log]'), texts = new Map();
            const rest = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            for (let top = 0; top <= frame.scrollHeight; top += frame.clientHeight / 2) {
                frame.scrollTop = top;
                await rest();
                for (const line of frame.querySelectorAll('[data-index]'))
                    texts.set(Number(line.dataset.index), line.lastElementChild.textContent);
            }
            return [...texts.entries()].sort(([one], [other]) => one - other).map(([, text]) => text);
        }"""
    )
    return texts


def test_the_view_follows_new_lines(page: Page, site: Site, gate: Path) -> None:
    log = open_logs(page, submit(site, "follows", COUNT.format(gate=gate)))
    expect(phase(page)).to_have_text("Live")
    expect(log).to_contain_text("number 100")
    # Scrolling up stops following until the user resumes it.
    log.hover()
    page.mouse.wheel(0, -100_000)
    follow = page.get_by_role("button", name="Follow")
    expect(follow).to_be_visible()
    expect(lines(page).first).to_have_text(re.compile("number 1$"))
    expect(page.get_by_text(re.compile(r"^[2-9]\d\d lines$"))).to_be_visible()
    expect(lines(page).first).to_have_text(re.compile("number 1$"))
    follow.click()
    gate.touch()
    expect(lines(page).last).to_have_text(re.compile("the last is"))
    expect(lines(page).last).to_be_in_viewport()
    expect(follow).to_have_count(0)
    expect(phase(page)).to_have_text("Complete")


def test_stderr_is_marked_and_can_be_filtered(page: Page, site: Site) -> None:
    run = finish(site, "streams", "echo fine; sleep 0.3; echo careful >&2; sleep 0.3; echo again")
    open_logs(page, run)
    expect(lines(page)).to_have_count(3)
    streams = page.get_by_role("radiogroup", name="Stream")
    careful = lines(page).filter(has_text="careful")
    expect(careful).to_contain_text("err")
    expect(lines(page).filter(has_text="fine")).not_to_contain_text("err")
    streams.get_by_text("stderr", exact=True).click()
    expect(lines(page)).to_have_count(1)
    expect(page.get_by_text("1 of 3 lines")).to_be_visible()
    streams.get_by_text("stdout", exact=True).click()
    expect(lines(page)).to_have_text([re.compile("fine"), re.compile("again")])


def test_the_log_is_searched_with_the_keyboard(page: Page, site: Site) -> None:
    run = finish(site, "searched", "for i in $(seq 1 3000); do echo step $i; done; echo Step aside")
    open_logs(page, run)
    expect(lines(page).last).to_contain_text("Step aside")
    page.locator("body").press("/")
    search = page.get_by_role("searchbox", name="Search the log")
    expect(search).to_be_focused()
    search.fill("STEP 100")
    hits = page.get_by_role("status", name="Matching lines")
    expect(hits).to_have_text("11 lines")
    search.press("Shift+Enter")
    expect(hits).to_have_text("11 of 11")
    search.press("Enter")
    expect(hits).to_have_text("1 of 11")
    expect(page.locator("[data-current]")).to_have_text(re.compile("step 100$"))
    expect(page.locator("[data-current]")).to_be_in_viewport()
    expect(page.locator("[data-current] mark")).to_have_text("step 100")
    search.press("Enter")
    expect(page.locator("[data-current]")).to_have_text(re.compile("step 1000$"))
    page.get_by_role("button", name="Previous match").click()
    expect(hits).to_have_text("1 of 11")
    page.get_by_role("checkbox", name="Only matching lines").check()
    expect(lines(page)).to_have_count(11)
    search.fill("nowhere")
    expect(page.get_by_text("No lines match “nowhere”.")).to_be_visible()
    search.press("Escape")
    expect(page.get_by_text("3,001 lines")).to_be_visible()


def test_the_download_contains_the_log_byte_for_byte(page: Page, site: Site) -> None:
    run = finish(site, "bytes", r"printf 'one\ntwo\n\377\n'")
    open_logs(page, run)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes() == b"one\ntwo\n\xff\n"
    assert download.value.suggested_filename.endswith(".log")


def test_markup_colors_and_long_lines_are_shown_as_text(page: Page, site: Site) -> None:
    script = r"""
printf '\033[1;31malarm\033[0m \033]0;title\007plain\033[2K\n'
printf '<img src=x onerror="window.broken = true">\n'
head -c 1000000 /dev/zero | tr '\0' x; echo
printf 'without an end'
"""
    open_logs(page, finish(site, "odd", script))
    text = lines(page).locator(":scope > :last-child")
    expect(text.nth(0)).to_have_text("alarm plain")
    expect(text.nth(0).locator("[data-color]")).to_have_text("alarm")
    expect(text.nth(1)).to_have_text('<img src=x onerror="window.broken = true">')
    expect(text.nth(2)).to_contain_text(re.compile(r"^x+ … \d+,\d+ more characters in the download$"))
    expect(text.nth(3)).to_have_text("without an end")
    assert page.evaluate("window.broken") is None
    page.get_by_role("checkbox", name="Wrap lines").check()
    page.get_by_role("checkbox", name="Timestamps").check()
    expect(lines(page).last.locator("time")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d\.\d{3}$"))


def test_fifty_thousand_lines_can_be_scrolled(page: Page, site: Site) -> None:
    run = finish(site, "long", f"seq -f 'line %.0f' 1 {LONG}")
    log = open_logs(page, run)
    expect(page.get_by_text("50,000 lines")).to_be_visible()
    expect(lines(page).last).to_have_text(re.compile(f"line {LONG}$"))
    assert lines(page).count() < MAX_ROWS
    # `make bench-ui` measures the frame rate.
    for part in (0.25, 0.75, 0.5):
        log.evaluate("(frame, part) => frame.scrollTo(0, (frame.scrollHeight - frame.clientHeight) * part)", part)
        expect(lines(page).filter(has_text=re.compile(f"line {part * LONG:.0f}$"))).to_be_in_viewport()
        assert lines(page).count() < MAX_ROWS
    log.press("Home")
    expect(lines(page).first).to_have_text(re.compile("line 1$"))
    expect(lines(page).first).to_be_in_viewport()
    log.press("End")
    expect(lines(page).last).to_have_text(re.compile(f"line {LONG}$"))
    expect(lines(page).last).to_be_in_viewport()


def test_the_log_of_a_waiting_run_explains_that_it_is_empty(page: Page, site: Site) -> None:
    site.api("POST", "/clusters", {"name": "elsewhere"})
    site.make_project("unreached", "cluster/elsewhere")
    body = {"function": {"name": "patient", "image": "hub.example.org/a:1"}, "resources": {"mem": "64Mi"}}
    run = submit_like(site, body, project="unreached")
    open_logs(page, run)
    expect(page.get_by_text("Not started yet. Output will appear here.")).to_be_visible()
    expect(phase(page)).to_have_text("Waiting to start")
    stop(site, run)
    expect(page.get_by_text("The run never started.")).to_be_visible()


def test_following_resumes_after_a_server_restart_without_gaps_or_duplicates(
    browsing: Browsing, own_site: Site, browser_errors: BrowserErrors, gate: Path
) -> None:
    browser_errors.expect(CONNECTION_ERROR)
    run = submit(own_site, "survivor", COUNT.format(gate=gate))
    page = browsing.open(own_site)
    log = open_logs(page, run)
    expect(log).to_contain_text("number 50")
    own_site.stop()
    expect(phase(page)).to_have_text("Reconnecting")
    own_site.start()
    expect(phase(page)).to_have_text("Live")
    gate.touch()
    expect(log).to_contain_text("the last is")
    expect(phase(page)).to_have_text("Complete")
    assert wait(own_site, run, "completed")["exit_code"] == 0
    *numbers, last = read_all(page)
    assert numbers == [f"number {number}" for number in range(1, len(numbers) + 1)]
    assert last == f"the last is {len(numbers)}"


def test_a_hidden_tab_closes_its_connection(page: Page, site: Site, gate: Path) -> None:
    log = open_logs(page, submit(site, "hidden", COUNT.format(gate=gate)))
    expect(log).to_contain_text("number 20")
    hide(page)
    expect(phase(page)).to_have_text("")
    gate.touch()
    with page.expect_request(re.compile(r"logs\?follow=true&cursor=[1-9]")):
        show(page)
    expect(log).to_contain_text("the last is")
    *numbers, _ = read_all(page)
    assert numbers == [f"number {number}" for number in range(1, len(numbers) + 1)]
