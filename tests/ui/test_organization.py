"""The organization page: scopes, roles and quotas."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.ui.browsing import Browsing, check_accessibility
from tests.ui.sites import Site


def open_scope(page: Page, scope: str) -> Locator:
    """Open a scope. Returns its panel."""
    page.goto(f"/organization?scope={scope}")
    panel = page.get_by_role("region", name=scope.rpartition("/")[2], exact=True)
    expect(panel).to_be_visible()
    return panel


def open_dialog(page: Page, action: str) -> Locator:
    """Open the dialog for one of the scope's actions."""
    page.get_by_role("toolbar").get_by_role("button", name=action, exact=True).click()
    return page.get_by_role("dialog")


def test_a_scope_is_created_renamed_and_deleted_when_empty(page: Page, site: Site) -> None:
    open_scope(page, "cluster/local")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("menuitem", name="Department").click()
    name = page.get_by_role("dialog").get_by_role("textbox", name="Name")
    name.fill("far sight")
    name.press("Enter")
    expect(name).to_have_accessible_description(re.compile("Invalid name 'far sight'. Use letters"))
    name.fill("sight")
    name.press("Enter")
    expect(page.get_by_role("heading", name="sight")).to_be_visible()
    expect(page.get_by_role("treeitem", name="sight", selected=True)).to_be_visible()

    open_dialog(page, "Rename").get_by_role("textbox", name="Name").fill("vision")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("department%2Fvision"))
    expect(page.get_by_role("treeitem", name="vision")).to_be_visible()

    site.make_project("inside", "department/vision")
    dialog = open_dialog(page, "Delete")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is not empty: it has project inside")
    expect(dialog.get_by_role("list", name="Used by")).to_contain_text("project inside")
    site.api("DELETE", "/projects/inside")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="local")).to_be_visible()
    expect(page.get_by_role("treeitem", name="vision")).to_have_count(0)


def test_a_project_is_moved_with_the_keyboard(page: Page, site: Site) -> None:
    site.make_department("old")
    site.make_department("new")
    site.make_project("moving", "department/old")
    open_scope(page, "department/old")
    page.get_by_role("treeitem", name="old").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="moving")).to_be_visible()
    page.get_by_role("button", name="Move", exact=True).press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Move")).to_be_disabled()
    expect(dialog.get_by_role("treeitem", name="moving")).to_have_count(0)
    dialog.get_by_role("treeitem", name="old").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Space")
    expect(dialog.get_by_role("treeitem", name="new")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Move", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    dialog.get_by_role("treeitem", name="new").click()
    dialog.get_by_role("button", name="Move").press("Enter")
    expect(page.get_by_role("region", name="moving").get_by_role("button", name="department/new").first).to_be_visible()
    assert site.api("GET", "/projects/moving")["parent"] == "department/new"


def test_roles_are_added_and_removed_and_show_their_source(page: Page, site: Site) -> None:
    site.make_project("shared")
    site.api("POST", "/roles", {"subject": "group:leads", "role": "editor", "scope": "cluster/local"})
    open_scope(page, "project/shared")
    page.get_by_role("button", name="Add role").click()
    dialog = page.get_by_role("dialog")
    user = dialog.get_by_role("textbox", name="User name")
    user.fill(" ")
    dialog.get_by_role("button", name="Add role").click()
    expect(user).to_have_accessible_description(re.compile("Invalid subject"))
    user.fill("<img src=x onerror=alert(1)>")
    dialog.get_by_role("radio", name="Member").check()
    expect(dialog.get_by_text("submit runs, set secrets")).to_be_visible()
    dialog.get_by_role("button", name="Add role").click()
    roles = page.get_by_role("table", name="Roles")
    added = roles.get_by_role("row").filter(has_text="<img src=x onerror=alert(1)>")
    expect(added).to_contain_text(re.compile("Member.*here"))
    check_accessibility(page)
    inherited = roles.get_by_role("row").filter(has_text="leads")
    expect(inherited).to_contain_text("inherited from cluster/local")
    expect(inherited.get_by_role("button", name="Remove")).to_have_count(0)

    added.get_by_role("button", name="Remove").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(added).to_have_count(0)
    assert all(role["scope"] != "project/shared" for role in site.api("GET", "/roles")["items"])


def test_conflicting_changes_of_a_cluster_are_shown_side_by_side(page: Page, site: Site) -> None:
    site.api("POST", "/clusters", {"name": "gpus"})
    panel = open_scope(page, "cluster/gpus")
    dialog = open_dialog(page, "Edit")
    dialog.get_by_role("textbox", name="GPU resource").fill("not a resource")
    dialog.get_by_role("button", name="Add GPU type").click()
    dialog.get_by_role("textbox", name="GPU type 1: Type").fill("A100")
    dialog.get_by_role("textbox", name="GPU type 1: Products").fill("NVIDIA-A100-SXM4-80GB, NVIDIA-A100-PCIE-40GB")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("textbox", name="GPU resource")).to_have_accessible_description(re.compile("vendor"))
    dialog.get_by_role("textbox", name="GPU resource").fill("amd.com/gpu")
    site.api("PATCH", "/clusters/gpus", {"python_image": "python:3.13"})
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("row", name="gpu_resource")).to_contain_text("amd.com/gpu")
    expect(dialog.get_by_role("row", name="python_image")).to_contain_text("python:3.13")
    dialog.get_by_role("button", name="Overwrite").click()
    expect(panel).to_contain_text("A100 (NVIDIA-A100-SXM4-80GB, NVIDIA-A100-PCIE-40GB)")
    assert site.api("GET", "/clusters/gpus")["details"].keys() == {"gpu_resource", "gpu_types"}


def test_a_name_with_a_plus_works_on_every_page(page: Page, site: Site) -> None:
    site.make_project("c+v")
    panel = open_scope(page, "project/c+v")
    panel.get_by_role("link", name="Policy", exact=True).click()
    expect(page.get_by_role("heading", name="Policy for project/c+v")).to_be_visible()
    page.get_by_role("textbox", name="Runs", exact=True).fill("3")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved policy for project/c+v")).to_be_visible()
    page.reload()
    expect(page.get_by_role("textbox", name="Runs", exact=True)).to_have_value("3")

    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Organization").click()
    page.get_by_role("treeitem", name="c+v").click()
    expect(page.get_by_role("meter", name="Runs of project/c+v")).to_have_attribute("aria-valuetext", "0 of 3")
    panel.get_by_role("link", name="Secrets").click()
    expect(page.get_by_role("combobox", name="Project")).to_have_value("c+v")
    page.get_by_role("button", name="Add secret").click()
    page.get_by_role("textbox", name="Name").fill("HF_TOKEN")
    page.get_by_role("textbox", name="Value").fill("s3cret")
    page.keyboard.press("Tab")
    page.get_by_role("dialog").get_by_role("button", name="Add secret").click()
    expect(page.get_by_role("row", name="HF_TOKEN")).to_be_visible()
    page.goto("/secrets")
    expect(page.get_by_role("row", name="HF_TOKEN")).to_be_visible()


def test_a_viewer_sees_the_usage_of_quotas_and_no_buttons(browsing: Browsing, site: Site) -> None:
    site.api("POST", "/clusters", {"name": "main"})
    site.make_department("busy", "cluster/main")
    site.make_project("queued", "department/busy")
    site.api("PUT", "/policies/department/busy", {"quota": {"gpu": 4, "mem": "20Gi", "runs": 10}})
    train = {"name": "train", "source": "train.py"}
    for _ in range(2):
        resources = {"gpu": 2, "cpu": "1500m", "mem": "8Gi"}
        site.mark_running(site.api("POST", "/projects/queued/runs", {"function": train, "resources": resources})["id"])
    site.api("PUT", "/policies/cluster/main", {"quota": {"gpu": 3}})
    page = browsing.open(site, token=site.make_token("vera-of-organization", viewer="project/queued"), scheme="dark")
    panel = open_scope(page, "department/busy")
    bars = {
        "GPUs of department/busy": "4 of 4, full",
        "Memory of department/busy": "16 GiB of 20 GiB, nearly full",
        "Runs of department/busy": "2 of 10",
        "GPUs of cluster/main": "4 of 3, over quota",
    }
    for name, text in bars.items():
        expect(page.get_by_role("meter", name=name)).to_have_attribute("aria-valuetext", text)
    quotas = page.get_by_role("region", name="Quotas")
    expect(quotas).to_contain_text("In use without a quota: 3 cores.")
    expect(quotas.get_by_role("link", name="View policy")).to_have_attribute("href", "/policies/department/busy")
    expect(panel.get_by_text("Only administrators can see the roles")).to_be_visible()
    expect(page.get_by_role("toolbar")).to_have_count(0)
    expect(panel.get_by_role("button")).to_have_text(["cluster/main", "cluster/main"])
    check_accessibility(page)
    page.get_by_role("treeitem", name="queued").click()
    expect(quotas).to_contain_text("In use here: 4 GPUs, 3 cores, 16 GiB of memory and 2 runs.")
    page.goto("/organization?scope=project/unseen")
    expect(page.get_by_text("project/unseen does not exist, or you don't have access to it.")).to_be_visible()


def test_settings_of_kubernetes_are_hidden_for_the_local_executor(page: Page, site: Site) -> None:
    site.api("POST", "/clusters", {"name": "far", "storage_classes": ["fast"]})
    panel = open_scope(page, "cluster/far")
    dialog = open_dialog(page, "Edit")
    namespace = dialog.get_by_role("textbox", name="Project namespaces")
    namespace.fill("everybody")
    dialog.get_by_role("textbox", name="Server URL").fill("https://fairlead.example.org")
    dialog.get_by_role("switch", name="Autoscaled").click()
    dialog.get_by_role("combobox", name="Queueing").click()
    page.get_by_role("option", name="Kueue").click()
    dialog.get_by_role("textbox", name="Kueue queue").fill("research")
    dialog.get_by_role("button", name="Save").click()
    expect(namespace).to_have_accessible_description(re.compile("once"))
    check_accessibility(page)
    namespace.fill("ai-{project}")
    dialog.get_by_role("button", name="Save").click()
    expect(panel).to_contain_text("ai-{project}")
    changed = {"namespace": "ai-{project}", "server_url": "https://fairlead.example.org", "autoscaled": True}
    queued = {"queueing": "kueue", "kueue_queue": "research"}
    assert site.api("GET", "/clusters/far")["details"] == {**changed, **queued, "storage_classes": ["fast"]}

    dialog = open_dialog(page, "Edit")
    dialog.get_by_role("combobox", name="Executor").click()
    page.get_by_role("option", name="Local (server machine)").click()
    expect(namespace).to_have_count(0)
    dialog.get_by_role("button", name="Save").click()
    expect(panel).not_to_contain_text("ai-{project}")
    assert site.api("GET", "/clusters/far")["details"] == {"executor": "local"}


def test_a_project_is_created_from_the_platform_in_a_chosen_or_the_default_cluster(page: Page, site: Site) -> None:
    site.api("POST", "/clusters", {"name": "second"})
    expect(open_scope(page, "cluster/local").get_by_text("default", exact=True)).to_be_visible()
    panel = open_scope(page, "cluster/second")
    dialog = open_dialog(page, "Make default")
    check_accessibility(page)
    dialog.get_by_role("button", name="Make default").click()
    expect(panel.get_by_text("default", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Make default")).to_have_count(0)
    for name, chosen in (("in-default", None), ("in-chosen", "cluster/local")):
        page.goto("/organization?scope=platform")
        page.get_by_role("button", name="Add", exact=True).click()
        page.get_by_role("menuitem", name="Project Create").click()
        dialog = page.get_by_role("dialog")
        choice = dialog.get_by_role("combobox", name="Cluster or department")
        expect(choice).to_have_value("cluster/second")
        if chosen is not None:
            choice.click()
            page.get_by_role("option", name=chosen).click()
        dialog.get_by_role("textbox", name="Name").fill(name)
        dialog.get_by_role("button", name="Create project").click()
        expect(page.get_by_role("heading", name=name)).to_be_visible()
        assert site.api("GET", f"/projects/{name}")["parent"] == (chosen or "cluster/second")
        site.api("DELETE", f"/projects/{name}")
    panel = open_scope(page, "cluster/local")
    open_dialog(page, "Make default").get_by_role("button", name="Make default").click()
    expect(panel.get_by_text("default", exact=True)).to_be_visible()
    site.api("DELETE", "/clusters/second")
