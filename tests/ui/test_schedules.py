"""The schedules page: creating a schedule with the run form, and pausing, editing, running and deleting it."""

import re
from typing import Any

from playwright.sync_api import Page, expect

from tests.ui.browsing import check_accessibility
from tests.ui.sites import Site
from tests.ui.tables import row

TRUE = {"command": ["true"]}


def open_schedules(page: Page, query: str = "") -> None:
    page.goto(f"/schedules{query}")
    expect(page.get_by_role("status").filter(has_text=re.compile(r"^\d+ schedules?$"))).to_be_visible()


def make_schedule(site: Site, name: str, cron: str = "0 6 29 2 *", **request: Any) -> dict[str, Any]:
    """Create a schedule in the project `default` that does not become due during the test."""
    body = {"function": {"name": "nothing", **TRUE}, "schedule": {"cron": cron, "name": name}, **request}
    schedule: dict[str, Any] = site.api("POST", "/projects/default/schedules", body)
    return schedule


def read(site: Site, name: str) -> dict[str, Any]:
    schedule: dict[str, Any] = site.api("GET", f"/projects/default/schedules/{name}")
    return schedule


def test_schedule_is_created_with_the_run_form(page: Page, site: Site) -> None:
    site.api("PUT", "/projects/default/functions/nothing", TRUE)
    page.goto("/new/run?project=default&function=nothing")
    page.get_by_role("textbox", name="Schedule").fill("every day")
    expect(page.get_by_text("invalid cron expression").first).to_be_visible()
    page.get_by_role("textbox", name="Schedule").fill("0 6 * * *")
    page.get_by_role("textbox", name="Time zone").fill("Europe/Rome")
    page.get_by_role("textbox", name="Priority").fill("3")
    page.get_by_role("button", name="Create schedule").click()
    expect(page).to_have_url(f"{site.url}/schedules")
    expect(row(page, "nothing")).to_contain_text("0 6 * * *")
    schedule = read(site, "nothing")
    assert (schedule["cron"], schedule["timezone"], schedule["request"]["priority"]) == ("0 6 * * *", "Europe/Rome", 3)
    assert schedule["request"]["function"] == {"name": "nothing"}
    check_accessibility(page)


def test_schedule_is_paused_resumed_edited_run_and_deleted(page: Page, site: Site) -> None:
    make_schedule(site, "nightly")
    open_schedules(page)
    row(page, "nightly").get_by_role("checkbox").check()
    page.get_by_role("button", name="Pause").click()
    expect(row(page, "nightly")).to_contain_text("paused")
    assert read(site, "nightly")["next_at"] is None
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()

    page.get_by_role("button", name="Edit schedule").click()
    dialog = page.get_by_role("dialog", name="Edit schedule nightly")
    dialog.get_by_role("textbox", name="Schedule", exact=True).fill("99 * * * *")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("invalid cron expression")).to_be_visible()
    check_accessibility(page)
    dialog.get_by_role("textbox", name="Schedule", exact=True).fill("30 7 * * MON")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_hidden()
    expect(row(page, "nightly")).to_contain_text("30 7 * * MON")

    page.get_by_role("button", name="Run now").click()
    expect(page).to_have_url(re.compile(f"{site.url}/runs/[0-9a-f]{{32}}"))
    open_schedules(page)
    row(page, "nightly").get_by_role("checkbox").check()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete nightly?").get_by_role("button", name="Delete").click()
    expect(row(page, "nightly")).to_be_hidden()


def test_schedule_links_to_its_runs(page: Page, site: Site) -> None:
    make_schedule(site, "weekly")
    run = site.api("POST", "/projects/default/schedules/weekly/run")
    open_schedules(page)
    page.get_by_role("link", name="weekly", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="1 run")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text=run["id"][-8:])).to_be_visible()


def test_edit_conflicts_with_other_users_but_not_with_the_scheduler(page: Page, site: Site) -> None:
    make_schedule(site, "shared")
    open_schedules(page)
    row(page, "shared").get_by_role("checkbox").check()
    page.get_by_role("button", name="Edit schedule").click()
    dialog = page.get_by_role("dialog", name="Edit schedule shared")
    # Changes only the revision, as the scheduler does when the schedule becomes due.
    for action in ("pause", "resume"):
        site.api("POST", f"/projects/default/schedules/shared/{action}")
    dialog.get_by_role("textbox", name="Schedule", exact=True).fill("30 7 29 2 *")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_hidden()

    expect(row(page, "shared")).to_contain_text("30 7 29 2 *")
    page.get_by_role("button", name="Edit schedule").click()
    site.api("PATCH", "/projects/default/schedules/shared", {"timezone": "Europe/Rome"})
    dialog.get_by_role("textbox", name="Schedule", exact=True).fill("45 7 29 2 *")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("is now at revision 5, but you read revision 4")).to_be_visible()
    schedule = read(site, "shared")
    assert (schedule["cron"], schedule["timezone"]) == ("30 7 29 2 *", "Europe/Rome")
