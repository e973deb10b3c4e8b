"""Mails about declined cards, and the page on which the payer enters another one."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.money.cards.card_scene import GOOD, NEEDS_AUTHENTICATION, NO_MONEY, REFUSED, total
from tests.money.cards.payer import PayerScene, payer_scene, text_of
from tests.support.clock import ManualClock
from tests.support.command import output_of
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.cards.stored_cards.mail_card_problems import card_page_url
from tonne.money.cards.stored_cards.stored_cards import set_card
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.accounts.customer_mail import allow_address

EXPIRED = "4000000000000069"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def payer(services: Services, world: World, clock: ManualClock) -> AsyncIterator[PayerScene]:
    async with payer_scene(services, world.ours_test, clock) as scene:
        await scene.add_admin()
        yield scene


async def test_the_payer_is_mailed_after_the_first_and_the_last_decline(payer: PayerScene, clock: ManualClock) -> None:
    order = await payer.order(NO_MONEY)
    await payer.work_all()
    for _ in range(5 * 24):
        clock.advance(hours=1)
        await payer.work_all()
    first, last = await payer.mails()
    assert first["Subject"] == "[TEST] Your card was declined for one order"
    assert "The card has insufficient funds." in text_of(first)
    assert f"  €13.95  {order.id}, next on 1 November 2026" in text_of(first)
    assert last["Subject"] == "[TEST] One order could not be paid"
    assert await payer.fetchval("SELECT failure_reason FROM orders") == "insufficient_funds"


@pytest.mark.parametrize(
    ("card", "reason", "words"),
    [
        (REFUSED, "card_declined", "The bank declined the card."),
        (EXPIRED, "expired_card", "The card has expired."),
        (None, "card_missing", "No card is stored."),
    ],
)
async def test_a_failed_order_has_a_reason(payer: PayerScene, card: str | None, reason: str, words: str) -> None:
    await payer.order(card)
    await payer.work_all()
    assert await payer.fetchval("SELECT failure_reason FROM orders") == reason
    [mail] = await payer.mails()
    assert words in text_of(mail)
    assert reason not in text_of(mail)


async def test_many_declined_orders_make_one_mail_an_hour(payer: PayerScene, clock: ManualClock) -> None:
    for _ in range(12):
        await payer.order(NO_MONEY)
    await payer.work_all()
    [mail] = await payer.mails()
    assert mail["Subject"] == "[TEST] Your card was declined for 12 orders"
    assert "and 2 more" in text_of(mail)
    clock.advance(minutes=30)
    await payer.order_as_the_account_says()
    await payer.work_all()
    assert len(await payer.mails()) == 1
    clock.advance(minutes=31)
    await payer.work_all()
    _, second = await payer.mails()
    assert second["Subject"] == "[TEST] Your card was declined for 13 orders"


async def test_nothing_is_mailed_if_the_problem_is_solved_meanwhile(payer: PayerScene, clock: ManualClock) -> None:
    await payer.order(NO_MONEY)
    await payer.work_all()
    clock.advance(minutes=30)
    await payer.order_as_the_account_says()
    await payer.run_jobs(payer.worker)
    page = await payer.open((await payer.links())["Enter another card"])
    await payer.submit(page, card_number=GOOD)
    clock.advance(hours=1)
    await payer.work_all()
    assert len(await payer.mails()) == 1


async def test_a_link_expires_and_is_replaced(payer: PayerScene, clock: ManualClock) -> None:
    scope, settings = payer.scope, payer.settings

    async def send_link() -> str:
        async with payer.database.transaction() as tx:
            url = await card_page_url(tx, scope, box=payer.services.box, settings=settings, now=clock())
        return url.removeprefix(settings.base_url)

    async def is_open(path: str) -> bool:
        return (await payer.http.get(path)).status_code == 200

    first = await send_link()
    clock.advance(days=29)
    assert (await send_link(), await is_open(first)) == (first, True)
    clock.advance(days=60)
    assert await is_open(first)
    clock.advance(days=2)
    assert not await is_open(first)
    second = await send_link()
    clock.advance(days=31)
    assert await is_open(second)
    # The payer comes back from a page of the gateway with the old link.
    await payer.execute("UPDATE card_links SET session_id = 'open'")
    assert await send_link() == second
    await payer.execute("UPDATE card_links SET session_id = NULL")
    third = await send_link()
    assert (await is_open(second), await is_open(third)) == (False, True)


@pytest.mark.parametrize("card", [NO_MONEY, NEEDS_AUTHENTICATION])
async def test_a_card_that_an_operator_stores_charges_unpaid_orders_at_once(payer: PayerScene, card: str) -> None:
    order = await payer.order(card)
    await payer.work()
    assert await payer.status(order) == "placed"
    payer.clock.advance(minutes=1)
    async with payer.database.connection() as connection:
        await set_card(connection, order.scope, payer.gateways, customer=None, method=GOOD, by=TESTER.at(payer.clock()))
    await payer.run_jobs(payer.worker)
    assert await payer.status(order) == "paid"
    assert await payer.taken() == [total(order)]
    assert await payer.breaches() == {}


async def test_entering_another_card_charges_all_open_orders_at_once(payer: PayerScene, clock: ManualClock) -> None:
    orders = [await payer.order(NO_MONEY) for _ in range(3)]
    await payer.work_all()
    clock.advance(minutes=10)
    page = await payer.open((await payer.links())["Enter another card"])
    assert page.text.count("was declined") == 3
    assert "Visa ending in 9995" in page.text
    refused = await payer.submit(page, card_number="4111 1111 1111 1111")
    assert refused.status_code == 422
    assert "4111" not in refused.text
    stored = await payer.submit(page, card_number="4242 4242 4242 4242")
    assert "Visa ending in 4242" in stored.text
    await payer.work_all()
    assert {await payer.status(order) for order in orders} == {"paid"}
    assert sum(await payer.taken()) == total(orders)
    entries = await payer.fetch(
        "SELECT actor, before, after FROM audit_log WHERE action = 'card.stored' ORDER BY at, id"
    )
    assert entries[-1]["actor"] == "payer:card_page"
    assert "4242" in entries[-1]["after"]
    done = await payer.open((await payer.links())["Enter another card"])
    assert (
        "There is nothing to do. Open orders are charged automatically. Orders that failed must be placed again."
        in done.text
    )
    await payer.check_invariants()


async def test_another_card_gets_all_its_attempts(payer: PayerScene, clock: ManualClock) -> None:
    order = await payer.order(NO_MONEY)
    await payer.work_all()
    clock.advance(days=1, hours=2)
    await payer.work_all()
    page = await payer.open((await payer.links())["Enter another card"])
    await payer.submit(page, card_number="4000000000000341")
    await payer.work_all()
    assert await payer.status(order) == "placed"
    clock.advance(hours=1)
    await payer.work_all()
    clock.advance(days=1)
    await payer.work_all()
    assert await payer.status(order) == "paid"


async def test_the_address_of_the_account_comes_before_the_admins(payer: PayerScene, clock: ManualClock) -> None:
    async with payer.database.transaction() as tx:
        change = AccountChange(card_email="cards@ours.test")
        await change_account(tx, payer.scope, change, by=TESTER.at(clock()))
        await allow_address(tx, payer.scope.organisation_id, "cards@ours.test", clock())
    await payer.order(NO_MONEY)
    await payer.work_all()
    [mail] = await payer.mails()
    assert mail["To"] == "cards@ours.test"
    assert await payer.fetch("SELECT FROM mails WHERE held_reason IS NOT NULL") == []


async def test_the_command_prints_the_same_link(payer: PayerScene) -> None:
    await payer.order(NO_MONEY)
    await payer.work_all()
    options = {"database_url": payer.database._url, "secret_key": payer.settings.secret_key}
    printed = output_of("card", "link", payer.scope.account_id, public_url="http://tonne.test", **options)
    assert printed.strip() == f"http://tonne.test{(await payer.links())['Enter another card']}"


async def test_workers_mail_once(payer: PayerScene) -> None:
    await payer.order(NO_MONEY)
    await payer.run_jobs(payer.worker)
    await asyncio.gather(*(payer.mailer.run_once() for _ in range(4)))
    assert len(await payer.mails()) == 1
