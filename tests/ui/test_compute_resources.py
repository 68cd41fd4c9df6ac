"""The compute resources page: the table, its filters and columns, and the form for a new compute resource."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.ui.browsing import Browsing, check_accessibility
from tests.ui.sites import Site
from tests.ui.tables import group, open_table, row

TABLE = "Compute resources"
COLUMNS = (
    *("Compute resource", "Description", "Fits now", "GPU devices per pod", "GPU memory per device"),
    *("CPU memory request", "CPU memory limit", "CPU compute request", "CPU compute limit"),
    *("Scope", "Workloads", "Templates", "Created by", "Created", "Cluster", "Revision", "Last updated"),
)


@pytest.fixture(scope="module")
def site(module_site: Site) -> Site:
    """A server with compute resources at two scopes."""
    module_site.make_department("vision")
    module_site.make_project("forest", "department/vision")
    for name, gpu, mem in (("alpha", 0, "4Gi"), ("beta", 1, "64Gi"), ("gamma", 2, "128Gi")):
        resources = {"cpu": 2 + gpu, "mem": {"requests": mem, "limits": "unlimited"}, "gpu": gpu}
        module_site.make_resource(name, description=f"{gpu} GPUs", requirements={"resources": resources})
    module_site.make_resource(
        "wood", scope="project/forest", requirements={"resources": {"cpu": "500m", "mem": "1500M"}}
    )
    return module_site


def rows_of(page: Page) -> list[str]:
    links = page.get_by_role("region", name=TABLE).locator("tbody tr td[data-first] a")
    return links.all_inner_texts()


def query_of(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


# The table


def test_table_has_all_required_columns(page: Page, site: Site) -> None:
    open_table(page)
    heads = page.get_by_role("columnheader").all_inner_texts()
    assert tuple(head.strip() for head in heads if head.strip() != "Select") == COLUMNS
    cells = row(page, "beta").get_by_role("cell").all_inner_texts()
    assert cells[1:3] == ["beta", "1 GPUs"]
    assert cells[4:12] == ["1", "100%", "64 GiB", "Unlimited", "3", "–", "platform", "0"]


def test_table_can_be_filtered_searched_and_sorted(page: Page, site: Site) -> None:
    open_table(page)
    page.get_by_role("button", name="Add filter").click()
    page.get_by_role("combobox", name="Column", exact=True).click()
    page.get_by_role("option", name="CPU memory request").click()
    page.get_by_role("textbox", name="Value").fill("64Gi")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status").filter(has_text="2 compute resources")).to_be_visible()
    assert rows_of(page) == ["beta", "gamma"]
    assert query_of(page) == {"mem_request": [">=64Gi"]}
    page.get_by_role("button", name="Remove filter: CPU memory request at least 64Gi").click()
    expect(page.get_by_role("link", name="wood", exact=True)).to_be_visible()

    page.keyboard.press("/")
    page.keyboard.type("2 gpus")
    expect(page.get_by_role("status").filter(has_text="1 compute resource")).to_be_visible()
    assert rows_of(page) == ["gamma"]
    page.get_by_role("textbox", name="Search").fill("nowhere")
    expect(page.get_by_text("No compute resources match")).to_be_visible()
    page.get_by_role("button", name="Clear search and filters").click()

    header = page.get_by_role("columnheader", name="CPU memory request")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(page.locator("tbody tr td[data-first]").first).to_have_text("wood")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    expect(page.locator("tbody tr td[data-first]").first).to_have_text("gamma")


def test_invalid_filter_value_shows_the_reason(page: Page, site: Site) -> None:
    page.goto("/compute-resources?mem_request=>=lots")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("'lots'")
    expect(alert).to_contain_text("mem_request")
    page.get_by_role("button", name="Clear all").click()
    expect(page.get_by_role("link", name="alpha", exact=True)).to_be_visible()


def test_columns_are_remembered_and_shared_by_url(page: Page, site: Site, browsing: Browsing) -> None:
    open_table(page, "?search=a&sort=-name")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="Description").uncheck()
    page.get_by_role("checkbox", name="Last used").check()
    page.keyboard.press("Escape")
    heads = page.get_by_role("columnheader")
    expect(heads.filter(has_text="Description")).to_have_count(0)
    expect(heads.filter(has_text="Last used")).to_have_count(1)

    other = browsing.open(site)
    open_table(other, f"?{urlsplit(page.url).query}")
    expect(other.get_by_role("columnheader").filter(has_text="Description")).to_have_count(0)
    assert rows_of(other) == rows_of(page)

    open_table(page)
    expect(heads.filter(has_text="Last used")).to_have_count(1)
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("button", name="Reset to default").click()
    expect(heads.filter(has_text="Description")).to_have_count(1)


def test_scope_opens_the_tree_with_the_scope_selected(page: Page, site: Site) -> None:
    open_table(page)
    row(page, "wood").get_by_role("button", name="project/forest").click()
    tree = page.get_by_role("dialog").get_by_role("tree")
    marked = tree.get_by_role("treeitem", selected=True)
    expect(marked).to_have_count(1)
    expect(marked).to_contain_text("forest")
    assert [re.split(r"\s", text)[0] for text in tree.get_by_role("treeitem").all_inner_texts()] == [
        *("Platform", "local", "vision", "forest", "default"),
    ]


def test_workloads_are_listed_with_type_and_status(page: Page, site: Site) -> None:
    site.make_resource("busy", requirements={"resources": {"cpu": 64, "mem": "1Gi"}})
    run = {"function": {"name": "train", "kind": "container", "image": "train"}, "profile": "busy"}
    site.api("POST", "/clusters", {"name": "away"})
    site.api("POST", "/projects", {"name": "far", "parent": "cluster/away"})
    site.api("POST", "/projects/far/runs", run)
    open_table(page)
    page.get_by_role("button", name="1 workloads using busy").click()
    expect(page.get_by_role("dialog").get_by_role("row")).to_have_count(2)
    cells = page.get_by_role("dialog").get_by_role("row").last.get_by_role("cell").all_inner_texts()
    assert re.match(r"train [0-9a-f]{8}$", cells[0])
    assert cells[1:] == ["Training", "Queued", "far"]


# Adding


def fill_basics(page: Page, name: str) -> None:
    page.get_by_role("link", name="New compute resource").click()
    page.get_by_role("combobox", name="Cluster").click()
    page.get_by_role("option", name="local").click()
    page.get_by_role("tree", name="Scope").get_by_role("treeitem", name="forest").click()
    page.get_by_role("textbox", name="Name", exact=True).fill(name)
    page.get_by_role("textbox", name="Description").fill("made by hand")


def test_compute_resource_is_created_with_the_form(page: Page, site: Site) -> None:
    open_table(page)
    fill_basics(page, "by-hand")
    page.get_by_role("textbox", name="GPU devices per pod").fill("2")
    cpu = group(page, "CPU compute per pod")
    cpu.get_by_role("textbox", name="Request").fill("1500")
    cpu.get_by_role("combobox").select_option(label="millicores")
    memory = group(page, "CPU memory per pod")
    memory.get_by_role("textbox", name="Request").fill("16")
    memory.get_by_role("combobox").select_option(label="GB")
    memory.get_by_text("Limit", exact=True).last.click()
    memory.get_by_role("textbox", name="At most").fill("20")
    summary = page.get_by_role("complementary", name="Summary")
    expect(summary).to_contain_text("2 whole GPUs")
    expect(summary).to_contain_text("Killed above 20 GB (out of memory)")
    page.get_by_role("button", name="More settings").click()
    page.get_by_role("radiogroup", name="Shared memory").get_by_text("Same as memory").click()
    page.get_by_role("button", name="Add extended resource").click()
    page.get_by_role("textbox", name="extended resource 1: resource").fill("vendor.example/nic")
    page.get_by_role("textbox", name="extended resource 1: quantity").fill("2")
    page.get_by_role("button", name="Create compute resource").click()
    expect(row(page, "by-hand")).to_be_visible()
    created = site.api("GET", "/compute-resources/by-hand")
    assert (created["scope"], created["description"]) == ("project/forest", "made by hand")
    assert created["requirements"] == {
        "resources": {
            "cpu": {"requests": "1500m", "limits": "unlimited"},
            "mem": {"requests": "16G", "limits": "20G"},
            "gpu": {"devices": 2},
            "shm": True,
            "extended": {"vendor.example/nic": "2"},
        }
    }


def test_gpu_memory_limit_requires_the_policy_switch(page: Page, site: Site) -> None:
    page.goto("/new/compute-resource")
    parts = page.get_by_role("radiogroup", name="GPU memory per device")
    for count, visible in (("2", 0), ("1", 1)):
        page.get_by_role("textbox", name="GPU devices per pod").fill(count)
        expect(parts).to_have_count(visible)
    parts.get_by_text("Fraction").click()
    page.get_by_role("combobox", name="Memory format").click()
    page.get_by_role("option", name="MIG").click()
    page.get_by_role("textbox", name="MIG profile").fill("1g.5gb")
    expect(page.get_by_role("complementary", name="Summary")).to_contain_text("MIG")

    site.api("PATCH", "/clusters/local", {"executor": "kubernetes", "gpu_sharing": "kai"})
    limit = page.get_by_role("switch", name="GPU memory limit")
    platform = "/policies/platform/platform"
    for allowed in (False, True):
        site.api("PUT", platform, {"switches": {"gpu_memory_limits": allowed}}, If_Match="*")
        page.goto("/new/compute-resource")
        page.get_by_role("textbox", name="GPU devices per pod").fill("1")
        parts.get_by_text("Fraction").click()
        page.get_by_role("textbox", name="GPU memory request").fill("50")
        expect(limit).to_have_count(int(allowed))
    limit.check(force=True)
    page.get_by_role("textbox", name="Maximum GPU memory").fill("80")
    summary = page.get_by_role("complementary", name="Summary")
    expect(summary).to_contain_text("80%")
    expect(summary.get_by_role("img", name="Risk").first).to_be_visible()
    page.get_by_role("textbox", name="Name", exact=True).fill("half")
    page.get_by_role("button", name="Create compute resource").click()
    expect(row(page, "half")).to_contain_text("50% to 80%")
    memory = {"request": "50%", "limit": "80%"}
    gpu = site.api("GET", "/compute-resources/half")["requirements"]["resources"]["gpu"]
    assert gpu == {"devices": 1, "memory": memory}
    site.api("DELETE", platform)  # other tests share the platform policy


def test_violations_are_shown_at_their_fields_while_typing(page: Page, site: Site) -> None:
    page.goto("/new/compute-resource")
    memory = group(page, "CPU memory per pod")
    memory.get_by_role("textbox", name="Request").fill("8")
    memory.get_by_text("Limit", exact=True).last.click()
    memory.get_by_role("textbox", name="At most").fill("4")
    expect(memory).to_contain_text("Limit 4Gi is less than the request 8Gi")
    group(page, "CPU compute per pod").get_by_role("textbox", name="Request").fill("many")
    expect(group(page, "CPU compute per pod")).to_contain_text("Invalid amount 'many'")
    page.get_by_role("textbox", name="Name", exact=True).fill("a b")
    page.get_by_role("button", name="Create compute resource").click()
    expect(page.get_by_role("textbox", name="Name", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("complementary", name="Summary")).to_contain_text("3 errors")
    check_accessibility(page)
