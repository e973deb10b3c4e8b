"""Receipts: one mail per payment, in the paying transaction, with a link to the page of the order."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from tests.channels.checkout.shopper import Shopper, make_link
from tests.money.cards.card_scene import GOOD
from tests.money.cards.payer import BILLING, URL, PayerScene, parse, payer_scene, text_of
from tests.support.clock import ManualClock
from tests.support.command import output_of
from tests.support.mail_server import mail_server
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.money.cards.charge_cards import ChargeResults
from tonne.money.cards.charges import settle_charges
from tonne.money.cards.model import RetrySchedule
from tonne.platform.documents.mail.send_outbox import SendMails
from tonne.platform.documents.mail.smtp import SmtpMail
from tonne.platform.settings.settings import Settings
from tonne.selling.accounts.customer_mail import allow_address
from tonne.selling.accounts.errors import MailAddressInvalid

ANN = "ann@example.com"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(
        settings, seller_name="Offsets Ltd", seller_address="Harbour Street 7; Bristol", seller_email="hi@offsets.test"
    )


@pytest.fixture
async def payer(services: Services, world: World, clock: ManualClock) -> AsyncIterator[PayerScene]:
    async with payer_scene(services, world.ours_test, clock) as scene:
        yield scene


async def test_people_a2_a_customer_gets_a_receipt_at_the_moment_of_payment(
    payer: PayerScene, services: Services, world: World, browser: httpx.AsyncClient
) -> None:
    async with payer.database.transaction() as tx:
        await allow_address(tx, payer.scope.organisation_id, ANN, payer.clock())
    link = await make_link(services, world.ours_test.scope)
    shopper = Shopper(browser)
    await shopper.pay(await shopper.begin(link, amount="1.5"))
    await payer.run_jobs(payer.mail_orders)
    async with mail_server() as box:
        while await SendMails(payer.database, SmtpMail(box.url), payer.settings).run_once():
            pass
    [envelope] = box.mails
    assert envelope.rcpt_tos == [ANN]
    assert isinstance(envelope.content, bytes)
    mail = parse(envelope.content)
    [order_id] = [row["id"] for row in await payer.fetch("SELECT id FROM orders")]
    total = await payer.fetchval("SELECT total_cost_minor FROM orders")
    amount = f"€{total // 100}.{total % 100:02}"
    assert mail["Subject"] == f"[TEST] Your receipt: {amount} for 1.5 t of carbon credits"
    text = text_of(mail)
    for words in (
        f"your payment of {amount}",
        order_id,
        "Ours",
        "Offsets Ltd, Harbour Street 7, Bristol",
        "Service fee",
    ):
        assert words in text
    assert "We expect to issue the certificate by" in text
    path = next(match[1] for line in text.split("\n") if (match := URL.fullmatch(line)))
    page = await payer.open(path)
    assert "Thank you" in page.text
    assert order_id in page.text


async def test_an_account_that_pays_by_card_has_no_receipts_by_default(payer: PayerScene) -> None:
    await payer.order(GOOD)
    await payer.work()
    assert await payer.mails() == []
    assert await payer.fetch("SELECT FROM order_links") == []


async def test_an_account_can_have_receipts_for_orders_paid_by_its_card(payer: PayerScene) -> None:
    await payer.mail_receipts_to(BILLING)
    order = await payer.order(GOOD)
    await payer.work()
    [mail] = await payer.mails()
    assert mail["To"] == BILLING
    assert order.id in text_of(mail)
    await payer.mail_receipts_to("")
    await payer.order_as_the_account_says()
    await payer.work()
    assert len(await payer.mails()) == 1
    with pytest.raises(MailAddressInvalid):
        await payer.mail_receipts_to("nobody")


async def test_the_command_sets_the_addresses(payer: PayerScene) -> None:
    account_id = payer.scope.account_id
    database = {"database_url": payer.database._url}
    output_of(
        "account", "update", account_id, "--receipt-email", BILLING, "--card-email", "cards@ours.test", **database
    )
    row = "SELECT receipt_email, card_email FROM accounts WHERE id = $1"
    [found] = await payer.fetch(row, account_id)
    assert tuple(found) == (BILLING, "cards@ours.test")
    output_of("account", "update", account_id, "--receipt-email", "", **database)
    [found] = await payer.fetch(row, account_id)
    assert tuple(found) == (None, "cards@ours.test")


async def test_concurrent_settlements_of_a_charge_make_one_receipt(payer: PayerScene) -> None:
    await payer.mail_receipts_to(BILLING)
    await payer.order(GOOD)
    batch = await payer.worker.claim()
    results = await payer.worker.call_gateways(batch)
    await asyncio.gather(*(payer.worker.settle(results) for _ in range(5)))
    assert len(await payer.mails()) == 1


async def test_a_payment_that_is_rolled_back_makes_no_receipt(payer: PayerScene) -> None:
    """A process killed before the commit leaves neither payment nor mail; the next worker makes both."""
    await payer.mail_receipts_to(BILLING)
    order = await payer.order(GOOD)
    batch = await payer.worker.claim()
    results: ChargeResults = await payer.worker.call_gateways(batch)
    connection = await payer.database.acquire()
    await connection.execute("BEGIN")
    schedule = RetrySchedule(payer.settings)
    await settle_charges(connection, results, [], payer.clock(), schedule)
    pid = connection.get_server_pid()
    connection.terminate()
    payer.database.release(connection, reusable=False)
    # Its locks are gone when the server has noticed.
    await payer.until(lambda: payer.fetchval("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", pid))
    assert await payer.mails() == []
    payer.clock.advance(minutes=5)
    await payer.work()
    assert await payer.status(order) == "paid"
    assert len(await payer.mails()) == 1


async def test_all_mails_about_an_order_have_the_same_link(payer: PayerScene) -> None:
    await payer.mail_receipts_to(BILLING)
    order = await payer.order("4000002760003184")
    await payer.add_admin()
    await payer.work_all()
    asked = (await payer.links())["Confirm the payment"]
    await payer.submit(await payer.submit(await payer.open(asked)), answer="complete")
    assert (await payer.links())["See your order and its certificate"] == asked
    assert await payer.fetchval("SELECT count(*) FROM order_links WHERE order_id = $1", order.id) == 1


async def test_a_token_is_stored_sealed_only(payer: PayerScene, services: Services) -> None:
    await payer.mail_receipts_to(BILLING)
    order = await payer.order(GOOD)
    await payer.work()
    token = (await payer.links())["See your order and its certificate"].removeprefix("/o/")
    [row] = await payer.fetch("SELECT token_hash, token_box FROM order_links")
    assert token.encode() not in row["token_box"]
    assert services.box.open(row["token_box"], order.id) == token
