"""SQL for the figures of Sustainability pages. It reads totals, so it takes the same time for any number of orders."""

from datetime import UTC, date, datetime
from typing import NamedTuple

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.db.json_compression import decompress_json
from tonne.platform.values.context import Scope
from tonne.platform.values.paging import START, Position


class FigurePeriod(Struct, frozen=True):
    """A calendar year (UTC), or all years if it is None."""

    year: int | None = None

    @property
    def first_day(self) -> date:
        return date.min if self.year is None else date(self.year, 1, 1)

    @property
    def last_day(self) -> date:
        return date.max if self.year is None else date(self.year, 12, 31)


LIST_MONTHS = """
SELECT month, sum(grams)::bigint AS grams FROM retired_totals WHERE account_id = $1 GROUP BY month ORDER BY month
"""


async def list_months(connection: Connection, scope: Scope) -> dict[date, int]:
    """What was retired in each month. Months without retirements are missing."""
    return {row["month"]: row["grams"] for row in await connection.fetch(LIST_MONTHS, scope.account_id)}


class Retired(NamedTuple):
    """The total of a bundle or of a project: exactly one of the two is set."""

    bundle_id: str | None
    project_id: str | None
    name: str
    project_type: str
    grams: int


# Bundles and projects that have left the catalogue keep the name they had in their latest month.
SUM_RETIRED = """
SELECT bundle_id, project_id,
       (CASE WHEN grouping(project_id) = 0 THEN array_agg(project_name ORDER BY month DESC)
             ELSE array_agg(bundle_name ORDER BY month DESC) END)[1] AS name,
       (array_agg(project_type ORDER BY month DESC))[1] AS project_type, sum(grams)::bigint AS grams
FROM retired_totals WHERE account_id = $1 AND month BETWEEN $2 AND $3
GROUP BY GROUPING SETS ((bundle_id), (project_id))
ORDER BY sum(grams) DESC, bundle_id, project_id
"""


async def sum_retired(connection: Connection, scope: Scope, period: FigurePeriod) -> list[Retired]:
    """Bundles and projects, the largest first."""
    rows = await connection.fetch(SUM_RETIRED, scope.account_id, period.first_day, period.last_day)
    return [Retired(**row) for row in rows]


class MonthTotal(NamedTuple):
    month: date
    bundle_id: str
    project_id: str
    bundle_name: str
    project_name: str
    project_type: str
    grams: int


LIST_TOTALS = """
SELECT month, bundle_id, project_id, bundle_name, project_name, project_type, grams
FROM retired_totals WHERE account_id = $1 AND month BETWEEN $2 AND $3
ORDER BY month DESC, grams DESC, bundle_id, project_id
"""


async def list_totals(connection: Connection, scope: Scope, period: FigurePeriod) -> list[MonthTotal]:
    """The newest month first."""
    rows = await connection.fetch(LIST_TOTALS, scope.account_id, period.first_day, period.last_day)
    return [MonthTotal(**row) for row in rows]


# The index on complete orders contains both amounts.
SUM_SPENT = """
SELECT coalesce(sum(greatest(total_cost_minor - refunded_minor, 0)), 0)::bigint FROM orders
WHERE account_id = $1 AND status = 'complete'
"""


async def sum_spent(connection: Connection, scope: Scope) -> int:
    """What the complete orders cost, before tax and less refunds, in the currency of the account."""
    spent: int = await connection.fetchval(SUM_SPENT, scope.account_id)
    return spent


class VintageTotal(NamedTuple):
    registry: str
    registry_project_id: str
    vintage: int
    grams: int


LIST_VINTAGES = """
SELECT registry, registry_project_id, vintage, sum(grams)::bigint AS grams FROM retired_vintages
WHERE account_id = $1 AND year BETWEEN $2 AND $3 AND grams > 0
GROUP BY registry, registry_project_id, vintage ORDER BY vintage DESC, registry, registry_project_id
"""


async def list_vintages(connection: Connection, scope: Scope, period: FigurePeriod) -> list[VintageTotal]:
    """The newest vintage first."""
    years = (period.first_day.year, period.last_day.year)
    return [VintageTotal(**row) for row in await connection.fetch(LIST_VINTAGES, scope.account_id, *years)]


LIST_CERTIFICATES = """
SELECT number, issued_at, record FROM certificates
WHERE account_id = $1 AND (issued_at, number) < ($2, $3) AND issued_at >= $4 AND state = 'valid' AND is_public
ORDER BY issued_at DESC, number DESC LIMIT $5
"""


async def list_certificates(
    connection: Connection, scope: Scope, period: FigurePeriod, start: Position = START, *, limit: int
) -> list[tuple[Position, bytes]]:
    """The valid ones that name nobody in private, newest first, each with the JSON of its record."""
    since = datetime(period.first_day.year, 1, 1, tzinfo=UTC)
    until = datetime((period.year or START.created_at.year - 1) + 1, 1, 1, tzinfo=UTC)
    if start.created_at > until:
        start = Position(until, "")
    rows = await connection.fetch(LIST_CERTIFICATES, scope.account_id, start.created_at, start.id, since, limit)
    return [(Position(row["issued_at"], row["number"]), decompress_json(row["record"])) for row in rows]
