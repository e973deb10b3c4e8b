"""Stored cards that need a confirmation by the payer (3-D Secure), in test mode."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.money.cards.card_scene import GOOD, total
from tests.money.cards.payer import PayerScene, payer_scene, text_of
from tests.support.clock import START, ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services

CONFIRMED_CARD = "4000002760003184"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def payer(services: Services, world: World, clock: ManualClock) -> AsyncIterator[PayerScene]:
    async with payer_scene(services, world.ours_test, clock) as scene:
        await scene.add_admin()
        yield scene


async def test_the_payer_is_mailed_once_and_confirms_the_same_charge(payer: PayerScene, clock: ManualClock) -> None:
    order = await payer.order(CONFIRMED_CARD)
    await payer.work_all()
    assert await payer.status(order) == "placed"
    assert await payer.outcomes(order) == [("pending", "authentication_required")]
    [mail] = await payer.mails()
    assert mail["To"] == "ada@ours.test"
    assert mail["Subject"] == "[TEST] Please confirm a payment of €13.95"
    assert "until 8 November 2026" in text_of(mail)
    clock.advance(days=2)
    await payer.work_all()
    assert len(await payer.mails()) == 1
    page = await payer.open((await payer.links())["Confirm the payment"])
    assert "Please confirm this payment" in page.text
    assert page.headers["referrer-policy"] == "no-referrer"
    assert '<meta name="robots" content="noindex">' in page.text
    bank = await payer.submit(page)
    assert "Simulated bank" in bank.text
    done = await payer.submit(bank, answer="complete")
    assert "Thank you" in done.text
    assert await payer.status(order) == "paid"
    assert await payer.outcomes(order) == [("captured", "captured")]
    assert len(payer.gateway.charged) == 1
    assert await payer.taken() == [total(order)]
    await payer.check_invariants()


async def test_a_failed_confirmation_can_be_repeated(payer: PayerScene) -> None:
    order = await payer.order(CONFIRMED_CARD)
    await payer.work_all()
    path = (await payer.links())["Confirm the payment"]
    refused = await payer.submit(await payer.submit(await payer.open(path)), answer="fail")
    assert "The bank did not confirm the payment" in refused.text
    assert await payer.status(order) == "placed"
    paid = await payer.submit(await payer.submit(refused), answer="complete")
    assert "Thank you" in paid.text
    assert await payer.outcomes(order) == [("captured", "captured")]


async def test_without_a_confirmation_the_charge_is_cancelled_at_the_gateway_before_the_order_fails(
    payer: PayerScene, clock: ManualClock
) -> None:
    order = await payer.order(CONFIRMED_CARD)
    await payer.work_all()
    path = (await payer.links())["Confirm the payment"]
    [charge] = await payer.charges(order)
    assert charge["confirm_until"] == START + timedelta(days=7)
    clock.advance(days=6, hours=23)
    await payer.work_all()
    assert await payer.status(order) == "placed"
    clock.advance(hours=1)
    payer.gateway.is_down = True
    await payer.work_all()
    assert await payer.status(order) == "placed", "a charge that may still succeed must not fail the order"
    payer.gateway.is_down = False
    clock.advance(hours=2)
    await payer.work_all()
    assert await payer.status(order) == "failed"
    assert (
        await payer.fetchval("SELECT failure_reason FROM orders WHERE id = $1", order.id) == "authentication_required"
    )
    assert await payer.fetchval("SELECT status FROM simulated_charges") == "refused"
    assert len(payer.gateway.charged) == 1
    *_, last = await payer.mails()
    assert last["Subject"] == "[TEST] One order could not be paid"
    assert "The payment was not confirmed in time." in text_of(last)
    page = await payer.open(path)
    assert "This order could not be paid" in page.text
    late = await payer.http.post(f"{path}/bank", data={})
    assert late.status_code == 400
    assert await payer.taken() == []
    await payer.check_invariants()


async def test_a_confirmation_at_the_last_moment_pays_the_order(payer: PayerScene, clock: ManualClock) -> None:
    """The payer confirms at the bank, and the worker ends the charge before anybody has looked it up."""
    order = await payer.order(CONFIRMED_CARD)
    await payer.work_all()
    await payer.execute("UPDATE simulated_charges SET status = 'captured', code = NULL")
    clock.advance(days=8)
    await payer.work_all()
    assert await payer.status(order) == "paid"
    await payer.check_invariants()


async def test_cancelling_the_order_ends_the_charge(payer: PayerScene, clock: ManualClock) -> None:
    order = await payer.order(CONFIRMED_CARD)
    await payer.work_all()
    await payer.cancel(order)
    clock.advance(hours=2)
    await payer.work_all()
    assert await payer.status(order) == "cancelled"
    assert await payer.outcomes(order) == [("failed", "refused")]
    assert await payer.fetchval("SELECT status FROM simulated_charges") == "refused"
    await payer.check_invariants()


async def test_another_card_replaces_a_charge_that_waits_for_its_confirmation(
    payer: PayerScene, clock: ManualClock
) -> None:
    order = await payer.order(CONFIRMED_CARD)
    await payer.work_all()
    clock.advance(days=1)
    page = await payer.open((await payer.links())["Enter another card"])
    assert "needs your confirmation until" in page.text
    stored = await payer.submit(page, card_number=GOOD)
    assert "The card is stored." in stored.text
    await payer.work_all()
    assert await payer.status(order) == "paid"
    assert await payer.outcomes(order) == [("failed", "replaced"), ("captured", "captured")]
    assert payer.gateway.cancelled == [payer.gateway.charged[0]], "no second charge while the first can succeed"
    await payer.check_invariants()


async def test_two_windows_confirm_once(payer: PayerScene) -> None:
    order = await payer.order(CONFIRMED_CARD)
    await payer.work_all()
    path = (await payer.links())["Confirm the payment"]
    bank = await payer.submit(await payer.open(path))
    pages = await asyncio.gather(*(payer.submit(bank, answer="complete") for _ in range(4)))
    assert {page.status_code for page in pages} <= {200, 409}
    assert await payer.status(order) == "paid"
    assert await payer.event_types(order) == ["order.received", "order.placed", "order.paid"]
    assert await payer.taken() == [total(order)]


async def test_an_unknown_link_is_not_found(payer: PayerScene) -> None:
    for path in ("/o/x", "/o/view_00000000000000000000000000", "/card/x", "/card/view_00000000000000000000000000"):
        page = await payer.open(path)
        assert page.status_code == 404
        assert "There is no such page." in page.text
