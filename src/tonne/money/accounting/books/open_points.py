"""What is still open at the end of a month."""

from datetime import date, datetime

import asyncpg
from msgspec import Struct

from tonne.money.accounting.journal.read_journal import Period
from tonne.money.refunds.disputes.dispute_store import TAX_IS_OPEN
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode


class OpenPoint(Struct, frozen=True):
    """`count` things of one kind. `amounts` are their sums, by currency."""

    kind: str
    count: int
    amounts: dict[str, int]


# Each kind counts at most this many: a page need not be exact beyond it.
MOST = 1_000
# $2 is the end of the month. Money and orders that came later do not belong to it.
LIST_OPEN_POINTS = f"""
SELECT point.kind, point.currency, count(*)::integer AS count, coalesce(sum(point.minor), 0)::bigint AS minor
FROM ((SELECT 'transfers' AS kind, currency::text AS currency, abs(amount_minor) AS minor FROM bank_transfers
       WHERE state IN ('unmatched', 'overpaid') AND mode = $1 AND booked_on < $2::date LIMIT {MOST})
      UNION ALL
      (SELECT 'doubtful', NULL, 0 FROM doubtful_lines
       WHERE is_same IS NULL AND mode = $1 AND imported_at IS NOT NULL LIMIT {MOST})
      UNION ALL
      (SELECT 'returns', transfer.currency::text, sent.amount_minor FROM transfer_returns sent
       JOIN bank_transfers transfer ON transfer.id = sent.transfer_id
       WHERE sent.status IN ('planned', 'exported') AND transfer.mode = $1 AND sent.created_at < $2 LIMIT {MOST})
      UNION ALL
      (SELECT 'unbilled', grouped.currency::text, unbilled.total_minor
       FROM billing_groups grouped JOIN unbilled_orders unbilled ON unbilled.group_id = grouped.id
       WHERE grouped.mode = $1 AND unbilled.joins_at < $2 LIMIT {MOST})
      UNION ALL
      (SELECT 'held_back', orders.currency::text, orders.total_cost_minor FROM orders
       WHERE orders.mode = $1 AND orders.status = 'placed' AND orders.payment_method = 'invoice'
         AND orders.next_attempt_at IS NOT NULL AND orders.total_cost_minor > 0 AND orders.created_at < $2
         AND NOT EXISTS (SELECT FROM invoice_orders billed
                         WHERE billed.account_id = orders.account_id AND billed.order_id = orders.id)
         AND NOT EXISTS (SELECT FROM unbilled_orders unbilled
                         WHERE unbilled.account_id = orders.account_id AND unbilled.order_id = orders.id)
       LIMIT {MOST})
      UNION ALL
      (SELECT 'documents', orders.currency::text, orders.total_cost_minor + orders.tax_minor
       FROM due_documents due JOIN orders ON orders.account_id = due.account_id AND orders.id = due.order_id
       WHERE due.mode = $1 AND due.paid_at < $2 LIMIT {MOST})
      UNION ALL
      (SELECT 'write_offs', invoices.currency::text, written.amount_minor FROM write_offs written
       JOIN invoices ON invoices.id = written.invoice_id
       WHERE written.state = 'approval' AND invoices.mode = $1 AND written.requested_at < $2 LIMIT {MOST})
      UNION ALL
      (SELECT 'refunds', currency::text, amount_minor FROM refunds
       WHERE state IN ('approval', 'due', 'pending') AND mode = $1 AND created_at < $2 LIMIT {MOST})
      UNION ALL
      (SELECT 'disputes', currency::text, amount_minor FROM disputes
       WHERE state = 'opened' AND mode = $1 AND opened_at < $2 LIMIT {MOST})
      UNION ALL
      (SELECT 'dispute_taxes', currency::text, withdrawn_minor FROM disputes
       WHERE {TAX_IS_OPEN} AND mode = $1 AND opened_at < $2 LIMIT {MOST})
      UNION ALL
      (SELECT 'payouts', currency::text, amount_minor FROM gateway_payouts
       WHERE transfer_id IS NULL AND mode = $1 AND paid_on < $2::date LIMIT {MOST})) AS point
GROUP BY point.kind, point.currency ORDER BY point.kind, point.currency
"""  # noqa: S608 - a number


async def list_open_points_any_account(connection: Connection, period: Period) -> list[OpenPoint]:
    """Those that exist, by kind."""
    rows: dict[str, list[asyncpg.Record]] = {}
    for row in await connection.fetch(LIST_OPEN_POINTS, period.mode, period.end):
        rows.setdefault(row["kind"], []).append(row)
    return [
        OpenPoint(
            kind,
            sum(row["count"] for row in found),
            {row["currency"]: row["minor"] for row in found if row["currency"] is not None},
        )
        for kind, found in rows.items()
    ]


FIND_LAST_BOOKING = """
SELECT booked_on FROM bank_transfers WHERE mode = $1 ORDER BY booked_on DESC LIMIT 1
"""


async def find_last_booking_any_account(connection: Connection, mode: Mode) -> date | None:
    """The last day of which a bank statement was imported."""
    day: date | None = await connection.fetchval(FIND_LAST_BOOKING, mode)
    return day


FIND_FIRST_DOCUMENT = """
SELECT least((SELECT min(created_at) FROM organisations),
             (SELECT created_at FROM tax_documents ORDER BY mode, series, number LIMIT 1))
"""


async def find_beginning_any_account(connection: Connection) -> datetime | None:
    """Before it nothing was booked."""
    moment: datetime | None = await connection.fetchval(FIND_FIRST_DOCUMENT)
    return moment
