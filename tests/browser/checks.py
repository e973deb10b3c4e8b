"""Checks for every page: narrow and wide screens, light and dark mode, accessibility."""

import os
from pathlib import Path
from typing import Literal

from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.async_api import Page, Route

WIDTHS = (360, 768, 1440)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# Folder for screenshots, if set.
SCREENSHOTS = "SCREENSHOTS"

# Elements wider than the screen, and text wider than its element, unless they can be scrolled.
STICKING_OUT = """() => {
  const found = [];
  const clips = (element) => getComputedStyle(element).overflowX !== "visible";
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) found.push(`document: ${document.documentElement.scrollWidth}`);
  for (const element of document.body.querySelectorAll("*")) {
    if (element.closest(".skip, .hidden, svg, input, select, textarea")) continue;
    let inside = false;
    for (let above = element.parentElement; above && !inside; above = above.parentElement) {
      inside = above !== document.body && above !== document.documentElement && clips(above);
    }
    const box = element.getBoundingClientRect();
    if (inside || !box.width || !box.height) continue;
    const name = `${element.tagName.toLowerCase()}.${element.className}: ${element.textContent.trim().slice(0, 40)}`;
    if (box.right > width + 1 || box.left < -1) found.push(`out of the screen: ${name}`);
    const isBlock = getComputedStyle(element).display !== "inline";
    if (isBlock && !clips(element) && element.scrollWidth > element.clientWidth + 1 && element.clientWidth)
      found.push(`text out of its place: ${name}`);
  }
  return found;
}"""


# Columns of a list that one would have to scroll to, and words of it that are broken. Ids and addresses may be.
CUT_LISTS = """() => {
  const found = [];
  for (const box of document.querySelectorAll(".scroll:has(table.stacked)"))
    if (box.scrollWidth > box.clientWidth + 1)
      found.push(`a column is cut off: ${box.textContent.trim().slice(0, 40)}`);
  for (const cell of document.querySelectorAll("table.stacked :is(th, td)")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode;
      if (text.parentElement.closest("code, .id, .wrap")) continue;
      for (const word of text.data.matchAll(/(?<!\\S)[\\p{L}\\p{N}.,]{2,24}(?!\\S)/gu)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map((each) => Math.round(each.top)));
        if (lines.size > 1) found.push(`a word is broken: ${word[0]}`);
      }
    }
  }
  return found;
}"""


# Bytes of the page and its files, without images.
WEIGHT = """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .filter((entry) => entry.initiatorType !== "img")
  .reduce((sum, entry) => sum + entry.decodedBodySize, 0)"""


# What axe did not find is not described in full, which takes most of its time.
RUN_AXE = "async (options) => (await axe.run(document, {resultTypes: ['violations'], ...options})).violations"


async def assert_light(page: Page) -> None:
    weight = await page.evaluate(WEIGHT)
    assert 1_000 < weight < 150_000, f"{page.url}: {weight} bytes"


async def assert_no_overflow(page: Page) -> None:
    """At the widths of a phone, a tablet and a desktop. Restores the width."""
    before = page.viewport_size
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        found = [*await page.evaluate(STICKING_OUT), *await page.evaluate(CUT_LISTS)]
        assert not found, f"{page.url} at {width} pixels: {found}"
    if before is not None:
        await page.set_viewport_size(before)


async def assert_accessible(page: Page) -> None:
    """Axe finds nothing serious, in light and dark mode."""
    await page.evaluate(AXE_SCRIPT)
    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme)
        # Only the colours differ in dark mode.
        violations = await page.evaluate(RUN_AXE, {"runOnly": ["color-contrast"]} if scheme == "dark" else {})
        serious = [
            f"{violation['id']}: {node['html'][:200]} ({node['failureSummary']})"
            for violation in violations
            if violation["impact"] in {"serious", "critical"}
            for node in violation["nodes"]
        ]
        assert not serious, f"{page.url} in {scheme} colours: {serious}"
    await page.emulate_media(color_scheme="light")


async def screenshot(page: Page, name: str) -> None:
    """Saves the whole page at every width, in light and dark mode, to the folder `SCREENSHOTS`, if set."""
    if not os.environ.get(SCREENSHOTS):
        return
    folder, before = Path(os.environ[SCREENSHOTS]), page.viewport_size
    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            await page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
    await page.emulate_media(color_scheme="light")
    if before is not None:
        await page.set_viewport_size(before)


async def check_page(page: Page, name: str) -> None:
    """All checks, and screenshots."""
    await assert_light(page)
    await assert_no_overflow(page)
    await assert_accessible(page)
    await screenshot(page, name)


async def check_page_that_reloads(page: Page, name: str) -> None:
    """All checks of a page that reloads itself, which would remove what they add to it. Afterwards it reloads again."""

    async def stay(route: Route) -> None:
        await route.abort("aborted")

    url = page.url
    await page.route(url, stay)
    await check_page(page, name)
    await page.unroute(url)
    await page.reload()
