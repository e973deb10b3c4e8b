"""Tests of the checks: each one can fail."""

import pytest

from tests.browser.checks import assert_accessible, assert_no_overflow
from tests.browser.visit import Visit

# An error as JSON: a page has a policy that forbids what these tests do.
MISSING_PAGE = "/v1/nothing"


async def test_every_kind_of_error_is_detected(visit: Visit) -> None:
    page = await visit(MISSING_PAGE)
    visit.troubles.clear()
    await page.evaluate("console.error('spilt milk')")
    async with page.expect_event("pageerror"):
        await page.evaluate("setTimeout(() => { throw new Error('broken glass') })")
    async with page.expect_event("requestfailed"):
        await page.evaluate(
            "document.body.append(Object.assign(new Image(), {src: 'https://elsewhere.example/x.png'}))"
        )
    async with page.expect_response("**/assets/none.js"):
        await page.evaluate("document.body.append(Object.assign(new Image(), {src: '/assets/none.js'}))")
    await page.evaluate("console.error('last')")
    seen = "\n".join(visit.troubles)
    visit.troubles.clear()
    for expected in (
        "console: spilt milk",
        "exception: broken glass",
        "request elsewhere: GET https://elsewhere.example/x.png",
        "request failed: GET https://elsewhere.example/x.png: net::ERR_NAME_NOT_RESOLVED",
        "status of 404 (Not Found)",
        "console: last",
    ):
        assert expected in seen


async def test_an_allowed_origin_gets_a_page_of_ours(visit: Visit) -> None:
    page = await visit(MISSING_PAGE, away="https://shop.example")
    await page.goto("https://shop.example/thanks?a=b")
    assert await page.inner_text("h1") == "Elsewhere"
    visit.troubles.clear()


async def test_overflow_is_detected(visit: Visit) -> None:
    page = await visit(MISSING_PAGE)
    visit.troubles.clear()
    for html, trouble in (
        ("<div class='wide' style='width: 500px'>x</div>", "out of the screen: div.wide"),
        (
            "<p class='word' style='width: 50px; overflow-wrap: normal'>Donaudampfschiff</p>",
            "text out of its place: p.word",
        ),
    ):
        await page.set_content(f"<body>{html}")
        with pytest.raises(AssertionError, match=trouble):
            await assert_no_overflow(page)
    await page.set_content("<body><div style='overflow-x: auto'><div style='width: 3000px'>x</div></div>")
    await assert_no_overflow(page)


async def test_accessibility_problems_are_detected_in_light_and_dark_mode(visit: Visit) -> None:
    page = await visit(MISSING_PAGE)
    visit.troubles.clear()
    head = "<!doctype html><html lang='en'><title>T</title><body><main><h1>A</h1>"
    await page.set_content(f"{head}<input></main>")
    with pytest.raises(AssertionError, match=r"label: <input>.*|in light colours"):
        await assert_accessible(page)
    grey = "<style>@media (prefers-color-scheme: dark) { p { color: #777; background: #666 } }</style><p>grey</p>"
    await page.set_content(f"{head}{grey}</main>")
    with pytest.raises(AssertionError, match="in dark colours"):
        await assert_accessible(page)
