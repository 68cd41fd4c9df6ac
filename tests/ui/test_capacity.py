"""The capacity page: totals, nodes, compute resources that fit, and allocations."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.ui.browsing import PHONE, Browsing, check_accessibility
from tests.ui.running import Run, name_of, stop, submit
from tests.ui.sites import Site
from tests.ui.tables import open_table, row

MANY = 2000
MAX_ELEMENTS = 12 * MANY  # a cell is a button with a text


@pytest.fixture(scope="module")
def site(module_site: Site) -> Site:
    """A server with a small compute resource, one that fits nowhere, and an unreachable cluster."""
    module_site.make_resource("one-core", requirements={"resources": {"cpu": 1, "mem": "64Mi"}})
    module_site.make_resource("vast", requirements={"resources": {"cpu": 4000}}, workload_types=["training"])
    module_site.api("POST", "/clusters", {"name": "edge", "executor": "kubernetes"})
    module_site.make_project("shore", "cluster/edge")
    return module_site


@pytest.fixture
def node(site: Site) -> dict[str, Any]:
    """The node of the local machine."""
    local: dict[str, Any] = site.api("GET", "/nodes")[0]
    return local


@pytest.fixture
def run(site: Site, node: dict[str, Any]) -> Iterator[Run]:
    """A run that uses every core on the machine."""
    resources = {"cpu": node["capacity"]["cpu"], "mem": "192Mi"}
    submitted = submit(site, "hold", "sleep 300", resources=resources)
    yield submitted
    stop(site, submitted)


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def resource_cells(page: Page, name: str) -> Locator:
    """A compute resource's cells in the table."""
    return row(page, name).get_by_role("cell")


def make_nodes(count: int) -> list[dict[str, Any]]:
    """Nodes in two groups, one of them with GPUs, and some of them cordoned."""
    nodes = []
    for number in range(count):
        gpus = 8 if number % 2 else 0
        capacity = {
            "cpu": "96",
            "memory": "768Gi",
            "ephemeral-storage": "1.8Ti",
            "pods": "110",
            "nvidia.com/gpu": str(gpus),
        }
        free = capacity | {"cpu": str(number % 97), "memory": "96Gi", "nvidia.com/gpu": str(number % (gpus + 1))}
        used = {"cpu": str(96 - number % 97), "memory": "672Gi", "nvidia.com/gpu": str(gpus - number % (gpus + 1))}
        nodes.append(
            {"name": f"n-{number:04}", "cluster": "local", "runs": [], "others": number % 3, "taints": []}
            | {"group": "train" if gpus else "general", "gpu_type": "A100" if gpus else "", "capacity": capacity}
            | {"free": free, "requested": {name: used.get(name, "0") for name in capacity}, "labels": {"pool": "train"}}
            | {"unschedulable": number % 50 == 1, "unavailable": number % 50 == 1, "protections": []}
        )
    return nodes


def fake_nodes(page: Page, nodes: list[dict[str, Any]]) -> None:
    """Replace the nodes in responses to the page."""
    body = json.dumps(nodes)

    def respond(route: Route) -> None:
        route.fulfill(body=body, content_type="application/json")

    page.route("**/api/v1/nodes*", respond)


def test_allocations_link_to_the_node_and_the_run(page: Page, site: Site, node: dict[str, Any], run: Run) -> None:
    page.goto("/capacity")
    cores = node["capacity"]["cpu"]
    allocations = card(page, "Allocations")
    allocation = allocations.get_by_role("row").filter(has=page.get_by_role("link", name=name_of(run)))
    expect(allocation).to_contain_text("192 MiB")
    expect(allocation).to_contain_text("default")
    cells = allocation.get_by_role("cell").all_inner_texts()
    assert cells[2:6] == ["–", cores, "192 MiB", node["name"]]
    allocation.get_by_role("button", name=node["name"]).click()
    expect(page).to_have_url(re.compile(f"node={node['name']}"))
    panel = card(page, node["name"])
    expect(panel.get_by_role("row", name=f"CPU 0 {cores}", exact=True)).to_have_text(f"CPU0{cores}")
    expect(panel.get_by_role("list", name="Labels")).to_contain_text("kubernetes.io/hostname")
    expect(card(page, "Cluster local")).to_contain_text(f"0 of {cores} free")
    panel.get_by_role("link", name=name_of(run)).click()
    expect(page).to_have_url(re.compile(f"/runs/{run['id']}"))


def test_fewer_runs_fit_while_the_machine_is_busy_and_the_reason_is_shown(
    browsing: Browsing, site: Site, node: dict[str, Any]
) -> None:
    page = browsing.open(site)
    page.goto("/capacity")
    cores = node["capacity"]["cpu"]
    expect(resource_cells(page, "one-core").nth(1)).to_have_text(f"{cores} more")
    expect(resource_cells(page, "vast").nth(1)).to_have_text("none")
    expect(resource_cells(page, "vast").nth(2)).to_contain_text("Needs 4000 CPU cores; ")
    expect(resource_cells(page, "vast").nth(4)).to_have_text("Training")
    busy = submit(site, "hold", "sleep 300", resources={"cpu": cores, "mem": "64Mi"})
    expect(resource_cells(page, "one-core").nth(1)).to_have_text("none")
    expect(resource_cells(page, "one-core").nth(2)).to_contain_text(f"0 of {cores} free")
    open_table(page)
    cell = row(page, "one-core").get_by_text("none", exact=True)
    cell.hover()
    expect(page.get_by_role("tooltip")).to_contain_text(f"0 of {cores} free")
    stop(site, busy)
    page.goto("/capacity")
    expect(resource_cells(page, "one-core").nth(1)).to_have_text(f"{cores} more")


def test_the_page_of_a_compute_resource_shows_the_fit_per_cluster(page: Page, site: Site) -> None:
    page.goto("/compute-resources/vast")
    expect(page.get_by_text("Fits now: unknown on edge; none on local: needs 4000 CPU cores")).to_be_visible()
    page.get_by_role("link", name="local", exact=True).click()
    expect(card(page, "Cluster local")).to_be_visible()


def test_the_table_of_compute_resources_works_without_capacity(page: Page, site: Site, browser_errors: Any) -> None:
    browser_errors.expect("status of 503")
    page.route("**/api/v1/capacity*", lambda route: route.fulfill(status=503))
    open_table(page)
    expect(row(page, "one-core").get_by_role("cell").nth(3)).to_have_text("–")


def test_an_unreachable_cluster_shows_its_error(page: Page, site: Site) -> None:
    page.goto("/capacity")
    edge = card(page, "Clusters").get_by_role("button", name="edge")
    expect(edge).to_contain_text("not reachable")
    edge.click()
    [capacity] = [entry for entry in site.api("GET", "/capacity") if entry["cluster"] == "edge"]
    expect(page.get_by_role("alert")).to_contain_text(capacity["error"][1:])
    expect(resource_cells(page, "one-core").nth(1)).to_have_text("unknown")
    expect(page.get_by_role("listbox", name="Nodes")).to_have_count(0)
    check_accessibility(page)


def test_a_project_selects_its_cluster_and_its_compute_resources(page: Page, site: Site) -> None:
    site.make_resource("by-the-sea", scope="project/shore", requirements={"resources": {"cpu": 1}})
    page.goto("/capacity?cluster=local")
    expect(resource_cells(page, "one-core")).not_to_have_count(0)
    expect(row(page, "by-the-sea")).to_have_count(0)
    page.get_by_role("combobox", name="Project").click()
    page.get_by_role("option", name="shore").click()
    expect(card(page, "Cluster edge")).to_be_visible()
    expect(resource_cells(page, "by-the-sea").nth(1)).to_have_text("unknown")
    expect(page).to_have_url(re.compile(r"project=shore"))


def test_a_shared_url_restores_the_selection(browsing: Browsing, site: Site) -> None:
    page = browsing.open(site, scheme="dark")
    fake_nodes(page, make_nodes(40))
    page.goto("/capacity?cluster=local&by=cpu&node=n-0007")
    expect(page.get_by_role("radio", name="CPU")).to_be_checked()
    chosen = page.get_by_role("option", name="n-0007: 93% in use, 7 of 96 cores free")
    expect(chosen).to_have_attribute("aria-selected", "true")
    expect(card(page, "n-0007")).to_contain_text("1 other pod")
    check_accessibility(page)
    page.get_by_role("group", name="train · A100").get_by_role("option", name="n-0009").click()
    page.get_by_role("radiogroup", name="Resource").get_by_text("Memory").click()
    expect(page).to_have_url(re.compile(r"by=memory.*node=n-0009|node=n-0009.*by=memory"))
    page.reload()
    expect(card(page, "n-0009")).to_be_visible()
    page.get_by_role("button", name="Close n-0009").click()
    expect(page.get_by_text("Select a node to see its workloads.")).to_be_visible()
    page.goto("/capacity?cluster=nowhere")
    expect(page.get_by_text("Cluster nowhere does not exist, or you don't have access to it.")).to_be_visible()


def test_a_map_of_two_thousand_nodes_works_with_the_keyboard(page: Page, site: Site) -> None:
    fake_nodes(page, make_nodes(MANY))
    page.goto("/capacity?cluster=local")
    cells = page.get_by_role("listbox", name="Nodes").locator("[data-name]")
    expect(cells).to_have_count(MANY)
    elements = page.evaluate("document.querySelectorAll('*').length")
    assert elements < MAX_ELEMENTS, elements
    assert page.locator('[data-name][tabindex="0"]').count() == 1, "Tab reaches more than one cell"
    first = page.get_by_role("option", name="n-0001: 7/8 in use, 1 of 8 GPUs free, cordoned")
    first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator('[data-name="n-0003"]')).to_be_focused()
    page.keyboard.press("ArrowDown")
    below = page.evaluate("document.activeElement.getBoundingClientRect().left")
    above = page.locator('[data-name="n-0003"]').bounding_box()
    assert above is not None
    assert below == above["x"]
    page.keyboard.press("ArrowUp")
    expect(page.locator('[data-name="n-0003"]')).to_be_focused()
    page.keyboard.press("Enter")
    expect(card(page, "n-0003")).to_contain_text("A100")
    expect(page.locator('[data-name="n-0003"]')).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("option", name="n-1998: – no GPUs")).to_be_focused()
    page.get_by_role("textbox", name="Search nodes").fill("n-123")
    expect(cells).to_have_count(10)
    page.get_by_role("textbox", name="Search nodes").fill("elsewhere")
    expect(page.get_by_text("No matching nodes.")).to_be_visible()


def test_users_without_a_cluster_see_a_message(browsing: Browsing, site: Site) -> None:
    page = browsing.open(site, token=site.make_token("stranger"))
    page.goto("/capacity")
    expect(page.get_by_text("No clusters available")).to_be_visible()


def test_invisible_pods_are_only_counted(browsing: Browsing, site: Site, node: dict[str, Any], run: Run) -> None:
    site.make_project("meadow")
    page = browsing.open(site, token=site.make_token("mo", member="project/meadow", viewer="project/shore"))
    page.goto("/capacity?cluster=local")
    expect(page.get_by_text("1 other pod").first).to_be_visible()
    expect(page.get_by_text("No visible runs on this cluster.")).to_be_visible()
    expect(page.get_by_role("link", name=name_of(run))).to_have_count(0)


def test_a_selected_node_is_scrolled_into_view_on_a_phone(browsing: Browsing, site: Site) -> None:
    page = browsing.open(site, size=PHONE)
    fake_nodes(page, make_nodes(60))
    page.goto("/capacity?cluster=local")
    page.get_by_role("option", name="n-0001").click()
    expect(card(page, "n-0001")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
