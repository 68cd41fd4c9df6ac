"""What seed 004 numbers, in a browser: renaming, editing, copying, deleting; and what was before."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.ui.sites import Site
from tests.ui.tables import group, open_table, row, select


@pytest.fixture(scope="module")
def site(site: Site) -> Site:
    """A server with a compute resource."""
    resources = {"cpu": 3, "mem": {"requests": "64Gi", "limits": "unlimited"}, "gpu": 1}
    site.make_resource("beta", requirements={"resources": resources})
    return site


# Editing


def test_rename_edits_the_name_and_the_description(page: Page, site: Site) -> None:
    site.make_resource("old-name")
    open_table(page)
    select(page, "old-name").get_by_role("button", name="Rename").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name").fill("new-name")
    dialog.get_by_role("textbox", name="Description").fill("said anew")
    dialog.get_by_role("button", name="Save").click()
    expect(row(page, "new-name")).to_contain_text("said anew")
    expect(row(page, "old-name")).to_have_count(0)


FULL: dict[str, Any] = {
    "resources": {
        "cpu": {"requests": "1"},
        "mem": {"requests": "2Gi", "limits": "unlimited"},
        "disk": {"requests": "3Gi", "limits": "4Gi"},
        "shm": "1Gi",
        "gpu": {"devices": 1, "type": "A100"},
        "extended": {"vendor.example/nic": 2},
    },
    "node_selector": {"pool": "a"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            }
        }
    },
    "volumes": [
        {"name": "scratch", "volume_type": "empty_dir", "mount_path": "/scratch", "spec": {"size": "1Gi"}},
        {
            "name": "own",
            "volume_type": "persistent_volume_claim",
            "mount_path": "/data",
            "spec": {"size": "10Gi", "storage_class": "fast"},
        },
    ],
    "secrets": ["HF_TOKEN"],
    "envs": {"A": "1"},
    "fs_group": 8877,
    "run_as_user": 1000,
    "run_as_group": 1001,
    "runtime_class": "nvidia",
    "priority_class": "high",
}


def test_edit_loses_nothing_that_it_does_not_change(page: Page, site: Site) -> None:
    site.make_resource("full", requirements=FULL, workload_types=["training"])
    before = site.api("GET", "/compute-resources/full")
    open_table(page)
    select(page, "full").get_by_role("button", name="Edit", exact=True).click()
    page.get_by_role("textbox", name="Description").fill("changed")
    page.get_by_role("button", name="Save").click()
    expect(row(page, "full")).to_contain_text("changed")
    after = site.api("GET", "/compute-resources/full")
    same = {"requirements", "scope", "name", "workload_types"}
    assert {key: after[key] for key in same} == {key: before[key] for key in same}


def test_copy_and_edit_makes_another_one(page: Page, site: Site) -> None:
    open_table(page)
    select(page, "beta").get_by_role("button", name="Copy & edit").click()
    name = page.get_by_role("textbox", name="Name", exact=True)
    expect(name).to_have_value("beta-copy")
    name.fill("beta-large")
    group(page, "CPU memory per pod").get_by_role("textbox", name="Request").fill("96")
    page.get_by_role("button", name="Create compute resource").click()
    expect(row(page, "beta-large")).to_contain_text("96Gi")
    expect(row(page, "beta")).to_contain_text("64Gi")


def test_revisions_show_what_changed(page: Page, site: Site) -> None:
    site.make_resource("history")
    site.api("PATCH", "/compute-resources/history", {"description": "second"})
    site.api("PATCH", "/compute-resources/history", {"requirements": {"resources": {"cpu": 3}}})
    page.goto("/compute-resources/history")
    page.get_by_role("tab", name="Revisions").click()
    changed = page.get_by_role("table").filter(has_text="Revision 2")
    expect(changed.get_by_role("row").filter(has_text="resources.cpu.requests")).to_contain_text("3")
    page.get_by_role("button", name="Show what changed in revision 2").click()
    expect(page.get_by_role("row").filter(has_text="second")).to_contain_text("description")


# Deleting


def test_delete_is_refused_with_the_list_of_what_uses_it(page: Page, site: Site) -> None:
    site.make_resource("needed")
    site.api("POST", "/templates", {"name": "finetune", "requirements": {"profile": "needed"}})
    open_table(page)
    select(page, "needed").get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("list", name="Used by")).to_contain_text("template finetune")
    dialog.get_by_role("button", name="Cancel").click()
    expect(row(page, "needed")).to_be_visible()


def test_delete_asks_and_deletes(page: Page, site: Site) -> None:
    site.make_resource("gone")
    open_table(page)
    select(page, "gone").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Deleted gone")).to_be_visible()
    expect(row(page, "gone")).to_have_count(0)


def test_archive_hides_it_and_restore_shows_it_again(page: Page, site: Site) -> None:
    site.make_resource("resting")
    open_table(page)
    select(page, "resting").get_by_role("button", name="Archive").click()
    page.get_by_role("dialog").get_by_role("button", name="Archive").click()
    expect(row(page, "resting")).to_have_count(0)
    open_table(page, "?archived=true")
    select(page, "resting").get_by_role("button", name="Restore").click()
    expect(row(page, "resting")).to_have_count(0)
    assert site.api("GET", "/compute-resources/resting")["archived"] is False
