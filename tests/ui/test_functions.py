"""The functions pages: the table, the form, and a function's code and runs."""

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from fairlead.source_code import ArchiveEntry, PackedCode, pack_entries
from tests.ui.browsing import PHONE, BrowserErrors, Browsing, check_accessibility
from tests.ui.running import submit_like, wait
from tests.ui.sites import Site

SQUARE = 'def main(x: int):\n    """Square it."""\n    return x * x  # in one line\n'


def open_functions(page: Page, query: str = "") -> None:
    page.goto(f"/functions{query}")
    expect(page.get_by_role("status").filter(has_text=re.compile(r"^\d+ functions?$"))).to_be_visible()


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def make_function(site: Site, name: str, **content: Any) -> dict[str, Any]:
    """Create a function in the project `default`: Python code, unless other content is given."""
    body = content or {"text": SQUARE, "handler": "main"}
    function: dict[str, Any] = site.api("PUT", f"/projects/default/functions/{name}", body)
    return function


def run(site: Site, name: str, **request: Any) -> dict[str, Any]:
    """Run a function to completion."""
    return wait(site, submit_like(site, {"function": name, **request}), "completed")


def send(page: Page, site: Site, source: str, *entries: ArchiveEntry) -> str:
    """Upload code to the project and return its digest."""
    packed = PackedCode(pack_entries(list(entries)), source)
    headers = {"Authorization": f"Bearer {site.token}", "Content-Type": "application/gzip"}
    response = page.request.put(f"/api/v1/projects/default/code/{packed.digest}", data=packed.archive, headers=headers)
    assert response.ok, response.text()
    return packed.digest


def open_dialog(page: Page) -> Locator:
    open_functions(page)
    page.get_by_role("button", name="New function").click()
    return page.get_by_role("dialog", name="New function")


def save(dialog: Locator) -> None:
    dialog.get_by_role("button", name=re.compile("^(Create function|Save)$")).click()


def test_python_function_is_created_with_the_keyboard_and_runs(page: Page, site: Site) -> None:
    open_functions(page)
    page.get_by_role("button", name="New function").press("Enter")
    dialog = page.get_by_role("dialog", name="New function")
    expect(dialog.get_by_role("textbox", name="Name", exact=True)).to_be_focused()
    page.keyboard.type("square")
    code = dialog.get_by_role("textbox", name="Code")
    code.fill(SQUARE)
    code.press("Tab")  # Tab leaves the code editor
    expect(dialog.get_by_role("textbox", name="File name")).to_be_focused()
    expect(dialog.get_by_role("textbox", name="File name")).to_have_value("main.py")
    page.keyboard.press("Tab")
    page.keyboard.type("main")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.url}/functions/default/square")
    expect(page.get_by_role("heading", name="square")).to_be_visible()
    text = page.get_by_role("region", name="Contents of main.py")
    assert text.inner_text().rstrip("\n") == SQUARE.rstrip("\n")

    page.get_by_role("link", name="Run", exact=True).click()
    expect(page).to_have_url(f"{site.url}/new/run?project=default&function=square")
    finished = run(site, "square", inputs={"x": 7})
    assert site.api("GET", f"/runs/{finished['id']}/result")["result"]["value"] == 49


def test_table_shows_definitions_and_links_to_runs(page: Page, site: Site) -> None:
    make_function(site, "table-shell", command="bash -c 'echo hi; true'")
    run(site, "table-shell")
    open_functions(page, "?search=table-")
    for text in ("Command", "bash -c 'echo hi; true'", "project/default", "just now"):
        expect(row(page, "table-shell")).to_contain_text(text)
    page.get_by_role("link", name="1 runs of table-shell").click()
    expect(page).to_have_url(re.compile(r"/runs\?function=%3Dtable-shell&scope=project%2Fdefault$"))
    expect(page.get_by_role("link", name=re.compile("^table-shell "))).to_have_count(1)


def test_container_function_is_created(page: Page, site: Site) -> None:
    dialog = open_dialog(page)
    dialog.get_by_role("textbox", name="Name", exact=True).fill("written-container")
    dialog.get_by_text("Container", exact=True).click()
    for label, text in (("Image", "hub.example.org/a:1"), ("Arguments", "--port 80"), ("Port", "80")):
        dialog.get_by_role("textbox", name=label).fill(text)
    dialog.get_by_role("combobox", name="Image pull policy").click()
    page.get_by_role("option", name="Always").click()
    save(dialog)
    expect(page.get_by_role("heading", name="written-container")).to_be_visible()
    page.get_by_role("tab", name="About").click()
    expect(page.get_by_role("row", name="Port 80", exact=True)).to_be_visible()
    check_accessibility(page)
    content = site.api("GET", "/projects/default/functions/written-container")["content"]
    expected = {"image": "hub.example.org/a:1", "args": ["--port", "80"], "port": 80, "pull_policy": "Always"}
    assert content == {"kind": "container"} | expected


def test_errors_are_shown_at_their_fields(page: Page, site: Site) -> None:
    dialog = open_dialog(page)
    name, code = (dialog.get_by_role("textbox", name=label, exact=True) for label in ("Name", "Code"))
    source = dialog.get_by_role("textbox", name="File name")
    save(dialog)
    expect(name).to_have_accessible_description(re.compile("Enter a name"))
    expect(code).to_have_accessible_description(re.compile("Enter the code"))
    check_accessibility(page)
    name.fill("../elsewhere")
    code.fill(SQUARE)
    save(dialog)
    expect(name).to_have_accessible_description(re.compile(r"'\.\./elsewhere' is not a valid name"))
    name.fill("a b")
    save(dialog)
    expect(name).to_have_accessible_description(re.compile(r"Invalid name 'a b'\. Use letters"))
    name.fill("refused")
    source.fill("../main.py")
    save(dialog)
    expect(source).to_have_accessible_description(re.compile("Must be a relative path without"))
    dialog.get_by_text("Container", exact=True).click()
    dialog.get_by_role("textbox", name="Port").fill("eighty")
    save(dialog)
    expect(dialog.get_by_role("textbox", name="Port")).to_have_accessible_description(re.compile("a whole number"))
    dialog.get_by_role("textbox", name="Port").fill("80")
    save(dialog)
    expect(dialog.get_by_role("textbox", name="Image")).to_have_accessible_description(re.compile("Is missing"))


def test_existing_name_is_reported_and_not_replaced(page: Page, site: Site, browser_errors: BrowserErrors) -> None:
    browser_errors.expect("status of 428")
    before = make_function(site, "taken")
    dialog = open_dialog(page)
    dialog.get_by_role("textbox", name="Name", exact=True).fill("taken")
    dialog.get_by_role("textbox", name="Code").fill("print('mine')")
    save(dialog)
    expect(dialog.get_by_role("alert")).to_contain_text("A function named taken already exists in default.")
    assert site.api("GET", "/projects/default/functions/taken") == before
    dialog.get_by_role("link", name="open it").click()
    expect(page.get_by_role("heading", name="taken")).to_be_visible()


def test_unsaved_text_is_kept_after_escape(page: Page, site: Site) -> None:
    dialog = open_dialog(page)
    dialog.get_by_role("textbox", name="Code").fill("print('typed')")
    page.keyboard.press("Escape")
    confirm = page.get_by_role("dialog", name="Leave without saving?")
    confirm.get_by_role("button", name="Cancel").click()
    expect(dialog.get_by_role("textbox", name="Code")).to_have_value("print('typed')")
    dialog.get_by_role("button", name="Cancel").click()
    confirm.get_by_role("button", name="Leave").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_edit_keeps_values_without_a_field(page: Page, site: Site) -> None:
    make_function(site, "edited", text=SQUARE, handler="main", source="squares.py", port=8080, pull_secrets=["HUB"])
    open_functions(page, "?search=edited")
    page.get_by_role("checkbox", name="Select edited").check()
    page.get_by_role("toolbar", name="Actions for edited").get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Edit edited")
    code = dialog.get_by_role("textbox", name="Code")
    expect(code).to_have_value(SQUARE)
    expect(dialog.get_by_role("textbox", name="Name", exact=True)).to_have_count(0)
    code.fill(SQUARE.replace("x * x", "x ** 3"))
    save(dialog)
    expect(page.get_by_text("Saved function edited")).to_be_visible()
    after = site.api("GET", "/projects/default/functions/edited")
    assert after["revision"] == 2
    assert {name: after["content"][name] for name in ("source", "handler", "port", "pull_secrets")} == {
        "source": "squares.py",
        "handler": "main",
        "port": 8080,
        "pull_secrets": ["HUB"],
    }
    page.get_by_role("link", name="edited", exact=True).click()
    expect(page.get_by_role("region", name="Contents of squares.py")).to_contain_text("x ** 3")


def test_code_with_several_files_is_shown_and_kept_on_edit(page: Page, site: Site) -> None:
    modules = [ArchiveEntry("model/net.py", b"WIDTH = 64\n"), ArchiveEntry("model/train.py", b"import net\n")]
    digest = send(page, site, "model", *modules, ArchiveEntry("w.pkl", b"\x80"))
    make_function(site, "several", source="model", handler="train:main", code=digest)
    page.goto("/functions/default/several")
    files = page.get_by_role("navigation", name="Files").get_by_role("button")
    expect(files).to_have_text(["model/net.py", "model/train.py", "w.pkl"])
    expect(page.get_by_role("region", name="Contents of model/train.py")).to_have_text("import net")
    files.nth(0).click()
    expect(page.get_by_role("region", name="Contents of model/net.py")).to_have_text("WIDTH = 64")
    files.nth(2).press("Enter")
    expect(page.get_by_text("No preview available.")).to_be_visible()
    with page.expect_download() as download:
        files.nth(0).click()
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "net.py"

    page.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Edit several")
    expect(dialog).to_contain_text("This code is not a single text file, so it can't be edited here.")
    dialog.get_by_role("textbox", name="Handler").fill("train:begin")
    save(dialog)
    expect(dialog).to_have_count(0)
    content = site.api("GET", "/projects/default/functions/several")["content"]
    assert content == {"kind": "python", "source": "model", "handler": "train:begin", "code": digest}


def test_second_save_shows_both_versions(page: Page, site: Site) -> None:
    function = make_function(site, "contested", command="echo first")
    page.goto("/functions/default/contested")
    page.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Edit contested")
    dialog.get_by_role("textbox", name="Command").fill("echo mine")
    theirs = {"command": "echo theirs"}
    site.api("PUT", "/projects/default/functions/contested", theirs, If_Match=f'"1-{function["id"][-8:]}"')
    save(dialog)
    conflict = page.get_by_role("dialog", name="Someone else saved changes")
    expect(conflict.get_by_role("row", name="command")).to_contain_text("echo mine")
    expect(conflict.get_by_role("row", name="command")).to_contain_text("theirs")
    conflict.get_by_role("button", name="Overwrite").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert site.api("GET", "/projects/default/functions/contested")["content"]["command"] == ["echo", "mine"]


def test_runs_of_a_function_are_listed_and_can_be_repeated(page: Page, site: Site) -> None:
    make_function(site, "repeated")
    make_function(site, "repeated-not", command="true")
    finished, _ = run(site, "repeated", inputs={"x": 2}), run(site, "repeated-not")
    page.goto("/functions/default/repeated")
    page.get_by_role("tab", name="Runs").click()
    expect(page).to_have_url(f"{site.url}/functions/default/repeated/runs")
    table = page.get_by_role("table", name="Runs of repeated")
    expect(table.get_by_role("row")).to_have_count(2)
    short = f"repeated {finished['id'][-8:]}"
    expect(table.get_by_role("link", name=short, exact=True)).to_have_attribute("href", f"/runs/{finished['id']}")
    expect(page.get_by_role("status").filter(has_text=re.compile("^1 run$"))).to_be_visible()
    second = run(site, "repeated", inputs={"x": 3})
    expect(page.get_by_role("status").filter(has_text="2 runs")).to_be_visible()
    expect(table.get_by_role("link", name=f"repeated {second['id'][-8:]}", exact=True)).to_be_visible()
    check_accessibility(page)
    table.get_by_role("link", name=f"Run again: {short}").click()
    expect(page).to_have_url(f"{site.url}/new/run?from={finished['id']}")


def test_deleting_a_function_keeps_its_runs(page: Page, site: Site, browser_errors: BrowserErrors) -> None:
    browser_errors.expect("status of 404")
    make_function(site, "doomed", command="true")
    finished = run(site, "doomed")
    page.goto("/functions/default/doomed")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete doomed?")
    expect(dialog).to_contain_text("Existing runs keep their code")
    dialog.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(f"{site.url}/functions")
    expect(page.get_by_text("Deleted function doomed")).to_be_visible()
    expect(row(page, "doomed")).to_have_count(0)
    assert site.api("GET", f"/runs/{finished['id']}")["function"] == "doomed"
    page.goto("/functions/default/doomed")
    expect(page.get_by_role("alert")).to_contain_text("doomed")
    expect(page.get_by_role("link", name="All functions")).to_be_visible()


def test_markup_in_code_is_shown_and_not_executed(page: Page, site: Site) -> None:
    markup = 'print("<img src=x onerror=window.broken=true>")  # <script>window.broken = true</script>\n'
    make_function(site, "markup", text=markup, source="shown.py")
    page.goto("/functions/default/markup")
    expect(page.get_by_role("region", name="Contents of shown.py")).to_have_text(markup.strip())
    assert page.evaluate("window.broken") is None


def test_viewer_sees_code_without_actions(browsing: Browsing, site: Site) -> None:
    make_function(site, "looked-at")
    page = browsing.open(site, token=site.make_token("vera-of-functions", viewer="project/default"))
    open_functions(page)
    expect(page.get_by_role("checkbox")).to_have_count(0)
    expect(page.get_by_role("button", name="New function")).to_have_count(0)
    page.get_by_role("link", name="looked-at", exact=True).click()
    expect(page.get_by_role("region", name="Contents of main.py")).to_contain_text("Square it")
    for action in ("Edit", "Delete"):
        expect(page.get_by_role("button", name=action)).to_have_count(0)
    expect(page.get_by_role("link", name="Run", exact=True)).to_have_count(0)


def test_on_a_phone_nothing_is_wider_than_the_screen(browsing: Browsing, site: Site) -> None:
    make_function(site, "narrow", text=f"print('{'x' * 300}')\n")
    page = browsing.open(site, size=PHONE)
    open_functions(page, "?search=narrow")
    page.get_by_role("button", name="New function").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    check_width(page)
    page.goto("/functions/default/narrow")
    for part in ("Code", "Runs", "About"):
        page.get_by_role("tab", name=part).click()
        expect(page.get_by_role("tabpanel", name=part)).to_be_visible()
        check_width(page)


def check_width(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
