"""Failures: an unreachable server, an expired session, conflicts and malicious input."""

import re
from urllib.parse import quote

from playwright.sync_api import Locator, Page, Route, expect

from tests.ui.browsing import BrowserErrors, Browsing
from tests.ui.running import CONNECTION_ERROR, finish, stop, submit
from tests.ui.sites import Site
from tests.ui.tables import open_table, row


def test_an_unreachable_server_is_reported_and_input_survives_its_restart(
    browsing: Browsing, own_site: Site, browser_errors: BrowserErrors
) -> None:
    browser_errors.expect(CONNECTION_ERROR)
    run = finish(own_site, "before")
    table, form, run_form = (browsing.open(own_site) for _ in range(3))
    open_table(table)
    form.goto("/new/compute-resource")
    name = form.get_by_role("textbox", name="Name", exact=True)
    name.fill("patient")
    run_form.goto(f"/new/run?from={run['id']}")
    run_form.get_by_label("Deadline").fill("45m")
    own_site.stop()
    table.get_by_role("textbox", name="Search").fill("after")
    create = form.get_by_role("button", name="Create compute resource")
    create.click()
    run_form.get_by_label("Arguments").fill("--typed meanwhile")
    for page in (table, form, run_form):
        expect(disconnected(page).first).to_be_visible()
    own_site.start()
    for page in (table, run_form):
        expect(disconnected(page)).to_have_count(0)
    expect(table.get_by_text("No compute resources match")).to_be_visible()
    # If the first request reached the socket, which stays open during the restart, the new server has responded to it.
    ready = form.get_by_role("button", name="Create compute resource", disabled=False)
    expect(ready.or_(row(form, "patient"))).to_be_visible()
    if ready.is_visible():
        expect(name).to_have_value("patient")
        create.click()
    expect(row(form, "patient")).to_be_visible()
    expect(run_form.get_by_label("Deadline")).to_have_value("45m")
    run_form.get_by_role("button", name="Submit run").click()
    run_form.wait_for_url("**/runs/*")
    request = own_site.api("GET", f"/runs/{run_form.url.rpartition('/')[2]}/request")
    assert (request["deadline"], request["args"]) == (45 * 60, ["--typed", "meanwhile"])


def disconnected(page: Page) -> Locator:
    return page.get_by_role("alert").filter(has_text="The server is not responding")


def test_the_form_keeps_its_input_when_the_original_run_is_deleted(
    page: Page, site: Site, browser_errors: BrowserErrors
) -> None:
    browser_errors.expect("status of 404")
    run = finish(site, "forgotten")
    page.goto(f"/new/run?from={run['id']}")
    page.get_by_label("Deadline").fill("45m")
    # The page requests the run again and gets a 404.
    with page.expect_response(lambda response: response.url.endswith(f"/runs/{run['id']}") and response.status == 404):
        site.api("DELETE", f"/runs/{run['id']}")
    page.get_by_label("Arguments").fill("--typed after")
    expect(page.get_by_role("heading", name="Run forgotten again")).to_be_visible()
    expect(page.get_by_label("Deadline")).to_have_value("45m")
    page.get_by_role("button", name="Submit run").click()
    page.wait_for_url("**/runs/*")
    request = site.api("GET", f"/runs/{page.url.rpartition('/')[2]}/request")
    assert (request["deadline"], request["args"]) == (45 * 60, ["--typed", "after"])


WATCH = """([text, seconds]) => new Promise(done => {
    const isShown = () => document.body.textContent.includes(text);
    const end = performance.now() + 1000 * seconds;
    let wasShown = isShown();
    const look = () => {
        wasShown ||= isShown();
        performance.now() < end ? requestAnimationFrame(look) : done(wasShown);
    };
    look();
})"""


def test_live_updates_continue_after_a_revoked_session_is_renewed(browsing: Browsing, site: Site) -> None:
    token = site.make_token("rita", member="project/default")
    run = submit(site, "lasting", "sleep 600")
    page = browsing.open(site, token=token)
    page.goto("/runs?search=lasting")
    state = page.get_by_role("row").filter(has_text="lasting")
    expect(state).to_contain_text("Running")
    [session] = [token["id"] for token in site.api("GET", "/tokens?user==rita&purpose=session")["items"]]
    site.api("DELETE", f"/tokens/{session}")
    dialog = page.get_by_role("dialog", name="Your session has ended")
    expect(dialog).to_be_visible()
    assert page.evaluate(WATCH, ["The server is not responding", 4]) is False
    dialog.get_by_label("Token", exact=True).fill(token)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_be_hidden()
    stop(site, run)
    expect(state).to_contain_text("Stopped")


def test_an_expired_session_is_renewed_without_losing_input(page: Page, site: Site) -> None:
    page.goto("/new/compute-resource")
    name = page.get_by_role("textbox", name="Name", exact=True)
    name.fill("still-here")
    page.context.clear_cookies()
    page.get_by_role("button", name="Create compute resource").click()
    dialog = page.get_by_role("dialog", name="Your session has ended")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Token", exact=True).fill("fl_wrong")
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("Token", exact=True).fill(site.token)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_be_hidden()
    expect(name).to_have_value("still-here")
    page.get_by_role("button", name="Create compute resource").click()
    expect(row(page, "still-here")).to_be_visible()


def test_signing_out_ends_the_session(page: Page, site: Site) -> None:
    open_table(page)
    page.get_by_role("button", name=re.compile("^Account of")).click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
    page.goto("/compute-resources")
    expect(page.get_by_label("Token", exact=True)).to_be_visible()


def test_a_sign_in_link_works_once(browsing: Browsing, site: Site) -> None:
    page = browsing.open(site, token=None)
    page.goto(site.link)
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    other = browsing.open(site, token=None)
    other.goto(site.link)
    expect(other.get_by_role("alert")).to_contain_text("has already been used")
    expect(other.get_by_label("Token", exact=True)).to_be_visible()


MARKUP = '<img src=x onerror="window.broken = true"><script>window.broken = true</script>'


def test_markup_in_a_text_is_shown_and_not_executed(page: Page, site: Site) -> None:
    site.make_resource("markup", description=MARKUP)
    open_table(page)
    expect(row(page, "markup")).to_contain_text(MARKUP)
    page.goto("/compute-resources/markup")
    expect(page.get_by_text(MARKUP)).to_be_visible()
    assert page.evaluate("window.broken") is None


def test_markup_in_an_address_is_shown_and_not_executed(
    page: Page, site: Site, browser_errors: BrowserErrors, browsing: Browsing
) -> None:
    browser_errors.expect("status of 404")
    page.goto("/compute-resources/%3Cimg%20src=x%20onerror=window.broken=true%3E")
    expect(page.get_by_role("alert")).to_contain_text("<img src=x")
    anonymous = browsing.open(site, token=None)
    anonymous.goto(f"/sign-in?failed={quote(MARKUP)}")
    expect(anonymous.get_by_role("button", name="Sign in")).to_be_visible()
    expect(anonymous.get_by_text(MARKUP)).to_have_count(0)
    anonymous.goto("/sign-in?failed=link")
    expect(anonymous.get_by_role("alert")).to_contain_text("has already been used")
    assert anonymous.evaluate("window.broken") is page.evaluate("window.broken") is None


def edit_both(page: Page, site: Site, name: str) -> None:
    """Edit a compute resource in the browser while another user saves it."""
    site.make_resource(name, description="first")
    page.goto(f"/compute-resources/{name}/edit")
    page.get_by_role("textbox", name="Description").fill("mine")
    change = {"description": "theirs", "requirements": {"resources": {"cpu": 7}}}
    site.api("PATCH", f"/compute-resources/{name}", change)
    page.get_by_role("button", name="Save").click()


def test_a_conflict_shows_both_versions_and_can_be_overwritten(page: Page, site: Site) -> None:
    edit_both(page, site, "contested")
    dialog = page.get_by_role("dialog", name="Someone else saved changes")
    line = dialog.get_by_role("row").filter(has_text="description")
    expect(line.get_by_role("cell").nth(1)).to_have_text("theirs")
    expect(line.get_by_role("cell").nth(2)).to_have_text("mine")
    expect(dialog.get_by_role("row").filter(has_text="resources.cpu.requests")).to_contain_text("7")
    dialog.get_by_role("button", name="Overwrite").click()
    expect(row(page, "contested")).to_contain_text("mine")
    assert site.api("GET", "/compute-resources/contested")["requirements"]["resources"]["cpu"]["requests"] == "2"


def test_a_conflict_can_be_resolved_with_the_other_version(page: Page, site: Site) -> None:
    edit_both(page, site, "yielded")
    page.get_by_role("dialog").get_by_role("button", name="Discard mine").click()
    expect(page.get_by_role("textbox", name="Description")).to_have_value("theirs")
    page.get_by_role("textbox", name="Description").fill("both")
    page.get_by_role("button", name="Save").click()
    expect(row(page, "yielded")).to_contain_text("both")
    assert site.api("GET", "/compute-resources/yielded")["requirements"]["resources"]["cpu"]["requests"] == "7"


def test_a_slow_network_shows_the_result_of_the_last_search(page: Page, site: Site) -> None:
    site.make_resource("slow-one", description="findme")
    routes: list[Route] = []
    open_table(page)
    page.route("**/api/v1/compute-resources?*", lambda route: routes.append(route))
    search = page.get_by_role("textbox", name="Search")
    for text in ("find", "findme"):
        with page.expect_request(re.compile(rf"search={text}&")):
            search.fill(text)
    expect(page.get_by_role("region", name="Compute resources")).to_have_attribute("aria-busy", "true")
    for route in reversed(routes):  # the first request is answered last
        route.continue_()
    expect(page.get_by_role("status").filter(has_text="1 compute resource")).to_be_visible()
    expect(row(page, "slow-one")).to_be_visible()


def test_saving_a_deleted_compute_resource_shows_an_error(
    page: Page, site: Site, browser_errors: BrowserErrors
) -> None:
    browser_errors.expect("status of 404")
    site.make_resource("vanishing")
    page.goto("/compute-resources/vanishing/edit")
    page.get_by_role("textbox", name="Description").fill("too late")
    site.api("DELETE", "/compute-resources/vanishing")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("does not exist")


def test_viewers_see_no_buttons_to_change_anything(browsing: Browsing, site: Site) -> None:
    site.make_resource("looked-at")
    token = site.make_token("vera-of-failures", viewer="platform")
    page = browsing.open(site, token=token)
    open_table(page)
    expect(page.get_by_role("link", name="New compute resource")).to_have_count(0)
    page.get_by_label("Select looked-at", exact=True).check()
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)


def test_invalid_filters_in_the_address_do_not_break_the_page(page: Page, site: Site) -> None:
    site.make_resource("odd")
    open_table(page, "?created_at=>2026-01-01&archived=!true")
    expect(row(page, "odd")).to_be_visible()
    for query in ("?archived=maybe", "?created_at=notadate", "?__proto__=1&columns=nonsense&sort=-"):
        page.goto(f"/compute-resources{query}")
        expect(page.get_by_role("heading", name="Compute resources")).to_be_visible()
    page.evaluate("localStorage.setItem('fairlead.columns.compute resources', '5')")
    open_table(page)
    expect(row(page, "odd")).to_be_visible()


def test_a_chunk_that_fails_to_load_shows_a_message(page: Page, site: Site, browser_errors: BrowserErrors) -> None:
    browser_errors.expect("status of 404|dynamically imported module|error occurred")
    open_table(page)
    page.route("**/assets/**", lambda route: route.fulfill(status=404))
    page.get_by_role("link", name="Audit").click()
    expect(page.get_by_role("alert")).to_contain_text("New version available")


def test_loading_the_current_user_can_be_retried(page: Page, site: Site, browser_errors: BrowserErrors) -> None:
    browser_errors.expect("status of 503")
    page.route("**/api/v1/me", lambda route: route.fulfill(status=503, body="<h1>busy</h1>"))
    page.goto("/compute-resources")
    expect(page.get_by_role("alert")).to_contain_text("status 503")
    page.unroute("**/api/v1/me")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Compute resources")).to_be_visible()


def test_a_double_click_and_a_lost_response_create_one_object(
    page: Page, site: Site, browser_errors: BrowserErrors
) -> None:
    browser_errors.expect(CONNECTION_ERROR)
    page.goto("/new/compute-resource")
    page.get_by_role("textbox", name="Name", exact=True).fill("only-once")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.route("**/api/v1/compute-resources", lambda route: (route.fetch(), route.abort()))
    create = page.get_by_role("button", name="Create compute resource")
    create.dblclick()
    expect(disconnected(page).first).to_be_visible()
    assert len([url for url in sent if url.endswith("/compute-resources")]) == 1
    page.unroute("**/api/v1/compute-resources")
    create.click()
    expect(row(page, "only-once")).to_be_visible()


def test_a_rename_does_not_overwrite_changes_of_another_user(page: Page, site: Site) -> None:
    site.make_resource("guarded", description="first")
    open_table(page)
    page.get_by_label("Select guarded", exact=True).check()
    page.get_by_role("button", name="Rename").click()
    site.api("PATCH", "/compute-resources/guarded", {"description": "by another user"})
    page.evaluate("window.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("revision 2")
    assert site.api("GET", "/compute-resources/guarded")["description"] == "by another user"
