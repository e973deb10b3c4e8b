"""A month of cent-sized orders that one charge of a card pays, with dates."""

from datetime import UTC, datetime
from email.message import EmailMessage

import msgspec
import pytest

from tests.money.cards.card_scene import NO_MONEY, total
from tests.money.invoices.billing import parse, pdf_of, text_of
from tests.money.invoices.card_billing import ADA, CardBilling
from tests.support.clock import MARCH, ManualClock
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.money.cards.stored_cards.mail_card_problems import card_page_url
from tonne.platform.db.database import Database
from tonne.platform.documents.mail.stored_files import with_files
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode

ORDERS = 300


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER)


@pytest.fixture
async def scene(populated_db: Database, settings: Settings, world: World) -> CardBilling:
    clock = ManualClock(MARCH)
    scene = CardBilling(Services(populated_db, settings, clock), world.ours_test, clock)
    await scene.add_admin()
    return scene


async def test_a_month_of_cent_sized_orders_is_one_charge_after_the_card_was_replaced(scene: CardBilling) -> None:
    await scene.open(NO_MONEY)
    orders = []
    for n in range(ORDERS):
        scene.clock.now = datetime(2026, 3, 1 + n % 31, 9, n % 60, tzinfo=UTC)
        orders.append(await scene.order_small(3 + n % 7))
    scene.clock.turn_to(3, 31, 23)
    await scene.run()
    assert (await scene.invoices(), await scene.taken()) == ([], [])

    # 1 April, a quarter past midnight: one invoice, and the card has no money.
    scene.clock.now = datetime(2026, 4, 1, 0, 15, tzinfo=UTC)
    await scene.run()
    [invoice] = await scene.invoices()
    assert (invoice["order_count"], invoice["status"], invoice["total_minor"]) == (ORDERS, "open", total(orders))
    mails = {mail["Subject"]: mail for mail in await _mails(scene)}
    [subject] = [subject for subject in mails if "declined" in subject]
    assert "invoice TN-TEST-000001 (300 orders)" in subject
    [billed] = [mail for name, mail in mails.items() if "charged to your card" in name]
    assert billed["To"] == ADA
    assert "Please do not transfer money" in pdf_of(billed)
    assert "IBAN" not in pdf_of(billed)

    # An hour later it is declined again. On 2 April the payer enters another card.
    scene.clock.advance(hours=1)
    await scene.run()
    scene.clock.turn_to(4, 2, 8)
    async with scene.database.transaction() as tx:
        url = await card_page_url(tx, scene.scope, box=scene.services.box, settings=scene.settings, now=scene.clock())
    assert "/card/" in url
    await scene.services.update_card.store_test_card(scene.scope, "4242424242424242")
    await scene.run()
    assert await scene.statuses() == {"paid"}
    assert await scene.taken() == [total(orders)]
    charges = [(each["status"], each["outcome"]) for each in await scene.invoice_charges()]
    assert charges == [("failed", "declined"), ("failed", "declined"), ("captured", "captured")]
    [receipt] = [mail for mail in await _mails(scene) if "Your receipt" in mail["Subject"]]
    assert f"for invoice {invoice['reference']}, which bills 300 orders" in text_of(receipt)

    # On 10 April one order is refunded, from the shared charge.
    scene.clock.turn_to(4, 10)
    await scene.refund(orders[7])
    await scene.run()
    assert await scene.taken() == [total(orders) - total(orders[7])]
    rows = await scene.fetch("SELECT id FROM orders WHERE payment_state = 'refunded'")
    assert [row["id"] for row in rows] == [orders[7].id]
    assert await scene.fetchval("SELECT total_minor FROM credit_notes") == total(orders[7])
    assert scene.scope.mode is Mode.TEST
    await scene.check_invariants()


async def _mails(scene: CardBilling) -> list[EmailMessage]:
    await scene.run_jobs(scene.mail_orders)
    rows = await scene.fetch("SELECT message FROM mails ORDER BY created_at, id")
    return [parse(await with_files(row["message"], scene.services.originals.read)) for row in rows]
