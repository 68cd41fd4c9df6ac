"""The run form in a browser: preview, suggestions, initial values, and copied snippets."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Locator, Page, expect

from tests.ui.browsing import PHONE, Browsing, check_accessibility
from tests.ui.sites import Site

CODE = "def main(epochs=3):\n    print('epochs', epochs)\n    return epochs\n"
CODE_WITH_NOTE = "def main(epochs=3, note=''):\n    return note\n"
SMALL = {"resources": {"mem": {"requests": "96Mi", "limits": "128Mi"}, "cpu": {"requests": "100m", "limits": "1"}}}
TUNING = {"profile": "small", "envs": {"MODE": "tune"}}
CLIPBOARD = ["clipboard-read", "clipboard-write"]


@pytest.fixture(scope="module")
def site(module_site: Site) -> Site:
    """A server with a function, compute resources for two workload types, a template, a policy and a secret."""
    module_site.make_department("vision")
    module_site.make_project("forest", "department/vision")
    module_site.make_project("meadow")
    module_site.api("PUT", "/projects/forest/functions/train", {"kind": "python", "text": CODE, "handler": "main"})
    module_site.api("PUT", "/projects/forest/secrets/HF_TOKEN", {"value": "secret"})
    policy = {"defaults": {"resources": {"disk": "10Mi"}}, "rules": {"deadline": {"max": "2h"}}}
    module_site.api("PUT", "/policies/department/vision", policy)
    module_site.make_resource("small", description="For tests", requirements=SMALL)
    module_site.make_resource("answers", workload_types=["inference"], requirements=SMALL)
    module_site.api(
        "POST",
        "/templates",
        {
            "name": "tuning",
            "scope": "department/vision",
            "requirements": {"profile": "small", "envs": {"MODE": "tune"}},
        },
    )
    return module_site


def open_form(page: Page, query: str = "?project=forest&function=train") -> None:
    page.goto(f"/new/run{query}")
    expect(verdict(page)).to_have_text("Starts now")


def verdict(page: Page) -> Locator:
    return page.get_by_role("region", name="Fit").get_by_role("status")


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=option).click()


def amount(page: Page, title: str) -> Locator:
    return page.get_by_role("group", name=title, exact=True).get_by_label("Request", exact=True)


def value(page: Page, path: str) -> Locator:
    """The setting at a path in the preview."""
    return page.get_by_role("complementary", name="Preview").get_by_role("listitem").filter(has_text=path)


def submit(page: Page, site: Site) -> Any:
    """Submit the form and return the run."""
    page.get_by_role("button", name="Submit run").click()
    page.wait_for_url("**/runs/*")
    return site.api("GET", f"/runs/{page.url.rpartition('/')[2]}")


def request_of(site: Site, run: Any) -> Any:
    return site.api("GET", f"/runs/{run['id']}/request")


def settings_of(site: Site, run: Any) -> dict[str, Any]:
    return {setting["path"]: setting for setting in site.api("GET", f"/runs/{run['id']}/explain")["settings"]}


@pytest.mark.smoke
def test_fields_show_values_locked_by_the_compute_resource(page: Page, site: Site) -> None:
    open_form(page)
    memory = page.get_by_role("group", name="CPU memory per pod", exact=True)
    amount(page, "CPU memory per pod").fill("2")
    expect(value(page, "resources.mem.requests")).to_contain_text("2Gi")
    page.get_by_role("combobox", name="Compute resource").click()
    option = page.get_by_role("option", name="small")
    for part in ("100m CPU, 96 MiB memory", "For tests", "fits now:"):
        expect(option).to_contain_text(part)
    expect(page.get_by_role("option", name="answers")).to_have_count(0)  # only for inference
    option.click()
    expect(memory).to_contain_text("Locked to 96Mi by small (you entered 2Gi)")
    expect(memory).to_contain_text("Locked to 128Mi by small")
    expect(value(page, "resources.mem.requests").locator("del")).to_have_text("2Gi")
    expect(page.get_by_role("group", name="CPU compute per pod", exact=True)).to_contain_text("Locked to 100m by small")
    page.get_by_label("Inputs").fill("epochs: 5")
    run = submit(page, site)
    assert settings_of(site, run)["resources.mem.requests"]["value"] == "96Mi"
    # The request is stored unchanged, without limits.
    request = request_of(site, run)
    assert request == {
        "function": request["function"],
        "profile": "small",
        "resources": {"mem": {"requests": "2Gi"}},
        "inputs": {"epochs": 5},
    }


def test_a_suggestion_is_applied_with_one_click(page: Page, site: Site) -> None:
    open_form(page)
    amount(page, "CPU compute per pod").fill("4000")
    page.get_by_label("Inputs").fill("epochs: 2  # quick")
    expect(verdict(page)).to_have_text("Can't run here")
    expect(page.get_by_role("group", name="CPU compute per pod", exact=True)).to_contain_text("Needs 4000 CPU cores")
    page.get_by_role("button", name="Apply: request").first.click()
    expect(verdict(page)).to_have_text("Starts now")
    expect(amount(page, "CPU compute per pod")).not_to_have_value("4000")
    expect(page.get_by_label("Inputs")).to_have_value("epochs: 2  # quick")
    run = submit(page, site)
    assert float(request_of(site, run)["resources"]["cpu"]["requests"]) <= (os.cpu_count() or 1)


def test_a_run_starts_from_a_template(page: Page, site: Site) -> None:
    open_form(page)
    choose(page, "Start from a template", "tuning")
    expect(page.get_by_text("small from template tuning")).to_be_visible()
    expect(value(page, "envs.MODE")).to_contain_text("template tuning")
    run = submit(page, site)
    assert run["compute_resource"] == "small"
    assert request_of(site, run)["template"] == "tuning"


def test_run_again_keeps_values_that_the_form_does_not_show(page: Page, site: Site) -> None:
    request = {
        "function": {"name": "sh", "command": ["bash", "-c", "echo $MODE $0", "it's"]},
        "resources": {"mem": {"requests": "64Mi"}},
        "envs": [{"name": "MODE", "value": "one"}],
        "args": ["a b", "c"],
        "deadline": 5400,
    }
    earlier = site.api("POST", "/projects/meadow/runs", request)
    page.goto(f"/new/run?from={earlier['id']}&mem=128Mi")
    expect(page.get_by_role("heading", name="Run sh again")).to_be_visible()
    short = earlier["id"][-8:]
    expect(page.get_by_role("link", name=short)).to_be_visible()
    expect(page.get_by_role("combobox", name="Project")).to_have_value("meadow")
    expect(page.get_by_role("combobox", name="Function")).to_have_value(f"sh (from run {short})")
    expect(amount(page, "CPU memory per pod")).to_have_value("128")
    expect(verdict(page)).to_have_text("Starts now")
    page.get_by_role("button", name="Copy as").click()
    expect(page.get_by_role("menuitem", name="Python")).to_be_enabled()
    command = page.get_by_role("menuitem", name="Command line")
    expect(command).to_be_disabled()
    expect(command).to_contain_text("Only saved functions can run from the command line")
    page.keyboard.press("Escape")
    second = submit(page, site)
    memory = {"requests": "128Mi", "limits": "128Mi"}
    assert request_of(site, second) == {**request, "resources": {"mem": memory}}


def test_a_function_and_a_compute_resource_are_created_in_dialogs(page: Page, site: Site) -> None:
    open_form(page)
    amount(page, "CPU compute per pod").fill("50")
    page.get_by_label("Unit of CPU compute per pod request").select_option("m")
    page.get_by_role("button", name="New function").click()
    dialog = page.get_by_role("dialog", name="New function")
    dialog.get_by_label("Name", exact=True).fill("count")
    dialog.get_by_text("Command", exact=True).click()
    dialog.get_by_label("Command", exact=True).last.fill("echo 123")
    dialog.get_by_role("button", name="Create function").click()
    expect(page.get_by_role("combobox", name="Function")).to_have_value("count")
    page.get_by_role("button", name="New compute resource").click()
    dialog = page.get_by_role("dialog", name="New compute resource")
    dialog.get_by_label("Name").fill("tiny")
    check_accessibility(page)
    amount_of = dialog.get_by_role("group", name="CPU memory per pod", exact=True)
    amount_of.get_by_label("Request", exact=True).fill("64")
    amount_of.get_by_label("Unit of CPU memory per pod request").select_option("Mi")
    dialog.get_by_role("button", name="Create compute resource").click()
    expect(page.get_by_role("combobox", name="Compute resource")).to_have_value("tiny")
    expect(page.get_by_role("button", name="New compute resource")).to_be_focused()
    expect(value(page, "resources.mem.requests")).to_contain_text("64Mi")
    assert site.api("GET", "/compute-resources/tiny")["scope"] == "project/forest"
    run = submit(page, site)
    assert (run["function"], run["compute_resource"]) == ("count", "tiny")
    assert request_of(site, run)["resources"] == {"cpu": {"requests": "50m"}}


def test_every_violation_is_shown_at_its_field(page: Page, site: Site) -> None:
    open_form(page, "?project=forest")
    page.get_by_role("button", name="Submit run").click()
    missing = page.get_by_role("combobox", name="Function")
    expect(missing).to_have_accessible_description("Select a function.")
    expect(missing).to_be_focused()
    choose(page, "Function", "train")
    amount(page, "CPU memory per pod").fill("plenty")
    page.get_by_label("Deadline").fill("3h")
    page.get_by_label("Inputs").fill("[1, 2]")
    expect(page.get_by_label("Inputs")).to_have_accessible_description(re.compile("Enter names and values"))
    page.get_by_label("Inputs").fill("epochs: 1")
    expect(amount(page, "CPU memory per pod")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("group", name="CPU memory per pod", exact=True)).to_contain_text("Invalid amount")
    amount(page, "CPU memory per pod").fill("")
    expect(page.get_by_text("The department/vision policy allows at most").first).to_be_visible()
    page.get_by_role("button", name="Submit run").click()
    expect(page.get_by_label("Deadline")).to_have_attribute("aria-invalid", "true")
    page.get_by_role("link", name="Functions").click()
    expect(page.get_by_role("dialog", name="Leave without saving?")).to_be_visible()
    page.get_by_role("button", name="Cancel").last.click()
    expect(page.get_by_label("Deadline")).to_have_value("3h")
    assert page.url.endswith("/new/run?project=forest")


def copied(page: Page, title: str) -> str:
    page.get_by_role("button", name="Copy as").click()
    page.get_by_role("menuitem", name=title).click()
    expect(page.get_by_text(f"Copied as {title}")).to_be_visible()
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def fill_everything(page: Page) -> dict[str, Any]:
    """Fill in one field of each kind and return the resulting request."""
    choose(page, "Compute resource", "small")
    page.get_by_label("Inputs").fill("epochs: 4\nnote: it's $HOME")
    page.get_by_label("Deadline").fill("90m")
    page.get_by_role("button", name="More settings").click()
    page.get_by_text("Same as memory", exact=True).click()
    page.get_by_role("button", name="Add variable").click()
    page.get_by_label("variable 1: name").fill("GREETING")
    page.get_by_label("variable 1: value").fill('"hi" $USER')
    page.get_by_role("combobox", name="Secrets").click()
    page.get_by_role("option", name="HF_TOKEN").click()
    page.keyboard.press("Escape")
    return {
        "function": "train",
        "profile": "small",
        "resources": {"shm": True},
        "secrets": ["HF_TOKEN"],
        "envs": [{"name": "GREETING", "value": '"hi" $USER'}],
        "inputs": {"epochs": 4, "note": "it's $HOME"},
        "deadline": "90m",
    }


def test_copied_snippets_submit_the_same_request(browsing: Browsing, site: Site, tmp_path: Path) -> None:
    site.api("PUT", "/projects/meadow/functions/train", {"kind": "python", "text": CODE_WITH_NOTE, "handler": "main"})
    page = browsing.open(site, permissions=CLIPBOARD)
    open_form(page, "?project=meadow&function=train")
    site.api("PUT", "/projects/meadow/secrets/HF_TOKEN", {"value": "secret"})
    page.reload()
    expect(verdict(page)).to_have_text("Starts now")
    request = fill_everything(page)
    expect(verdict(page)).to_have_text("Starts now")
    check_accessibility(page)
    texts = {title: copied(page, title) for title in ("Python", "Command line", "YAML", "curl")}
    assert yaml.safe_load(texts["YAML"]) == request
    commands = {
        "Python": [sys.executable, "-c", texts["Python"]],
        "Command line": ["bash", "-euc", texts["Command line"].rstrip() + " --detach"],
        "curl": ["bash", "-euc", texts["curl"]],
    }
    submitted = [paste(site, command, tmp_path) for command in commands.values()]
    expected = {**request, "action": "job", "function": submitted[0]["function"], "deadline": 5400}
    assert submitted == [expected] * 3


def paste(site: Site, command: list[str], folder: Path) -> Any:
    """Run a copied snippet and return the request for the run that it submitted."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "FAIRLEAD_URL": site.url,
        "FAIRLEAD_TOKEN": site.token,
    }
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    output = result.stdout.strip()
    run = json.loads(output)["id"] if output.startswith("{") else output
    return {"action": "job", **site.api("GET", f"/runs/{run}/request")}


def test_a_run_is_submitted_with_the_keyboard(page: Page, site: Site) -> None:
    open_form(page, "?project=forest")
    page.get_by_role("combobox", name="Function").focus()
    page.keyboard.type("tra")
    expect(page.get_by_role("option", name="train")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("combobox", name="Function")).to_have_value("train")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="New function")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.type("small")
    expect(page.get_by_role("option", name="small")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("group", name="Details of small")).to_be_visible()
    page.get_by_label("Deadline").focus()
    page.keyboard.type("30m")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*")
    run = site.api("GET", f"/runs/{page.url.rpartition('/')[2]}")
    assert (run["function"], run["compute_resource"]) == ("train", "small")


def test_enter_in_an_open_list_never_submits_the_form(page: Page) -> None:
    """It would submit the run without the compute resource that the user is typing."""
    open_form(page, "?project=forest&function=train")
    field = page.get_by_role("combobox", name="Compute resource")
    field.press_sequentially("no such resource")
    expect(page.get_by_text("No matching compute resources")).to_be_visible()
    field.press("Enter")
    expect(field).to_have_value("no such resource")
    field.fill("small")
    field.press("Enter")
    expect(page.get_by_role("group", name="Details of small")).to_be_visible()
    field.press("ArrowDown")
    field.press("Enter")
    expect(page.get_by_role("group", name="Details of small")).to_be_visible()
    expect(page).to_have_url(re.compile("/new/run"))


def test_the_form_respects_the_roles_of_members_and_viewers(browsing: Browsing, site: Site) -> None:
    member = browsing.open(site, token=site.make_token("max", member="project/forest"))
    open_form(member, "?function=train")
    expect(member.get_by_role("combobox", name="Project")).to_have_value("forest")
    expect(member.get_by_role("button", name="New compute resource")).to_have_count(0)
    viewer = browsing.open(site, token=site.make_token("vera", viewer="project/forest"))
    viewer.goto("/new/run")
    expect(viewer.get_by_text("You're not in a project yet.")).to_be_visible()


def test_the_form_fits_a_phone_without_scrolling_sideways(browsing: Browsing, site: Site) -> None:
    page = browsing.open(site, size=PHONE)
    open_form(page)
    choose(page, "Compute resource", "small")
    amount(page, "CPU memory per pod").fill("2")
    expect(page.get_by_text("you entered 2Gi")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    expect(page.get_by_text("Starts now", exact=True).last).to_be_visible()
