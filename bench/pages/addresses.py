"""The addresses of the pages, from the demo: a customer pays for an offset, and a certificate is issued."""

import asyncio

import httpx
from playwright.async_api import Browser, Page

from bench.report import NotMeasured
from tests.support.command import Service

NAMES = ("start", "offset", "payment", "order", "sustainability", "certificate", "verify")
# One of the simulated cards.
CARD = "4242424242424242"
COMPLETE_WITHIN_S = 60


async def find_addresses(browser: Browser, service: Service) -> dict[str, str]:
    demo, site = service.demo(), f"http://localhost:{service.port}"
    offset = f"{site}/offset/{demo['offset_link_id']}"
    context = await browser.new_context(locale="en-GB")
    page = await context.new_page()
    payment = await _begin(page, offset)
    # Another checkout: the first one stays unpaid.
    await _begin(page, offset)
    order = await _pay(page)
    await context.close()
    number = await _place_order(site, demo["test"]["api_key"], demo["test"]["estimate_ids"][0])
    return {
        "start": f"{site}/",
        "offset": offset,
        "payment": payment,
        "order": order,
        "sustainability": f"{site}/sustainability/test/{demo['sustainability_slug']}",
        "certificate": f"{site}/certificates/{number}",
        "verify": f"{site}/verify/{number}",
    }


async def _begin(page: Page, offset: str) -> str:
    """From the offset link to the payment page."""
    await page.goto(offset)
    await page.fill("input[name=email]", "bench@example.com")
    await page.press("input[name=email]", "Enter")
    await page.wait_for_selector("input[name=card_number]")
    return page.url


async def _pay(page: Page) -> str:
    await page.fill("input[name=card_number]", CARD)
    consent = page.locator("input[name=withdrawal_consent]")
    if await consent.count():
        await consent.check()
    await page.press("input[name=card_number]", "Enter")
    await page.wait_for_selector("input[name=card_number]", state="detached")
    return page.url


async def _place_order(site: str, key: str, estimate_id: str) -> str:
    """An order of the demo's own account, whose certificate is public. Returns its number."""
    async with httpx.AsyncClient(base_url=site, headers={"Authorization": f"Bearer {key}"}) as api:
        placed = await api.post("/v1/orders/by-estimate", json={"estimate_id": estimate_id, "idempotency_key": "bench"})
        for _ in range(COMPLETE_WITHIN_S * 2):
            order = (await api.get(f"/v1/orders/{placed.json()['id']}")).json()
            if order["status"] == "complete":
                return str(order["public_certificate_url"]).rpartition("/")[2]
            await asyncio.sleep(0.5)
    raise NotMeasured("The order of the demo was not complete in time.")
