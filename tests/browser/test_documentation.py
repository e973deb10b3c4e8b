"""The documentation in a browser: search, colours, narrow screens, accessibility, and no request to another host."""

import asyncio

from playwright.async_api import Page, expect

from tests.browser.checks import WIDTHS, assert_accessible
from tests.browser.visit import Visit
from tools.docs import build as builder


async def test_people_read_and_search_the_documentation(visit: Visit) -> None:
    await asyncio.to_thread(builder.build)
    page = await visit("/docs/tutorials/fleet/")
    await expect(page.get_by_role("heading", name="Tutorial: monthly offsetting of a fleet", level=1)).to_be_visible()
    await _assert_fits(page)
    await assert_accessible(page)
    await page.get_by_role("button", name="Search").first.click()
    await page.get_by_role("combobox", name="Search").fill("life of an order")
    await page.get_by_role("option", name="Orders").first.click()
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await page.goto(f"{visit.site}/docs/concepts/")
    await expect(page.get_by_role("img", name="The life of an order")).to_be_visible()
    await _assert_fits(page)
    await assert_accessible(page)
    missing = await visit("/docs/no/such/page/")
    await expect(missing.get_by_role("heading", name="404")).to_be_visible()
    plain = await visit("/docs/", javascript=False)
    await plain.get_by_role("link", name="First order").first.click()
    await expect(plain.get_by_role("heading", name="First order", level=1)).to_be_visible()


async def _assert_fits(page: Page) -> None:
    """Only tables, code and drawings scroll sideways. The menu of the theme waits outside of the screen."""
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        assert await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
