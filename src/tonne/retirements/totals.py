"""Totals of complete orders, for the Sustainability page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from tonne.db.columns import columns
from tonne.db.pool import Connection
from tonne.orders.model import Order


@dataclass(slots=True)
class _Total:
    account_id: str
    bundle_id: str
    project_id: str
    bundle_name: str
    project_name: str
    project_type: str
    grams: int = 0


_TOTAL = "account_id, bundle_id, project_id, bundle_name, project_name, project_type, grams"
# Sorted to prevent deadlocks between workers. Names are stored because the catalogue may drop a bundle or a project
# that a page still shows.
ADD_TOTALS = f"""
INSERT INTO retired_totals AS total (month, {_TOTAL})
SELECT $1::date, {_TOTAL}
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[]) AS new ({_TOTAL})
ORDER BY account_id, bundle_id, project_id
ON CONFLICT (account_id, month, bundle_id, project_id) DO UPDATE
SET grams = total.grams + excluded.grams, bundle_name = excluded.bundle_name, project_name = excluded.project_name,
    project_type = excluded.project_type
"""  # noqa: S608 - a constant


async def add_totals(tx: Connection, orders: Sequence[Order], now: datetime) -> None:
    """Add orders that complete in this transaction, in the month of their certificates.

    Call it once per transaction: two calls could lock rows out of order and cause a deadlock.
    """
    totals: dict[tuple[str, str, str], _Total] = {}
    for order in orders:
        for project in order.projects:
            line = order.lines[project.line_position - 1]
            key = (order.scope.account_id, line.bundle_id, project.project_id)
            names = (line.bundle_name, project.project_name, project.project_type)
            totals.setdefault(key, _Total(*key, *names)).grams += project.quantity_grams
    await tx.execute(ADD_TOTALS, month_of(now), *columns(list(totals.values()), _TOTAL))


def month_of(moment: datetime) -> date:
    """The first day of its month in UTC."""
    return moment.astimezone(UTC).date().replace(day=1)
