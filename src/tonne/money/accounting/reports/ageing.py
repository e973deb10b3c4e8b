"""What customers owe, by age."""

from collections.abc import Sequence
from datetime import date

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode


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
