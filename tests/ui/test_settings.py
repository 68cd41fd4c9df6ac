"""The settings page: platform defaults, GPU memory limits, server and appearance."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.browsing import Browsing, check_accessibility
from tests.ui.sites import Site


@pytest.fixture(scope="module")
def site(module_site: Site) -> Site:
    """A separate server, because the tests change the platform settings."""
    return module_site


def open_settings(page: Page) -> Locator:
    """Open the page. Returns the field for the default memory request."""
    page.goto("/settings")
    return page.get_by_role("group", name="CPU memory per pod").get_by_role("textbox", name="Request")


def save(page: Page) -> None:
    page.get_by_role("button", name="Save defaults").click()


def load_defaults(site: Site) -> Any:
    return site.api("GET", "/settings")["defaults"]


def test_saving_defaults_does_not_overwrite_another_user(page: Page, site: Site) -> None:
    memory = open_settings(page)
    memory.press_sequentially("2")
    memory.press("Enter")
    expect(page.get_by_text("Saved defaults")).to_be_visible()
    expect(page.get_by_role("button", name="Save defaults")).to_be_disabled()
    assert load_defaults(site)["resources"]["mem"]["requests"] == "2Gi"
    site.api("PUT", "/settings", {"defaults": {"resources": {"mem": "7Gi"}}}, If_Match="*")
    memory.fill("3")
    save(page)
    conflict = page.get_by_role("dialog", name="Someone else saved changes")
    expect(conflict.get_by_role("row").filter(has_text="resources.mem.requests")).to_contain_text(
        re.compile("7Gi.*3Gi")
    )
    check_accessibility(page)
    conflict.get_by_role("button", name="Discard mine").click()
    expect(memory).to_have_value("7")
    expect(conflict).to_have_count(0)


def test_an_invalid_amount_is_reported_at_its_field(page: Page) -> None:
    memory = open_settings(page)
    memory.fill("<b>much</b>")
    save(page)
    expect(memory).to_have_accessible_description(re.compile("Invalid amount '<b>much</b>Gi'"))
    page.get_by_role("button", name="Discard changes").click()
    expect(memory).not_to_have_value("<b>much</b>")


def test_the_switch_changes_only_its_value_in_the_policy(page: Page, site: Site) -> None:
    policy = "/policies/platform/platform"
    content = {"rules": {"resources.gpu": {"max": 2}}, "switches": {"allow_root": False}}
    site.api("PUT", policy, content, If_Match="*")
    open_settings(page)
    switch = page.get_by_role("switch", name="GPU memory limits")
    expect(switch).to_be_enabled()
    expect(switch).not_to_be_checked()
    switch.press("Space")
    expect(page.get_by_text("GPU memory limits are on")).to_be_visible()
    expect(switch).to_be_checked()
    saved = site.api("GET", policy)["content"]
    assert saved["switches"] == {"allow_root": False, "gpu_memory_limits": True}
    assert saved["rules"]["resources.gpu"]["max"] == 2


def test_other_users_can_only_read_settings(browsing: Browsing, site: Site) -> None:
    site.make_project("forest")
    page = browsing.open(site, token=site.make_token("bob", viewer="project/forest"))
    page.goto("/settings")
    server = page.get_by_role("region", name="This server")
    expect(server.get_by_role("row", name="Database")).to_contain_text("SQLite")
    expect(server.get_by_role("row", name="Watched folder")).to_have_count(0)
    expect(page.get_by_role("button", name="Save defaults")).to_have_count(0)
    expect(page.get_by_role("switch", name="GPU memory limits")).to_be_disabled()
    check_accessibility(page)


def test_the_appearance_is_remembered(page: Page) -> None:
    memory = open_settings(page)
    expect(memory).to_be_visible()
    page.get_by_role("radiogroup", name="Appearance").get_by_text("Dark").click()
    root = page.locator("html")
    expect(root).to_have_attribute("data-mantine-color-scheme", "dark")
    page.reload()
    expect(memory).to_be_visible()
    expect(root).to_have_attribute("data-mantine-color-scheme", "dark")
