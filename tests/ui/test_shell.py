"""The page title, sign-in and the Content-Security-Policy."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.processes import providers
from tests.processes.machines import Launcher, Machine
from tests.ui.browsing import BrowserErrors, Browsing, check_accessibility
from tests.ui.sites import Site


def test_the_page_has_a_title(page: Page) -> None:
    page.goto("/")
    expect(page).to_have_title("Runs · Fairlead")


@pytest.mark.smoke
def test_anonymous_users_see_the_sign_in_form(browsing: Browsing, site: Site) -> None:
    page = browsing.open(site, token=None)
    page.goto("/")
    token = page.get_by_label("Token", exact=True)
    expect(token).to_be_visible()
    check_accessibility(page)
    token.fill(site.token)
    page.get_by_role("button", name="Sign in").click()
    expect(token).to_be_hidden()
    assert page.evaluate("document.cookie") == ""


def test_the_content_security_policy_blocks_foreign_content(page: Page, browser_errors: BrowserErrors) -> None:
    page.goto("/")
    for directive in ("style-src", "script-src", "img-src", "connect-src"):
        browser_errors.expect(f"violates the following Content Security Policy directive.*{directive}")
    browser_errors.expect("Refused to connect because it violates the document's Content Security Policy")
    browser_errors.expect("request to another host: GET https://elsewhere.example/picture")  # this does not exist
    page.evaluate("""() => {
        const add = (tag, fields) => document.body.append(Object.assign(document.createElement(tag), fields));
        add("style", {textContent: "a { top: 0 }"});
        add("script", {textContent: "window.broken = true"});
        const picture = new Promise(done => add("img", {src: "https://elsewhere.example/picture", onerror: done}));
        return Promise.all([picture, fetch("https://elsewhere.example/").catch(() => null)]).then(() => null);
    }""")
    assert page.evaluate("window.broken") is None


def test_sign_in_with_an_identity_provider_returns_to_the_page(
    browsing: Browsing, tmp_path: Path, launcher: Launcher, browser_errors: BrowserErrors
) -> None:
    with providers.running() as provider:
        provider.login_endpoints.claims = {"sub": "grace", "groups": ["platform-admins"]}
        browser_errors.expect(f"request to another host: GET {provider.issuer}/")
        site = Site(Machine(tmp_path, launcher), provider.sign_in)
        page = browsing.open(site, token=None)
        page.goto("/templates?search=fine")
        page.get_by_role("link", name="Sign in with").click()
        expect(page.get_by_role("heading", name="Templates")).to_be_visible()
        expect(page).to_have_url(f"{site.url}/templates?search=fine")
        expect(page.get_by_role("button", name="Account of grace")).to_be_visible()
        provider.login_endpoints.error = {"error": "access_denied"}
        rejected = browsing.open(site, token=None)
        rejected.goto("/login/oidc")
        expect(rejected.get_by_role("alert")).to_contain_text("The identity provider did not confirm the sign-in.")
        expect(rejected.get_by_role("link", name="Sign in with")).to_be_visible()
        browsing.close()  # close the browser before its server
        site.close()
