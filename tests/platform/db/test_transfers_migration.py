"""Migration 0013: transfers of earlier releases keep their meaning as states, assignments and resolutions."""

import json

from tests.platform.db.test_billing_migration import prepare
from tests.platform.db.test_invoices_migration import RECORD
from tests.platform.db.test_migrations import bare, bare_url
from tonne.money.bank.assignment_store import sum_received_any_account
from tonne.money.bank.invariants import TRANSFER_INVARIANTS
from tonne.platform.db.pool import Connection
from tonne.platform.db.schema.migrate import migrate

__all__ = ["bare", "bare_url"]
ORDERS = """
INSERT INTO orders (account_id, id, wire_document, organisation_id, mode, idempotency_key, request_digest, type, status,
                    currency, payment_method, requested_quantity_grams, quantity_grams, offset_cost_minor,
                    total_cost_minor, commission_minor, fee_rate, metadata, created_at, status_changed_at)
SELECT 'acc_1', 'ord_' || n, '{}', 'org_1', 'live', 'key ' || n, '', 'quantity', status, 'EUR', 'invoice', 1, 1, 1000,
       1100, 100, 0.1, '{}', now(), now()
FROM (VALUES (1, 'placed'), (2, 'paid'), (3, 'cancelled'), (4, 'paid'), (5, 'paid')) AS old (n, status)
"""
INVOICES = """
INSERT INTO invoices (account_id, order_id, organisation_id, mode, number, reference, currency, total_minor, status,
                      issued_on, due_on, record, created_at, settled_at)
SELECT 'acc_1', 'ord_' || n, 'org_1', 'live', n, 'TN-LIVE-00000' || n, 'EUR', 1100, status, '2026-03-01', '2026-03-31',
       convert_to($1, 'UTF8'), now(), CASE WHEN status <> 'open' THEN now() END
FROM (VALUES (1, 'open'), (2, 'paid'), (3, 'cancelled'), (4, 'paid'), (5, 'paid')) AS old (n, status)
"""
TRANSFERS = """
INSERT INTO bank_transfers (id, digest, mode, booked_on, amount_minor, currency, payer, reference, outcome, account_id,
                            order_id, imported_at, imported_by, resolved_at, resolution)
SELECT 'trf_' || n, convert_to(n, 'UTF8'), 'live', '2026-03-05', minor, 'EUR', '', '', outcome,
       CASE WHEN number IS NOT NULL THEN 'acc_1' END, 'ord_' || number, now(), '',
       CASE WHEN resolution IS NOT NULL THEN now() END, resolution
FROM (VALUES ('a', 400, 'under', 1, NULL), ('b', 400, 'under', 2, NULL), ('c', 800, 'over', 2, NULL),
             ('d', 300, 'under', 3, NULL), ('e', 300, 'under', 3, 'returned'), ('f', 1100, 'matched', 4, NULL),
             ('g', 1100, 'not_open', 4, 'returned'), ('h', 50, 'unknown', NULL, NULL),
             ('i', -50, 'unknown', NULL, NULL), ('j', 900, 'unknown', NULL, 'settled 5'))
     AS old (n, minor, outcome, number, resolution)
"""
STATES = {
    "trf_a": ("part_payment", 400, 0),
    "trf_b": ("matched", 400, 0),
    "trf_c": ("overpaid", 700, 0),
    "trf_d": ("unmatched", 0, 0),
    "trf_e": ("assigned", 0, 300),
    "trf_f": ("matched", 1100, 0),
    "trf_g": ("assigned", 0, 1100),
    "trf_h": ("unmatched", 0, 0),
    "trf_i": ("outgoing", 0, 0),
    "trf_j": ("assigned", 0, 900),
}


async def test_transfers_of_earlier_releases_are_kept(bare: Connection) -> None:
    await prepare(bare)
    await bare.execute(ORDERS)
    await bare.execute(INVOICES, json.dumps(RECORD))
    await bare.execute("UPDATE invoice_series SET last_number = 5 WHERE mode = 'live'")
    await bare.execute(TRANSFERS)
    await migrate(bare)
    rows = await bare.fetch(
        "SELECT id, state, resolved_minor, coalesce((SELECT sum(amount_minor) FROM transfer_assignments "
        "WHERE transfer_id = bank_transfers.id), 0)::bigint AS assigned FROM bank_transfers"
    )
    assert {row["id"]: (row["state"], row["assigned"], row["resolved_minor"]) for row in rows} == STATES
    by_hand = await bare.fetch("SELECT number FROM invoices WHERE settled_by_hand")
    assert [row["number"] for row in by_hand] == [5]
    ids = {row["number"]: row["id"] for row in await bare.fetch("SELECT number, id FROM invoices")}
    received = await sum_received_any_account(bare, list(ids.values()))
    assert {number: received.get(id_, 0) for number, id_ in ids.items()} == {1: 400, 2: 1100, 3: 0, 4: 1100, 5: 0}
    for invariant in TRANSFER_INVARIANTS:
        assert await bare.fetch(invariant.sql, *invariant.arguments()) == [], invariant.name
