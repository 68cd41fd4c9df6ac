"""The policies pages: editing and deleting a policy, its effective rules and the impact of a draft."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from fairlead.model import fields
from tests.ui.browsing import Browsing, check_accessibility
from tests.ui.sites import Site

FULL_POLICY: dict[str, Any] = {
    "defaults": {
        "resources": {"cpu": "1", "gpu": {"devices": 1, "memory": {"limit": "50%"}}},
        "node_selector": {"pool": "gpu"},
        "envs": {"HF_HOME": "/models"},
    },
    "limit_factor": {"mem": 1.1},
    "rules": {
        "resources.gpu": {"max": 2},
        "volumes.*.read_only": {"options": [True]},
        "deadline": {"max": "2d", "required": True},
        "envs.HF_HOME": {"locked": True},
    },
    "switches": {"storage_classes": [], "registries": ["docker.io"], "allow_root": False},
    "quota": {"cpu": "200", "mem": "1Ti", "runs": 50},
    "queue": {"max_waiting_runs": 1000, "weight": 0.5},
}


@pytest.fixture(scope="module")
def site(module_site: Site) -> Site:
    """A server for this module only: its tests count the objects that a policy applies to."""
    return module_site


def make_policy(site: Site, department: str, policy: dict[str, Any]) -> str:
    """Create a department with a policy. Returns the policy's path in the API and the web UI."""
    site.make_department(department)
    site.api("PUT", f"/policies/department/{department}", policy)
    return f"/policies/department/{department}"


def rule(page: Page, number: int, field: str) -> Locator:
    return page.get_by_label(f"Rule {number}: {field}")


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()


def effective(page: Page) -> Locator:
    return page.get_by_role("region", name="Effective rules")


def test_policy_is_created_for_a_scope_and_applies(page: Page, site: Site) -> None:
    site.make_department("vision")
    site.make_resource("large", scope="department/vision", requirements={"resources": {"cpu": 2, "mem": "64Gi"}})
    page.goto("/policies")
    page.get_by_role("button", name="New policy").click()
    page.get_by_role("combobox", name="Cluster").click()
    page.get_by_role("option", name="local").click()
    page.get_by_role("treeitem", name="vision").click()
    expect(page.get_by_text("department/vision has no policy yet.")).to_be_visible()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="Policy for department/vision")).to_be_visible()
    page.get_by_role("button", name="Add rule").click()
    choices = page.get_by_role("option").locator("p:first-child").all_inner_texts()
    assert sorted(choices) == sorted(fields.KNOWN)
    page.keyboard.type("CPU memory request")
    page.get_by_role("option", name="resources.mem.requests").click()
    rule(page, 1, "at most").fill("32Gi")
    rejected = page.get_by_role("list", name="New rejections").get_by_role("listitem")
    expect(rejected).to_have_text(re.compile(r"large.*new.*64Gi.*allows at most 32Gi", re.DOTALL))
    expect(page.get_by_text("Checked 1 compute resource, 0 templates and 0 recent runs.")).to_be_visible()
    expect(effective(page)).not_to_contain_text("32 GiB")
    save(page)
    expect(effective(page)).to_contain_text("CPU memory request at most 32 GiB, set here")
    expect(page.get_by_text("revision 1, saved by")).to_be_visible()
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Policies").click()
    row = page.get_by_role("row", name="department/vision")
    expect(row).to_contain_text("1 rule")
    row.get_by_role("link").click()
    expect(rule(page, 1, "at most")).to_have_value("32Gi")


def test_errors_are_shown_at_their_fields_and_nothing_is_saved(page: Page, site: Site) -> None:
    address = make_policy(site, "wrong", {"rules": {"resources.gpu": {"max": 2}}})
    page.goto(address)
    rule(page, 1, "at most").fill("<b>lots</b>")
    expect(rule(page, 1, "at most")).to_have_accessible_description(re.compile("Must be a whole number"))
    page.get_by_role("textbox", name="CPU memory limit").fill("0.5")
    expect(page.get_by_role("textbox", name="CPU memory limit")).to_have_accessible_description(re.compile("factor"))
    expect(page.get_by_role("link", name="2 errors")).to_be_visible()
    save(page)
    rule(page, 1, "at most").fill("3")
    page.get_by_role("button", name="Add rule").click()
    rule(page, 2, "setting").fill("resources.gpu")
    expect(rule(page, 2, "setting")).to_have_accessible_description(re.compile("Duplicate setting"))
    rule(page, 2, "setting").fill("resources.gpus")
    expect(rule(page, 2, "setting")).to_have_accessible_description(re.compile("Did you mean resources.gpu"))
    page.get_by_role("link", name="Policies").first.click()
    dialog = page.get_by_role("dialog", name="Leave without saving?")
    dialog.get_by_role("button", name="Leave").click()
    expect(page.get_by_role("heading", name="Policies")).to_be_visible()
    assert site.api("GET", address)["revision"] == 1


def test_second_save_shows_both_versions(page: Page, site: Site) -> None:
    address = make_policy(site, "shared", {"quota": {"runs": 5}})
    runs = page.get_by_role("region", name="Quota").get_by_label("Runs")
    dialog = page.get_by_role("dialog")
    page.goto(address)
    runs.fill("6")
    site.api("PUT", address, {"quota": {"runs": 7}}, If_Match="*")
    save(page)
    expect(dialog.get_by_role("row", name="quota.runs")).to_have_text(re.compile("7.*6"))
    dialog.get_by_role("button", name="Discard mine").click()
    expect(runs).to_have_value("7")
    runs.fill("8")
    site.api("DELETE", address)
    save(page)
    expect(dialog.get_by_role("heading", name="Deleted by someone else")).to_be_visible()
    dialog.get_by_role("button", name="Create again").click()
    expect(page.get_by_text("revision 1, saved by")).to_be_visible()
    assert site.api("GET", address)["content"] == {"quota": {"runs": 8}}


def test_policy_is_read_only_for_viewers_and_if_managed_by_files(page: Page, site: Site, browsing: Browsing) -> None:
    site.make_department("filed")
    document = {"kind": "Policy", "scope": "department/filed", "switches": {"allow_root": False}}
    site.api("POST", "/apply", {"documents": [document], "manager": "git"})
    reader = browsing.open(site, token=site.make_token("vera", viewer="department/filed"))
    reader.goto("/policies/department/filed")
    expect(reader.get_by_text("Only editors of department/filed can change this policy.")).to_be_visible()
    expect(reader.get_by_role("main").get_by_role("button", name="Save")).to_have_count(0)
    expect(effective(reader)).to_contain_text("Runs may not use the root user (ID 0), set here")
    page.goto("/policies/department/filed")
    expect(page.get_by_role("alert")).to_contain_text("Managed by git")
    expect(page.get_by_role("button", name="Save", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Edit anyway").click()
    page.get_by_role("radiogroup", name="Existing volumes").get_by_text("Block").click()
    save(page)
    expect(effective(page)).to_contain_text("Runs may not mount existing volumes or config maps, set here")


def test_queue_limits_are_set_and_only_editors_of_the_platform_change_weights(
    page: Page, site: Site, browsing: Browsing
) -> None:
    address = make_policy(site, "queued", {"queue": {"max_waiting_runs": 1000}})
    page.goto(address)
    queue = page.get_by_role("region", name="Queue").first
    waiting, weight = (queue.get_by_label(label) for label in ("Waiting runs per project", "Weight of each project"))
    expect(waiting).to_have_value("1000")
    weight.fill("2000")
    expect(weight).to_have_accessible_description(re.compile("Must be a weight from 0.001 to 1000"))
    weight.fill("2")
    waiting.fill("500")
    save(page)
    expect(effective(page)).to_contain_text("Waiting runs at most 500, set here")
    expect(effective(page)).to_contain_text("Weight 2, set here")
    assert site.api("GET", address)["content"] == {"queue": {"max_waiting_runs": 500, "weight": 2}}
    editor = browsing.open(site, token=site.make_token("quinn", editor="department/queued"))
    editor.goto(address)
    expect(editor.get_by_label("Weight of each project")).to_be_disabled()
    expect(editor.get_by_text("Only editors of the platform can change it.")).to_be_visible()
    editor.get_by_label("Waiting runs per project").fill("20")
    save(editor)
    expect(effective(editor)).to_contain_text("Waiting runs at most 20, set here")
    assert site.api("GET", address)["content"] == {"queue": {"max_waiting_runs": 20, "weight": 2}}


def test_policy_is_deleted_with_the_keyboard(page: Page, site: Site) -> None:
    make_policy(site, "gone", {"quota": {"runs": 5}})
    page.goto("/policies")
    page.get_by_role("link", name="department/gone").press("Enter")
    add = page.get_by_role("button", name="Add rule")
    add.press("Enter")
    expect(rule(page, 1, "setting")).to_be_focused()
    page.keyboard.type("replicas")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("4")
    page.keyboard.press("Enter")  # submits the form
    expect(effective(page)).to_contain_text("Replicas at most 4, set here")
    page.get_by_role("button", name="Remove rule 1").press("Enter")
    expect(add).to_be_focused()
    page.get_by_role("button", name="Discard changes").press("Enter")
    page.get_by_role("button", name="Delete").press("Enter")
    dialog = page.get_by_role("dialog", name="Delete policy for department/gone?")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Deleted policy for department/gone")).to_be_visible()
    expect(page.get_by_role("link", name="department/gone")).to_have_count(0)


def test_page_with_errors_is_accessible(browsing: Browsing, site: Site) -> None:
    page = browsing.open(site, scheme="dark")
    page.goto(make_policy(site, "seen", FULL_POLICY))
    rule(page, 1, "at most").fill("many")
    expect(page.get_by_text("1 error")).to_be_visible()
    check_accessibility(page)
