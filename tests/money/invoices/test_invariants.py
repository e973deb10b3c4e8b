"""The invariants of invoices, broken on purpose: each breach is reported with its place."""

import pytest

from tests.money.invoices.billing import Billing
from tests.support.postgres import undone
from tests.support.world import TESTER, World
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.accounting.matching.invariants import INVARIANTS as OF_MATCHES
from tonne.money.bank.invariants import INVARIANTS as OF_TRANSFERS
from tonne.money.invoices.invariants import INVARIANTS as OF_INVOICES
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode, replace
from tonne.selling.accounts.model import Billing as BillingMode

# An order paid by card has one captured charge, and a document: `tests/money/cards/test_invariants.py` breaks that.
*_, DOCUMENTED, CHARGED = OF_INVOICES
INVARIANTS = [*(each for each in OF_INVOICES if each not in {DOCUMENTED, CHARGED}), *OF_TRANSFERS, *OF_MATCHES]
(
    NUMBERS,
    RECORDS,
    STANDING,
    ORDERS,
    SUMS,
    CREDITS,
    CREDITED,
    FILES,
    GROUPS,
    APPROVED,
    SPENT,
    STATES,
    TRANSFERS,
    KINDS,
) = (invariant.name for invariant in INVARIANTS)

# Invoice 1 is open, 2 was settled by hand, 3 by two transfers, 4 is partly paid, and 5 is cancelled.
STATEMENT = b"""booked_on,amount,currency,payer,reference
2026-03-05,10.00,EUR,Ada,TN-LIVE-000003
2026-03-05,3.95,EUR,Ada,TN-LIVE-000003
2026-03-05,3.95,EUR,Ada,TN-LIVE-000004
"""
REFUND_TOO_MUCH = """
INSERT INTO transfer_returns (id, transfer_id, invoice_id, amount_minor, to_iban, to_bic, to_name, reason, status,
                              to_other_account, created_at, created_by)
SELECT 'ret_1', transfer_id, invoice_id, amount_minor + 1, '', '', '', 'x', 'planned', false, now(), ''
FROM transfer_assignments ORDER BY id LIMIT 1
"""
# To another account, or more than the limit that was noted.
EXPORT_RETURN = """
INSERT INTO return_batches (id, mode, currency, own_iban, format, content, created_at, created_by)
VALUES ('RTB1', 'live', 'EUR', '', 'csv', '', now(), 'user:usr_1');
INSERT INTO audit_log (id, at, actor, action, subject_id)
VALUES ('aud_1', now() - interval '1 day', 'system:note_settings', 'setting.noted', 'return_approval_above');
INSERT INTO guarded_settings (name, value) VALUES ('return_approval_above', '1');
INSERT INTO transfer_returns (id, transfer_id, amount_minor, to_iban, to_bic, to_name, reason, status,
                              to_other_account, created_at, created_by, batch_id)
SELECT 'ret_1', transfer_id, {}, 'DE1', '', '', 'x', 'exported', {}, now(), 'user:usr_1', 'RTB1'
FROM transfer_assignments ORDER BY id LIMIT 1
"""
APPROVE = """;
INSERT INTO approvals (kind, subject_id, digest, requested_by, approved_by, session_id, factor, at)
VALUES ('return', 'ret_1', sha256('x'), 'user:usr_1', 'user:usr_2', 's', 'token', now())
"""
BY_COMMAND = "; UPDATE transfer_returns SET created_by = 'cli:root@host'"
REOPEN_THIRD = """
UPDATE invoices SET status = 'open', settled_minor = NULL, next_attempt_at = now() + interval '1 day' WHERE number = 3
"""
DELETE_FIRST = """
WITH lines AS (DELETE FROM invoice_orders USING invoices WHERE id = invoice_id AND number = 1),
     gone AS (DELETE FROM invoices WHERE number = 1 RETURNING id)
DELETE FROM tax_documents USING gone WHERE tax_documents.id = gone.id
"""
RENUMBER = """
WITH given AS (UPDATE invoices SET number = 9 WHERE number = 2 RETURNING id)
UPDATE tax_documents SET number = 9 FROM given WHERE tax_documents.id = given.id
"""
RENUMBER_NOTE = """
WITH given AS (UPDATE credit_notes SET number = 7 RETURNING id)
UPDATE tax_documents SET number = 7 FROM given WHERE tax_documents.id = given.id
"""
ADD_TO_TOTAL = """
WITH changed AS (UPDATE invoices SET total_minor = total_minor + 1 WHERE number = 2 RETURNING id)
UPDATE tax_documents SET total_minor = total_minor + 1 FROM changed WHERE tax_documents.id = changed.id
"""
MOVE_ISSUE = """
WITH moved AS (UPDATE tax_documents SET issued_on = issued_on - 1 WHERE number = 1 AND kind = 'invoice' RETURNING id)
UPDATE invoices SET issued_on = issued_on - 1 FROM moved WHERE invoices.id = moved.id
"""
BREACHES: list[tuple[str, str, set[str]]] = [
    (NUMBERS, "UPDATE document_series SET last_number = 6 WHERE mode = 'live' AND series = 'TN'", set()),
    (NUMBERS, "UPDATE document_series SET last_number = 1 WHERE mode = 'test' AND series = 'TS'", set()),
    (NUMBERS, RENUMBER, set()),
    (
        NUMBERS,
        DELETE_FIRST,
        set(),
    ),
    (STANDING, "UPDATE invoices SET status = 'open', settled_minor = NULL WHERE number = 2", set()),
    (STANDING, "UPDATE invoices SET status = 'paid', settled_minor = 1 WHERE number = 1", {TRANSFERS}),
    (STANDING, "UPDATE orders SET status = 'cancelled' WHERE status = 'placed' AND tax_minor IS NOT NULL", set()),
    (SUMS, ADD_TO_TOTAL, set()),
    (RECORDS, "UPDATE tax_documents SET issued_on = issued_on + 1 WHERE number = 2", {FILES}),
    (RECORDS, "UPDATE credit_notes SET number = 7", set()),
    (SUMS, "UPDATE invoice_orders SET total_minor = total_minor + 1, tax_minor = 1 WHERE NOT cancelled", {ORDERS}),
    (SUMS, "UPDATE invoices SET order_count = 2 WHERE number = 1", set()),
    (ORDERS, "UPDATE invoices SET currency = 'USD' WHERE number = 1", {RECORDS}),
    (ORDERS, "UPDATE orders SET payment_method = 'card' WHERE status = 'placed'", set()),
    (NUMBERS, "UPDATE document_series SET last_number = 2 WHERE mode = 'live' AND series = 'CN'", set()),
    (NUMBERS, RENUMBER_NOTE, set()),
    (CREDITS, "UPDATE invoices SET credited_minor = 1 WHERE number = 1", set()),
    (CREDITS, "UPDATE credit_notes SET currency = 'USD'", {RECORDS}),
    (CREDITED, "UPDATE credit_note_orders SET total_minor = total_minor + 1, fee_minor = fee_minor + 1", set()),
    (CREDITED, "UPDATE credit_note_orders SET total_minor = total_minor - 1, fee_minor = fee_minor - 1", set()),
    # The file of a document is found by its day of issue.
    (FILES, MOVE_ISSUE, set()),
    (GROUPS, "UPDATE billing_groups SET order_count = 2", set()),
    (GROUPS, "UPDATE billing_groups SET exact_cost = 1", set()),
    (GROUPS, "UPDATE billing_groups SET next_attempt_at = NULL", set()),
    (GROUPS, "UPDATE orders SET payment_state = 'paid' WHERE id IN (SELECT order_id FROM unbilled_orders)", set()),
    (APPROVED, EXPORT_RETURN.format(1, "true"), {SPENT, STATES}),
    (APPROVED, EXPORT_RETURN.format(101, "false"), {SPENT, STATES}),
    (APPROVED, EXPORT_RETURN.format(101, "false") + APPROVE + BY_COMMAND, {SPENT, STATES}),
    (SPENT, EXPORT_RETURN.format(100, "false"), {STATES}),
    (SPENT, EXPORT_RETURN.format(101, "true") + APPROVE, {STATES}),
    (SPENT, "UPDATE bank_transfers SET amount_minor = amount_minor - 1 WHERE state = 'matched'", set()),
    (SPENT, "UPDATE bank_transfers SET resolved_minor = 1 WHERE state = 'matched'", {STATES}),
    (SPENT, REFUND_TOO_MUCH, {STATES}),
    (STATES, "UPDATE bank_transfers SET amount_minor = 1395", set()),
    (STATES, "UPDATE bank_transfers SET state = 'unmatched' WHERE state = 'matched'", set()),
    (KINDS, "UPDATE bank_transfers SET currency = 'USD' WHERE state = 'part_payment'", set()),
    (KINDS, "UPDATE bank_transfers SET mode = 'test'", set()),
    (KINDS, "UPDATE transfer_assignments SET invoice_reference = 'TN-LIVE-000001'", set()),
    (KINDS, "UPDATE transfer_assignments SET invoice_paid = NOT invoice_paid", {STATES}),
    (TRANSFERS, "DELETE FROM transfer_assignments WHERE amount_minor = 1000", {STATES}),
    (TRANSFERS, "UPDATE invoices SET settled_by_hand = false", set()),
    (TRANSFERS, REOPEN_THIRD, {STANDING, KINDS}),
]


@pytest.fixture
async def billing(billing: Billing, world: World) -> Billing:
    orders = [await billing.place_order(world.ours_live.scope) for _ in range(5)]
    await billing.work()
    await billing.settle(orders[1])
    await billing.cancel(orders[4])
    client = replace(world.ours_live.scope, account_id=world.ours_live.client_account_id)
    await billing.set_billing(client, billing=BillingMode.MONTHLY)
    await billing.place_order(client)
    await billing.issue.run_once()
    async with billing.database.transaction() as tx:
        file, now = SheetFile("march.csv", STATEMENT), billing.clock.now
        await import_statement(tx, Mode.LIVE, file, settings=billing.settings, by=TESTER.at(now))
    return billing


async def _examine(tx: Connection) -> dict[str, list[str]]:
    found = {each.name: [row["where"] for row in await tx.fetch(each.sql, *each.arguments())] for each in INVARIANTS}
    return {name: places for name, places in found.items() if places}


async def test_a_breach_is_reported_with_its_place(billing: Billing) -> None:
    async with undone(billing.database) as tx:
        assert await _examine(tx) == {}
    for name, statement, also in BREACHES:
        async with undone(billing.database) as tx:
            # No trigger and no foreign key hinders it.
            await tx.execute("SET LOCAL session_replication_role = replica")
            await tx.execute(statement)
            breaches = await _examine(tx)
        assert set(breaches) == {name} | also, statement
        places = [place for found in breaches.values() for place in found]
        assert all(place and "None" not in place for place in places), statement


def test_every_invariant_is_broken_at_least_once() -> None:
    assert {name for name, _, _ in BREACHES} == {invariant.name for invariant in INVARIANTS}
