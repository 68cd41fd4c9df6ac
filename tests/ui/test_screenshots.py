"""Screenshots of every page: empty, with one object, with a thousand objects, and with an error.

`make screenshots` takes all of them in light and dark mode and saves them in docs/screenshots. The tests check pages
with one object in both modes with axe, and the other pages in light mode only.
"""

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from fairlead.model.records import (
    AuditRecord,
    FunctionRecord,
    PolicyRecord,
    RunRecord,
    ScopeRecord,
    SecretRecord,
    TemplateRecord,
    TokenRecord,
)
from tests.ui.browsing import LAPTOP, PHONE, Browsing, Scheme, check_accessibility, take_screenshot
from tests.ui.running import submit_like, wait_for_end
from tests.ui.sites import Site
from tests.ui.test_accessibility import settle

SCHEMES: tuple[Scheme, ...] = ("light", "dark") if os.environ.get("SCREENSHOTS") else ("light",)
MANY = 1000
PAGES = {
    "runs": "/runs",
    "functions": "/functions",
    "schedules": "/schedules",
    "capacity": "/capacity",
    "compute-resources": "/compute-resources",
    "templates": "/templates",
    "organization": "/organization",
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
SMALL: dict[str, Any] = {
    "resources": {"cpu": {"requests": "250m", "limits": 1}, "mem": {"requests": "64Mi", "limits": "96Mi"}}
}
TRAINING = """\"\"\"A training with a memory leak.\"\"\"

import sys
import time

batches = []


def main(epochs=3, step=1):
    print(f"training for {epochs} epochs", flush=True)
    for epoch in range(1, epochs + 1):
        batches.append(bytearray(step * 1024 * 1024))
        print(f"epoch {epoch:3}  loss {1 / epoch:.4f}", flush=True)
        if epoch % 5 == 0:
            print(f"warning: {len(batches)} batches are still in memory", file=sys.stderr, flush=True)
        time.sleep(0.1)
    return {"loss": round(1 / epochs, 4), "epochs": epochs}
"""
REQUEST: dict[str, Any] = {"function": "train", "profile": "small", "resources": {"mem": "2Gi"}}
POLICY: dict[str, Any] = {
    "defaults": {"resources": {"cpu": 1, "mem": "2Gi"}},
    "limit_factor": {"mem": 1.1},
    "rules": {"resources.gpu": {"max": 2}, "resources.mem.requests": {"max": "128Gi"}},
    "switches": {"existing_volumes": "block", "gpu_memory_limits": True},
    "quota": {"gpu": 8, "cpu": 200, "mem": "1Ti", "runs": 50},
}


def fill_with_one(site: Site) -> None:
    """Create one object of each kind."""
    site.make_department("vision")
    site.make_project("forest", "department/vision")
    site.make_resource("1xa100", description="one A100, for training", requirements=A100)
    fields = {
        "scope": "project/forest",
        "description": "defaults for fine-tuning",
        "requirements": {"profile": "1xa100"},
    }
    site.api("POST", "/templates", {"name": "finetune", **fields})
    site.api("PUT", "/policies/department/vision", POLICY)
    site.api("PUT", "/projects/default/secrets/HF_TOKEN", {"value": "hidden"})
    site.make_token("ada", editor="department/vision")
    site.make_resource("small", description="one core, for small models", requirements=SMALL)
    site.api("PUT", "/projects/forest/functions/train", {"handler": "main", "text": TRAINING})


def run_to_completion(site: Site, **changes: Any) -> str:
    """Wait for a new run to end. Returns its ID."""
    run_id: str = wait_for_end(site, submit_like(site, REQUEST | changes, project="forest"))["id"]
    return run_id


def fill_with_many(site: Site) -> None:
    """Create a thousand objects of each kind."""
    fill_with_one(site)
    site.make_resources(MANY)
    make_name: Callable[[str], Callable[[int], str]] = lambda noun: lambda number: f"{noun}-{number:04}"  # noqa: E731
    site.multiply(TemplateRecord, MANY, name=make_name("template"))
    site.multiply(SecretRecord, MANY, name=make_name("SECRET"))
    site.multiply(TokenRecord, MANY, name=make_name("token"), digest=make_name("digest"))
    site.multiply(AuditRecord, MANY)
    site.multiply(FunctionRecord, MANY, name=make_name("function"))
    for inputs in ({}, {"epochs": 30, "step": 10}):
        run_to_completion(site, inputs=inputs)
        newest = datetime.now(UTC)
        site.multiply(RunRecord, MANY // 2, created_at=lambda number, newest=newest: newest - timedelta(minutes=number))  # type: ignore[misc]
    scope_fields = {"kind": lambda _: "project", "parent": lambda _: "department/vision", "details": lambda _: {}}
    site.multiply(ScopeRecord, MANY, name=make_name("project"), scope=make_name("project/project"), **scope_fields)
    site.multiply(PolicyRecord, MANY, scope=make_name("project/project"))


def capture_all(page: Page, state: str, scheme: Scheme) -> None:
    for noun, path in PAGES.items():
        page.goto(path)
        settle(page)
        take_screenshot(page, f"{noun}-{state}-{scheme}")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_empty_pages(browsing: Browsing, own_site: Site, scheme: Scheme) -> None:
    page = browsing.open(own_site, scheme=scheme)
    capture_all(page, "empty", scheme)
    page.goto("/compute-resources")
    expect(page.get_by_text("No compute resources yet")).to_be_visible()


def capture_and_check(page: Page, name: str) -> None:
    """Take screenshots in light and dark mode and run axe. Dark mode differs only in color."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", scheme)
        page.evaluate("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        check_accessibility(page, only=("color-contrast",) if scheme == "dark" else ())
        take_screenshot(page, f"{name}-{scheme}")


def capture_runs(page: Page, site: Site) -> None:
    """Capture the run pages and the form for a new run."""
    good, bad = run_to_completion(site), run_to_completion(site, inputs={"epochs": 30, "step": 10})
    pages = {
        "run-completed": (f"/runs/{good}", "0.3333"),
        "run": (f"/runs/{bad}", "Retry with more memory"),
        "run-logs": (f"/runs/{bad}/logs", "batches are still in memory"),
        "run-usage": (f"/runs/{bad}/usage", "Peak"),
        "run-configuration": (f"/runs/{bad}/configuration", "overrides"),
        "run-manifests": (f"/runs/{good}/manifests", "apiVersion"),
        "run-events": (f"/runs/{bad}/events", "OOMKilled"),
        "function": ("/functions/forest/train", "A training with a memory leak"),
        "new-run-again": (f"/new/run?from={bad}", "Copied from run"),
    }
    for name, (path, text) in pages.items():
        capture_page(page, name, path, text)
    page.set_viewport_size({"width": LAPTOP[0], "height": 1180})  # tall enough for the whole form
    page.goto("/new/run?project=forest&function=train")
    page.get_by_role("combobox", name="Compute resource").click()
    page.get_by_role("option", name="small").click()
    memory = page.get_by_role("group", name="CPU memory per pod", exact=True)
    memory.get_by_label("Request", exact=True).fill("2")
    expect(memory).to_contain_text("you entered 2Gi")
    settle(page)
    page.get_by_role("main").evaluate("element => { window.scrollTo(0, 0); element.scrollTo(0, 0); }")
    capture_and_check(page, "new-run")


def capture_page(page: Page, name: str, path: str, text: str | None = None) -> None:
    page.goto(path)
    settle(page)
    if text is not None:
        expect(page.get_by_text(text).first).to_be_visible()
    capture_and_check(page, name)


MORE_PAGES = {
    "compute-resource-form": ("/compute-resources/1xa100/edit", "64 GiB of memory"),
    "compute-resource": ("/compute-resources/1xa100", "1 whole GPU of type A100 per pod"),
    "new-compute-resource": ("/new/compute-resource", "GPUs are set in the request"),
    "template-form": ("/templates/finetune/edit", "1 whole GPU of type A100 per pod"),
    "policy": ("/policies/department/vision", "No new rejections"),
    "scope": ("/organization?scope=department/vision", "0 of 8"),
    "nowhere": ("/nowhere", "Page not found"),
}


def test_pages_with_one_object(browsing: Browsing, own_site: Site) -> None:
    fill_with_one(own_site)
    page = browsing.open(own_site)
    for noun, path in PAGES.items():
        capture_page(page, f"{noun}-one", path)
    for name, (path, text) in MORE_PAGES.items():
        capture_page(page, name, path, text)


def test_pages_of_runs(browsing: Browsing, own_site: Site) -> None:
    fill_with_one(own_site)
    capture_runs(browsing.open(own_site), own_site)
    anonymous = browsing.open(own_site, token=None)
    anonymous.goto("/")
    expect(anonymous.get_by_label("Token", exact=True)).to_be_visible()
    capture_and_check(anonymous, "sign-in")
    phone = browsing.open(own_site, size=PHONE)
    capture_page(phone, "phone", "/compute-resources/1xa100")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_with_a_thousand_rows(browsing: Browsing, own_site: Site, scheme: Scheme) -> None:
    fill_with_many(own_site)
    page = browsing.open(own_site, scheme=scheme)
    capture_all(page, "many", scheme)
    page.goto("/compute-resources")
    expect(page.get_by_role("status").filter(has_text="of 1,002 compute resources")).to_be_visible()
    assert page.locator("tbody tr").count() < 100  # only visible rows are rendered
    all_loaded = page.get_by_role("status").filter(has_text=re.compile("^1,002 compute resources$"))
    for _ in range(300):
        if all_loaded.count() > 0:
            break
        page.get_by_role("region", name="Compute resources").evaluate("frame => frame.scrollTo(0, 1e6)")
        page.wait_for_timeout(100)
    page.get_by_role("region", name="Compute resources").evaluate("frame => frame.scrollTo(0, 1e6)")
    expect(page.get_by_role("link", name="resource-1000")).to_be_visible()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_that_fail_to_load(browsing: Browsing, own_site: Site, scheme: Scheme, browser_errors: Any) -> None:
    browser_errors.expect("status of 503")
    page = browsing.open(own_site, scheme=scheme)
    problem = {"status": 503, "code": "unavailable", "detail": "the database is not responding", "hint": "try again"}

    def fail(route: Route) -> None:
        if route.request.url.endswith(("/me", "/sessions")):
            route.continue_()
        else:
            route.fulfill(status=503, json=problem, content_type="application/problem+json")

    page.route("**/api/v1/**", fail)
    for noun, path in PAGES.items():
        page.goto(path)
        expect(page.get_by_role("alert").first).to_contain_text("The database is not responding")
        take_screenshot(page, f"{noun}-failed-{scheme}")
