"""Payments that arrive with another amount: accepted or sent back by an operator."""

import pytest

from tests.money.cards.card_scene import total
from tests.money.refunds.refund_scene import ADA, RefundScene
from tonne.money.cards.gateways.card import ChargeRequest, ChargeResult
from tonne.money.refunds.disputes.mismatched_charge import accept_mismatched, read_mismatched, return_mismatched
from tonne.money.refunds.errors import ChargeNotMismatched
from tonne.platform.values.context import replace
from tonne.selling.orders.model import Order


async def mismatched(scene: RefundScene, difference: int) -> tuple[Order, str]:
    async def take(request: ChargeRequest) -> ChargeResult:
        return await scene.gateway.inner.charge(replace(request, amount_minor=request.amount_minor + difference))

    order = await scene.order()
    scene.gateway.faults = [take]
    await scene.work()
    assert await scene.outcomes(order) == [("mismatched", "captured")]
    [charge] = await scene.charges(order)
    return order, charge["id"]


async def _decide(scene: RefundScene, charge_id: str, *, accept: bool) -> Order:
    async with scene.database.connection() as connection:
        payment = await read_mismatched(connection, scene.gateways, charge_id)
    decide = accept_mismatched if accept else return_mismatched
    async with scene.database.transaction() as tx:
        return await decide(tx, charge_id, payment, by=ADA.at(scene.clock()), reason="Agreed by phone")


@pytest.mark.parametrize("difference", [-1, 1])
async def test_a_mismatched_payment_goes_back_with_all_that_arrived(scene: RefundScene, difference: int) -> None:
    order, charge_id = await mismatched(scene, difference)
    await _decide(scene, charge_id, accept=False)
    await scene.send()
    assert await scene.taken() == [0]
    assert await scene.states(order) == [("succeeded", total(order) + difference)]
    assert await scene.money(order) == ("cancelled", "unpaid", 0)
    assert (await scene.shown(order))["cancellation_reason"] == "payment_mismatched"
    with pytest.raises(ChargeNotMismatched):
        await _decide(scene, charge_id, accept=False)
    assert await scene.breaches() == {}


@pytest.mark.parametrize("difference", [-1, 1])
async def test_an_accepted_payment_pays_and_what_is_too_much_goes_back(scene: RefundScene, difference: int) -> None:
    order, charge_id = await mismatched(scene, difference)
    await _decide(scene, charge_id, accept=True)
    await scene.send()
    assert await scene.money(order) == ("paid", "paid", 0)
    assert await scene.taken() == [total(order) + min(difference, 0)]
    await scene.refund(order)
    await scene.send()
    assert (await scene.money(order))[:2] == ("paid", "refunded")
    assert await scene.taken() == [0]
    assert await scene.breaches() == {}


async def test_cancelling_the_order_sends_the_payment_back(scene: RefundScene) -> None:
    order, _ = await mismatched(scene, -1)
    await scene.cancel_with_refund(order)
    await scene.send()
    assert await scene.taken() == [0]
    assert await scene.breaches() == {}


async def test_all_of_an_accepted_payment_is_refunded_at_the_gateway(scene: RefundScene) -> None:
    """More goes back than the order costs; it shows as refunded in full."""
    order, charge_id = await mismatched(scene, 1)
    await _decide(scene, charge_id, accept=True)
    await scene.refund_at_gateway(order, total(order) + 1)
    await scene.refunds.polls.run_once()
    await scene.send()
    assert await scene.money(order) == ("cancelled", "refunded", total(order))
    assert await scene.states(order) == [("cancelled", 1), ("succeeded", total(order) + 1)]
    assert await scene.taken() == [0]
    assert await scene.breaches() == {}
