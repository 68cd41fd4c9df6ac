"""The run page: timeline, reasons, result, usage and actions."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from fairlead.sdk.api_client import ApiClient
from fairlead.sdk.projects import Project
from tests.processes.execution import until
from tests.processes.machines import Launcher, Machine
from tests.ui.browsing import PHONE, BrowserErrors, Browsing, check_accessibility
from tests.ui.running import finish, name_of, open_run, stop, submit, wait, wait_for_end
from tests.ui.sites import Site

TABS = ["Overview", "Logs", "Usage", "Configuration", "Manifests", "Events", "Files"]
# Holds 150 MB for a second, during which the supervisor takes ten samples.
USES_MEMORY = """
import time


def main():
    data = b"x" * 150_000_000
    time.sleep(1)
    return len(data)
"""
FAILS = """
def main(path="data.csv"):
    print("reading", path)
    return load(path)


def load(path):
    raise LookupError(f"there is no {path}")
"""
MARKUP = '<img src=x onerror="window.broken = true"><script>window.broken = true</script>'
RETURNS_MARKUP = """
import os


def main(text):
    print(text, f"\\033]8;;javascript:window.broken=true\\007{text}\\033]8;;\\007")
    with open(os.path.join(os.environ["FAIRLEAD_OUTPUT"], "<img src=x onerror=window.broken=true>.html"), "w") as file:
        file.write(text)
    if os.environ["FAILS"] == "yes":
        raise ValueError(text)
    return {text: [text, "javascript:window.broken=true"]}
"""
RETURNS = """
def main(epochs=3):
    return {"loss": 0.25, "epochs": epochs}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Site]:
    """A server with a small configured capacity, so that runs wait for each other."""
    machine = Machine(tmp_path_factory.mktemp("site"), launcher)
    opened = Site(machine, {"FAIRLEAD_CAPACITY": "cpu=4,mem=8Gi"})
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _stop_runs(site: Site) -> Iterator[None]:
    """Stop all runs after each test."""
    yield
    stop(site, *site.api("GET", "/runs?active=true")["items"])
    until(lambda: not site.api("GET", "/nodes")[0]["runs"])


def python(site: Site, folder: Path, text: str, handler: str | None = None, **request: Any) -> dict[str, Any]:
    """Submit a run of a Python file, or of a function in it."""
    file = folder / "main.py"
    file.write_text(text)
    project = Project(ApiClient(site.url, site.token), "default")
    function = project.function("python", source=str(file), handler=handler)
    run: dict[str, Any] = site.api("GET", f"/runs/{function.run(**request).id}")
    return run


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def state_of(page: Page) -> Locator:
    return page.get_by_role("main").get_by_role("status").first


def test_the_page_of_an_ended_run_has_a_timeline_and_facts(page: Page, site: Site) -> None:
    site.make_resource("page-small", requirements={"resources": {"cpu": 1, "mem": {"requests": "64Mi"}}})
    run = finish(site, "over", "echo done; sleep 1", profile="page-small")
    open_run(page, run)
    expect(state_of(page)).to_have_text("Completed")
    expect(page.get_by_role("main")).to_contain_text("Training of over in default on page-small")
    steps = card(page, "Timeline").get_by_role("listitem")
    expect(steps).to_have_text([re.compile(state) for state in ("Queued", "Pending", "Running", "Completed")])
    expect(steps.nth(2)).to_contain_text(re.compile(r"for .* s"))
    expect(steps.last).to_have_attribute("aria-current", "step")
    facts = card(page, "Run")
    expect(facts).to_contain_text(run["id"])
    expect(facts).to_contain_text("page-small, revision 1")
    expect(facts.get_by_role("row", name="Exit code")).to_contain_text("0")
    expect(page.get_by_role("table", name="Attempts")).to_be_hidden()  # hidden for a single attempt
    expect(page.get_by_role("table", name="Resources")).to_contain_text("64 MiB")
    page.get_by_role("link", name="page-small").first.click()
    expect(page.get_by_role("heading", name="page-small")).to_be_visible()


def test_the_result_of_a_function_is_shown_and_copied(page: Page, site: Site, tmp_path: Path) -> None:
    run = wait(site, python(site, tmp_path, RETURNS, "main", inputs={"epochs": 8}), "completed")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_run(page, run)
    result = card(page, "Result")
    expect(result).to_contain_text('"epochs": 8')
    result.get_by_role("button", name="Copy").click()
    expect(result.get_by_role("button", name="Copied")).to_be_visible()
    assert '"loss": 0.25' in page.evaluate("navigator.clipboard.readText()")
    with page.expect_download() as download:
        card(page, "Run").get_by_role("link", name="Download code").click()
    assert download.value.suggested_filename == f"{run['id']}.tar.gz"


def test_a_waiting_run_shows_the_reason_and_applies_a_suggestion(page: Page, site: Site) -> None:
    holder = wait(site, submit(site, "holder", "sleep 600", resources={"cpu": 3}), "running")
    waiting = submit(site, "waiter", "echo in", resources={"cpu": 2})
    open_run(page, waiting)
    expect(state_of(page)).to_have_text("Queued")
    why = card(page, "Why it's waiting")
    expect(why).to_contain_text("Next in the queue.")
    fit = card(page, "Fit")
    expect(fit).to_contain_text(f"Needs 2 CPU cores; 1 of 4 free on {fit_node(site)}")
    expect(fit).to_contain_text(f"holder-{holder['id']}")
    check_accessibility(page)
    fit.get_by_role("button", name="Apply: request 1 CPU core instead of 2").click()
    expect(page).not_to_have_url(re.compile(waiting["id"]))
    expect(page.get_by_text("Replaced by waiter")).to_be_visible()
    expect(state_of(page)).to_have_text("Completed")
    open_run(page, waiting)
    expect(state_of(page)).to_have_text("Stopped")


def fit_node(site: Site) -> str:
    name: str = site.api("GET", "/nodes")[0]["name"]
    return name


def test_a_run_is_stopped_from_its_page_with_the_keyboard(page: Page, site: Site) -> None:
    run = submit(site, "endless", "sleep 600")
    open_run(page, run)
    expect(state_of(page)).to_have_text("Running")
    expect(page.get_by_role("main")).to_contain_text(re.compile(r"running for \d"))
    toolbar = page.get_by_role("toolbar", name=f"Actions for {name_of(run)}")
    toolbar.get_by_role("button", name="Stop").press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Stop", exact=False).last.press("Enter")
    expect(state_of(page)).to_have_text("Stopped")
    expect(card(page, "Run").get_by_role("row", name="Stopped by")).to_be_visible()


def test_a_failure_shows_the_traceback_and_the_last_log_lines(page: Page, site: Site, tmp_path: Path) -> None:
    run = wait(site, python(site, tmp_path, FAILS, "main"), "failed")
    open_run(page, run)
    failure = card(page, "Why it failed")
    expect(failure).to_contain_text("ExitCode")
    expect(failure).to_contain_text("Exit code: 1.")
    expect(failure.get_by_role("region", name="Traceback")).to_contain_text("in load")
    expect(failure.get_by_role("region", name="Traceback")).to_contain_text("LookupError: there is no data.csv")
    expect(failure.get_by_role("region", name="Last log lines")).to_contain_text("reading data.csv")
    check_accessibility(page)
    failure.get_by_role("link", name="Full log").click()
    expect(page.get_by_role("log")).to_contain_text("reading data.csv")
    page.go_back()
    expect(failure).to_be_visible()


def test_an_out_of_memory_run_is_retried_on_a_larger_compute_resource(page: Page, site: Site, tmp_path: Path) -> None:
    for name, mem in (("tight", "64Mi"), ("roomy", "512Mi"), ("vast", "1Gi")):
        resources = {"mem": {"requests": "32Mi", "limits": mem}}
        site.make_resource(name, requirements={"resources": resources})
    run = wait(site, python(site, tmp_path, USES_MEMORY, "main", profile="tight"), "failed")
    form_path = f"/new/run?from={run['id']}"
    page.goto("/runs?reason=OOMKilled")
    page.get_by_role("checkbox", name=f"Select {name_of(run)}").check()
    toolbar = page.get_by_role("toolbar", name=f"Actions for {name_of(run)}")
    expect(toolbar.get_by_role("link", name="Run again")).to_have_attribute("href", form_path)
    expect(toolbar.get_by_role("link", name="Retry with more memory")).to_have_attribute(
        "href", f"{form_path}&mem=128Mi"
    )
    check_accessibility(page)
    open_run(page, run)
    failure = card(page, "Why it failed")
    expect(failure).to_contain_text("OOMKilled")
    expect(failure).to_contain_text(re.compile(r"Peak [\d.]+ MiB of 64 MiB \(\d{3,}% of limit\)"))
    failure.get_by_role("link", name="Retry with 128 MiB").click()
    expect(page).to_have_url(re.compile(rf"/new/run\?from={run['id']}&mem=128Mi$"))
    expect(page.get_by_role("combobox", name="Compute resource")).to_have_value("roomy")
    expect(page.get_by_text("tight has too little memory. Selected roomy, which has at least 128 MiB.")).to_be_visible()
    page.get_by_role("button", name="Submit run").click()
    expect(page).to_have_url(re.compile(r"/runs/\w+$"))
    expect(state_of(page)).to_have_text("Completed")
    expect(card(page, "Result")).to_contain_text("150000000")
    expect(page.get_by_role("main")).to_contain_text("on roomy")


def test_settings_have_sources_and_manifests_are_yaml(page: Page, site: Site) -> None:
    site.make_resource("page-wins", requirements={"resources": {"mem": {"requests": "96Mi"}}})
    run = finish(site, "planned", profile="page-wins", resources={"mem": "64Mi"})
    open_run(page, run)
    page.get_by_role("tab", name="Configuration").click()
    value = page.get_by_role("listitem").filter(has_text="resources.mem.requests").first
    expect(value).to_contain_text("96Mi")
    expect(value).to_contain_text("compute resource page-wins")
    expect(value.get_by_role("deletion")).to_have_text("64Mi")
    expect(card(page, "Warnings")).to_contain_text("page-wins overrides it and sets 96Mi")
    page.get_by_role("tab", name="Manifests").click()
    expect(page.get_by_label("Manifests as YAML")).to_contain_text("kind: Job")
    page.get_by_role("tab", name="Events").click()
    rows = page.get_by_role("table", name="Events").get_by_role("row")
    expect(rows).to_have_count(1 + len(site.api("GET", f"/runs/{run['id']}/events")))
    expect(rows.last).to_contain_text("Completed")


def test_output_files_are_listed_and_downloaded(page: Page, site: Site) -> None:
    script = 'mkdir "$FAIRLEAD_OUTPUT/a b"; echo hello > "$FAIRLEAD_OUTPUT/a b/ä#?.txt"; echo 1 > $FAIRLEAD_OUTPUT/one'
    open_run(page, finish(site, "leaves", script), "files")
    table = page.get_by_role("table", name="Files")
    expect(table.get_by_role("row")).to_have_count(3)
    row = table.get_by_role("row").filter(has_text="a b/ä#?.txt")
    expect(row).to_contain_text("6 bytes")
    with page.expect_download() as download:
        row.get_by_role("link").click()
    assert download.value.path().read_text() == "hello\n"


def test_usage_charts_show_request_and_limit_and_work_with_the_keyboard(page: Page, site: Site) -> None:
    run = submit(site, "used", "sleep 600", resources={"mem": {"requests": "64Mi", "limits": "256Mi"}, "cpu": "100m"})
    open_run(page, run, "usage")
    expect(page.get_by_text(re.compile(r"Peak [\d.]+ MiB of 256 MiB \(\d+% of limit\)"))).to_be_visible()
    chart = page.get_by_role("slider", name="Memory over time")
    expect(chart.locator("text", has_text="request")).to_be_visible()
    expect(chart.locator("text", has_text="limit")).to_be_visible()
    chart.press("Home")
    expect(chart).to_have_attribute("aria-valuenow", "0")
    expect(chart).to_have_attribute("aria-valuetext", re.compile(r"(bytes|B) (after .* s|at the start)$"))
    # New samples appear without interaction.
    expect(chart).to_have_attribute("aria-valuemax", re.compile(r"^([3-9]|\d\d)$"))
    card(page, "Memory").get_by_text("Show as table").click()
    expect(page.get_by_role("table", name="Memory over time (table)").get_by_role("row").nth(2)).to_be_visible()


@pytest.mark.parametrize("fails", ["yes", "no"])
def test_markup_of_a_run_is_shown_and_not_executed(page: Page, site: Site, tmp_path: Path, fails: str) -> None:
    variables = {"FAILS": fails, "TEXT": MARKUP}
    run = wait_for_end(site, python(site, tmp_path, RETURNS_MARKUP, "main", inputs={"text": MARKUP}, envs=variables))
    open_run(page, run)
    shown = card(page, "Why it failed") if fails == "yes" else card(page, "Result")
    expect(shown).to_contain_text(MARKUP if fails == "yes" else "javascript:window.broken=true")
    # Only the message of a failed run contains text of the run.
    for part in ("logs", "configuration", "manifests", *(("events",) if fails == "yes" else ())):
        open_run(page, run, part)
        expect(page.get_by_role("main")).to_contain_text("window.broken = true")
    open_run(page, run, "files")
    with page.expect_download() as download:
        page.get_by_role("table", name="Files").get_by_role("link").click()
    assert download.value.path().read_text() == MARKUP
    page.goto("/runs")
    expect(page.get_by_role("main")).to_contain_text(run["function"])
    assert page.evaluate("window.broken") is None
    assert page.evaluate("[...document.links].every(link => link.protocol !== 'javascript:')")


def test_each_tab_has_an_address_and_works_with_the_keyboard(page: Page, site: Site) -> None:
    run = finish(site, "tabs")
    open_run(page, run)
    tabs = page.get_by_role("tab")
    expect(tabs).to_have_text(TABS)
    tabs.first.focus()
    page.keyboard.press("ArrowRight")
    expect(tabs.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/logs$"))
    expect(page.get_by_role("log")).to_be_visible()
    page.get_by_role("tab", name="Files").click()
    expect(page).to_have_url(re.compile("/files$"))
    page.reload()
    expect(page.get_by_role("tab", name="Files")).to_have_attribute("aria-selected", "true")
    page.go_back()
    expect(page.get_by_role("tab", name="Logs")).to_have_attribute("aria-selected", "true")
    page.goto(f"/runs/{run['id']}/nonsense")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()


def test_an_unknown_run_shows_an_error_with_a_link_to_all_runs(
    page: Page, site: Site, browser_errors: BrowserErrors
) -> None:
    browser_errors.expect("status of 404")
    page.goto("/runs/01a1e0f4bb597d25aa8c1f0c3d5e7f90/logs")
    expect(page.get_by_role("alert")).to_contain_text("Run '01a1e0f4bb597d25aa8c1f0c3d5e7f90' does not exist.")
    page.get_by_role("link", name="All runs").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()


def test_the_page_of_a_run_stays_readable_after_its_deletion(
    page: Page, site: Site, browser_errors: BrowserErrors
) -> None:
    browser_errors.expect("status of 404")
    run = finish(site, "forgotten", "echo remember; exit 4", "failed")
    open_run(page, run)
    expect(card(page, "Why it failed")).to_contain_text("remember")
    site.api("DELETE", f"/runs/{run['id']}")
    alert = page.get_by_role("alert").filter(has_text="This run was deleted")
    expect(alert).to_be_visible()
    expect(card(page, "Why it failed")).to_contain_text("Exit code: 4.")
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    page.get_by_role("tab", name="Files").click()
    expect(alert).to_be_visible()
    expect(page.get_by_role("alert").filter(has_text="does not exist")).to_be_visible()
    alert.get_by_role("link", name="All runs").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()


def test_viewers_cannot_apply_suggestions(browsing: Browsing, site: Site) -> None:
    wait(site, submit(site, "keeper", "sleep 600", resources={"cpu": 3}), "running")
    waiting = submit(site, "watched", resources={"cpu": 2})
    page = browsing.open(site, token=site.make_token("looker", viewer="project/default"))
    open_run(page, waiting)
    expect(card(page, "Fit")).to_contain_text("Request 1 CPU core instead of 2.")
    expect(page.get_by_role("button", name=re.compile("^Apply"))).to_have_count(0)


def test_the_page_fits_a_phone(browsing: Browsing, site: Site) -> None:
    run = finish(site, "narrow", "echo " + "wide " * 100)
    page = browsing.open(site, size=PHONE)
    open_run(page, run)
    for part in TABS:
        page.get_by_role("tab", name=part).click()
        expect(page.get_by_role("tabpanel", name=part)).to_be_visible()
        expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0, part
