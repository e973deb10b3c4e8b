"""Migration 0011: orders of the previous release gain the new fields, also in their stored JSON."""

import json

import pytest

from tests.platform.db.test_migrations import bare, bare_url
from tonne.platform.db.pool import Connection
from tonne.platform.db.schema.migrate import migrate
from tonne.platform.db.schema.migration_files import all_migrations

__all__ = ["bare", "bare_url"]


async def prepare(bare: Connection) -> None:
    """A database of the previous release, with one account."""
    await bare.execute(
        "CREATE TABLE schema_migrations (version integer PRIMARY KEY, name text, checksum text, "
        "applied_at timestamptz DEFAULT now())"
    )
    for migration in all_migrations():
        if migration.version < 11:
            await bare.execute(migration.sql)
            await bare.execute(
                "INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3)",
                migration.version,
                migration.name,
                migration.checksum,
            )
    await bare.execute("INSERT INTO organisations (id, name, fee_rate, created_at) VALUES ('org_1', 'A', 0.1, now())")
    await bare.execute("INSERT INTO organisation_modes (organisation_id, mode) VALUES ('org_1', 'live')")
    await bare.execute(
        "INSERT INTO accounts (organisation_id, mode, id, kind, name, currency, beneficiary, payment_method, "
        "auto_advance, created_at) VALUES ('org_1', 'live', 'acc_1', 'account', 'A', 'EUR', 'Fjord \"B\" AS', "
        "'invoice', true, now())"
    )


INSERT_ORDER = """
INSERT INTO orders (account_id, id, wire_document, organisation_id, mode, idempotency_key, request_digest, type, status,
                    currency, payment_method, requested_quantity_grams, quantity_grams, offset_cost_minor,
                    total_cost_minor, commission_minor, fee_rate, metadata, cancelled_by, created_at, status_changed_at)
VALUES ('acc_1', $1, $2, 'org_1', 'live', $1, '', 'quantity', $3, $4, 'invoice', 5, $5, 900, 1000, 100, 0.1, '{}',
        $6, now(), now())
"""


@pytest.mark.parametrize(
    ("status", "currency", "cancelled_by", "added"),
    [
        ("complete", "EUR", None, {"payment_state": "paid", "tax": "0.00", "refunded_amount": "0.00"}),
        ("placed", "JPY", None, {"payment_state": "unpaid", "tax": "0", "refunded_amount": "0"}),
        (
            "cancelled",
            "KWD",
            "system:follow_up_invoices",
            {"payment_state": "unpaid", "tax": "0.000", "cancellation_reason": "invoice_unpaid"},
        ),
    ],
)
async def test_stored_orders_gain_the_fields_of_money(
    bare: Connection, status: str, currency: str, cancelled_by: str | None, added: dict[str, str]
) -> None:
    await prepare(bare)
    document = json.dumps({"id": "ord_1", "total_cost": "10.00", "metadata": {"x": "}"}}).encode()
    await bare.execute(INSERT_ORDER, "ord_1", document, status, currency, 5, cancelled_by)
    await migrate(bare)
    shown = json.loads(await bare.fetchval("SELECT wire_document FROM orders"))
    assert shown["metadata"] == {"x": "}"}
    assert shown["amount_due"] == "10.00"
    assert shown["beneficiary"] == {"name": 'Fjord "B" AS'}
    assert shown["failure_reason"] is None
    assert {name: shown[name] for name in added} == added
