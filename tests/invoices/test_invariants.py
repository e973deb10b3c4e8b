"""The invariants of invoices, broken on purpose: each breach is reported with its place."""

import pytest

from tests.invoices.billing import Billing
from tests.support.world import TESTER, World
from tonne.base.scope import Mode
from tonne.invoices.import_statement import import_statement
from tonne.invoices.invariants import INVARIANTS
from tonne.sheets.csv_lines import SheetFile

NUMBERS, STANDING, ORDERS, SUMS, TRANSFERS, CREDIT_NUMBERS, CREDITS, CREDITED = (
    invariant.name for invariant in INVARIANTS
)

# Invoice 1 is open, 2 was settled by hand, 3 by two transfers, 4 is partly paid, and 5 is cancelled.
STATEMENT = b"""booked_on,amount,currency,payer,reference
2026-03-05,10.00,EUR,Ada,TN-LIVE-000003
2026-03-05,3.95,EUR,Ada,TN-LIVE-000003
2026-03-05,3.95,EUR,Ada,TN-LIVE-000004
"""
DELETE_FIRST = """
WITH gone AS (DELETE FROM invoices WHERE number = 1 RETURNING id)
DELETE FROM invoice_orders USING gone WHERE id = invoice_id
"""
BREACHES: list[tuple[str, str, set[str]]] = [
    (NUMBERS, "UPDATE invoice_series SET last_number = 6 WHERE mode = 'live'", set()),
    (NUMBERS, "UPDATE invoice_series SET last_number = 1 WHERE mode = 'test'", set()),
    (NUMBERS, "UPDATE invoices SET number = 9 WHERE number = 2", set()),
    (
        NUMBERS,
        DELETE_FIRST,
        set(),
    ),
    (STANDING, "UPDATE invoices SET status = 'open', settled_minor = NULL WHERE number = 2", set()),
    (STANDING, "UPDATE invoices SET status = 'paid', settled_minor = 1 WHERE number = 1", set()),
    (STANDING, "UPDATE orders SET status = 'cancelled' WHERE status = 'placed'", set()),
    (SUMS, "UPDATE invoices SET total_minor = total_minor + 1 WHERE number = 2", set()),
    (SUMS, "UPDATE invoice_orders SET total_minor = total_minor + 1, tax_minor = 1 WHERE NOT cancelled", set()),
    (SUMS, "UPDATE invoices SET order_count = 2 WHERE number = 1", set()),
    (ORDERS, "UPDATE invoices SET currency = 'USD' WHERE number = 1", set()),
    (ORDERS, "UPDATE orders SET payment_method = 'card' WHERE status = 'placed'", set()),
    (TRANSFERS, "UPDATE bank_transfers SET amount_minor = amount_minor - 1 WHERE outcome = 'matched'", set()),
    (TRANSFERS, "UPDATE bank_transfers SET amount_minor = 1395", set()),
    (TRANSFERS, "UPDATE bank_transfers SET outcome = 'under'", set()),
    (TRANSFERS, "UPDATE bank_transfers SET outcome = 'over' WHERE outcome = 'matched'", set()),
    (TRANSFERS, "UPDATE bank_transfers SET currency = 'USD' WHERE outcome = 'under'", set()),
    (TRANSFERS, "UPDATE bank_transfers SET mode = 'test'", set()),
    (CREDIT_NUMBERS, "UPDATE credit_note_series SET last_number = 2 WHERE mode = 'live'", set()),
    (CREDIT_NUMBERS, "UPDATE credit_notes SET number = 7", set()),
    (CREDITS, "UPDATE invoices SET credited_minor = 1 WHERE number = 1", set()),
    (CREDITS, "UPDATE credit_notes SET currency = 'USD'", set()),
    (CREDITED, "UPDATE credit_note_orders SET total_minor = total_minor + 1, fee_minor = fee_minor + 1", set()),
    (CREDITED, "UPDATE credit_note_orders SET total_minor = total_minor - 1, fee_minor = fee_minor - 1", set()),
    (TRANSFERS, "UPDATE invoices SET status = 'open', settled_minor = NULL WHERE number = 3", {STANDING}),
]


@pytest.fixture
async def billing(billing: Billing, world: World) -> Billing:
    orders = [await billing.place_order(world.ours_live.scope) for _ in range(5)]
    await billing.work()
    await billing.settle(orders[1])
    await billing.cancel(orders[4])
    async with billing.database.transaction() as tx:
        await import_statement(tx, Mode.LIVE, SheetFile("march.csv", STATEMENT), actor=TESTER, now=billing.clock.now)
    return billing


async def _examine(billing: Billing) -> dict[str, list[str]]:
    found = {each.name: [row["where"] for row in await billing.fetch(each.sql)] for each in INVARIANTS}
    return {name: places for name, places in found.items() if places}


@pytest.mark.parametrize(("name", "statement", "also"), BREACHES, ids=[statement for _, statement, _ in BREACHES])
async def test_a_breach_is_reported_with_its_place(billing: Billing, name: str, statement: str, also: set[str]) -> None:
    assert await _examine(billing) == {}
    async with billing.database.transaction() as tx:
        await tx.execute(statement)
    breaches = await _examine(billing)
    assert set(breaches) == {name} | also
    assert all(place and "None" not in place for places in breaches.values() for place in places)


def test_every_invariant_is_broken_at_least_once() -> None:
    assert {name for name, _, _ in BREACHES} == {invariant.name for invariant in INVARIANTS}
