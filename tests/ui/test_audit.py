"""The audit log: table, filters, details and export."""

import json
import re

from playwright.sync_api import Locator, Page, expect

from tests.ui.browsing import Browsing, check_accessibility
from tests.ui.sites import Site


def open_audit(page: Page, query: str = "") -> None:
    page.goto(f"/audit{query}")
    expect(page.get_by_role("status").filter(has_text=re.compile(r"\d entr"))).to_be_visible()


def rows(page: Page) -> Locator:
    return page.get_by_role("region", name="Audit log").locator("tbody").get_by_role("row")


def test_entries_are_sorted_filtered_and_searched(page: Page, site: Site) -> None:
    for name in ("first", "second"):
        site.make_project(name)
    site.api("DELETE", "/projects/first")
    open_audit(page)
    page.get_by_role("button", name="Add filter").click()
    page.get_by_role("combobox", name="Column").click()
    page.get_by_role("option", name="Kind").click()
    page.get_by_role("combobox", name="Value").fill("project")
    page.get_by_role("option", name="project", exact=True).click()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("list", name="Filters")).to_contain_text("Kind is project")
    expect(rows(page).nth(0)).to_contain_text(re.compile("project.delete.*first.*127.0.0.1"))
    expect(rows(page).nth(1)).to_contain_text(re.compile("project.create.*second"))
    page.get_by_role("textbox", name="Search").fill("second")
    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="When").click()
    expect(page).to_have_url(re.compile(r"kind=project.*search=second.*sort=at"))


def test_an_entry_shows_old_and_new_values(page: Page, site: Site) -> None:
    site.make_resource("before")
    site.api("PATCH", "/compute-resources/before", {"name": "after", "description": "<img src=x onerror=alert(1)>"})
    open_audit(page, "?search=after")
    opener = rows(page).nth(0).get_by_role("button").first
    opener.press("Enter")
    entry = page.get_by_role("dialog")
    changes = entry.get_by_role("region", name="Changes").get_by_role("row")
    expect(changes.filter(has_text="name").first).to_have_text(re.compile("name.*before.*after"))
    expect(changes.filter(has_text="description")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(entry.get_by_role("region", name="All fields")).to_contain_text("Address127.0.0.1")
    check_accessibility(page)
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    entry.get_by_role("row", name="Object ID").get_by_role("link").click()
    expect(entry).to_have_count(0)
    expect(page.get_by_role("list", name="Filters")).to_contain_text("Object ID is")
    expect(rows(page)).to_have_count(2)


def test_the_export_contains_filtered_entries(page: Page, site: Site) -> None:
    for name in ("kept", "left"):
        site.make_department(name)
    open_audit(page, "?kind=department&name=%3Dkept&sort=user&columns=at,user")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    assert re.fullmatch(r"fairlead-audit-\d{4}-\d\d-\d\d\.jsonl", download.value.suggested_filename)
    entries = [json.loads(line) for line in download.value.path().read_text("utf-8").splitlines()]
    assert [(entry["action"], entry["name"]) for entry in entries] == [("department.create", "kept")]


def test_only_administrators_see_the_audit_log(browsing: Browsing, site: Site) -> None:
    site.make_project("governed")
    page = browsing.open(site, token=site.make_token("olga", admin="project/governed", viewer="cluster/local"))
    open_audit(page)
    expect(rows(page).filter(has_text="role.create").first).to_contain_text("project/governed")
    expect(rows(page).filter(has_text="platform")).to_have_count(0)
    page = browsing.open(site, token=site.make_token("vera-of-audit", viewer="platform"))
    page.goto("/audit")
    expect(page.get_by_text("Only administrators can see the audit log.")).to_be_visible()
    expect(page.get_by_role("link", name="Export")).to_have_count(0)
