"""Pages work with the keyboard and on a phone. The screenshot tests run axe on each page."""

import pytest
from playwright.sync_api import Page, expect

from tests.ui.browsing import PHONE, Browsing
from tests.ui.sites import Site
from tests.ui.tables import open_table, row

# Pages without other phone tests, by heading.
PAGES = {
    "Compute resources": "/compute-resources",
    "New compute resource": "/new/compute-resource",
    "shown": "/compute-resources/shown",
    "Templates": "/templates",
    "Organization": "/organization",
    "Policies": "/policies",
    "Policy for platform": "/policies/platform/platform",
    "Secrets": "/secrets",
    "Tokens": "/tokens",
    "Audit log": "/audit",
    "Settings": "/settings",
    "Page not found": "/nowhere",
}


@pytest.fixture(scope="module")
def site(module_site: Site) -> Site:
    """A server with one object of almost every kind."""
    module_site.make_resource("shown", description="to be looked at")
    module_site.api("POST", "/templates", {"name": "starter", "requirements": {"profile": "shown"}})
    module_site.api("PUT", "/projects/default/secrets/HF_TOKEN", {"value": "hidden"})
    module_site.api("PUT", "/policies/platform/platform", {"rules": {"resources.gpu": {"max": 8}}, "quota": {"gpu": 8}})
    return module_site


def settle(page: Page) -> None:
    """Wait until a page has loaded its content."""
    expect(page.get_by_role("heading", level=1).first).to_be_visible()
    expect(page.locator('[aria-busy="true"]')).to_have_count(0)
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)


def test_no_page_is_wider_than_a_phone(browsing: Browsing, site: Site) -> None:
    page = browsing.open(site, size=PHONE)
    page.goto("/")
    settle(page)
    for heading, path in PAGES.items():
        page.evaluate("path => history.pushState(null, '', path)", path)  # like a link, without a reload
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        settle(page)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE[0], f"{path} is {width} wide"
    page.get_by_role("button", name="Navigation").click()
    page.get_by_role("link", name="Templates").click()
    expect(page.get_by_role("heading", name="Templates", level=1)).to_be_visible()


def press_until(page: Page, key: str, role: str, name: str, limit: int = 60) -> None:
    """Press a key until an element has focus."""
    target = page.get_by_role(role, name=name, exact=True).first.element_handle()  # type: ignore[arg-type]
    for _ in range(limit):
        if target.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"pressing {key} {limit} times does not reach the {role} {name}")


def test_a_compute_resource_is_created_renamed_and_deleted_with_the_keyboard(page: Page, site: Site) -> None:
    open_table(page)
    press_until(page, "Tab", "link", "New compute resource")
    page.keyboard.press("Enter")
    press_until(page, "Tab", "treeitem", "Platform all clusters")
    press_until(page, "Tab", "textbox", "Name")
    page.keyboard.type("by-keys")
    press_until(page, "Tab", "textbox", "GPU devices per pod")
    page.keyboard.type("1")
    press_until(page, "Tab", "button", "Create compute resource")
    page.keyboard.press("Enter")
    expect(row(page, "by-keys")).to_be_visible()
    press_until(page, "Tab", "checkbox", "Select by-keys")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("Select shown", exact=True)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Space")
    press_until(page, "Shift+Tab", "button", "Rename")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("textbox", name="Name")).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.type("-again")
    page.keyboard.press("Enter")
    expect(row(page, "by-keys-again")).to_be_visible()
    press_until(page, "Shift+Tab", "button", "Delete")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(row(page, "by-keys-again")).to_have_count(0)
