"""The tokens page: create, show once, revoke."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.ui.browsing import Browsing, check_accessibility
from tests.ui.sites import Site

COPIED = "navigator.clipboard.readText()"


def open_tokens(page: Page, query: str = "") -> None:
    page.goto(f"/tokens{query}")
    expect(page.get_by_role("status").filter(has_text=re.compile(r"^\d+ tokens?$"))).to_be_visible()


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("cell", name=name, exact=True))


def revoke(page: Page, name: str) -> Locator:
    """Click Revoke for a token. Returns the confirmation dialog."""
    page.get_by_label(f"Select {name}", exact=True).check()
    page.get_by_role("toolbar", name=f"Actions for {name}").get_by_role("button", name="Revoke").click()
    return page.get_by_role("dialog")


def test_a_token_is_created_with_the_keyboard_and_shown_once(browsing: Browsing, site: Site) -> None:
    page = browsing.open(site, permissions=["clipboard-read", "clipboard-write"])
    open_tokens(page)
    page.get_by_role("button", name="New token").press("Enter")
    expect(page.get_by_role("textbox", name="Name")).to_be_focused()
    page.keyboard.type("laptop of <b>ada</b>")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Token laptop of <b>ada</b>")
    expect(dialog.get_by_text("It will not be shown again")).to_be_visible()
    expect(dialog.get_by_role("button", name="Copy")).to_be_focused()
    page.keyboard.press("Escape")  # must not close the dialog
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("status")).to_have_text("Copied")
    text = dialog.get_by_label("Token", exact=True).input_value()
    assert page.evaluate(COPIED) == text
    assert site.api("GET", "/me", token=text)["user"] == site.api("GET", "/me")["user"]
    check_accessibility(page)
    dialog.get_by_role("button", name="Done").click()
    expect(row(page, "laptop of <b>ada</b>")).to_contain_text(re.compile("API.*in .* days"))
    assert text not in page.content()


def test_a_token_for_another_user_is_created_after_an_invalid_duration(page: Page, site: Site) -> None:
    open_tokens(page)
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name").fill("nightly")
    dialog.get_by_role("textbox", name="User").fill("bob")
    dialog.get_by_role("combobox", name="Expiration").click()
    page.get_by_role("option", name="Other").click()
    duration = dialog.get_by_role("textbox", name="Duration")
    duration.fill("soon")
    dialog.get_by_role("button", name="Create token").click()
    expect(duration).to_have_accessible_description(re.compile("Invalid duration 'soon'"))
    duration.fill("12h")
    dialog.get_by_role("button", name="Create token").click()
    expect(dialog.get_by_text("It grants access as bob until")).to_be_visible()
    dialog.get_by_role("button", name="Done").click()
    expect(row(page, "nightly")).to_contain_text("bob")


def test_other_users_see_only_their_own_tokens(browsing: Browsing, site: Site) -> None:
    page = browsing.open(site, token=site.make_token("carol"))
    open_tokens(page, "?purpose=!session")
    expect(row(page, "token of carol")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text=re.compile("^1 token"))).to_be_visible()
    page.get_by_role("button", name="New token").click()
    expect(page.get_by_role("textbox", name="Name")).to_be_visible()
    expect(page.get_by_role("textbox", name="User")).to_have_count(0)


def test_revoking_warns_about_the_current_session(browsing: Browsing, site: Site) -> None:
    page = browsing.open(site, token=site.make_token("dora"))
    site.api("POST", "/tokens", {"name": "spare", "user": "dora"})
    open_tokens(page)
    dialog = revoke(page, "spare")
    expect(dialog.get_by_role("note")).to_have_count(0)
    dialog.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Revoked spare")).to_be_visible()
    expect(row(page, "spare")).to_have_count(0)
    dialog = revoke(page, "token of dora")
    expect(dialog.get_by_role("note")).to_contain_text("All sessions opened with this token will also end")
    dialog.get_by_role("button", name="Cancel").click()
    dialog = revoke(page, "browser")
    expect(dialog.get_by_role("note")).to_contain_text("This is your current session. You will be signed out.")
    dialog.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("dialog", name="Your session has ended")).to_be_visible()
