"""Totals of complete orders, for the Sustainability page."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

from tonne.db.pool import Connection
from tonne.orders.model import Order


class _TotalKey(NamedTuple):
    account_id: str
    bundle_id: str
    project_id: str


# Sorted to prevent deadlocks between workers. Names are stored because the catalogue may drop a bundle or a project
# that a page still shows.
ADD_TOTALS = """
INSERT INTO retired_totals AS total (account_id, month, bundle_id, project_id, bundle_name, project_name, project_type,
                                     grams)
SELECT account_id, $1::date, bundle_id, project_id, bundle_name, project_name, project_type, grams
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[])
     AS new (account_id, bundle_id, project_id, bundle_name, project_name, project_type, grams)
ORDER BY account_id, bundle_id, project_id
ON CONFLICT (account_id, month, bundle_id, project_id) DO UPDATE
SET grams = total.grams + excluded.grams, bundle_name = excluded.bundle_name, project_name = excluded.project_name,
    project_type = excluded.project_type
"""


async def add_totals(tx: Connection, orders: Sequence[Order], now: datetime) -> None:
    """Add orders that complete in this transaction, in the month of their certificates.

    Call it once per transaction: two calls could lock rows out of order and cause a deadlock.
    """
    grams: defaultdict[_TotalKey, int] = defaultdict(int)
    names: dict[_TotalKey, tuple[str, str, str]] = {}
    for order in orders:
        for project in order.projects:
            line = order.lines[project.line_position - 1]
            key = _TotalKey(order.scope.account_id, line.bundle_id, project.project_id)
            grams[key] += project.quantity_grams
            names[key] = (line.bundle_name, project.project_name, project.project_type)
    await tx.execute(
        ADD_TOTALS,
        month_of(now),
        [key.account_id for key in grams],
        [key.bundle_id for key in grams],
        [key.project_id for key in grams],
        [names[key][0] for key in grams],
        [names[key][1] for key in grams],
        [names[key][2] for key in grams],
        list(grams.values()),
    )


def month_of(moment: datetime) -> date:
    """The first day of its month in UTC."""
    return moment.astimezone(UTC).date().replace(day=1)
