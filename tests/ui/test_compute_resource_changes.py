"""Actions on compute resources: rename, edit, copy, delete and archive, and the list of revisions."""

import pytest
from playwright.sync_api import Page, expect

from tests.ui.sites import Site
from tests.ui.tables import group, open_table, row, select


@pytest.fixture(scope="module")
def site(module_site: Site) -> Site:
    resources = {"cpu": 3, "mem": {"requests": "64Gi", "limits": "unlimited"}, "gpu": 1}
    module_site.make_resource("beta", requirements={"resources": resources})
    return module_site


# Editing


def test_rename_edits_name_and_description(page: Page, site: Site) -> None:
    site.make_resource("old-name")
    open_table(page)
    select(page, "old-name").get_by_role("button", name="Rename").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name").fill("new-name")
    dialog.get_by_role("textbox", name="Description").fill("new text")
    dialog.get_by_role("button", name="Save").click()
    expect(row(page, "new-name")).to_contain_text("new text")
    expect(row(page, "old-name")).to_have_count(0)


def test_copy_creates_another_compute_resource(page: Page, site: Site) -> None:
    open_table(page)
    select(page, "beta").get_by_role("button", name="Copy & edit").click()
    name = page.get_by_role("textbox", name="Name", exact=True)
    expect(name).to_have_value("beta-copy")
    name.fill("beta-large")
    group(page, "CPU memory per pod").get_by_role("textbox", name="Request").fill("96")
    page.get_by_role("button", name="Create compute resource").click()
    expect(row(page, "beta-large")).to_contain_text("96 GiB")
    expect(row(page, "beta")).to_contain_text("64 GiB")


def test_revisions_show_changes(page: Page, site: Site) -> None:
    site.make_resource("history")
    site.api("PATCH", "/compute-resources/history", {"description": "second"})
    site.api("PATCH", "/compute-resources/history", {"requirements": {"resources": {"cpu": 3}}})
    page.goto("/compute-resources/history")
    page.get_by_role("tab", name="Revisions").click()
    changed = page.get_by_role("table").filter(has_text="Revision 2")
    expect(changed.get_by_role("row").filter(has_text="resources.cpu.requests")).to_contain_text("3")
    page.get_by_role("button", name="Show changes in revision 2").click()
    expect(page.get_by_role("row").filter(has_text="second")).to_contain_text("description")


# Deleting


def test_delete_is_rejected_with_the_list_of_users(page: Page, site: Site) -> None:
    site.make_resource("needed")
    site.api("POST", "/templates", {"name": "finetune", "requirements": {"profile": "needed"}})
    open_table(page)
    select(page, "needed").get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("list", name="Used by")).to_contain_text("template finetune")
    dialog.get_by_role("button", name="Cancel").click()
    expect(row(page, "needed")).to_be_visible()


def test_archive_hides_and_restore_shows_a_compute_resource(page: Page, site: Site) -> None:
    site.make_resource("resting")
    open_table(page)
    select(page, "resting").get_by_role("button", name="Archive").click()
    page.get_by_role("dialog").get_by_role("button", name="Archive").click()
    expect(row(page, "resting")).to_have_count(0)
    open_table(page, "?archived=true")
    select(page, "resting").get_by_role("button", name="Restore").click()
    expect(row(page, "resting")).to_have_count(0)
    assert site.api("GET", "/compute-resources/resting")["archived"] is False
