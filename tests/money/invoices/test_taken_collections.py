"""An order that a card pays takes the open collection of its account with it: one charge, each with its document."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from decimal import Decimal

import msgspec
import pytest

from tests.money.invoices.card_billing import CardBilling
from tests.money.invoices.collections import SmallOrders, proven_small_orders, small_orders
from tests.money.invoices.test_taxed_invoices import GERMAN_SELLER
from tests.support.world import ADDRESS, TESTER, World
from tonne.money.cards.captured_store import request_checks_any_account
from tonne.money.cards.gateways.card import DisputeState
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.refunds.disputes.check_payments import simulate_dispute
from tonne.money.refunds.disputes.decide_tax import TaxDecision, decide_tax
from tonne.money.refunds.request_refund import Cancellation, cancel_by_id
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import new_id
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.supply.retirements.allocate_orders import AllocateOrders

RETRIES = (timedelta(hours=1), timedelta(days=1), timedelta(days=3))
UNPAID, PAID = "unpaid", "paid"
LOSSES, TAX = "Expenses:Dispute-Losses", "Liabilities:Tax:DE-S-19"
LARGEST = 38_000
CHARGES = """
SELECT charges.status, charges.amount_minor,
       (SELECT array_agg(document.amount_minor ORDER BY document.reference) FROM charge_invoices document
        WHERE document.charge_id = charges.id) AS documents
FROM charges ORDER BY charges.created_at, charges.id
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **GERMAN_SELLER)


@pytest.fixture
async def shop(populated_db: Database, settings: Settings, world: World) -> AsyncIterator[SmallOrders]:
    async with proven_small_orders(populated_db, settings, world) as scene:
        yield scene


async def charges(scene: SmallOrders | CardBilling) -> list[tuple[str, int, list[int] | None]]:
    return [tuple(row) for row in await scene.fetch(CHARGES)]


async def tax(scene: SmallOrders | CardBilling, **profile: object) -> None:
    async with scene.database.transaction() as tx:
        standard = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19"), **profile}
        await set_tax_profile(tx, scene.scope.organisation_id, standard, by=TESTER.at(scene.clock()))


async def end(scene: SmallOrders | CardBilling) -> None:
    await scene.post_entries()
    await scene.check_invariants()


async def test_one_charge_pays_a_normal_order_and_the_open_collection(shop: SmallOrders) -> None:
    parcels = [await shop.parcel() for _ in range(3)]
    await shop.run()
    order = await shop.place_order(shop.scope)
    before = await shop.shown(order)
    await shop.run()
    assert order.amount_due_minor is not None
    assert (await charges(shop))[1:] == [("captured", order.amount_due_minor + 9, [order.amount_due_minor, 9])]
    assert shop.captured[1:] == [order.amount_due_minor + 9]
    assert {state for _, state in await shop.states([*parcels, order])} == {PAID}
    shown = await shop.shown(order)
    assert (shown["payment_plan"], shown["amount_due"]) == ("now", before["amount_due"])
    assert (await shop.shown(parcels[0]))["amount_due"] == "0.03"
    documents = await shop.fetch("SELECT billing, total_minor, is_prepaid FROM invoices ORDER BY number")
    assert [tuple(row) for row in documents][1:] == [
        ("per_order", order.amount_due_minor, False),
        ("collected", 9, False),
    ]
    # The next one has nothing to take with it: it is charged alone, and its document says that it was paid before.
    shop.clock.advance(hours=1)
    alone = await shop.place_order(shop.scope)
    await shop.run()
    assert (await charges(shop))[2:] == [("captured", alone.amount_due_minor, None)]
    await end(shop)


async def test_workers_that_find_a_collection_and_a_larger_order_charge_once(
    card_billing: CardBilling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonne.money.invoices.card_payment.settle_card_invoice.BATCH", 1)
    scene = card_billing
    await scene.order()
    await scene.run()
    [before], sent = await scene.taken(), len(scene.gateway.charged)
    scene.clock.advance(seconds=1)
    for _ in range(3):
        await scene.place_order(scene.scope, mass_grams=2_400)
    await scene.run_jobs(scene.issue)
    scene.clock.advance(seconds=5)
    await scene.run_jobs(scene.consolidate)
    order = await scene.place_order(scene.scope)
    await scene.run_jobs(scene.issue, scene.worker)
    assert len(await scene.invoices()) == 2
    # Each claims one of the invoices, and both charges would be for both.
    await asyncio.gather(*(scene.another_charger().run_once() for _ in range(3)))
    await scene.run()
    assert len(scene.gateway.charged) == sent + 1
    assert sorted(await scene.taken()) == sorted([before, (order.amount_due_minor or 0) + 9])
    assert {row["status"] for row in await scene.invoices()} == {"paid"}
    await end(scene)


async def test_documents_of_earlier_months_go_with_it(shop: SmallOrders) -> None:
    parcels = [await shop.parcel() for _ in range(3)]
    await shop.run()
    await shop.run_at(2026, 2, 1, 0, 16)
    assert await shop.open_invoices() == [9]
    await shop.run_at(2026, 2, 3)
    parcels.append(await shop.parcel())
    await shop.run()
    order = await shop.place_order(shop.scope)
    await shop.run()
    due = order.amount_due_minor or 0
    assert (await charges(shop))[1:] == [("captured", due + 12, [9, due, 3])]
    assert {state for _, state in await shop.states([*parcels, order])} == {PAID}
    await shop.run_at(2027, 6, 1)
    assert await shop.fetchval("SELECT count(*) FROM invoice_differences") == 0
    await end(shop)


async def test_taxes_and_refunds_of_each_are_its_own(card_billing: CardBilling) -> None:
    scene = card_billing
    await tax(scene, **ADDRESS)
    await scene.order()
    await scene.run()
    [before] = await scene.taken()
    scene.clock.advance(seconds=1)
    parcel = await scene.place_order(scene.scope, mass_grams=20_000)
    await scene.run()
    order = await scene.place_order(scene.scope)
    await scene.run()
    own, collected = await scene.invoices()
    assert (own["total_minor"], own["billing"]) == (order.amount_due_minor, "per_order")
    assert sorted(await scene.taken()) == sorted([before, own["total_minor"] + collected["total_minor"]])
    rows = await scene.fetch("SELECT tax_minor FROM tax_documents ORDER BY number")
    assert [row["tax_minor"] for row in rows] == [order.tax.tax_minor, 5]
    for each, amount_minor in ((order, 500), (parcel, None), (order, None)):
        await scene.refund(each, amount_minor)
        await scene.run()
    assert sorted(await scene.taken()) == [0, before]
    assert [row["credited_minor"] == row["total_minor"] for row in await scene.invoices()] == [True, True]
    assert [
        row["payment_state"]
        for row in await scene.fetch("SELECT payment_state FROM orders WHERE id = ANY ($1)", [parcel.id, order.id])
    ] == ["refunded"] * 2
    await end(scene)


@pytest.mark.parametrize("is_delivered", [False, True])
async def test_a_lost_dispute_of_the_charge_is_divided(card_billing: CardBilling, *, is_delivered: bool) -> None:
    """Before the delivery, both documents are credited; afterwards, once a person has decided so."""
    scene = card_billing
    await tax(scene, **ADDRESS)
    await scene.order()
    await scene.run()
    scene.clock.advance(seconds=1)
    parcel = await scene.place_order(scene.scope, mass_grams=20_000)
    await scene.run()
    order = await scene.place_order(scene.scope)
    await scene.run()
    if is_delivered:
        await scene.run_jobs(AllocateOrders(scene.database, scene.clock, scene.settings))
    for state in (DisputeState.OPENED, DisputeState.LOST):
        await simulate_dispute(scene.database, scene.scope, order.id, state, scene.clock())
        await scene.run()
    states = await scene.fetch("SELECT status, payment_state FROM orders WHERE id = ANY ($1)", [parcel.id, order.id])
    assert [tuple(row) for row in states] == [("retiring" if is_delivered else "cancelled", "disputed")] * 2
    if is_delivered:
        assert [row["credited_minor"] for row in await scene.invoices()] == [0, 0]
        dispute_id = await scene.fetchval("SELECT id FROM disputes")
        async with scene.database.transaction() as tx:
            await decide_tax(tx, dispute_id, TaxDecision.CREDITED, by=TESTER.at(scene.clock()))
    assert [row["credited_minor"] == row["total_minor"] for row in await scene.invoices()] == [True, True]
    await end(scene)


async def test_a_lost_dispute_of_a_delivered_and_an_undelivered_order(card_billing: CardBilling) -> None:
    """The document of the order that was not delivered is credited at once, the other one when a person decides so."""
    scene = card_billing
    await tax(scene, **ADDRESS)
    await scene.order()
    await scene.run()
    scene.clock.advance(seconds=1)
    parcel = await scene.place_order(scene.scope, mass_grams=20_000)
    await scene.run()
    await scene.run_jobs(AllocateOrders(scene.database, scene.clock, scene.settings))
    order = await scene.place_order(scene.scope)
    await scene.run()
    before = await balances(scene)
    for state in (DisputeState.OPENED, DisputeState.LOST):
        await simulate_dispute(scene.database, scene.scope, order.id, state, scene.clock())
        await scene.run()
    own, collected = await scene.invoices()
    assert [await scene.status(each) for each in (parcel, order)] == ["retiring", "cancelled"]
    assert (own["credited_minor"], collected["credited_minor"]) == (own["total_minor"], 0)
    lost = await balances(scene)
    assert lost[LOSSES] == collected["total_minor"], "of the other one, nothing was delivered"
    assert lost[TAX] - before[TAX] == order.tax.tax_minor
    dispute_id = await scene.fetchval("SELECT id FROM disputes")
    async with scene.database.transaction() as tx:
        await decide_tax(tx, dispute_id, TaxDecision.CREDITED, by=TESTER.at(scene.clock()))
    decided = await balances(scene)
    assert decided[LOSSES] - lost[LOSSES] == lost[TAX] - decided[TAX] == -5, "the tax of the parcel"


async def balances(scene: CardBilling) -> dict[str, int]:
    """By account and tax code, once everything is booked, and the doctor finds nothing."""
    await end(scene)
    rows = await scene.fetch(
        "SELECT account || coalesce(':' || tax_code, '') AS name, sum(amount_minor)::bigint AS minor "
        "FROM ledger_postings GROUP BY 1"
    )
    return {row["name"]: row["minor"] for row in rows}


async def test_after_the_last_decline_the_order_fails_and_what_was_delivered_is_owed(shop: SmallOrders) -> None:
    delivered = [await shop.parcel(LARGEST) for _ in range(2)]
    await shop.run()
    shop.delivers, shop.stripe.is_declining = False, True
    undelivered = await shop.parcel(LARGEST)
    await shop.run()
    order = await shop.place_order(shop.scope)
    await shop.run()
    assert [row[0] for row in await charges(shop)] == ["captured", "failed"]
    # While the charge is repeated, another order is charged alone, and small orders wait.
    shop.stripe.is_declining = False
    other, small = await shop.place_order(shop.scope), await shop.parcel()
    await shop.run()
    assert await shop.states([other, small]) == [(PAID, PAID), ("placed", UNPAID)]
    shop.stripe.is_declining = True
    for delay in RETRIES:
        shop.clock.now += delay
        await shop.run()
    assert await shop.states([*delivered, undelivered, order]) == [
        *[(status, UNPAID) for status, _ in await shop.states(delivered)],
        ("cancelled", UNPAID),
        ("failed", UNPAID),
    ]
    assert len([row for row in await charges(shop) if row[0] == "failed"]) == 4
    [invoice] = await shop.fetch("SELECT * FROM invoices WHERE status = 'open'")
    assert (invoice["billing"], invoice["payment_method"]) == ("collected", "invoice")
    own = await shop.fetchval("SELECT status FROM invoices WHERE billing = 'per_order' AND NOT is_prepaid")
    assert own == "cancelled"
    await end(shop)
    # Another card pays what is owed.
    shop.stripe.is_declining = False
    await shop.store()
    await shop.run()
    assert {state for _, state in await shop.states(delivered)} == {PAID}
    await end(shop)


async def test_an_order_that_is_cancelled_before_its_charge_is_not_paid(shop: SmallOrders) -> None:
    parcel = await shop.parcel()
    await shop.run()
    shop.stripe.is_declining = True
    order = await shop.place_order(shop.scope)
    await shop.run()
    async with shop.database.transaction() as tx:
        by, settings = TESTER.at(shop.clock()), shop.services.settings
        await cancel_by_id(
            tx, shop.scope, order.id, Cancellation(reason="Changed", with_refund=False), settings=settings, by=by
        )
    shop.stripe.is_declining = False
    shop.clock.now += RETRIES[0]
    await shop.run()
    assert await shop.states([order]) == [("cancelled", UNPAID)]
    # Three cents are too little alone: they wait for others.
    assert len(shop.captured) == 1
    assert await shop.open_invoices() == [3]
    second = await shop.place_order(shop.scope)
    await shop.run()
    assert {state for _, state in await shop.states([parcel, second])} == {PAID}
    await end(shop)


async def test_an_order_whose_invoice_is_held_back_is_charged_alone(shop: SmallOrders) -> None:
    parcel = await shop.parcel()
    await shop.run()
    await tax(shop)
    order = await shop.place_order(shop.scope)
    await shop.run()
    assert shop.captured[1:] == [order.amount_due_minor]
    assert (await shop.states([parcel]))[0][1] == UNPAID
    await end(shop)


async def test_a_first_order_pays_for_those_that_waited_for_a_card_that_is_trusted(
    populated_db: Database, settings: Settings, world: World
) -> None:
    async with small_orders(populated_db, settings, world) as shop:
        parcels = [await shop.parcel() for _ in range(2)]
        await shop.run()
        assert await shop.states(parcels) == [("placed", UNPAID)] * 2
        order = await shop.place_order(shop.scope)
        await shop.run()
        assert shop.captured == [(order.amount_due_minor or 0) + 7]
        assert {state for _, state in await shop.states([*parcels, order])} == {PAID}
        await end(shop)


@pytest.mark.parametrize("share", [1, 2])
async def test_a_refund_at_the_gateway_is_credited_on_both_documents(card_billing: CardBilling, share: int) -> None:
    scene = card_billing
    await scene.order()
    await scene.run()
    scene.clock.advance(seconds=1)
    await scene.place_order(scene.scope, mass_grams=20_000)
    await scene.run()
    await scene.place_order(scene.scope)
    await scene.run()
    [charge] = await scene.fetch("SELECT * FROM charges WHERE invoice_id IS NOT NULL")
    amount_minor = charge["amount_minor"] // share
    await SimulatedCardGateway(scene.database).refund(new_id("gwr"), charge["reference"], amount_minor, "EUR")
    async with scene.database.transaction() as tx:
        await request_checks_any_account(tx, "simulated", [charge["reference"]], scene.clock())
    await scene.run()
    invoices = await scene.invoices()
    assert sum(row["credited_minor"] for row in invoices) == amount_minor
    assert all(
        row["credited_minor"] * share in range(row["total_minor"] - 1, row["total_minor"] + 1) for row in invoices
    )
    await end(scene)
