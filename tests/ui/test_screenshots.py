"""Pictures of every page as people meet it: with nothing, with one thing, with a thousand, and when it fails.

`make screenshots` takes all of them light and dark, and keeps them in docs/screenshots. The tests do so with one thing,
and ask axe of each page; else they take the light ones alone.
"""

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from fairlead.model.records import AuditRecord, PlaceRecord, PolicyRecord, SecretRecord, TemplateRecord, TokenRecord
from tests.ui.browsing import PHONE, Browsing, Scheme, check_accessibility, take_screenshot
from tests.ui.sites import Site
from tests.ui.test_accessibility import settle

SCHEMES: tuple[Scheme, ...] = ("light", "dark") if os.environ.get("SCREENSHOTS") else ("light",)
MANY = 1000
PAGES = {
    "compute-resources": "/compute-resources",
    "templates": "/templates",
    "organisation": "/organisation",
    "policies": "/policies",
    "secrets": "/secrets/default",
    "tokens": "/tokens",
    "audit": "/audit",
    "settings": "/settings",
}
A100: dict[str, Any] = {
    "resources": {"gpu": {"devices": 1, "type": "A100"}, "cpu": 8, "mem": {"requests": "64Gi", "limits": "80Gi"}},
    "node_selector": {"pool": "a100"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
}
POLICY: dict[str, Any] = {
    "defaults": {"resources": {"cpu": 1, "mem": "2Gi"}},
    "limit_factor": {"mem": 1.1},
    "rules": {"resources.gpu": {"max": 2}, "resources.mem.requests": {"max": "128Gi"}},
    "switches": {"existing_volumes": "block", "gpu_memory_limits": True},
    "quota": {"gpu": 8, "cpu": 200, "mem": "1Ti", "runs": 50},
}


def fill_with_one(site: Site) -> None:
    """One of everything, as a small team has it."""
    site.make_department("vision")
    site.make_project("forest", "department/vision")
    site.make_resource("1xa100", description="one A100, for training", requirements=A100)
    said = {"scope": "project/forest", "description": "fine-tuning as we do it", "requirements": {"profile": "1xa100"}}
    site.api("POST", "/templates", {"name": "finetune", **said})
    site.api("PUT", "/policies/department/vision", POLICY)
    site.api("PUT", "/projects/default/secrets/HF_TOKEN", {"value": "hidden"})
    site.make_token("ada", editor="department/vision")


def fill_with_many(site: Site) -> None:
    """A thousand of everything."""
    fill_with_one(site)
    site.make_resources(MANY)
    named: Callable[[str], Callable[[int], str]] = lambda noun: lambda number: f"{noun}-{number:04}"  # noqa: E731
    site.multiply(TemplateRecord, MANY, name=named("template"))
    site.multiply(SecretRecord, MANY, name=named("SECRET"))
    site.multiply(TokenRecord, MANY, name=named("token"), digest=named("digest"))
    site.multiply(AuditRecord, MANY)
    scoped = {"kind": lambda _: "project", "parent": lambda _: "department/vision", "details": lambda _: {}}
    site.multiply(PlaceRecord, MANY, name=named("project"), scope=named("project/project"), **scoped)
    site.multiply(PolicyRecord, MANY, scope=named("project/project"))


def look_at(page: Page, state: str, scheme: Scheme) -> None:
    for noun, path in PAGES.items():
        page.goto(path)
        settle(page)
        take_screenshot(page, f"{noun}-{state}-{scheme}")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_with_nothing_on_them(browsing: Browsing, own_site: Site, scheme: Scheme) -> None:
    page = browsing.open(own_site, scheme=scheme)
    look_at(page, "empty", scheme)
    page.goto("/compute-resources")
    expect(page.get_by_text("No compute resources yet")).to_be_visible()


MORE = {
    "compute-resource-form": ("/compute-resources/1xa100/edit", "64Gi of memory"),
    "compute-resource": ("/compute-resources/1xa100", "Each pod gets 1 whole GPU"),
    "new-compute-resource": ("/new/compute-resource", "left to whoever submits"),
    "template-form": ("/templates/finetune/edit", "Each pod gets 1 whole GPU"),
    "policy": ("/policies/department/vision", "Nothing would be refused"),
    "place": ("/organisation?scope=department/vision", "0 of 8"),
    "nowhere": ("/nowhere", "There is no such page"),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_with_one_thing(browsing: Browsing, own_site: Site, scheme: Scheme) -> None:
    fill_with_one(own_site)
    page = browsing.open(own_site, scheme=scheme)
    # What is drawn is the same but for its colours.
    only = ("color-contrast",) if scheme == "dark" else ()
    for noun, path in PAGES.items():
        page.goto(path)
        settle(page)
        check_accessibility(page, only=only)
        take_screenshot(page, f"{noun}-one-{scheme}")
    for name, (path, text) in MORE.items():
        page.goto(path)
        settle(page)
        expect(page.get_by_text(text).first).to_be_visible()
        check_accessibility(page, only=only)
        take_screenshot(page, f"{name}-{scheme}")
    nobody = browsing.open(own_site, token=None, scheme=scheme)
    nobody.goto("/")
    expect(nobody.get_by_label("Token", exact=True)).to_be_visible()
    take_screenshot(nobody, f"sign-in-{scheme}")
    phone = browsing.open(own_site, size=PHONE, scheme=scheme)
    phone.goto("/compute-resources/1xa100")
    settle(phone)
    take_screenshot(phone, f"phone-{scheme}")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_with_a_thousand_rows(browsing: Browsing, own_site: Site, scheme: Scheme) -> None:
    fill_with_many(own_site)
    page = browsing.open(own_site, scheme=scheme)
    look_at(page, "many", scheme)
    page.goto("/compute-resources")
    expect(page.get_by_role("status").filter(has_text="of 1,001 compute resources")).to_be_visible()
    assert page.locator("tbody tr").count() < 100  # only what is in sight is drawn
    whole = page.get_by_role("status").filter(has_text=re.compile("^1,001 compute resources$"))
    for _ in range(300):
        if whole.count() > 0:
            break
        page.get_by_role("region", name="Compute resources").evaluate("frame => frame.scrollTo(0, 1e6)")
        page.wait_for_timeout(100)
    page.get_by_role("region", name="Compute resources").evaluate("frame => frame.scrollTo(0, 1e6)")
    expect(page.get_by_role("link", name="resource-1000")).to_be_visible()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_that_cannot_be_shown(browsing: Browsing, own_site: Site, scheme: Scheme, mishaps: Any) -> None:
    mishaps.expect("status of 503")
    page = browsing.open(own_site, scheme=scheme)
    problem = {"status": 503, "code": "unavailable", "detail": "the database does not answer", "hint": "try again"}

    def refuse(route: Route) -> None:
        if route.request.url.endswith(("/me", "/sessions")):
            route.continue_()
        else:
            route.fulfill(status=503, json=problem, content_type="application/problem+json")

    page.route("**/api/v1/**", refuse)
    for noun, path in PAGES.items():
        page.goto(path)
        expect(page.get_by_role("alert").first).to_contain_text("The database does not answer")
        take_screenshot(page, f"{noun}-failed-{scheme}")
