"""The templates page: the table, the form and the template page."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.sites import Site

MARKUP = "<b>bold</b><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def site(module_site: Site) -> Site:
    """A server with a compute resource, a template that references it, and one that does not."""
    module_site.make_resource("l40")
    envs = {"HF_HUB_OFFLINE": "1"}
    resources = {"cpu": 4, "mem": "16Gi"}
    module_site.api("POST", "/templates", {"name": "finetune", "requirements": {"profile": "l40", "envs": envs}})
    module_site.api(
        "POST", "/templates", {"name": "plain", "description": MARKUP, "requirements": {"resources": resources}}
    )
    return module_site


def open_templates(page: Page, query: str = "") -> None:
    page.goto(f"/templates{query}")
    expect(page.get_by_role("status").filter(has_text=re.compile(r"^\d+ templates?$"))).to_be_visible()


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def test_table_shows_contents_and_links_to_the_compute_resource(page: Page, site: Site) -> None:
    open_templates(page, "?search=bold")
    expect(row(page, "plain")).to_contain_text(MARKUP)
    assert row(page, "plain").get_by_role("cell").all_inner_texts()[3:7] == ["–", "–", "16 GiB", "4"]
    expect(row(page, "finetune")).to_have_count(0)
    open_templates(page, "?compute_resource=l40")
    expect(row(page, "plain")).to_have_count(0)
    row(page, "finetune").get_by_role("button", name="0 workloads using finetune").click()
    expect(page.get_by_role("dialog")).to_contain_text("Not used by any active workload.")
    page.keyboard.press("Escape")
    row(page, "finetune").get_by_role("link", name="l40").click()
    expect(page.get_by_role("heading", name="l40")).to_be_visible()


def test_template_is_created_with_the_keyboard_and_edited(page: Page, site: Site) -> None:
    open_templates(page)
    page.get_by_role("link", name="New template").press("Enter")
    page.get_by_role("textbox", name="Name", exact=True).fill("nightly")
    page.get_by_role("combobox", name="Compute resource").press("ArrowDown")
    page.get_by_role("option", name="l40").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Create template").press("Enter")
    expect(row(page, "nightly")).to_contain_text("l40")
    page.get_by_label("Select nightly", exact=True).press("Space")
    page.get_by_role("button", name="Edit", exact=True).press("Enter")
    page.get_by_role("textbox", name="Description").fill("every night")
    page.get_by_role("button", name="Save").click()
    expect(row(page, "nightly")).to_contain_text("every night")
    assert site.api("GET", "/templates/nightly")["compute_resource"] == "l40"


def test_errors_are_shown_at_their_fields_and_duplicate_names_rejected(page: Page, site: Site) -> None:
    page.goto("/templates/plain/copy")
    name = page.get_by_role("textbox", name="Name", exact=True)
    expect(name).to_have_value("plain-copy")
    name.fill("finetune")
    devices = page.get_by_role("textbox", name="GPU devices per pod")
    devices.fill("many")
    expect(devices).to_have_accessible_description(re.compile("found 'many'"))
    devices.fill("")
    expect(devices).not_to_have_accessible_description(re.compile("found 'many'"))
    page.get_by_role("button", name="Create template").click()
    expect(page.get_by_role("alert")).to_contain_text("Template name finetune is not available.")


def test_page_shows_specification_workloads_and_revisions(page: Page, site: Site) -> None:
    page.goto("/templates/finetune")
    expect(page.get_by_role("row").filter(has_text="profile")).to_contain_text("l40")
    page.get_by_role("tab", name="Workloads").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("Not used by any active workload.")
    page.get_by_role("tab", name="Revisions").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("No differences.")
