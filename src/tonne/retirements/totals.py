"""What complete orders add up to, so that a public page need not count them."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

from tonne.db.pool import Connection
from tonne.orders.model import Order


class _Place(NamedTuple):
    account_id: str
    bundle_id: str
    project_id: str


# Rows are taken in one order, whoever asks, so that two workers never wait for each other. The names are kept beside
# the ids: the catalogue may drop a bundle or a project one day, and a page still has to call it something.
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
    """Count these orders, which complete in this very transaction: once each, in the month of their certificates.

    A transaction that called it twice could take its rows out of order, and wait for another for ever.
    """
    grams: defaultdict[_Place, int] = defaultdict(int)
    names: dict[_Place, tuple[str, str, str]] = {}
    for order in orders:
        lines = () if order.priced is None else order.priced.lines
        for project in order.projects:
            line = lines[project.line_position - 1]
            place = _Place(order.scope.account_id, line.bundle_id, project.project_id)
            grams[place] += project.quantity_grams
            names[place] = (line.bundle_name, project.project_name, project.project_type)
    await tx.execute(
        ADD_TOTALS,
        month_of(now),
        [place.account_id for place in grams],
        [place.bundle_id for place in grams],
        [place.project_id for place in grams],
        [names[place][0] for place in grams],
        [names[place][1] for place in grams],
        [names[place][2] for place in grams],
        list(grams.values()),
    )


def month_of(moment: datetime) -> date:
    """The first day of its month in UTC."""
    return moment.astimezone(UTC).date().replace(day=1)
