"""All kinds of business events that are booked."""

from tonne.money.accounting.journal.bad_debts import REINSTATED, WRITTEN_OFF
from tonne.money.accounting.journal.bank_money import (
    ASSIGNED,
    RECEIVED,
    REFUNDED_BY_HAND,
    RESOLVED,
    RETURN_FAILED,
    RETURNED,
    SETTLED,
)
from tonne.money.accounting.journal.card_payments import (
    ACCEPTED,
    CAPTURED,
    CAPTURED_FOR_INVOICE,
    DISPUTE_CLOSED,
    PAID_OUT,
    REFUND_FAILED,
    REFUNDED,
    WITHDRAWN,
)
from tonne.money.accounting.journal.credits import DELIVERED, RESUPPLIED
from tonne.money.accounting.journal.sales import CANCELLED, COMPLETED, CREDITED, INVOICED

SOURCES = (
    *(INVOICED, CREDITED, RECEIVED, ASSIGNED, SETTLED, RETURNED, RETURN_FAILED, RESOLVED, REFUNDED_BY_HAND),
    *(WRITTEN_OFF, REINSTATED),
    *(CAPTURED, CAPTURED_FOR_INVOICE, ACCEPTED, REFUNDED, REFUND_FAILED, WITHDRAWN, DISPUTE_CLOSED, PAID_OUT),
    *(COMPLETED, CANCELLED, DELIVERED, RESUPPLIED),
)

_COLUMNS = "mode, at, source_id, subject, organisation_id, currency, account, amount_minor"


def all_postings(condition: str) -> str:
    """SQL of the postings of all kinds that meet the condition."""
    return " UNION ALL ".join(
        f"SELECT '{source.kind}' AS kind, {_COLUMNS} FROM ({source.sql}) AS source WHERE {condition}"  # noqa: S608
        for source in SOURCES
    )
