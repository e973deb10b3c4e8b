"""The receipt of an order, as a page and as a PDF."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.money.cards.card_scene import GOOD
from tests.money.cards.payer import PayerScene, payer_scene
from tests.support.clock import ManualClock
from tests.support.pdf_pages import page_texts
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.orders.mails.order_links import order_urls
from tonne.selling.orders.model import Order

HOSTILE = "<script>alert(1)</script> Ltd"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(
        settings, seller_name="Offsets Ltd", seller_address="Harbour Street 7; Bristol", seller_tax_id="GB 123 4567 89"
    )


@pytest.fixture
async def payer(services: Services, world: World, clock: ManualClock) -> AsyncIterator[PayerScene]:
    async with payer_scene(services, world.ours_test, clock) as scene:
        async with scene.database.transaction() as tx:
            change = AccountChange(receipt_email="billing@ours.test", beneficiary=HOSTILE)
            await change_account(tx, scene.scope, change, by=TESTER.at(scene.clock()))
        yield scene


async def _path(payer: PayerScene, order: Order) -> str:
    async with payer.database.transaction() as tx:
        urls = await order_urls(tx, [order], settings=payer.settings, now=payer.clock())
    return (urls[order.id] or "").removeprefix(payer.settings.base_url)


def _words(text: str) -> str:
    return " ".join(text.split())


async def test_a_receipt_states_seller_lines_total_payment_and_refunds(payer: PayerScene) -> None:
    order = await payer.order(GOOD)
    path = await _path(payer, order)
    unpaid = await payer.open(f"{path}/receipt")
    assert (unpaid.status_code, "the order is not paid" in unpaid.text) == (404, True)
    assert f"{path}/receipt" not in (await payer.open(path)).text
    await payer.work()
    assert f"{path}/receipt" in (await payer.open(path)).text

    page = await payer.open(f"{path}/receipt")
    [pdf] = page_texts((await payer.open(f"{path}/receipt.pdf")).content)
    for text in (_words(page.text), _words(pdf)):
        for said in ("Offsets Ltd", "Harbour Street 7", "Tax ID: GB 123 4567 89", "Ours", order.id):
            assert said in text
        for said in ("Service fee", "Total paid", "€13.95", "Card"):
            assert said in text
        assert "Refunded" not in text
    assert "Paid on 1 November 2026" in _words(pdf)
    assert (page.headers["cache-control"], HOSTILE in page.text, HOSTILE in _words(pdf)) == ("no-store", False, True)

    # Refunded at the gateway: no refund of ours has the amount.
    await payer.execute("UPDATE orders SET refunded_minor = 500 WHERE id = $1", order.id)
    page = await payer.open(f"{path}/receipt")
    for said in ("Partly refunded", "-€5.00", "Paid after refunds", "€8.95"):
        assert said in page.text
    await payer.execute("UPDATE orders SET refunded_minor = 1395, payment_state = 'refunded', status = 'cancelled'")
    page = await payer.open(f"{path}/receipt")
    for said in (">Refunded<", "€0.00", "This order was cancelled. No credits are retired for it."):
        assert said in page.text


async def test_an_unknown_link_has_no_receipt(payer: PayerScene) -> None:
    for path in ("/o/view_00000000000000000000000000/receipt", "/o/x/receipt", "/o/x/receipt.pdf"):
        assert (await payer.open(path)).status_code == 404
