"""A run's attempts on the run page, each with its log and usage."""

import re

from playwright.sync_api import Page, expect

from tests.ui.browsing import check_accessibility
from tests.ui.running import submit, wait_for_end
from tests.ui.sites import Site

FAILS_ONCE = 'echo "this is attempt $FAIRLEAD_ATTEMPT"; [ "$FAIRLEAD_ATTEMPT" = 2 ]'


def test_each_attempt_has_its_log_and_outcome(page: Page, site: Site) -> None:
    run = wait_for_end(site, submit(site, "stubborn", FAILS_ONCE, retries=1))
    assert (run["state"], run["attempt"]) == ("completed", 2)
    page.goto(f"/runs/{run['id']}")
    rows = page.get_by_role("table", name="Attempts").get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("ExitCode")
    expect(rows.nth(2)).to_contain_text("Completed")
    check_accessibility(page)

    page.get_by_role("link", name="Log of attempt 1").click()
    expect(page).to_have_url(f"{site.url}/runs/{run['id']}/logs?attempt=1")
    log = page.get_by_role("region", name="Log")
    expect(log.get_by_text("this is attempt 1", exact=True)).to_be_visible()
    expect(log.get_by_text("this is attempt 2", exact=True)).to_be_hidden()
    page.get_by_role("combobox", name="Attempt").select_option("All attempts")
    expect(log.get_by_text("this is attempt 1", exact=True)).to_be_visible()
    expect(log.get_by_text("this is attempt 2", exact=True)).to_be_visible()

    page.goto(f"/runs/{run['id']}/usage?attempt=1")
    expect(page.get_by_role("combobox", name="Attempt")).to_have_value("1")


def test_the_page_shows_that_a_run_waits_for_its_next_attempt(page: Page, site: Site) -> None:
    run = submit(site, "slow", "exit 7", retries=3)
    page.goto(f"/runs/{run['id']}")
    expect(page.get_by_role("main")).to_contain_text(re.compile("attempt 1 failed", re.IGNORECASE), timeout=60_000)
    expect(page.get_by_text("Retrying").first).to_be_visible()
    site.api("POST", f"/runs/{run['id']}/stop")
    expect(page.get_by_role("status").filter(has_text="Stopped")).to_be_visible(timeout=60_000)
