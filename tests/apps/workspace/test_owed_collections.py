"""What is owed of a collection after the last decline is paid by bank transfer, and all that is shown says so."""

from collections.abc import AsyncIterator
from email.message import EmailMessage

import msgspec
import pytest

from tests.apps.workspace.test_overview import MakePerson
from tests.apps.workspace.test_overview import text_of as page_text
from tests.money.invoices.billing import parse, text_of
from tests.money.invoices.collections import SmallOrders, proven_small_orders
from tests.money.invoices.test_taken_collections import LARGEST, RETRIES, end
from tests.support.people import Person, add_user
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.money.cards.stored_cards.card_problem_store import list_declined
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.selling.orders.model import Order
from tonne.selling.users.model import Role

IBAN = SELLER["bank_iban"]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER)


@pytest.fixture
async def shop(populated_db: Database, settings: Settings, world: World) -> AsyncIterator[SmallOrders]:
    async with proven_small_orders(populated_db, settings, world) as scene:
        yield scene


@pytest.fixture
async def member(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, "rea@ours.test", world.ours_live.scope.organisation_id, Role.READ_ONLY, name="Rea Sun")
    rea = person()
    await rea.sign_in("rea@ours.test")
    return rea


async def mails(scene: SmallOrders) -> list[EmailMessage]:
    rows = await scene.fetch("SELECT message FROM mails ORDER BY created_at, id")
    return [parse(row["message"]) for row in rows]


async def decline(shop: SmallOrders) -> tuple[Order, str]:
    """A delivered order of a collection that was declined for the last time, and the number of its invoice."""
    delivered = [await shop.parcel(LARGEST) for _ in range(5)]
    await shop.run()
    shop.delivers, shop.stripe.is_declining = False, True
    for _ in range(6):
        await shop.parcel(LARGEST)
    await shop.run()
    for delay in RETRIES:
        shop.clock.now += delay
        await shop.run()
    [invoice] = await shop.invoices()
    assert (invoice["status"], invoice["payment_method"]) == ("open", "invoice")
    return delivered[0], invoice["reference"]


async def test_pages_of_the_order_and_of_its_invoice_ask_for_a_transfer(shop: SmallOrders, member: Person) -> None:
    order, number = await decline(shop)
    base = f"/dashboard/live/{shop.scope.organisation_id}"
    page = await page_text(member, f"{base}/orders/{order.id}")
    assert "Paid by Bank transfer: the card was declined" in page
    assert "Total €0.48" in page
    page = await page_text(member, f"{base}/invoices/{number}")
    assert IBAN.replace(" ", "") in page.replace(" ", "")
    assert "The stored card of the account is charged" not in page
    await end(shop)


async def test_mails_ask_for_a_transfer(shop: SmallOrders) -> None:
    _, number = await decline(shop)
    async with shop.database.connection() as connection:
        [owed] = await list_declined(connection, shop.scope)
    assert (owed.amount_minor, owed.order_count, owed.until) == (240, 5, None)
    shop.clock.advance(days=20)
    await shop.run()
    texts = {mail["Subject"]: text_of(mail) for mail in await mails(shop)}
    [credited] = [text for subject, text in texts.items() if subject.startswith("Credit note")]
    assert "to your card" not in credited
    declined = texts[f"Your card was declined for invoice {number} (5 orders)"]
    assert "pay it by bank transfer, or enter another card" in declined
    assert f"€2.40  invoice {number} (5 orders)" in declined
    assert "next on" not in declined
    assert f"please do so with the reference {number}" in credited
    [reminder] = [text for subject, text in texts.items() if subject.startswith("Reminder")]
    assert IBAN in reminder
