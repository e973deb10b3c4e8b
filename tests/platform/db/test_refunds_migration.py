"""Migration 0014 and later: charges of earlier releases keep their meaning, and refunds of theirs become rows."""

import json

from tests.platform.db.test_billing_migration import prepare
from tests.platform.db.test_migrations import bare, bare_url
from tonne.money.cards.invariants import INVARIANTS as CARD_INVARIANTS
from tonne.money.refunds.invariants import INVARIANTS as REFUND_INVARIANTS
from tonne.platform.db.pool import Connection
from tonne.platform.db.schema.migrate import migrate

__all__ = ["bare", "bare_url"]
# Order, its status, and the status and outcome of its charge.
CASES = (
    ("paid", "complete", "captured", "captured"),
    ("late", "cancelled", "refund_due", "captured"),
    ("gone", "cancelled", "refunded", "captured"),
    ("odd", "placed", "mismatched", "captured"),
    ("open", "placed", "pending", "unknown"),
    ("declined", "failed", "failed", "declined"),
)
ORDER = """
INSERT INTO orders (account_id, id, wire_document, organisation_id, mode, idempotency_key, request_digest, type, status,
                    currency, payment_method, requested_quantity_grams, quantity_grams, offset_cost_minor,
                    total_cost_minor, commission_minor, fee_rate, metadata, created_at, status_changed_at)
VALUES ('acc_1', $1, $2, 'org_1', 'live', $1, '', 'quantity', $3, 'EUR', 'card', 5, 5, 900, 1000, 100, 0.1, '{}',
        '2026-03-01', '2026-03-01')
"""
CHARGE = """
INSERT INTO charges (account_id, id, order_id, organisation_id, mode, attempt, gateway, source, customer, method,
                     amount_minor, currency, status, outcome, reference, created_at, settled_at, refunded_at,
                     next_attempt_at)
VALUES ('acc_1', 'chg_' || $1::text, 'ord_' || $1::text, 'org_1', 'live', 1, 'simulated', 'stored_card', 'cus_1',
        '4242424242424242', 1000, 'EUR', $2, $3, $4, '2026-03-01',
        CASE WHEN $2 <> 'pending' THEN '2026-03-02'::timestamptz END,
        CASE WHEN $2 = 'refunded' THEN '2026-03-03'::timestamptz END,
        CASE WHEN $2 IN ('pending', 'refund_due') THEN '2026-03-04'::timestamptz END)
"""
# What the simulated gateway has: a refund was made under the id `refund_<charge>`.
SIMULATED = """
INSERT INTO simulated_charges (id, customer, method, amount_minor, currency, status, code, reference, refunded_minor,
                               refund_ids, created_at)
VALUES ('chg_' || $1::text, 'cus_1', '4242424242424242', $2, 'EUR', 'captured', NULL, 'sim_chg_' || $1::text, $3, $4,
        '2026-03-01')
"""


async def test_charges_of_earlier_releases_are_kept_with_their_refunds(bare: Connection) -> None:
    await prepare(bare)
    for name, order_status, status, outcome in CASES:
        document = json.dumps({"id": f"ord_{name}", "total_cost": "10.00", "metadata": {}}).encode()
        await bare.execute(ORDER, f"ord_{name}", document, order_status)
        is_taken = outcome == "captured"
        await bare.execute(CHARGE, name, status, outcome, f"sim_chg_{name}" if is_taken else None)
        if is_taken:
            is_gone = status == "refunded"
            refund_ids = ["refund_chg_gone"] if is_gone else []
            amount = 999 if status == "mismatched" else 1000
            await bare.execute(SIMULATED, name, amount, 1000 if is_gone else 0, refund_ids)
    await migrate(bare)

    charges = await bare.fetch(
        "SELECT id, status, captured_minor, captured_currency, is_surplus, next_attempt_at IS NOT NULL AS is_due, "
        "check_at, accepted_at FROM charges"
    )
    assert {row["id"]: tuple(row)[1:] for row in charges} == {
        "chg_paid": ("captured", 1000, "EUR", False, False, None, None),
        "chg_late": ("refund_due", 1000, "EUR", True, False, None, None),
        "chg_gone": ("refunded", 1000, "EUR", True, False, None, None),
        "chg_odd": ("mismatched", None, None, False, False, None, None),
        "chg_open": ("pending", None, None, False, True, None, None),
        "chg_declined": ("failed", None, None, False, False, None, None),
    }
    refunds = await bare.fetch(
        "SELECT id, order_id, method, charge_id, amount_minor, currency, purpose, state, attempt, "
        "succeeded_at::date::text, next_attempt_at IS NOT NULL AS is_due, sent_at IS NOT NULL AS may_be_at_gateway, "
        "next_mail_at FROM refunds"
    )
    assert {row["id"]: tuple(row)[1:] for row in refunds} == {
        "refund_chg_late": (
            *("ord_late", "card", "chg_late", 1000, "EUR", "surplus", "due", 1, None, True, True, None),
        ),
        "refund_chg_gone": (
            *("ord_gone", "card", "chg_gone", 1000, "EUR", "surplus", "succeeded", 1, "2026-03-03", False, False, None),
        ),
    }
    simulated = await bare.fetch("SELECT id, reference, amount_minor, status FROM simulated_refunds")
    assert [tuple(row) for row in simulated] == [("refund_chg_gone", "sim_chg_gone", 1000, "refunded")]
    orders = await bare.fetch("SELECT id, payment_state, refunded_minor, wire_document FROM orders")
    assert {row["id"]: (row["payment_state"], row["refunded_minor"]) for row in orders} == {
        f"ord_{name}": ("paid" if name == "paid" else "unpaid", 0) for name, *_ in CASES
    }
    for row in orders:
        shown = json.loads(row["wire_document"])
        assert (shown["payment_state"], shown["refunded_amount"]) == (row["payment_state"], "0.00")
    for invariant in (*CARD_INVARIANTS, *REFUND_INVARIANTS):
        assert await bare.fetch(invariant.sql) == [], invariant.name
