"""A plan that changes between the preview and the submission, in a browser."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.ui.browsing import check_accessibility
from tests.ui.sites import Site

PREVIEW = "**/runs/preview"


@pytest.fixture(scope="module")
def site(module_site: Site) -> Site:
    """A server with a function."""
    module_site.make_project("forest")
    module_site.api("PUT", "/projects/forest/functions/train", {"kind": "python", "text": "def main():\n    pass\n"})
    return module_site


@pytest.fixture
def resource(site: Site, request: pytest.FixtureRequest) -> str:
    """A compute resource of one test."""
    name = f"resource-{len(request.node.name)}"
    site.make_resource(name, requirements={"resources": {"cpu": "100m", "mem": "64Mi"}})
    return name


def change(site: Site, resource: str, cpu: str) -> None:
    requirements = {"resources": {"cpu": cpu, "mem": "64Mi"}, "envs": {"MODE": f"for {cpu}"}}
    site.api("PATCH", f"/compute-resources/{resource}", {"requirements": requirements})


def open_form(page: Page, resource: str) -> None:
    page.goto("/new/run?project=forest&function=train")
    page.get_by_role("combobox", name="Compute resource").click()
    page.get_by_role("option", name=resource).click()
    expect(
        page.get_by_role("complementary", name="Preview").get_by_text(f"compute resource {resource}").first
    ).to_be_visible()
    expect(page.get_by_role("region", name="Fit").get_by_role("status")).to_have_text("Starts now")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)  # the preview belongs to the current values


def freeze_previews(page: Page, **changed: Any) -> None:
    """Repeat the first preview of each request, with changed fields, until the form is submitted."""
    frozen: dict[str | None, Any] = {}

    def answer(route: Route) -> None:
        body = route.request.post_data
        if body not in frozen:
            frozen[body] = {**route.fetch().json(), **changed}
        route.fulfill(json=frozen[body])

    def release(request: Request) -> None:
        if request.method == "POST" and request.url.endswith("/runs"):
            page.unroute(PREVIEW, answer)

    page.route(PREVIEW, answer)
    page.on("request", release)


def runs_of(site: Site, resource: str) -> list[Any]:
    runs: list[Any] = site.api("GET", f"/runs?compute_resource={resource}")["items"]
    return runs


def test_changed_plan_is_shown_and_submitted_only_if_the_user_accepts_it(page: Page, site: Site, resource: str) -> None:
    freeze_previews(page)
    open_form(page, resource)
    change(site, resource, "200m")
    page.get_by_role("button", name="Submit run").click()
    dialog = page.get_by_role("dialog", name="The plan has changed")
    expect(dialog.get_by_role("row", name="resources.cpu.requests")).to_contain_text("100m200m")
    expect(dialog.get_by_role("row", name="envs.MODE")).to_contain_text("–for 200m")
    check_accessibility(page)
    assert runs_of(site, resource) == []
    dialog.get_by_role("button", name="Review").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("complementary", name="Preview")).to_contain_text("200m")
    assert runs_of(site, resource) == []

    freeze_previews(page)
    page.reload()
    open_form(page, resource)
    change(site, resource, "300m")
    page.get_by_role("button", name="Submit run").click()
    dialog.get_by_role("button", name="Submit anyway").click()
    page.wait_for_url("**/runs/*")
    (run,) = runs_of(site, resource)
    settings = {item["path"]: item["value"] for item in site.api("GET", f"/runs/{run['id']}/explain")["settings"]}
    assert settings["resources.cpu.requests"] == "300m"


def test_unchanged_plan_is_submitted_although_its_token_is_not_valid_anymore(
    page: Page, site: Site, resource: str
) -> None:
    tokens: list[Any] = []

    def record(route: Route) -> None:
        tokens.append(json.loads(route.request.post_data or "{}")["plan_token"])
        route.continue_()

    page.route("**/api/v1/projects/forest/runs", record)
    freeze_previews(page, token="not-valid")
    open_form(page, resource)
    page.get_by_role("button", name="Submit run").click()
    page.wait_for_url("**/runs/*")
    assert len(runs_of(site, resource)) == 1
    assert len(tokens) == 2
    assert tokens[0] == "not-valid"
    assert tokens[1]
