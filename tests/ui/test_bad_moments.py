"""When things go wrong: the server is gone, the session is over, somebody else was faster, a name is no name."""

import re
from urllib.parse import quote

from playwright.sync_api import Locator, Page, Route, expect

from tests.ui.browsing import BrowserErrors, Browsing
from tests.ui.running import NO_ANSWER, finish, stop, submit
from tests.ui.sites import Site
from tests.ui.tables import open_table, row


def test_a_server_that_is_gone_is_told_and_found_again_and_nothing_typed_is_lost(
    browsing: Browsing, own_site: Site, browser_errors: BrowserErrors
) -> None:
    browser_errors.expect(NO_ANSWER)
    run = finish(own_site, "before")
    table, form, again = (browsing.open(own_site) for _ in range(3))
    open_table(table)
    form.goto("/new/compute-resource")
    name = form.get_by_role("textbox", name="Name", exact=True)
    name.fill("patient")
    again.goto(f"/new/run?from={run['id']}")
    again.get_by_label("Deadline").fill("45m")
    own_site.stop()
    table.get_by_role("textbox", name="Search").fill("after")
    create = form.get_by_role("button", name="Create compute resource")
    create.click()
    again.get_by_label("Arguments").fill("--typed meanwhile")
    for page in (table, form, again):
        expect(gone(page).first).to_be_visible()
    own_site.start()
    for page in (table, again):
        expect(gone(page)).to_have_count(0)
    expect(table.get_by_text("No compute resources match")).to_be_visible()
    expect(name).to_have_value("patient")
    create.click()
    expect(row(form, "patient")).to_be_visible()
    expect(again.get_by_label("Deadline")).to_have_value("45m")
    again.get_by_role("button", name="Submit run").click()
    again.wait_for_url("**/runs/*")
    asked = own_site.api("GET", f"/runs/{again.url.rpartition('/')[2]}/request")
    assert (asked["deadline"], asked["args"]) == (45 * 60, ["--typed", "meanwhile"])


def gone(page: Page) -> Locator:
    return page.get_by_role("alert").filter(has_text="The server does not answer")


def test_what_was_typed_stays_when_the_run_that_it_began_with_is_deleted(
    page: Page, site: Site, browser_errors: BrowserErrors
) -> None:
    browser_errors.expect("status of 404")
    run = finish(site, "forgotten")
    page.goto(f"/new/run?from={run['id']}")
    page.get_by_label("Deadline").fill("45m")
    # It is asked for again, and is not there any more.
    with page.expect_response(lambda answer: answer.url.endswith(f"/runs/{run['id']}") and answer.status == 404):
        site.api("DELETE", f"/runs/{run['id']}")
    page.get_by_label("Arguments").fill("--typed after")
    expect(page.get_by_role("heading", name="Run forgotten again")).to_be_visible()
    expect(page.get_by_label("Deadline")).to_have_value("45m")
    page.get_by_role("button", name="Submit run").click()
    page.wait_for_url("**/runs/*")
    asked = site.api("GET", f"/runs/{page.url.rpartition('/')[2]}/request")
    assert (asked["deadline"], asked["args"]) == (45 * 60, ["--typed", "after"])


WATCH = """([said, seconds]) => new Promise(done => {
    const isThere = () => document.body.textContent.includes(said);
    const end = performance.now() + 1000 * seconds;
    let wasThere = isThere();
    const look = () => {
        wasThere ||= isThere();
        performance.now() < end ? requestAnimationFrame(look) : done(wasThere);
    };
    look();
})"""


def test_a_session_that_is_revoked_is_renewed_and_rows_change_by_themselves_again(
    browsing: Browsing, site: Site
) -> None:
    token = site.make_token("rita", member="project/default")
    run = submit(site, "lasting", "sleep 600")
    page = browsing.open(site, token=token)
    page.goto("/runs?search=lasting")
    state = page.get_by_role("row").filter(has_text="lasting")
    expect(state).to_contain_text("Running")
    [session] = [kept["id"] for kept in site.api("GET", "/tokens?user==rita&purpose=session")["items"]]
    site.api("DELETE", f"/tokens/{session}")
    dialog = page.get_by_role("dialog", name="Your session has ended")
    expect(dialog).to_be_visible()
    assert page.evaluate(WATCH, ["The server does not answer", 4]) is False
    dialog.get_by_label("Token", exact=True).fill(token)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_be_hidden()
    stop(site, run)
    expect(state).to_contain_text("Stopped")


def test_a_session_that_ends_is_renewed_without_losing_what_was_typed(page: Page, site: Site) -> None:
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


def test_a_link_signs_in_once_and_says_so_when_it_is_used_up(browsing: Browsing, site: Site) -> None:
    page = browsing.open(site, token=None)
    page.goto(site.link)
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    other = browsing.open(site, token=None)
    other.goto(site.link)
    expect(other.get_by_role("alert")).to_contain_text("used up or too old")
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
    nobody = browsing.open(site, token=None)
    nobody.goto(f"/sign-in?failed={quote(MARKUP)}")
    expect(nobody.get_by_text(MARKUP)).to_be_visible()
    assert nobody.evaluate("window.broken") is page.evaluate("window.broken") is None


def edit_both(page: Page, site: Site, name: str) -> None:
    """Somebody edits a compute resource in the browser while somebody else saves it."""
    site.make_resource(name, description="first")
    page.goto(f"/compute-resources/{name}/edit")
    page.get_by_role("textbox", name="Description").fill("mine")
    said = {"description": "theirs", "requirements": {"resources": {"cpu": 7}}}
    site.api("PATCH", f"/compute-resources/{name}", said)
    page.get_by_role("button", name="Save").click()


def test_a_conflict_shows_both_versions_and_one_can_win(page: Page, site: Site) -> None:
    edit_both(page, site, "contested")
    dialog = page.get_by_role("dialog", name="Someone else saved changes")
    line = dialog.get_by_role("row").filter(has_text="description")
    expect(line.get_by_role("cell").nth(1)).to_have_text("theirs")
    expect(line.get_by_role("cell").nth(2)).to_have_text("mine")
    expect(dialog.get_by_role("row").filter(has_text="resources.cpu.requests")).to_contain_text("7")
    dialog.get_by_role("button", name="Overwrite").click()
    expect(row(page, "contested")).to_contain_text("mine")
    assert site.api("GET", "/compute-resources/contested")["requirements"]["resources"]["cpu"]["requests"] == "2"


def test_a_conflict_can_end_with_the_other_version(page: Page, site: Site) -> None:
    edit_both(page, site, "yielded")
    page.get_by_role("dialog").get_by_role("button", name="Discard mine").click()
    expect(page.get_by_role("textbox", name="Description")).to_have_value("theirs")
    page.get_by_role("textbox", name="Description").fill("both")
    page.get_by_role("button", name="Save").click()
    expect(row(page, "yielded")).to_contain_text("both")
    assert site.api("GET", "/compute-resources/yielded")["requirements"]["resources"]["cpu"]["requests"] == "7"


def test_on_a_slow_network_something_stands_there_and_the_last_question_wins(page: Page, site: Site) -> None:
    site.make_resource("slow-one", description="findme")
    held: list[Route] = []
    open_table(page)
    page.route("**/api/v1/compute-resources?*", lambda route: held.append(route))
    search = page.get_by_role("textbox", name="Search")
    for text in ("find", "findme"):
        with page.expect_request(re.compile(rf"search={text}&")):
            search.fill(text)
    expect(page.get_by_role("region", name="Compute resources")).to_have_attribute("aria-busy", "true")
    for route in reversed(held):  # the answer to the first question comes last
        route.continue_()
    expect(page.get_by_role("status").filter(has_text="1 compute resource")).to_be_visible()
    expect(row(page, "slow-one")).to_be_visible()


def test_a_thing_that_was_deleted_meanwhile_is_told(page: Page, site: Site, browser_errors: BrowserErrors) -> None:
    browser_errors.expect("status of 404")
    site.make_resource("vanishing")
    page.goto("/compute-resources/vanishing/edit")
    page.get_by_role("textbox", name="Description").fill("too late")
    site.api("DELETE", "/compute-resources/vanishing")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("there is no compute resource", ignore_case=True)


def test_whoever_may_only_look_is_offered_nothing_to_change(browsing: Browsing, site: Site) -> None:
    site.make_resource("looked-at")
    token = site.make_token("vera-of-bad-moments", viewer="platform")
    page = browsing.open(site, token=token)
    open_table(page)
    expect(page.get_by_role("link", name="New compute resource")).to_have_count(0)
    page.get_by_label("Select looked-at", exact=True).check()
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)


def test_an_address_with_odd_filters_is_answered_and_not_a_white_page(page: Page, site: Site) -> None:
    site.make_resource("odd")
    open_table(page, "?created_at=>2026-01-01&archived=!true")
    expect(row(page, "odd")).to_be_visible()
    for odd in ("?archived=maybe", "?created_at=notadate", "?__proto__=1&columns=nonsense&sort=-"):
        page.goto(f"/compute-resources{odd}")
        expect(page.get_by_role("heading", name="Compute resources")).to_be_visible()
    page.evaluate("localStorage.setItem('fairlead.columns.compute resources', '5')")
    open_table(page)
    expect(row(page, "odd")).to_be_visible()


def test_a_part_that_cannot_be_loaded_says_so(page: Page, site: Site, browser_errors: BrowserErrors) -> None:
    browser_errors.expect("status of 404|dynamically imported module|error occurred")
    open_table(page)
    page.route("**/assets/**", lambda route: route.fulfill(status=404))
    page.get_by_role("link", name="Audit").click()
    expect(page.get_by_role("alert")).to_contain_text("There is a new version")


def test_a_server_that_cannot_say_who_one_is_is_asked_again(
    page: Page, site: Site, browser_errors: BrowserErrors
) -> None:
    browser_errors.expect("status of 503")
    page.route("**/api/v1/me", lambda route: route.fulfill(status=503, body="<h1>busy</h1>"))
    page.goto("/compute-resources")
    expect(page.get_by_role("alert")).to_contain_text("status 503")
    page.unroute("**/api/v1/me")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Compute resources")).to_be_visible()


def test_a_double_click_does_it_once_and_a_lost_answer_does_too(
    page: Page, site: Site, browser_errors: BrowserErrors
) -> None:
    browser_errors.expect(NO_ANSWER)
    page.goto("/new/compute-resource")
    page.get_by_role("textbox", name="Name", exact=True).fill("only-once")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.route("**/api/v1/compute-resources", lambda route: (route.fetch(), route.abort()))
    create = page.get_by_role("button", name="Create compute resource")
    create.dblclick()
    expect(gone(page).first).to_be_visible()
    assert len([url for url in sent if url.endswith("/compute-resources")]) == 1
    page.unroute("**/api/v1/compute-resources")
    create.click()
    expect(row(page, "only-once")).to_be_visible()


def test_a_rename_does_not_overwrite_what_somebody_else_said_meanwhile(page: Page, site: Site) -> None:
    site.make_resource("guarded", description="first")
    open_table(page)
    page.get_by_label("Select guarded", exact=True).check()
    page.get_by_role("button", name="Rename").click()
    site.api("PATCH", "/compute-resources/guarded", {"description": "by somebody else"})
    page.evaluate("window.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("revision 2")
    assert site.api("GET", "/compute-resources/guarded")["description"] == "by somebody else"
