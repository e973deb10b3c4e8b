"""Totals of complete orders, for the Sustainability page."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

from msgspec import Struct

from tonne.platform.db.database import Connection, columns
from tonne.platform.values.amounts import MassUnit, to_grams
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import Order
from tonne.supply.certificates.record import CertificateRecord


class _Total(Struct):
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
    await tx.execute(ADD_TOTALS, month_of(now), *columns(_totals(orders), _TOTAL))


def _totals(orders: Sequence[Order]) -> list[_Total]:
    totals: dict[tuple[str, str, str], _Total] = {}
    for order in orders:
        for project in order.projects:
            line = order.lines[project.line_position - 1]
            key = (order.scope.account_id, line.bundle_id, project.project_id)
            names = (line.bundle_name, project.project_name, project.project_type)
            totals.setdefault(key, _Total(*key, *names)).grams += project.quantity_grams
    return list(totals.values())


# Sorted, as ADD_TOTALS does. Rows that become zero are deleted.
LOCK_TOTALS = """
SELECT total.account_id FROM retired_totals total
JOIN unnest($2::text[], $3::text[], $4::text[]) AS keys (account_id, bundle_id, project_id)
  ON total.account_id = keys.account_id AND total.month = $1 AND total.bundle_id = keys.bundle_id
 AND total.project_id = keys.project_id
ORDER BY total.account_id, total.bundle_id, total.project_id FOR UPDATE OF total
"""
DELETE_TOTALS = """
DELETE FROM retired_totals total
USING unnest($2::text[], $3::text[], $4::text[], $5::bigint[]) AS gone (account_id, bundle_id, project_id, grams)
WHERE total.account_id = gone.account_id AND total.month = $1 AND total.bundle_id = gone.bundle_id
  AND total.project_id = gone.project_id AND total.grams = gone.grams
"""
REDUCE_TOTALS = """
UPDATE retired_totals total SET grams = total.grams - gone.grams
FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[]) AS gone (account_id, bundle_id, project_id, grams)
WHERE total.account_id = gone.account_id AND total.month = $1 AND total.bundle_id = gone.bundle_id
  AND total.project_id = gone.project_id AND total.grams > gone.grams
"""


async def subtract_totals(tx: Connection, order: Order, month: date) -> None:
    """Take a complete order, with its present projects, out of the totals of the month in which it completed."""
    gone = _totals([order])
    keys, grams = columns(gone, "account_id, bundle_id, project_id"), columns(gone, "grams")
    await tx.execute(LOCK_TOTALS, month, *keys)
    # In this order: a reduced row may then equal what was taken away.
    await tx.execute(DELETE_TOTALS, month, *keys, *grams)
    await tx.execute(REDUCE_TOTALS, month, *keys, *grams)


def month_of(moment: datetime) -> date:
    """The first day of its month in UTC."""
    return moment.astimezone(UTC).date().replace(day=1)


class _Vintage(Struct):
    account_id: str
    year: int
    registry: str
    registry_project_id: str
    vintage: int
    grams: int = 0


_VINTAGE = "account_id, year, registry, registry_project_id, vintage"
_NEW_VINTAGES = f"""unnest($1::text[], $2::smallint[], $3::text[], $4::text[], $5::smallint[], $6::bigint[])
    AS new ({_VINTAGE}, grams)"""
# Sorted, as ADD_TOTALS is.
ADD_VINTAGES = f"""
INSERT INTO retired_vintages AS total ({_VINTAGE}, grams)
SELECT {_VINTAGE}, grams FROM {_NEW_VINTAGES} ORDER BY {_VINTAGE}
ON CONFLICT ({_VINTAGE}) DO UPDATE SET grams = total.grams + excluded.grams
"""  # noqa: S608 - constants


async def add_vintages(tx: Connection, entries: Sequence[tuple[str, datetime, CertificateRecord]]) -> None:
    """Add the lines of new certificates: each with its account, and when the order was completed."""
    await tx.execute(ADD_VINTAGES, *columns(_vintages(entries), f"{_VINTAGE}, grams"))


SUBTRACT_VINTAGES = f"""
UPDATE retired_vintages total SET grams = total.grams - new.grams FROM {_NEW_VINTAGES}
WHERE (total.account_id, total.year, total.registry, total.registry_project_id, total.vintage)
    = (new.account_id, new.year, new.registry, new.registry_project_id, new.vintage)
"""  # noqa: S608 - a constant


async def subtract_vintages(tx: Connection, scope: Scope, record: CertificateRecord, completed_at: datetime) -> None:
    """Take a certificate that is no longer valid out of the totals."""
    gone = _vintages([(scope.account_id, completed_at, record)])
    await tx.execute(SUBTRACT_VINTAGES, *columns(gone, f"{_VINTAGE}, grams"))


def _vintages(entries: Sequence[tuple[str, datetime, CertificateRecord]]) -> list[_Vintage]:
    totals: dict[tuple[str, int, str, str, int], _Vintage] = {}
    for account_id, completed_at, record in entries:
        for line in record.lines:
            key = (account_id, completed_at.astimezone(UTC).year, line.registry, line.project_id, int(line.vintage))
            totals.setdefault(key, _Vintage(*key)).grams += to_grams(Decimal(line.quantity), MassUnit.T)
    return list(totals.values())
