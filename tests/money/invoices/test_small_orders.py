"""Orders that are too small for a card payment: fulfilled first, collected, and charged together."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.money.cards.card_scene import GOOD, REFUSED, total
from tests.money.cards.gateways.fake_stripe_cards import DECLINED
from tests.money.invoices.card_billing import CardBilling
from tests.money.invoices.collections import SmallOrders, small_orders
from tests.support.api_client import ApiClient, codes
from tests.support.world import TESTER, World
from tonne.channels.public_pages.change_page import close_customer
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.accounts.model import SmallCardOrders
from tonne.selling.accounts.organisations.change_billing import BillingChange
from tonne.selling.orders.mails.order_links import LinkedOrder, order_urls
from tonne.selling.orders.model import Order

# The card is charged again after these.
RETRIES = (timedelta(hours=1), timedelta(days=1), timedelta(days=3))
# 0.48 EUR each: eleven of them are above 5.00 EUR.
LARGEST = 38_000
MAILS = (
    "SELECT count(*) FROM mails JOIN invoices ON invoices.id = mails.subject_id WHERE invoices.billing = 'collected'"
)
UNPAID, PAID = "unpaid", "paid"


@pytest.fixture
async def shop(populated_db: Database, settings: Settings, world: World) -> AsyncIterator[SmallOrders]:
    async with small_orders(populated_db, settings, world) as scene:
        yield scene


async def _say(scene: CardBilling | SmallOrders, rule: SmallCardOrders) -> None:
    change = AccountChange(billing=BillingChange(small_card_orders=rule))
    async with scene.database.transaction() as tx:
        await change_account(tx, scene.scope, change, by=TESTER.at(scene.clock()))


async def _state(scene: CardBilling | SmallOrders, order: Order) -> tuple[str, str, str | None]:
    [row] = await scene.fetch("SELECT status, payment_state, hold_reason FROM orders WHERE id = $1", order.id)
    return row["status"], row["payment_state"], row["hold_reason"] if row["status"] == "placed" else None


async def test_a_small_order_of_a_test_account_is_paid_within_seconds(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.pay_by_card(GOOD)
    order = await scene.place_order(scene.scope, mass_grams=2_400)
    assert total(order) == 4
    for _ in range(2):
        await scene.run()
        assert await _state(scene, order) == ("placed", UNPAID, None), "its card has paid nothing yet"
        scene.clock.advance(seconds=2.5)
    await scene.run()
    assert await _state(scene, order) == ("paid", PAID, None)
    # 2.4 kg at 12.60 EUR.
    assert await scene.taken() == [3]
    scene.clock.advance(seconds=1)
    second = await scene.place_order(scene.scope, mass_grams=2_400)
    await scene.run()
    assert await _state(scene, second) == ("paid", UNPAID, None), "now the card is trusted"
    scene.clock.advance(seconds=5)
    await scene.run()
    assert await _state(scene, second) == ("paid", PAID, None)
    assert await scene.taken() == [3, 3]
    assert await scene.event_types(second) == ["order.received", "order.placed", "order.paid", "order.payment_updated"]
    await scene.check_invariants()


async def test_a_shop_with_three_parcels_a_month_for_a_year(shop: SmallOrders) -> None:
    await shop.prove()
    orders: list[Order] = []
    for month in range(1, 13):
        await shop.run_at(2026, month, 5, 10)
        orders += [await shop.parcel() for _ in range(3)]
        await shop.run()
        assert {state for _, state in await shop.states(orders[-3:])} == {UNPAID}
        assert {status for status, _ in await shop.states(orders)} <= {"paid", "retiring", "complete"}, (
            "fulfilled first"
        )
    await shop.run_at(2027, 1, 1, 0, 16)
    # A document of three parcels each month, and a charge as soon as they reach 0.50 EUR.
    assert [invoice["total_minor"] for invoice in await shop.invoices()] == [9] * 12
    assert shop.captured[1:] == [54, 54]
    assert {state for _, state in await shop.states(orders)} == {PAID}
    shown = await shop.shown(orders[0])
    assert (shown["payment_plan"], shown["payment_state"], shown["amount_due"]) == ("collected", PAID, "0.03")
    assert await shop.fetchval(MAILS) == 10 + 2, "a receipt for each charge, and the documents before its own"
    await shop.post_entries()
    await shop.check_invariants()
    # The last parcels are too little for a charge. A year later they are closed, and their tax stays owed.
    last = await shop.parcel()
    await shop.run()
    await shop.run_at(2027, 2, 1, 0, 16)
    assert await shop.open_invoices() == [3]
    await shop.run_at(2028, 1, 31)
    assert await shop.open_invoices() == [3]
    await shop.run_at(2028, 2, 1, 1)
    assert await shop.open_invoices() == []
    assert await _state(shop, last) == ("retiring", PAID, None)
    assert [tuple(row) for row in await shop.fetch("SELECT kind, amount_minor FROM invoice_differences")] == [
        ("small_difference", 3)
    ]
    await shop.post_entries()
    await shop.check_invariants()


async def _page(scene: SmallOrders, browser: httpx.AsyncClient, order: Order) -> str:
    linked, settings = LinkedOrder(order.scope, order.id), scene.services.settings
    async with scene.database.transaction() as tx:
        url = (await order_urls(tx, [linked], settings=settings, now=scene.clock()))[order.id]
    assert url is not None
    return " ".join((await browser.get(url)).text.split())


async def test_a_declined_collection_is_paid_by_transfer(shop: SmallOrders, browser: httpx.AsyncClient) -> None:
    await shop.prove()
    shop.clock.advance(hours=1)
    delivered = [await shop.parcel(LARGEST) for _ in range(5)]
    await shop.run()
    shop.delivers = False
    fulfilled = [await shop.parcel(LARGEST) for _ in range(5)]
    await shop.run()
    assert await shop.states(fulfilled) == [(PAID, UNPAID)] * 5
    shop.stripe.is_declining = True
    beyond = await shop.parcel(LARGEST)
    await shop.run()
    assert await _state(shop, beyond) == ("placed", UNPAID, "collection_pending")
    [invoice] = await shop.invoices()
    assert "is charged to your card together with other orders" in await _page(shop, browser, delivered[0])
    meanwhile = await shop.parcel()
    for delay in RETRIES:
        await shop.run()
        assert await _state(shop, meanwhile) == ("placed", UNPAID, "collection_pending")
        shop.clock.now += delay
    await shop.run()
    assert await _state(shop, beyond) == ("failed", UNPAID, None)
    assert await shop.states(fulfilled) == [("cancelled", UNPAID)] * 5
    assert (await shop.shown(fulfilled[0]))["cancellation_reason"] == "collection_declined"
    assert {state for _, state in await shop.states(delivered)} == {UNPAID}
    assert {status for status, _ in await shop.states(delivered)} <= {"retiring", "complete"}
    assert await shop.fetchval("SELECT count(*) FROM refunds") == 0
    [owed] = await shop.open_invoices()
    assert 0 < owed < invoice["total_minor"]
    page = await _page(shop, browser, delivered[0])
    assert f"invoice {invoice['reference']} bills it with other orders, and can be paid by bank transfer" in page
    assert "is charged to your card" not in page
    await shop.post_entries()
    await shop.check_invariants()
    # Until it is paid, nothing is fulfilled first.
    shop.clock.advance(minutes=6)
    await shop.run()
    assert await _state(shop, meanwhile) == ("placed", UNPAID, None)
    await shop.transfer(invoice["reference"], owed)
    await shop.run()
    assert {state for _, state in await shop.states(delivered)} == {PAID}
    again = await shop.parcel()
    await shop.run()
    assert await _state(shop, again) == (PAID, UNPAID, None)
    await shop.post_entries()
    await shop.check_invariants()


async def test_another_card_pays_a_declined_collection(shop: SmallOrders) -> None:
    await shop.prove()
    shop.clock.advance(hours=1)
    orders = [await shop.parcel(LARGEST) for _ in range(4)]
    await shop.run()
    shop.stripe.is_declining = True
    await shop.run_at(2026, 2, 1, 0, 16)
    for delay in RETRIES:
        shop.clock.now += delay
        await shop.run()
    [owed] = await shop.open_invoices()
    assert (await shop.invoices())[0]["payment_method"] == "invoice"
    shop.stripe.is_declining = False
    await shop.store()
    await shop.run()
    assert shop.captured[1:] == [owed]
    assert {state for _, state in await shop.states(orders)} == {PAID}
    await shop.post_entries()
    await shop.check_invariants()


async def test_a_card_that_has_paid_nothing_collects_first(shop: SmallOrders) -> None:
    order, second = await shop.parcel(30_000), await shop.parcel()
    await shop.run()
    assert await _state(shop, order) == ("placed", UNPAID, None)
    await shop.run_at(2026, 2, 1, 0, 16)
    assert await _state(shop, second) == ("placed", UNPAID, None)
    assert await shop.invoices() == [], "nothing is delivered, and the sum is too little for a card"
    await shop.parcel(LARGEST)
    await shop.run_at(2026, 3, 1, 0, 16)
    assert {state for _, state in await shop.states([order, second])} == {PAID}
    assert len(shop.captured) == 1
    await shop.check_invariants()


async def test_what_is_left_of_a_closed_account_is_a_small_difference(shop: SmallOrders) -> None:
    await shop.prove()
    shop.clock.advance(hours=1)
    order = await shop.parcel()
    await shop.run()
    await shop.run_at(2026, 2, 1, 0, 16)
    assert await shop.open_invoices() == [3]
    async with shop.database.transaction() as tx:
        await close_customer(tx, shop.scope.organisation_id, "Over", disable_pages=False, by=TESTER.at(shop.clock()))
    await shop.run()
    assert await shop.open_invoices() == []
    assert (await _state(shop, order))[1] == PAID
    await shop.post_entries()
    await shop.check_invariants()


async def test_a_cancelled_small_order_leaves_its_collection(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.pay_by_card(GOOD)
    order, other = [await scene.place_order(scene.scope, mass_grams=2_400) for _ in range(2)]
    await scene.run()
    await scene.cancel(order)
    scene.clock.advance(seconds=5)
    await scene.run()
    assert (await _state(scene, order))[0] == "cancelled"
    assert (await _state(scene, other))[1] == PAID
    assert await scene.taken() == [3]
    await scene.check_invariants()


async def test_a_fulfilled_small_order_is_cancelled_without_a_refund(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.order()
    await scene.run()
    scene.clock.advance(seconds=1)
    order = await scene.place_order(scene.scope, mass_grams=2_400)
    await scene.run()
    assert await _state(scene, order) == (PAID, UNPAID, None)
    cancelled = await scene.cancel_with_refund(order)
    assert (cancelled.status, cancelled.refunded_minor) == ("cancelled", 0)
    scene.clock.advance(seconds=10)
    await scene.run()
    assert len(await scene.taken()) == 1
    assert await scene.fetchval("SELECT count(*) FROM refunds") == 0
    await scene.check_invariants()


@pytest.mark.parametrize("rule", [SmallCardOrders.COLLECT_FIRST, SmallCardOrders.REFUSE])
async def test_an_account_may_collect_first_or_refuse(card_billing: CardBilling, rule: SmallCardOrders) -> None:
    scene = card_billing
    await scene.order()
    await scene.run()
    await _say(scene, rule)
    scene.clock.advance(seconds=1)
    if rule is SmallCardOrders.REFUSE:
        with pytest.raises(Exception, match="minimum for a card payment"):
            await scene.place_order(scene.scope, mass_grams=2_400)
        return
    order = await scene.place_order(scene.scope, mass_grams=2_400)
    await scene.run()
    assert await _state(scene, order) == ("placed", UNPAID, None)
    scene.clock.advance(seconds=5)
    await scene.run()
    assert await _state(scene, order) == (PAID, PAID, None)


async def _collect(api: ApiClient, account_id: str, **body: Any) -> dict[str, Any]:
    answer = await api.post(f"/v1/test-helpers/accounts/{account_id}/collect", body)
    assert answer.status_code == 200, answer.text
    collected: dict[str, Any] = answer.json()
    return collected


async def test_the_test_helper_closes_a_collection_and_shows_what_is_carried_over(
    api: ApiClient, card_billing: CardBilling
) -> None:
    scene, account_id = card_billing, card_billing.scope.account_id
    await scene.pay_by_card(GOOD)
    await scene.wait_for_helpers()
    parcel = {"mass": {"amount": "2.4", "unit": "kg"}}
    quote = (await api.post("/v1/orders/by-mass/quote", parcel)).json()
    order = await api.order(**parcel)
    for shown in (quote, order):
        assert (shown["payment_plan"], shown["tax"], shown["amount_due"]) == ("collected", None, None)
    assert (await api.post("/v1/orders/by-mass/quote", {"mass": {"amount": "1", "unit": "t"}})).json()[
        "payment_plan"
    ] == "now"
    assert await _collect(api, account_id) == {
        "invoices": ["TN-TEST-000001"],
        "currency": "EUR",
        "amount_due": "0.03",
        "paid": True,
    }
    await api.order(**parcel)
    waits = await _collect(api, account_id, respect_minimum=True)
    assert (waits["invoices"], waits["paid"]) == (["TN-TEST-000002"], False)
    third = await api.order(**parcel)
    both = await _collect(api, account_id)
    assert (both["invoices"], both["amount_due"], both["paid"]) == (["TN-TEST-000002", "TN-TEST-000003"], "0.06", True)
    shown = (await api.get(f"/v1/orders/{third['id']}")).json()
    assert (shown["status"], shown["payment_state"], shown["amount_due"]) == (PAID, PAID, "0.03")
    assert await scene.taken() == [3, 6]
    assert await _collect(api, account_id) == {"invoices": [], "currency": "EUR", "amount_due": "0.00", "paid": False}
    elsewhere = await api.post("/v1/test-helpers/accounts/acc_1/collect", {})
    assert codes(elsewhere) == ["account_not_found"]
    await scene.check_invariants()


async def test_the_invoice_of_an_order_that_was_fulfilled_first_is_settled_by_the_helper(
    api: ApiClient, card_billing: CardBilling
) -> None:
    scene = card_billing
    await scene.order()
    await scene.run()
    scene.clock.advance(seconds=1)
    order = await scene.place_order(scene.scope, mass_grams=2_400)
    await scene.run()
    assert await _state(scene, order) == (PAID, UNPAID, None)
    settled = await api.post(f"/v1/test-helpers/orders/{order.id}/settle-invoice", {})
    assert (settled.json()["status"], settled.json()["payment_state"]) == (PAID, PAID)
    again = await api.post(f"/v1/test-helpers/orders/{order.id}/settle-invoice", {})
    assert codes(again) == ["invoice_not_open"]
    await scene.check_invariants()


async def test_the_test_helper_shows_a_decline(api: ApiClient, card_billing: CardBilling) -> None:
    scene, account_id = card_billing, card_billing.scope.account_id
    await scene.pay_by_card(REFUSED)
    await scene.wait_for_helpers()
    order = await api.order(mass={"amount": "2.4", "unit": "kg"})
    assert (await _collect(api, account_id))["paid"] is False
    assert (await api.get(f"/v1/orders/{order['id']}")).json()["failure_reason"] == "card_declined"
    await scene.check_invariants()


async def test_a_declined_card_is_not_trusted_with_another_number(shop: SmallOrders) -> None:
    await shop.prove()
    await shop.store(DECLINED)
    shop.clock.advance(hours=1)
    order = await shop.parcel()
    await shop.run()
    assert await _state(shop, order) == ("placed", UNPAID, None)


async def test_a_declined_charge_of_two_collections_is_repeated(shop: SmallOrders) -> None:
    await shop.prove()
    shop.clock.advance(hours=1)
    await shop.parcel()
    await shop.run()
    await shop.run_at(2026, 2, 2)
    for _ in range(2):
        await shop.parcel(LARGEST)
    await shop.run()
    shop.stripe.is_declining = True
    await shop.run_at(2026, 3, 1, 0, 16)
    assert len(await shop.open_invoices()) == 2
    shop.stripe.is_declining = False
    shop.clock.now += RETRIES[0]
    await shop.run()
    assert await shop.open_invoices() == []
    assert len(shop.captured) == 2
    await shop.post_entries()
    await shop.check_invariants()
