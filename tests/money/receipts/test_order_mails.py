"""Mails about refunds and cancellations after the payment, and the page of the order in all its states."""

import base64
from fractions import Fraction

from msgspec import structs

from tests.money.cards.card_scene import GOOD, REFUSED
from tests.money.cards.payer import BILLING, PayerScene, text_of
from tests.support.clock import ManualClock
from tests.support.command import output_of
from tests.support.world import TESTER
from tonne.apps.wiring.app import Services
from tonne.money.receipts.compose import Parties, compose_receipt
from tonne.money.receipts.expected_completion import Awaited, Expectation
from tonne.money.refunds.model import Refund, RefundMethod, RefundPurpose, RefundState
from tonne.money.refunds.store import insert_refund
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.secret_keys import parse_key
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import new_id
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.mails.order_mail_store import OrderMailKind, OrderMailRow, add_mails
from tonne.selling.orders.model import Order, OrderStatus, OrderTax, PaymentState
from tonne.selling.orders.move_order import Transitions, move_orders
from tonne.selling.orders.store import note_cancellation


async def _paid(payer: PayerScene) -> Order:
    order = await payer.order(GOOD)
    await payer.work()
    async with payer.database.connection() as connection:
        return (await load_orders(connection, [order.key]))[0]


async def _refund(payer: PayerScene, order: Order, amount_minor: int, reason: str = "Goodwill") -> None:
    """A refund that was made, with its mail."""
    refund = Refund(
        scope=order.scope,
        id=new_id("rfd"),
        order_id=order.id,
        method=RefundMethod.CARD,
        charge_id=await payer.fetchval("SELECT id FROM charges WHERE order_id = $1", order.id),
        amount_minor=amount_minor,
        currency=order.currency,
        purpose=RefundPurpose.GOODWILL,
        reason=reason,
        state=RefundState.SUCCEEDED,
        requested_by=str(TESTER),
        created_at=payer.clock(),
        settled_at=payer.clock(),
    )
    async with payer.database.transaction() as tx:
        await insert_refund(tx, refund)
        row = OrderMailRow(order.scope, order.id, OrderMailKind.REFUND, refund.id, amount_minor)
        await add_mails(tx, [row], payer.clock())


async def test_a_partial_refund_is_mailed_and_shown(payer: PayerScene) -> None:
    order = await _paid(payer)
    await payer.execute("UPDATE orders SET refunded_minor = 500")
    await _refund(payer, order, 500, "Goodwill\nPay here")
    receipt, mail = await payer.mails()
    assert mail["To"] == receipt["To"] == BILLING
    assert mail["Subject"] == "[TEST] Your refund of €5.00"
    text = text_of(mail)
    assert "This does not change your order" in text
    assert "Goodwill Pay here" in text
    page = await payer.open((await payer.links())["See your order"])
    assert "Refunded" in page.text
    assert "€5.00" in page.text


async def test_the_refund_of_a_cancelled_order_says_so(payer: PayerScene, clock: ManualClock) -> None:
    order = await _paid(payer)
    due = order.amount_due_minor or 0
    cancelled = structs.replace(
        order, status=OrderStatus.CANCELLED, payment_state=PaymentState.REFUNDED, refunded_minor=due
    )
    async with payer.database.transaction() as tx:
        await move_orders(tx, [Transitions(order, [cancelled])], clock())
    await _refund(payer, order, due)
    _, mail = await payer.mails()
    assert mail["Subject"] == "[TEST] Your refund of €13.95"
    assert "Your order was cancelled. No credits are retired for it." in text_of(mail)
    page = await payer.open((await payer.links())["See your order"])
    assert "This order was cancelled" in page.text
    assert "€13.95 is refunded" in page.text


async def test_a_cancellation_without_a_refund_yet_is_mailed(payer: PayerScene, clock: ManualClock) -> None:
    order = await _paid(payer)
    cancelled = structs.replace(order, status=OrderStatus.CANCELLED)
    async with payer.database.transaction() as tx:
        await note_cancellation(tx, order, actor=TESTER, reason="No supply")
        row = OrderMailRow(order.scope, order.id, OrderMailKind.CANCELLED, order.id, order.amount_due_minor or 0)
        await add_mails(tx, [row], clock())
        await move_orders(tx, [Transitions(order, [cancelled])], clock())
    _, mail = await payer.mails()
    assert mail["Subject"] == "[TEST] Your order for €13.95 was cancelled"
    assert "No supply" in text_of(mail)
    page = await payer.open((await payer.links())["See your order"])
    assert "It was paid. The money is refunded" in page.text


async def test_without_an_address_the_admins_are_mailed_about_a_refund(payer: PayerScene, clock: ManualClock) -> None:
    await payer.add_admin()
    order = await _paid(payer)
    async with payer.database.transaction() as tx:
        await change_account(tx, payer.scope, AccountChange(receipt_email=""), by=TESTER.at(clock()))
    await _refund(payer, order, 100)
    *_, mail = await payer.mails()
    assert mail["To"] == "ada@ours.test"


async def test_the_tax_is_a_line_of_its_own(payer: PayerScene, clock: ManualClock) -> None:
    order = await _paid(payer)
    taxed = structs.replace(order, tax=OrderTax(TaxTreatment.STANDARD, Fraction(19, 100), 265))
    parties = Parties("Ours", BILLING, [])
    mail = compose_receipt(
        payer.settings, taxed, parties, url=None, expected=Expectation(Awaited.NOTHING), paid_at=clock()
    )
    assert "Tax (19%)" in text_of(mail)
    assert "your payment of €16.60" in text_of(mail)


async def test_a_mail_is_in_the_language_of_the_order(payer: PayerScene, clock: ManualClock) -> None:
    order = structs.replace(await _paid(payer), language="de")
    expected = Expectation(Awaited.RETIREMENT, clock())
    mail = compose_receipt(
        payer.settings, order, Parties("Ours", BILLING, []), url=None, expected=expected, paid_at=clock()
    )
    assert mail["Content-Language"] == "de"
    assert "13,95 €" in mail["Subject"]
    assert "1. November 2026" in text_of(mail)


async def test_the_page_follows_the_order_to_its_certificate(payer: PayerScene, services: Services) -> None:
    order = await _paid(payer)
    path = (await payer.links())["See your order and its certificate"]
    assert (await payer.open(f"{path}/state")).json() == {"state": "paid_paid"}
    early = await payer.open(f"{path}/certificate.pdf")
    assert early.status_code == 404
    await payer.run_jobs(services.allocate_orders, services.retire_units)
    assert await payer.status(order) == "complete"
    page = await payer.open(path)
    assert "Your credits are retired" in page.text
    assert "/verify/TEST-" in page.text
    pdf = await payer.open(f"{path}/certificate.pdf")
    assert pdf.content.startswith(b"%PDF-")
    assert pdf.headers["cache-control"] == "no-store"


async def test_the_page_of_a_failed_order_says_why(payer: PayerScene, clock: ManualClock) -> None:
    order = await payer.order("4000002760003184")
    await payer.add_admin()
    await payer.work_all()
    path = (await payer.links())["Confirm the payment"]
    assert order.id in (await payer.open(path)).text
    clock.advance(minutes=1)
    page = await payer.open((await payer.links())["Enter another card"])
    await payer.submit(page, card_number=REFUSED)
    await payer.work_all()
    assert "The bank declined the card. Nothing was charged." in (await payer.open(path)).text


async def test_rotating_the_key_reseals_the_links(payer: PayerScene, services: Services) -> None:
    new = base64.b64encode(b"another secret: for tests, 32 B.").decode()
    await payer.add_admin()
    order = await payer.order("4000002760003184")
    await payer.work_all()
    links = await payer.links()
    await payer.execute("INSERT INTO secret_keys (id) VALUES ($1)", services.box.key_id)
    keys = {
        "database_url": payer.database._url,
        "secret_key": new,
        "secret_keys_old": payer.settings.secret_key,
    }
    lines = output_of("secrets", "rotate", **keys).splitlines()
    assert lines[0].startswith("2 secret(s) encrypted again with key")
    box = SecretBox(parse_key(new))
    [order_box] = [row["token_box"] for row in await payer.fetch("SELECT token_box FROM order_links")]
    [card_box] = [row["token_box"] for row in await payer.fetch("SELECT token_box FROM card_links")]
    assert links["Confirm the payment"] == f"/o/{box.open(order_box, order.id)}"
    assert links["Enter another card"] == f"/card/{box.open(card_box, payer.scope.account_id)}"
    for path in links.values():
        assert (await payer.open(path)).status_code == 200
