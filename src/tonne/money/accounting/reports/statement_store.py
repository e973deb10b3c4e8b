"""SQL for statements of account: the entries of a period, and what was owed before and after it.

Entries are not rows of their own. Indexes contain the amounts and days of invoices, credit notes and payments, so that
a balance after very many of them is summed without reading their rows.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import date
from typing import Any

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Tenant

# Entries per round trip: bounds the memory of an export.
BATCH = 2_000
FIRST_DAY = date.min


class StatementEntry(Struct, frozen=True):
    """`amount_minor` is positive if the organisation owes more afterwards."""

    on: date
    kind: str
    reference: str
    text: str
    amount_minor: int
    balance_minor: int


class StatementBalance(Struct, frozen=True):
    """What was owed before a period and at its end, and how many entries it has, in one currency."""

    currency: str
    opening_minor: int
    entries: int
    closing_minor: int


_SINCE = "$3::date::timestamp AT TIME ZONE 'UTC'"
_UNTIL = "($4::date + 1)::timestamp AT TIME ZONE 'UTC'"
_OURS = "invoices.organisation_id = $1 AND invoices.mode = $2"
# Entries of the days $3 to $4. Payments and returns count on the day the bank booked them, what was settled by hand on
# that day. A return that came back, or was not paid after all, has two entries.
_RARE = f"""
(SELECT document.issued_on AS day, 1 AS place, 'invoice' AS kind, document.reference,
           format(CASE note.cause WHEN 'replacement' THEN 'in place of another invoice, credited with %s'
                                  ELSE 'takes back credit note %s' END, note.reference) AS text, note.currency,
           note.total_minor AS amount_minor
    FROM credit_notes note JOIN tax_documents document ON document.id = note.taken_back_by
    WHERE note.organisation_id = $1 AND note.mode = $2 AND NOT note.is_prepaid
      AND document.issued_on BETWEEN $3 AND $4
    UNION ALL
    SELECT (invoices.settled_at AT TIME ZONE 'UTC')::date, 3, 'payment', invoices.reference,
           format('settled by hand: invoice %s', invoices.reference), invoices.currency,
           received.minor - invoices.settled_minor
    FROM invoices CROSS JOIN LATERAL (
        SELECT coalesce(sum(paid.amount_minor), 0)::bigint AS minor
        FROM transfer_assignments paid WHERE paid.invoice_id = invoices.id) AS received
    WHERE {_OURS} AND invoices.status = 'paid' AND invoices.settled_by_hand
      AND invoices.settled_at >= {_SINCE} AND invoices.settled_at < {_UNTIL}
      AND received.minor < invoices.settled_minor
      AND NOT EXISTS (SELECT FROM charge_invoices document
                      JOIN charges ON charges.id = document.charge_id
                      WHERE document.invoice_id = invoices.id
                        AND charges.status IN ('captured', 'refunded') AND NOT charges.is_surplus)
    UNION ALL
    SELECT (charges.settled_at AT TIME ZONE 'UTC')::date, 3, 'payment', charges.id,
           format('card payment for invoice %s', invoices.reference), invoices.currency, -invoices.settled_minor
    FROM charges JOIN charge_invoices document
      ON document.account_id = charges.account_id AND document.charge_id = charges.id
    JOIN invoices ON invoices.id = document.invoice_id
    WHERE charges.organisation_id = $1 AND charges.mode = $2 AND charges.invoice_id IS NOT NULL
      AND charges.status IN ('captured', 'refunded') AND NOT charges.is_surplus
      AND charges.settled_at >= {_SINCE} AND charges.settled_at < {_UNTIL} AND {_OURS}
    UNION ALL
    SELECT (refunds.settled_at AT TIME ZONE 'UTC')::date, 4, 'refund', refunds.id,
           format('refunded to the card: invoice %s', invoices.reference), invoices.currency, refunds.amount_minor
    FROM refunds JOIN charge_invoices document
      ON document.account_id = refunds.account_id AND document.charge_id = refunds.charge_id
    JOIN invoice_orders billed ON billed.invoice_id = document.invoice_id AND billed.account_id = refunds.account_id
                              AND billed.order_id = refunds.order_id
    JOIN invoices ON invoices.id = document.invoice_id
    WHERE refunds.organisation_id = $1 AND refunds.mode = $2 AND refunds.state = 'succeeded'
      AND refunds.purpose <> 'surplus' AND refunds.settled_at >= {_SINCE} AND refunds.settled_at < {_UNTIL} AND {_OURS}
    UNION ALL
    SELECT (back.returned_at AT TIME ZONE 'UTC')::date, 4, 'refund', back.id,
           format('returned by bank: invoice %s', invoices.reference), invoices.currency, back.amount_minor
    FROM transfer_returns back JOIN invoices ON invoices.id = back.invoice_id
    WHERE {_OURS} AND back.returned_at >= {_SINCE} AND back.returned_at < {_UNTIL}
    UNION ALL
    SELECT coalesce(incoming.booked_on, (back.closed_at AT TIME ZONE 'UTC')::date), 4, 'refund_failed', back.id,
           format('not returned after all: invoice %s', invoices.reference), invoices.currency, -back.amount_minor
    FROM transfer_returns back JOIN invoices ON invoices.id = back.invoice_id
    LEFT JOIN bank_transfers incoming ON incoming.id = back.incoming_id
    WHERE {_OURS} AND back.returned_at IS NOT NULL AND back.status = 'failed'
      AND coalesce(incoming.booked_on, (back.closed_at AT TIME ZONE 'UTC')::date) BETWEEN $3 AND $4)
"""  # noqa: S608 - constants
_ENTRIES = f"""
(SELECT issued_on AS day, 1 AS place, 'invoice' AS kind, reference, format('due on %s', due_on) AS text, currency,
           total_minor AS amount_minor
    FROM invoices WHERE {_OURS} AND NOT is_prepaid AND issued_on BETWEEN $3 AND $4
    UNION ALL
    SELECT note.issued_on, 2, 'credit_note', note.reference, format('on invoice %s', invoices.reference),
           note.currency, -note.total_minor
    FROM credit_notes note JOIN invoices ON invoices.id = note.invoice_id
    WHERE note.organisation_id = $1 AND note.mode = $2 AND NOT note.is_prepaid AND note.issued_on BETWEEN $3 AND $4
    UNION ALL
    SELECT paid.day, 3, CASE WHEN paid.amount_minor < 0 THEN 'payment_undone' ELSE 'payment' END, paid.transfer_id,
           format('bank transfer for invoice %s', invoices.reference), paid.currency, -paid.amount_minor
    FROM transfer_assignments paid JOIN invoices ON invoices.id = paid.invoice_id
    WHERE paid.organisation_id = $1 AND paid.mode = $2 AND paid.day BETWEEN $3 AND $4
    UNION ALL
    {_RARE}) AS entry
"""  # noqa: S608 - constants
# Only what a balance needs of them: three indexes contain it.
_AMOUNTS = f"""
(SELECT issued_on AS day, currency, total_minor AS amount_minor
    FROM invoices WHERE {_OURS} AND NOT is_prepaid AND issued_on BETWEEN $3 AND $4
    UNION ALL
    SELECT issued_on, currency, -total_minor
    FROM credit_notes WHERE organisation_id = $1 AND mode = $2 AND NOT is_prepaid AND issued_on BETWEEN $3 AND $4
    UNION ALL
    SELECT day, currency, -amount_minor
    FROM transfer_assignments WHERE organisation_id = $1 AND mode = $2 AND day BETWEEN $3 AND $4
    UNION ALL
    SELECT day, currency, amount_minor FROM {_RARE} AS rare) AS entry
"""  # noqa: S608 - constants
LIST_ENTRIES = f"""
SELECT entry.day, entry.place, entry.kind, entry.reference, entry.text, entry.currency, entry.amount_minor
FROM {_ENTRIES} ORDER BY entry.currency, entry.day, entry.place, entry.reference
"""  # noqa: S608 - constants


async def list_entries(connection: Connection, tenant: Tenant, last_day: date) -> list[dict[str, Any]]:
    """All entries from the first one on."""
    rows = await connection.fetch(LIST_ENTRIES, *tenant, FIRST_DAY, last_day)
    return [dict(row) for row in rows]


# $5 is the first day of the period, $3 the beginning of all.
SUM_BALANCES = f"""
SELECT entry.currency, coalesce(sum(entry.amount_minor) FILTER (WHERE entry.day < $5), 0)::bigint AS opening_minor,
       count(*) FILTER (WHERE entry.day >= $5)::integer AS entries, sum(entry.amount_minor)::bigint AS closing_minor
FROM {_AMOUNTS} GROUP BY entry.currency ORDER BY entry.currency
"""  # noqa: S608 - constants


async def sum_statement(
    connection: Connection, tenant: Tenant, first_day: date, last_day: date
) -> list[StatementBalance]:
    """One for each currency in which the organisation was ever billed up to `last_day`."""
    rows = await connection.fetch(SUM_BALANCES, *tenant, FIRST_DAY, last_day, first_day)
    return [StatementBalance(**row) for row in rows]


FIND_DAY = f"""
SELECT entry.day FROM {_AMOUNTS} WHERE entry.currency = $5 ORDER BY entry.day OFFSET $6 LIMIT 1
"""  # noqa: S608 - constants


async def find_day_of_entry(
    connection: Connection, tenant: Tenant, *, days: tuple[date, date], currency: str, place: int
) -> date:
    """The day of the entry at this place of a period, or its last day. It bounds a list that is cut there."""
    found = await connection.fetchval(FIND_DAY, *tenant, *days, currency, place)
    return days[1] if found is None else found


LIST_PERIOD = f"""
SELECT entry.day, entry.kind, entry.reference, entry.text, entry.amount_minor
FROM {_ENTRIES} WHERE entry.currency = $5 ORDER BY entry.day, entry.place, entry.reference LIMIT $6
"""  # noqa: S608 - constants


async def read_statement_entries(
    tx: Connection, tenant: Tenant, *, days: tuple[date, date], balance: StatementBalance, limit: int | None
) -> AsyncIterator[Sequence[StatementEntry]]:
    """The entries of a period in one currency in batches, oldest first, without write-offs, which are internal.

    Call it in a transaction: it reads with a cursor.
    """
    owed = balance.opening_minor
    cursor = await tx.cursor(LIST_PERIOD, *tenant, *days, balance.currency, limit)
    while rows := await cursor.fetch(BATCH):
        entries = []
        for row in rows:
            owed += row["amount_minor"]
            entries.append(
                StatementEntry(row["day"], row["kind"], row["reference"], row["text"], row["amount_minor"], owed)
            )
        yield entries
