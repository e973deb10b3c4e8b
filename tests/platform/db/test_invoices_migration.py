"""Migration 0012: invoices of earlier releases get ids, orders and, if they were cancelled, credit notes."""

import json

from tests.platform.db.test_migrations import bare, bare_url
from tonne.money.invoices.credit_notes.store import list_credit_notes
from tonne.money.invoices.invariants import INVARIANTS
from tonne.money.invoices.store import find_by_references_any_account
from tonne.platform.db.pool import Connection
from tonne.platform.db.schema.migrate import migrate
from tonne.platform.db.schema.migration_files import all_migrations
from tonne.platform.values.ids import is_id

__all__ = ["bare", "bare_url"]
ORDERS = """
INSERT INTO orders (account_id, id, wire_document, organisation_id, mode, idempotency_key, request_digest, type, status,
                    currency, payment_method, requested_quantity_grams, quantity_grams, offset_cost_minor,
                    total_cost_minor, commission_minor, fee_rate, metadata, created_at, status_changed_at)
SELECT 'acc_1', 'ord_' || n, '{}', 'org_1', 'live', 'key ' || n, '', 'quantity', status, 'EUR', 'invoice', 1, 1, 1000,
       1100, 100, 0.1, '{}', now(), now()
FROM (VALUES (1, 'placed'), (2, 'paid'), (3, 'cancelled')) AS old (n, status)
"""
RECORD: dict[str, object] = {
    "number": "TN-LIVE-00000N",
    "mode": "live",
    "issued_on": "2026-03-01",
    "due_on": "2026-03-31",
    "order_id": "ord_3",
    "seller": {"name": "Offsets Ltd", "address_lines": [], "tax_id": None, "email": None},
    "buyer": {"name": "Ours", "address_lines": []},
    "currency": "EUR",
    "lines": [],
    "fee": {"label": "Service fee", "amount": "1.00"},
    "total": "11.00",
    "bank": {"account_holder": "Offsets Ltd", "iban": None, "bic": None, "bank_name": None},
    "reference": "TN-LIVE-00000N",
    "note": None,
}
INVOICES = """
INSERT INTO invoices (account_id, order_id, organisation_id, mode, number, reference, currency, total_minor, status,
                      issued_on, due_on, record, created_at, settled_at)
SELECT 'acc_1', 'ord_' || n, 'org_1', 'live', n, 'TN-LIVE-00000' || n, 'EUR', 1100, status, '2026-03-01', '2026-03-31',
       convert_to($1, 'UTF8'), now(), CASE WHEN status <> 'open' THEN now() END
FROM (VALUES (1, 'open'), (2, 'paid'), (3, 'cancelled')) AS old (n, status)
"""
TRANSFER = """
INSERT INTO bank_transfers (id, digest, mode, booked_on, amount_minor, currency, payer, reference, outcome, account_id,
                            order_id, imported_at, imported_by)
VALUES ('trf_1', '', 'live', now(), 1100, 'EUR', '', '', 'matched', 'acc_1', 'ord_2', now(), '')
"""


async def test_invoices_of_earlier_releases_are_kept(bare: Connection) -> None:
    await bare.execute("CREATE TABLE schema_migrations (version integer PRIMARY KEY, name text, checksum text)")
    await bare.execute("ALTER TABLE schema_migrations ADD COLUMN applied_at timestamptz DEFAULT now()")
    for migration in all_migrations():
        if migration.version < 11:
            await bare.execute(migration.sql)
            await bare.execute(
                "INSERT INTO schema_migrations VALUES ($1, $2, $3)",
                migration.version,
                migration.name,
                migration.checksum,
            )
    await bare.execute(ORDERS)
    await bare.execute(INVOICES, json.dumps(RECORD))
    await bare.execute("UPDATE invoice_series SET last_number = 3 WHERE mode = 'live'")
    await bare.execute(TRANSFER)
    await migrate(bare)
    found = await find_by_references_any_account(bare, [f"TN-LIVE-00000{n}" for n in (1, 2, 3)])
    invoices = {invoice.number: invoice for invoice in found}
    assert all(is_id("inv", invoice.id) for invoice in found)
    assert {n: (i.first_order_id, i.due_minor) for n, i in invoices.items()} == {
        1: ("ord_1", 1100),
        2: ("ord_2", 1100),
        3: ("ord_3", 0),
    }
    assert await bare.fetchval("SELECT invoice_id FROM bank_transfers") == invoices[2].id
    [note] = await list_credit_notes(bare, invoices[3])
    assert (note.reference, note.total_minor) == ("CN-LIVE-000001", 1100)
    record = note.read_record()
    assert (record.number, record.total, record.lines[0].order_id) == ("CN-LIVE-000001", "11.00", "ord_3")
    for invariant in INVARIANTS:
        assert await bare.fetch(invariant.sql) == [], invariant.name
