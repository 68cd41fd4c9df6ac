"""The table of runs: live updates, actions, and views that are shared by URL."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from fairlead.model.records import RunRecord
from tests.processes.machines import Launcher, Machine
from tests.ui.browsing import PHONE, Browsing, check_accessibility
from tests.ui.running import finish, hide, name_of, show, stop, submit, submit_like, wait
from tests.ui.sites import Site

MANY = 10_000
MANY_ACTIVE = 1100  # six pages
PAGE_SIZE = 200
MAX_ROWS = 100
MAX_FIRST_PAGES = 10  # the first page of the list, at most once per second
LIST_PATH = "/api/v1/runs?"


def open_runs(page: Page, query: str = "") -> None:
    page.goto(f"/runs{query}")
    expect(page.get_by_role("status").filter(has_text=re.compile(r"^[\d,]+ (of [\d,]+ )?runs?\b"))).to_be_visible()


def row(page: Page, run: dict[str, Any]) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name_of(run)))


def cell(page: Page, run: dict[str, Any], column: str) -> Locator:
    titles = [title.strip() for title in page.get_by_role("columnheader").all_inner_texts()]
    return row(page, run).get_by_role("cell").nth(titles.index(column))


def select(page: Page, run: dict[str, Any]) -> Locator:
    """Select a run and return its toolbar."""
    page.get_by_role("checkbox", name=f"Select {name_of(run)}").check()
    return page.get_by_role("toolbar", name=f"Actions for {name_of(run)}")


def status(page: Page) -> Locator:
    return page.get_by_role("status").filter(has_text="runs")


def test_a_row_shows_the_state_and_the_resources_of_a_run(page: Page, site: Site) -> None:
    resources = {"cpu": "250m", "mem": {"requests": "64Mi", "limits": "1536Mi"}}
    run = finish(site, "shown", "exit 3", "failed", resources=resources)
    open_runs(page, "?function==shown")
    texts = {
        "State": "Failed",
        "Reason": "ExitCode",
        "Project": "project/default",
        "Type": "Training",
        "Compute resource": "–",
        "GPUs": "–",
        "CPU": "0.25",
        "Memory": "64 MiB",
        "Created by": run["created_by"],
        "Created": "just now",
    }
    for column, text in texts.items():
        expect(cell(page, run, column)).to_have_text(text)
    expect(cell(page, run, "Duration")).to_have_text(re.compile(r"\d\.\d s$"))
    row(page, run).get_by_role("link").first.click()
    expect(page).to_have_url(f"{site.url}/runs/{run['id']}")


def test_a_shared_address_opens_the_same_view_in_another_browser(page: Page, site: Site, browsing: Browsing) -> None:
    bad, good = finish(site, "shared-bad", "exit 1", "failed"), finish(site, "shared-good")
    open_runs(page)
    page.get_by_role("navigation", name="Quick filters").get_by_role("link", name="Failed").click()
    expect(page).to_have_url(f"{site.url}/runs?state=failed")
    page.get_by_role("textbox", name="Search").fill("shared")
    page.get_by_role("button", name="Reason").click()
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="Message").check()
    expect(page).to_have_url(re.compile("columns="))
    expect(row(page, good)).to_have_count(0)

    other = browsing.open(site)
    other.goto(page.url)
    expect(other.get_by_role("status").filter(has_text=re.compile("^1 run$"))).to_be_visible()
    expect(row(other, bad)).to_be_visible()
    expect(other.get_by_role("list", name="Filters").get_by_role("listitem")).to_have_text("State is failed")
    expect(other.get_by_role("columnheader", name="Reason")).to_have_attribute("aria-sort", "ascending")
    expect(cell(other, bad, "Message")).to_contain_text("1")
    failed = other.get_by_role("navigation", name="Quick filters").get_by_role("link", name="Failed")
    expect(failed).to_have_attribute("aria-current", "true")


def test_quick_filters_keep_other_filters(page: Page, site: Site) -> None:
    token = site.make_token("mia", member="project/default")
    mine, hers = finish(site, "quick-mine"), finish(site, "quick-hers", token=token)
    active = wait(site, submit(site, "quick-active", "sleep 600"), "running")
    quick = page.get_by_role("navigation", name="Quick filters")
    open_runs(page, "?search=quick-")
    expect(page.get_by_role("status").filter(has_text="3 runs")).to_be_visible()
    quick.get_by_role("link", name="Mine").click()
    expect(row(page, hers)).to_have_count(0)
    expect(row(page, mine)).to_be_visible()
    quick.get_by_role("link", name="Active").click()
    expect(row(page, mine)).to_have_count(0)
    expect(row(page, active)).to_be_visible()
    expect(page).to_have_url(f"{site.url}/runs?search=quick-&active=true")
    expect(page.get_by_role("list", name="Filters")).to_have_text("Active yes")
    quick.get_by_role("link", name="All").click()
    expect(page.get_by_role("status").filter(has_text="3 runs")).to_be_visible()
    stop(site, active)


@pytest.mark.smoke
def test_rows_appear_and_change_live(page: Page, site: Site) -> None:
    before = finish(site, "alive-before")
    open_runs(page, "?search=alive-")
    expect(row(page, before)).to_be_visible()
    run = submit(site, "alive-now", "sleep 600")
    expect(cell(page, run, "State")).to_have_text("Running")
    expect(page.get_by_role("status").filter(has_text="2 runs")).to_be_visible()
    stop(site, run)
    expect(cell(page, run, "State")).to_have_text("Stopped")
    expect(cell(page, run, "Reason")).to_have_text("Stopped")
    wait(site, run, "stopped")
    site.api("DELETE", f"/runs/{run['id']}")
    expect(row(page, run)).to_have_count(0)
    expect(row(page, before)).to_be_visible()


def test_a_run_is_stopped_and_deleted_with_the_keyboard(page: Page, site: Site) -> None:
    run = wait(site, submit(site, "by-keys", "sleep 600"), "running")
    open_runs(page, "?search=by-keys")
    page.get_by_role("checkbox", name="Select by-keys").press("Space")
    toolbar = page.get_by_role("toolbar", name="Actions for by-keys")
    expect(toolbar.get_by_role("button", name="Delete")).to_have_count(0)
    toolbar.get_by_role("button", name="Stop").press("Enter")
    dialog = page.get_by_role("dialog", name="Stop by-keys")
    expect(dialog).to_contain_text("before it is killed")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    check_accessibility(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"Stopping by-keys {run['id'][-8:]}")).to_be_visible()
    expect(cell(page, run, "State")).to_have_text("Stopped")
    expect(toolbar.get_by_role("button", name="Stop")).to_have_count(0)
    toolbar.get_by_role("button", name="Delete").press("Enter")
    page.get_by_role("dialog", name="Delete by-keys").get_by_role("button", name="Delete").press("Enter")
    expect(row(page, run)).to_have_count(0)
    expect(page.get_by_text(f"Deleted by-keys {run['id'][-8:]}")).to_be_visible()


def test_viewers_get_no_actions(browsing: Browsing, site: Site) -> None:
    run = finish(site, "only-seen")
    page = browsing.open(site, token=site.make_token("vera-of-runs", viewer="project/default"))
    open_runs(page, "?search=only-seen")
    expect(row(page, run)).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(0)
    expect(page.get_by_role("link", name="New run")).to_have_count(0)


def test_members_of_another_project_cannot_stop_a_run(browsing: Browsing, site: Site) -> None:
    site.make_project("elsewhere")
    run = finish(site, "not-theirs")
    token = site.make_token("olga-of-runs", viewer="project/default", member="project/elsewhere")
    page = browsing.open(site, token=token)
    open_runs(page, "?search=not-theirs")
    toolbar = select(page, run)
    expect(toolbar).to_contain_text("Only members of project/default can stop this run")
    expect(page.get_by_role("link", name="New run")).to_be_visible()


def test_the_empty_table_explains_how_to_start_a_run(browsing: Browsing, site: Site) -> None:
    site.make_project("unused")
    page = browsing.open(site, token=site.make_token("nora", member="project/unused"))
    page.goto("/")
    expect(page.get_by_text("No runs yet")).to_be_visible()
    table = page.get_by_role("region", name="Runs")
    expect(table).to_contain_text("train.run()")
    expect(table).to_contain_text("fairlead run train.py:main")
    table.get_by_role("link", name="New run").click()
    expect(page).to_have_url(f"{site.url}/new/run")


@pytest.fixture(scope="module")
def long_site(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Site]:
    """A server with 10,000 runs. The oldest wait for an unreachable cluster."""
    site = Site(Machine(tmp_path_factory.mktemp("long"), launcher))
    site.api("POST", "/clusters", {"name": "elsewhere"})
    site.make_project("unreached", "cluster/elsewhere")
    request = {"function": {"name": "patient", "image": "hub.example.org/a:1"}, "resources": {"mem": "64Mi"}}
    newest = datetime.fromisoformat(submit_like(site, request, project="unreached")["created_at"])

    def multiply(name: str, first: int, count: int) -> None:
        site.multiply(
            RunRecord,
            count,
            function=lambda number: f"{name}-{first + number:05}",
            created_at=lambda number: newest - timedelta(seconds=first + number),
        )

    multiply("active", MANY - MANY_ACTIVE - 1, MANY_ACTIVE)
    finish(site, "ended")
    multiply("ended", 0, MANY - MANY_ACTIVE - 2)
    yield site
    site.close()


def test_ten_thousand_runs_can_be_scrolled_and_searched(long_site: Site, browsing: Browsing) -> None:
    page = browsing.open(long_site)
    urls = record_lists(page)
    open_runs(page)
    expect(status(page)).to_have_text("200 of 10,000 runs, scroll for more")
    scroll_to_end(page)
    expect(status(page)).to_have_text("10,000 runs")
    expect(page.get_by_role("link", name=re.compile("^active-09999 "))).to_be_visible()
    assert page.get_by_role("row").count() < MAX_ROWS
    assert len(urls) < MANY / PAGE_SIZE + MAX_FIRST_PAGES

    # New and deleted runs are updated without loading all pages again.
    urls.clear()
    run = finish(long_site, "newcomer")
    expect(status(page)).to_have_text("10,001 runs")
    page.get_by_role("region", name="Runs").evaluate("frame => frame.scrollTo(0, 0)")
    expect(cell(page, run, "State")).to_have_text("Completed")
    long_site.api("DELETE", f"/runs/{run['id']}")
    expect(status(page)).to_have_text("10,000 runs")
    expect(row(page, run)).to_have_count(0)
    assert len(urls) < MAX_FIRST_PAGES, urls

    page.get_by_role("textbox", name="Search").fill("ended-04711")
    expect(page.get_by_role("status").filter(has_text=re.compile("^1 run$"))).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("^ended-04711 "))).to_be_visible()


def test_a_long_list_of_active_runs_is_updated_without_reloading(long_site: Site, browsing: Browsing) -> None:
    page = browsing.open(long_site)
    urls = record_lists(page)
    open_runs(page, "?active=true&search=active-")
    expect(status(page)).to_have_text("200 of 1,100 runs, scroll for more")
    scroll_to_end(page)
    expect(status(page)).to_have_text("1,100 runs")
    last = page.get_by_role("link", name=re.compile("^active-09999 "))
    expect(last).to_be_visible()
    urls.clear()
    stop_last(page, long_site)
    expect(last).to_have_count(0)
    expect(status(page)).to_have_text("1,099 runs")
    assert len(urls) < MANY_ACTIVE / PAGE_SIZE, urls

    # A tab that was hidden shows the changes, and loads only the first page again.
    urls.clear()
    hide(page)
    with page.expect_response(re.compile(re.escape(LIST_PATH))):
        show(page)
    stop_last(page, long_site)
    expect(page.get_by_role("link", name=re.compile("^active-09998 "))).to_have_count(0)
    expect(status(page)).to_have_text("1,098 runs")
    assert len(urls) < MANY_ACTIVE / PAGE_SIZE, urls


def test_a_phone_renders_only_visible_rows(long_site: Site, browsing: Browsing) -> None:
    page = browsing.open(long_site, size=PHONE)
    open_runs(page)
    expect(status(page)).to_contain_text("200 of 10,000 runs")
    assert page.get_by_role("row").count() < MAX_ROWS


def record_lists(page: Page) -> list[str]:
    """Record the URLs of all run lists that a page loads from now on."""
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url) if LIST_PATH in request.url else None)
    return urls


def stop_last(page: Page, site: Site) -> None:
    """Stop the run in the last row with the API."""
    href = page.locator("tbody tr td[data-first] a").last.get_attribute("href")
    assert href is not None
    site.api("POST", f"{href}/stop")


def scroll_to_end(page: Page) -> None:
    """Scroll until all rows are loaded."""
    page.get_by_role("region", name="Runs").evaluate(
        """frame => new Promise(done => {
            const status = document.querySelector('main [role=status].number');
            const timer = setInterval(() => go(), 250);
            const watch = new MutationObserver(() => go());
            const go = () => {
                frame.scrollTo(0, frame.scrollHeight);
                if (/scroll for more/.test(status.textContent)) return;
                clearInterval(timer);
                watch.disconnect();
                done();
            };
            watch.observe(status, {childList: true, characterData: true, subtree: true});
            go();
        })"""
    )


def test_a_search_continues_after_a_page_without_matches(page: Page, site: Site) -> None:
    run = finish(site, "searched")
    held: list[Route] = []

    def respond(route: Route) -> None:
        if "cursor=" in route.request.url:
            held.append(route)
        else:
            # The server's response if none of the 10,000 records that it examines for a page matches.
            route.fulfill(json={"items": [], "next_cursor": "next", "total": None})

    page.route(f"**{LIST_PATH}*", respond)
    with page.expect_request(re.compile("cursor=next")):
        page.goto("/runs?search=searched")
    table = page.get_by_role("region", name="Runs")
    expect(table).to_have_attribute("aria-busy", "true")
    expect(page.get_by_text("No runs")).to_have_count(0)
    for route in held:
        route.continue_(url=route.request.url.replace("cursor=next", ""))
    expect(row(page, run)).to_be_visible()
    expect(table).to_have_attribute("aria-busy", "false")
