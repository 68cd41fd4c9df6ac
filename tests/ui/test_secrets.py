"""The secrets page: secrets are added, replaced and deleted, and their values are never shown."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.browsing import Browsing, check_accessibility
from tests.ui.sites import Site


@pytest.fixture(scope="module")
def site(module_site: Site) -> Site:
    """A server for this module only: its tests count a project's secrets."""
    return module_site


def open_secrets(page: Page, project: str = "default") -> None:
    page.goto(f"/secrets/{project}")
    expect(page.get_by_role("status").filter(has_text=re.compile(r"\d secret"))).to_be_visible()


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("cell", name=name, exact=True))


def open_action(page: Page, name: str, action: str) -> Locator:
    """Select a secret and open the dialog for an action."""
    page.get_by_label(f"Select {name}", exact=True).check()
    page.get_by_role("toolbar", name=f"Actions for {name}").get_by_role("button", name=action).click()
    return page.get_by_role("dialog")


def test_secret_is_added_and_replaced_without_showing_its_value(page: Page, site: Site) -> None:
    open_secrets(page)
    page.get_by_role("button", name="Add secret").press("Enter")
    dialog = page.get_by_role("dialog")
    name, value = dialog.get_by_role("textbox", name="Name"), dialog.get_by_role("textbox", name="Value")
    expect(name).to_be_focused()
    page.keyboard.type("DEPLOY_KEY")
    page.keyboard.press("Tab")
    expect(value).to_be_focused()
    expect(value).to_have_css("-webkit-text-security", "disc")
    page.keyboard.type("-----BEGIN")
    page.keyboard.press("Enter")
    page.keyboard.type("not for your eyes")
    page.keyboard.press("Tab")
    expect(dialog.get_by_role("switch", name="Show value")).to_be_focused()
    with page.expect_request("**/secrets/DEPLOY_KEY") as request:
        dialog.get_by_role("button", name="Add secret").press("Enter")
    assert request.value.post_data_json == {"value": "-----BEGIN\nnot for your eyes"}
    expect(row(page, "DEPLOY_KEY")).to_be_visible()
    expect(dialog).to_have_count(0)
    assert page.locator("textarea").count() == 0
    assert "not for your eyes" not in page.content()

    dialog = open_action(page, "DEPLOY_KEY", "Replace value")
    expect(value).to_have_value("")
    value.fill("another")
    dialog.get_by_role("button", name="Replace value").click()
    expect(dialog).to_have_count(0)
    expect(row(page, "DEPLOY_KEY").get_by_role("cell", name="2", exact=True)).to_be_visible()


def test_invalid_and_existing_names_are_reported_at_the_field(page: Page, site: Site) -> None:
    site.api("PUT", "/projects/default/secrets/TAKEN", {"value": "old"})
    open_secrets(page)
    page.get_by_role("button", name="Add secret").click()
    dialog = page.get_by_role("dialog")
    name = dialog.get_by_role("textbox", name="Name")
    dialog.get_by_role("textbox", name="Value").fill("new")
    name.fill("<b>name</b>")
    dialog.get_by_role("button", name="Add secret").click()
    expect(name).to_have_accessible_description(re.compile("'<b>name</b>' is not a valid name. Use letters"))
    name.fill("TAKEN")
    expect(dialog.get_by_role("status")).to_have_text("This secret already exists. Its value will be replaced.")
    expect(dialog.get_by_role("button", name="Replace value")).to_be_enabled()
    check_accessibility(page)


def test_delete_lists_what_uses_the_secret(page: Page, site: Site) -> None:
    for name in ("NAMED", "UNNAMED"):
        site.api("PUT", "/projects/default/secrets/" + name, {"value": "x"})
    site.api("POST", "/templates", {"name": "downloading", "requirements": {"secrets": ["NAMED"]}})
    volumes = [{"volume_type": "secret", "name": "key", "mount_path": "/key", "spec": {"name": "NAMED"}}]
    site.make_resource("with-key", scope="cluster/local", requirements={"volumes": volumes})
    open_secrets(page)
    dialog = open_action(page, "NAMED", "Delete")
    users = dialog.get_by_role("list", name="Used by").get_by_role("listitem")
    expect(users).to_have_text(["template downloading in platform", "compute resource with-key in cluster/local"])
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_label("Select NAMED", exact=True).uncheck()
    dialog = open_action(page, "UNNAMED", "Delete")
    expect(dialog.get_by_text("Not used by anything you can see.")).to_be_visible()
    dialog.get_by_role("button", name="Delete").click()
    expect(row(page, "UNNAMED")).to_have_count(0)


def test_project_is_in_the_url_and_remembered(page: Page, site: Site) -> None:
    site.make_project("quiet")
    site.make_project("zoo+1.2")
    eve = site.make_token("<b>eve</b>", member="project/zoo+1.2")
    site.api("PUT", "/projects/zoo+1.2/secrets/OF_THE_ZOO", {"value": "x"}, token=eve)
    page.goto("/secrets")
    expect(page).to_have_url(re.compile("/secrets/default$"))
    page.get_by_role("combobox", name="Project").click()
    page.get_by_role("option", name="zoo+1.2").click()
    expect(row(page, "OF_THE_ZOO")).to_contain_text("<b>eve</b>")
    page.get_by_role("textbox", name="Search").fill("nothing like it")
    expect(page.get_by_text("No secrets match")).to_be_visible()
    page.get_by_role("link", name="Audit").click()
    page.get_by_role("link", name="Secrets").click()
    expect(row(page, "OF_THE_ZOO")).to_be_visible()
    open_secrets(page, "quiet")
    expect(page.get_by_text("quiet has no secrets yet")).to_be_visible()


def test_viewer_sees_names_without_actions(browsing: Browsing, site: Site) -> None:
    site.api("PUT", "/projects/default/secrets/SEEN", {"value": "x"})
    page = browsing.open(site, token=site.make_token("vera-of-secrets", viewer="project/default"), scheme="dark")
    open_secrets(page)
    expect(row(page, "SEEN")).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(0)
    expect(page.get_by_role("button", name="Add secret")).to_have_count(0)
    check_accessibility(page)
