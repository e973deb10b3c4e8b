"""What customers owe, by age: open invoices by how long they are overdue, for the operator."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode


class DueBucket(StrEnum):
    """Days after the due date. What was written off is in none of the other buckets."""

    NOT_DUE = "not_due"
    UP_TO_30 = "up_to_30"
    UP_TO_60 = "up_to_60"
    UP_TO_90 = "up_to_90"
    OLDER = "older"
    WRITTEN_OFF = "written_off"

    @property
    def label(self) -> str:
        return _LABELS[self]

    def due_days(self, today: date) -> tuple[date, date]:
        """The first and the last due date."""
        first, last = _DAYS[self]
        return (
            date.min if last is None else today - timedelta(days=last),
            date.max if first is None else today - timedelta(days=first),
        )


_LABELS = {
    DueBucket.NOT_DUE: "Not due",
    DueBucket.UP_TO_30: "1 to 30 days",
    DueBucket.UP_TO_60: "31 to 60 days",
    DueBucket.UP_TO_90: "61 to 90 days",
    DueBucket.OLDER: "Over 90 days",
    DueBucket.WRITTEN_OFF: "Written off",
}
# The least and the most days after the due date.
_DAYS: dict[DueBucket, tuple[int | None, int | None]] = {
    DueBucket.NOT_DUE: (None, 0),
    DueBucket.UP_TO_30: (1, 30),
    DueBucket.UP_TO_60: (31, 60),
    DueBucket.UP_TO_90: (61, 90),
    DueBucket.OLDER: (91, None),
    DueBucket.WRITTEN_OFF: (None, None),
}


class BucketSum(Struct, frozen=True):
    bucket: DueBucket
    currency: str
    invoices: int
    open_minor: int


class OpenInvoice(Struct, frozen=True):
    """`open_minor` is what is left to pay."""

    id: str
    reference: str
    organisation_id: str
    organisation_name: str
    currency: str
    total_minor: int
    open_minor: int
    payment_method: str
    issued_on: date
    due_on: date
    reminded_at: datetime | None


_OPEN_MINOR = """
invoices.total_minor - invoices.credited_minor
- coalesce((SELECT sum(paid.amount_minor) FROM transfer_assignments paid WHERE paid.invoice_id = invoices.id), 0)
"""
SUM_BUCKETS = f"""
SELECT debt.bucket, debt.currency, count(*)::integer AS invoices, sum(debt.open_minor)::bigint AS open_minor
FROM (SELECT invoices.currency, {_OPEN_MINOR} AS open_minor,
             CASE WHEN invoices.written_off_at IS NOT NULL THEN 'written_off'
                  WHEN invoices.due_on >= $2 THEN 'not_due'
                  WHEN invoices.due_on >= $2 - 30 THEN 'up_to_30'
                  WHEN invoices.due_on >= $2 - 60 THEN 'up_to_60'
                  WHEN invoices.due_on >= $2 - 90 THEN 'up_to_90'
                  ELSE 'older' END AS bucket
      FROM invoices WHERE invoices.mode = $1 AND invoices.status = 'open') AS debt
GROUP BY debt.bucket, debt.currency ORDER BY debt.currency
"""  # noqa: S608 - a constant


async def sum_buckets_any_account(connection: Connection, mode: Mode, today: date) -> list[BucketSum]:
    """By currency. Buckets without an invoice are left out."""
    rows = await connection.fetch(SUM_BUCKETS, mode, today)
    return [BucketSum(**{**row, "bucket": DueBucket(row["bucket"])}) for row in rows]


LIST_BUCKET = f"""
SELECT invoices.id, invoices.reference, invoices.organisation_id, organisations.name AS organisation_name,
       invoices.currency, invoices.total_minor, ({_OPEN_MINOR})::bigint AS open_minor, invoices.payment_method,
       invoices.issued_on, invoices.due_on, invoices.reminded_at
FROM invoices JOIN organisations ON organisations.id = invoices.organisation_id
WHERE invoices.mode = $1 AND invoices.status = 'open' AND invoices.due_on BETWEEN $2 AND $3
  AND (invoices.written_off_at IS NOT NULL) = $4 AND ($5::text IS NULL OR invoices.currency = $5)
  AND (invoices.due_on, invoices.id) > ($6, $7)
ORDER BY invoices.due_on, invoices.id LIMIT $8
"""  # noqa: S608 - a constant


async def list_bucket_any_account(
    connection: Connection,
    mode: Mode,
    bucket: DueBucket,
    *,
    today: date,
    currency: str | None,
    after: tuple[date, str],
    limit: int,
) -> Sequence[OpenInvoice]:
    """Those due first come first, from the position `after` on."""
    chosen = (*bucket.due_days(today), bucket is DueBucket.WRITTEN_OFF, currency)
    return [OpenInvoice(**row) for row in await connection.fetch(LIST_BUCKET, mode, *chosen, *after, limit)]


class AgedDebt(Struct, frozen=True):
    """The open amounts of an organisation in one currency. Ages are days since the invoice was issued."""

    organisation_id: str
    organisation_name: str
    currency: str
    invoices: int
    up_to_30_minor: int
    up_to_60_minor: int
    up_to_90_minor: int
    older_minor: int
    overdue_minor: int
    total_minor: int
    # Not part of the other amounts.
    written_off_minor: int


LIST_AGED = """
SELECT debt.organisation_id, organisations.name AS organisation_name, debt.currency,
       count(*) FILTER (WHERE debt.is_expected)::integer AS invoices,
       coalesce(sum(debt.open_minor) FILTER (WHERE debt.age <= 30), 0)::bigint AS up_to_30_minor,
       coalesce(sum(debt.open_minor) FILTER (WHERE debt.age BETWEEN 31 AND 60), 0)::bigint AS up_to_60_minor,
       coalesce(sum(debt.open_minor) FILTER (WHERE debt.age BETWEEN 61 AND 90), 0)::bigint AS up_to_90_minor,
       coalesce(sum(debt.open_minor) FILTER (WHERE debt.age > 90), 0)::bigint AS older_minor,
       coalesce(sum(debt.open_minor) FILTER (WHERE debt.due_on < $2), 0)::bigint AS overdue_minor,
       coalesce(sum(debt.open_minor) FILTER (WHERE debt.is_expected), 0)::bigint AS total_minor,
       coalesce(sum(debt.open_minor) FILTER (WHERE NOT debt.is_expected), 0)::bigint AS written_off_minor
FROM (SELECT invoices.organisation_id, invoices.currency, invoices.written_off_at IS NULL AS is_expected,
             CASE WHEN invoices.written_off_at IS NULL THEN invoices.due_on END AS due_on,
             CASE WHEN invoices.written_off_at IS NULL THEN $2::date - invoices.issued_on END AS age,
             invoices.total_minor - invoices.credited_minor
             - coalesce((SELECT sum(paid.amount_minor) FROM transfer_assignments paid
                         WHERE paid.invoice_id = invoices.id), 0) AS open_minor
      FROM invoices
      WHERE invoices.mode = $1 AND invoices.status = 'open'
        AND ($3::text IS NULL OR invoices.organisation_id = $3)) AS debt
JOIN organisations ON organisations.id = debt.organisation_id
WHERE debt.open_minor > 0
GROUP BY debt.organisation_id, organisations.name, debt.currency
ORDER BY debt.currency, sum(debt.open_minor) DESC, debt.organisation_id
"""


async def list_aged_debts(
    connection: Connection, mode: Mode, today: date, organisation_id: str | None = None
) -> Sequence[AgedDebt]:
    """By currency, the largest debt first. All organisations unless one is given."""
    return [AgedDebt(**row) for row in await connection.fetch(LIST_AGED, mode, today, organisation_id)]
