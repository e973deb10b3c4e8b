"""A checkout charges exactly what the person saw, or nothing."""

import html

import httpx
import pytest

from tests.channels.checkout.scene import Rows, change_price
from tests.channels.checkout.shopper import GOOD_CARD, STOLEN_CARD, Shopper, form_of
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink

NEW_CATALOGUE = "UPDATE catalogues SET version = version + 1 WHERE mode = 'test'"
DOUBLE_PRICES = "UPDATE bundles SET unit_price_minor = unit_price_minor * 2 WHERE mode = 'test'"
HALVE_PRICES = "UPDATE bundles SET unit_price_minor = unit_price_minor / 2 WHERE mode = 'test'"
NEW_WEIGHTS = "UPDATE bundle_projects SET weight = weight + ascii(project_id) WHERE mode = 'test'"
NEW_NAMES = "UPDATE bundles SET name = name || ' II' WHERE mode = 'test'"


async def change(services: Services, statement: str) -> None:
    async with services.database.transaction() as tx:
        await tx.execute(statement)
        await tx.execute(NEW_CATALOGUE)


def notice_of(page: httpx.Response) -> str:
    text = page.text.partition('role="alert">')[2].partition("</p>")[0]
    return " ".join(html.unescape(text).split())


async def test_money_2_a_value_checkout_charges_the_quantity_that_was_shown(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    """The total of a value checkout stays the same when prices change: only the quantity differs."""
    address = await shopper.begin(link, by="value", amount="50")
    old = await shopper.open(address)
    await change(services, DOUBLE_PRICES)
    refused = await shopper.send(old)
    assert await rows("SELECT id FROM orders") == await rows("SELECT id FROM charges") == []
    assert "You'd now get" in notice_of(refused)
    assert "Nothing was charged." in notice_of(refused)
    [shown] = await rows("SELECT quantity_grams FROM checkouts")
    assert "Thank you" in (await shopper.send(refused)).text
    [order] = await rows("SELECT quantity_grams, total_cost_minor FROM orders")
    assert abs(order["quantity_grams"] * 2 - shown["quantity_grams"]) < 10_000
    assert form_of(refused).values()["total"] == [str(order["total_cost_minor"])]


async def test_money_2_reloading_shows_that_a_value_buys_less(
    services: Services, shopper: Shopper, link: OffsetLink
) -> None:
    address = await shopper.begin(link, by="value", amount="50")
    assert notice_of(await shopper.open(address)) == ""
    await change(services, DOUBLE_PRICES)
    notice = notice_of(await shopper.open(address))
    assert "has changed" in notice
    assert "instead of" in notice


@pytest.mark.parametrize(
    "statement",
    [DOUBLE_PRICES, "UPDATE organisations SET fee_rate = 0.2", NEW_WEIGHTS, NEW_NAMES],
    ids=["price", "fee", "projects", "names"],
)
@pytest.mark.parametrize("by", ["quantity", "value"])
async def test_money_2_every_change_is_shown_before_anything_is_charged(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows, *, statement: str, by: str
) -> None:
    address = await shopper.begin(link, by=by, amount="50")
    old = await shopper.open(address)
    await change(services, statement)
    assert notice_of(await shopper.open(address)) != "", "a reload says so"
    refused = await shopper.send(old)
    assert "changed" in notice_of(refused)
    assert await rows("SELECT id FROM orders") == []
    assert "Thank you" in (await shopper.send(refused)).text
    [order] = await rows("SELECT total_cost_minor FROM orders")
    assert form_of(refused).values()["total"] == [str(order["total_cost_minor"])]


async def test_money_2_a_refused_payment_says_so_even_if_the_first_price_is_back(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    await change(services, DOUBLE_PRICES)
    doubled = await shopper.open(address)
    await change(services, HALVE_PRICES)
    refused = await shopper.send(doubled)
    assert notice_of(refused).startswith("The offer has changed since you opened this page. Nothing was charged.")
    assert await rows("SELECT id FROM orders") == []
    assert notice_of(await shopper.open(address)) == ""


async def test_money_2_a_form_without_the_offer_charges_nothing(shopper: Shopper, link: OffsetLink, rows: Rows) -> None:
    form = form_of(await shopper.open(await shopper.begin(link)))
    [offer] = form.values()["offer"]
    for forged in ("", "00" * 32, offer[:-2], offer + "00", "zz", "é"):
        answer = await shopper.http.post(form.action, data=form.values(offer=forged, card_number=GOOD_CARD))
        assert answer.status_code == 200
        assert "The offer has changed since you opened this page." in answer.text
    assert await rows("SELECT id FROM orders") == []


async def test_money_2_an_ordered_checkout_keeps_its_offer(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link, by="value", amount="50")
    await shopper.pay(address, STOLEN_CARD)
    await change_price(services)
    page = await shopper.open(address)
    assert "has changed" not in page.text
    assert "Thank you" in (await shopper.send(page)).text
    assert [row["status"] for row in await rows("SELECT status FROM orders")] == ["paid"]
