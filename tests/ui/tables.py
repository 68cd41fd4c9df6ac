"""Helpers for the compute resource table."""

from playwright.sync_api import Locator, Page, expect


def open_table(page: Page, query: str = "") -> None:
    """Open the table and wait for its rows."""
    page.goto(f"/compute-resources{query}")
    expect(page.get_by_role("status").filter(has_text="compute resource")).to_be_visible()


def row(page: Page, name: str) -> Locator:
    """The row whose link has this name."""
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def select(page: Page, name: str) -> Locator:
    """Select a row. Returns the toolbar with its actions."""
    page.get_by_label(f"Select {name}", exact=True).check()
    return page.get_by_role("toolbar", name=f"Actions for {name}")


def group(page: Page, name: str) -> Locator:
    """A group of form fields."""
    return page.get_by_role("group", name=name)
