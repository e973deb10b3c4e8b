"""Months of business on invoices: small orders billed together, credit, thresholds and cancellations."""

from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import msgspec
import pytest

from tests.money.invoices.billing import ADA, Billing, pdf_of, text_of, together_minor
from tests.support.clock import MARCH, ManualClock
from tests.support.events import stored_events
from tests.support.orders import advance, place_together
from tests.support.world import SELLER, TESTER, World
from tonne.apps.cli.operations.doctor import examine
from tonne.apps.wiring.app import Services
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.platform.db.database import Database
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Scope, replace
from tonne.selling.accounts.model import Billing as BillingMode
from tonne.selling.accounts.model import Fulfil
from tonne.selling.orders.load import load_order
from tonne.selling.orders.model import Order, OrderStatus

HEAD = "booked_on,amount,currency,payer,reference\n"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER)


@pytest.fixture
async def billing(populated_db: Database, settings: Settings, world: World) -> Billing:
    """On 1 March, with an administrator."""
    clock = ManualClock(MARCH)
    billing = Billing(Services(populated_db, settings, clock), clock)
    await billing.add_admins(world.ours_live.scope.organisation_id, ADA)
    await billing.renew_rates()
    return billing


async def _book(billing: Billing, line: str) -> None:
    async with billing.database.transaction() as tx:
        file = SheetFile("statement.csv", (HEAD + line).encode())
        await import_statement(tx, Mode.LIVE, file, settings=billing.settings, by=TESTER.at(billing.clock()))


async def _reload(billing: Billing, order: Order) -> Order:
    async with billing.database.connection() as connection:
        found = await load_order(connection, order.scope, order.id)
    assert found is not None
    return found


async def _shown(billing: Billing, order: Order) -> dict[str, Any]:
    document = await billing.fetchval("SELECT wire_document FROM orders WHERE id = $1", order.id)
    shown: dict[str, Any] = msgspec.json.decode(document)
    return shown


def _client(world: World) -> Scope:
    return replace(world.ours_live.scope, account_id=world.ours_live.client_account_id)


async def test_a_month_of_1010_small_orders_is_one_invoice_paid_in_two_parts_a_day_late(
    billing: Billing, world: World
) -> None:
    ours, client = world.ours_live.scope, _client(world)
    for scope in (ours, client):
        await billing.set_billing(scope, billing=BillingMode.MONTHLY)
    orders = []
    for day in range(1, 32):
        billing.clock.now = datetime(2026, 3, day, 9, 0, tzinfo=UTC)
        for scope, numbers in ((client, range(0, 1010, 4)), (ours, (n for n in range(1010) if n % 4))):
            requests = [(3 + n % 5, f"shop {n}" if n % 2 else None) for n in numbers if n % 31 == day - 1]
            orders += await place_together(billing.services, scope, billing.clock.now, requests)
    billing.clock.turn_to(3, 31, 23)
    await billing.work()
    assert await billing.fetch("SELECT FROM invoices") == []
    assert (await _reload(billing, orders[0])).amount_due_minor is None
    billing.clock.turn_to(4, 1, 1)
    await billing.work()
    invoice = await billing.invoice(orders[0])
    assert (invoice.order_count, invoice.reference, invoice.issued_on) == (1010, "TN-LIVE-000001", date(2026, 4, 1))
    assert invoice.total_minor == together_minor(orders)
    assert await billing.fetchval("SELECT count(*) FROM invoices") == 1
    [mail] = await billing.mails()
    assert "for 1,010 orders from 1 March 2026 to 31 March 2026" in " ".join(text_of(mail).split())
    printed = " ".join(pdf_of(mail).split())
    assert "1010, see annex" in printed
    assert "shop 1009" in printed
    assert orders[0].idempotency_key in printed
    assert {await billing.status(order) for order in orders[:3]} == {"placed"}
    assert invoice.due_on == date(2026, 5, 1)
    # Two parts, the second a day late.
    first = invoice.total_minor // 3
    await _book(billing, f"2026-04-20,{first / 100:.2f},EUR,Ada,TN-LIVE-000001")
    await billing.work()
    assert await billing.status(orders[0]) == "placed"
    billing.clock.turn_to(5, 2)
    await billing.work()
    await _book(billing, f"2026-05-02,{(invoice.total_minor - first) / 100:.2f},EUR,Ada,TN-LIVE-000001")
    rows = await billing.fetch("SELECT status, payment_state, count(*) AS orders FROM orders GROUP BY 1, 2")
    assert [tuple(row) for row in rows] == [("paid", "paid", 1010)]
    assert (await billing.invoice(orders[7])).status == "paid"
    await billing.check_invariants()


@pytest.mark.parametrize(
    ("masses", "each", "sums"),
    [
        ([1_000] * 400 + [7_000_000], "0.02", ("96.29", "2.96", "93.33")),
        ([2_400] * 100, "0.04", ("4.00", "0.98", "3.02")),
    ],
)
async def test_many_small_orders_are_rounded_once(
    billing: Billing, world: World, masses: list[int], each: str, sums: tuple[str, str, str]
) -> None:
    ours = world.ours_live.scope
    await billing.set_billing(ours, billing=BillingMode.MONTHLY, fulfil=Fulfil.ON_ORDER, credit_limit="110.00")
    orders = [await billing.place_order(ours, mass_grams=mass) for mass in masses]
    shown = await _shown(billing, orders[0])
    assert (shown["total_cost"], shown["billing_adjustment"], shown["amount_due"]) == (each, None, None)
    await billing.work()
    # One is delivered before it is billed.
    for status in (OrderStatus.RETIRING, OrderStatus.COMPLETE):
        async with billing.database.transaction() as tx:
            await advance(tx, billing.services, await _reload(billing, orders[0]), status, billing.clock())
    billing.clock.turn_to(4, 1, 1)
    await billing.work()
    invoice = await billing.invoice(orders[0])
    record = invoice.read_record()
    for line in record.lines:
        exact = Decimal(line.quantity) * Decimal(line.unit_price)
        assert Decimal(line.amount) == exact.quantize(Decimal("0.01"), ROUND_HALF_UP)
    billed = [line.amount for line in record.lines] + [fee.amount for fee in (record.fee, *record.more_fees)]
    allowed = [each.amount for each in record.allowances]
    assert sum(map(Decimal, billed)) - sum(map(Decimal, allowed)) == Decimal(record.total)
    assert (record.placed_total, record.total) == (sums[0], sums[2])
    printed = " ".join(pdf_of((await billing.mails())[0]).split())
    assert "Single orders as placed {} Rounding in your favour −{} Billed, without tax {}".format(*sums) in printed
    documents = [await _shown(billing, order) for order in orders]
    assert {Decimal(each["billing_adjustment"]) <= 0 for each in documents} == {True}
    for each_of in documents:
        parts = (each_of[name] for name in ("total_cost", "billing_adjustment", "tax"))
        assert sum(map(Decimal, parts)) == Decimal(each_of["amount_due"])
    assert sum(Decimal(each["amount_due"]) for each in documents) == Decimal(record.total)
    # The delivered one has no credits, which matters here to nobody but the books.
    assert set(await billing.breaches()) == {
        "an order's projects and shares add up to its lines",
        "every complete order is fully retired and has one current certificate",
    }


async def test_orders_that_round_to_nothing_wait_and_are_closed_with_the_year(billing: Billing, world: World) -> None:
    ours = world.ours_live.scope
    await billing.set_billing(ours, billing=BillingMode.MONTHLY)
    orders = [await billing.place_order(ours, mass_grams=100) for _ in range(2)]
    await billing.work()
    for month in (4, 12):
        billing.clock.turn_to(month, 1, 1)
        await billing.work()
    assert {await billing.status(order) for order in orders} == {"placed"}
    billing.clock.now = datetime(2027, 1, 1, 1, tzinfo=UTC)
    await billing.work()
    assert {await billing.status(order) for order in orders} == {"paid"}
    shown = await _shown(billing, orders[0])
    assert [shown[name] for name in ("total_cost", "billing_adjustment", "amount_due")] == ["0.01", "-0.01", "0.00"]
    assert await billing.fetch("SELECT FROM invoices") == []
    await billing.check_invariants()


async def test_orders_on_credit_are_fulfilled_up_to_the_limit_and_the_rest_when_it_is_paid(
    billing: Billing, world: World
) -> None:
    ours = world.ours_live.scope
    await billing.set_billing(ours, billing=BillingMode.MONTHLY, fulfil=Fulfil.ON_ORDER, credit_limit="30.00")
    orders = [await billing.place_order(ours) for _ in range(3)]
    await billing.work()
    assert [await billing.status(order) for order in orders] == ["paid", "paid", "placed"]
    assert [(await _reload(billing, order)).payment_state for order in orders] == ["unpaid"] * 3
    held = "credit_limit_reached"
    assert [(await _shown(billing, order)).get("hold_reason") for order in orders] == [None, None, held]
    moves = ["order.received", "order.placed"]
    assert await billing.event_types(orders[2]) == [*moves, "order.payment_updated"]
    await billing.check_invariants()
    billing.clock.advance(minutes=10)
    async with billing.database.transaction() as tx:
        breaches = await examine(tx)
    assert breaches == {}
    await billing.set_billing(ours, credit_limit="50.00")
    await billing.work()
    assert await billing.status(orders[2]) == "paid"
    assert await billing.event_types(orders[2]) == [*moves, "order.payment_updated", "order.paid"]
    assert "hold_reason" not in await _shown(billing, orders[2])
    late = await billing.place_order(ours)
    await billing.work()
    assert await billing.status(late) == "placed"
    billing.clock.turn_to(4, 1, 1)
    await billing.work()
    invoice = await billing.invoice(orders[0])
    assert (invoice.order_count, invoice.total) == (4, "55.78 EUR")
    # At the deadline the order that was not fulfilled is cancelled. The others are owed and stay billed.
    for month, day in ((5, 4), (5, 15), (5, 22)):
        billing.clock.turn_to(month, day)
        await billing.work()
    invoice = await billing.invoice(orders[0])
    assert (invoice.status, invoice.due) == ("open", "41.84 EUR")
    await _book(billing, "2026-05-23,41.84,EUR,Ada,TN-LIVE-000001")
    assert {await billing.status(order) for order in orders} == {"paid"}
    assert {(await _reload(billing, order)).payment_state for order in orders} == {"paid"}
    assert await billing.event_types(orders[0]) == [*moves, "order.paid", "order.payment_updated"]
    async with billing.database.connection() as connection:
        contents = [event.content["data"]["order"] for event in await stored_events(connection, orders[0].id)]
    assert [order["payment_state"] for order in contents] == ["unpaid", "unpaid", "unpaid", "paid"]
    assert await billing.event_types(late) == [*moves, "order.payment_updated", "order.cancelled"]
    await billing.check_invariants()


async def test_an_order_above_the_limit_waits_like_any_other_once_its_account_has_no_credit(
    billing: Billing, world: World
) -> None:
    ours = world.ours_live.scope
    await billing.set_billing(ours, fulfil=Fulfil.ON_ORDER, credit_limit="5.00")
    order = await billing.place_order(ours)
    await billing.work()
    assert (await _shown(billing, order))["hold_reason"] == "credit_limit_reached"
    billing.clock.advance(minutes=10)
    await billing.work()
    updated = ["order.received", "order.placed", "order.payment_updated"]
    assert await billing.event_types(order) == updated, "one event, however long it waits"
    await billing.set_billing(ours, fulfil=Fulfil.ON_PAYMENT)
    billing.clock.advance(minutes=10)
    await billing.work()
    assert "hold_reason" not in await _shown(billing, order)
    assert await billing.event_types(order) == [*updated, "order.payment_updated"]
    await _book(billing, "2026-03-02,13.95,EUR,Ada,TN-LIVE-000001")
    assert (await billing.event_types(order))[-1] == "order.paid"
    await billing.check_invariants()


async def test_a_correction_frees_credit(billing: Billing, world: World) -> None:
    ours = world.ours_live.scope
    await billing.set_billing(ours, fulfil=Fulfil.ON_ORDER, credit_limit="20.00")
    first, second = [await billing.place_order(ours) for _ in range(2)]
    await billing.work()
    assert (await billing.status(first), await billing.status(second)) == ("paid", "placed")
    async with billing.database.transaction() as tx:
        invoice = await billing.invoice(first)
        await correct_invoice(tx, invoice, None, 790, reason="Discount", by=TESTER.at(billing.clock()))
    billing.clock.advance(minutes=5)
    await billing.work()
    assert await billing.status(second) == "paid", "6.05 and 13.95 are the limit"
    await billing.check_invariants()


async def test_a_threshold_is_reached_within_the_month_and_the_rest_is_billed_at_its_end(
    billing: Billing, world: World
) -> None:
    ours = world.ours_live.scope
    await billing.set_billing(ours, billing=BillingMode.THRESHOLD, threshold="30.00")
    orders = []
    for day in range(1, 5):
        billing.clock.turn_to(3, day)
        orders.append(await billing.place_order(ours))
        await billing.work()
        billed = await billing.fetchval("SELECT count(*) FROM invoice_orders")
        assert billed == (0 if day < 3 else 3)
    invoice = await billing.invoice(orders[0])
    assert (invoice.order_count, invoice.total, invoice.issued_on) == (3, "41.84 EUR", date(2026, 3, 3))
    billing.clock.turn_to(4, 1, 0)
    await billing.work()
    assert await billing.fetchval("SELECT count(*) FROM invoices") == 1, "orders of the last minutes are awaited"
    billing.clock.advance(minutes=15)
    await billing.work()
    assert (await billing.invoice(orders[3])).number == 2
    await billing.check_invariants()


async def test_an_order_is_cancelled_before_and_after_its_invoice_is_issued(billing: Billing, world: World) -> None:
    ours = world.ours_live.scope
    await billing.set_billing(ours, billing=BillingMode.MONTHLY)
    orders = [await billing.place_order(ours) for _ in range(3)]
    await billing.work()
    await billing.cancel(orders[0], "Ordered twice")
    await billing.check_invariants()
    billing.clock.turn_to(4, 1, 1)
    await billing.work()
    invoice = await billing.invoice(orders[1])
    assert (invoice.order_count, invoice.total) == (2, "27.88 EUR")
    assert await billing.fetch("SELECT FROM credit_notes") == []
    billing.clock.turn_to(4, 3)
    await billing.cancel(orders[1], "Changed my mind")
    await billing.work()
    invoice = await billing.invoice(orders[2])
    assert (invoice.status, invoice.due) == ("open", "13.94 EUR")
    *_, mail = await billing.mails()
    assert mail["Subject"] == "Credit note CN-LIVE-000001: €13.94 on invoice TN-LIVE-000001"
    await _book(billing, "2026-04-05,13.94,EUR,Ada,TN-LIVE-000001")
    assert [await billing.status(order) for order in orders] == ["cancelled", "cancelled", "paid"]
    assert (await billing.invoice(orders[2])).settled_minor == 1394
    await billing.check_invariants()


async def test_an_unpaid_consolidated_invoice_is_cancelled_with_one_credit_note(billing: Billing, world: World) -> None:
    ours = world.ours_live.scope
    await billing.set_billing(ours, billing=BillingMode.MONTHLY)
    orders = [await billing.place_order(ours) for _ in range(3)]
    for month, day in ((3, 1), (4, 1), (5, 4), (5, 15)):
        billing.clock.turn_to(month, day)
        await billing.work()
    assert {await billing.status(order) for order in orders} == {"cancelled"}
    assert await billing.fetchval("SELECT count(*) FROM credit_notes") == 1
    assert (await billing.invoice(orders[0])).status == "cancelled"
    await billing.check_invariants()
