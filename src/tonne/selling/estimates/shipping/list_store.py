"""Reads the estimates of shipments of an account, of both kinds."""

from collections.abc import Sequence
from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.platform.values.paging import Position
from tonne.selling.estimates.calculated import CalculatedEstimate

# The kinds are written out: the index contains only these.
LIST_SHIPPING = """
SELECT estimates.id, estimates.kind, found.version, estimates.idempotency_key, found.mass_grams,
       estimates.description AS name, estimates.metadata, estimates.is_actual, estimates.occurred_at,
       estimates.created_at, found.request, found.result, found.created_at AS calculated_at
FROM estimates
JOIN estimate_versions AS found ON found.account_id = estimates.account_id AND found.id = estimates.id
    AND found.version = estimates.version
WHERE estimates.account_id = $1 AND estimates.kind IN ('shipping', 'shipping/multi-leg')
  AND (estimates.created_at, estimates.id) < ($2, $3)
  AND ($4::timestamptz IS NULL OR estimates.created_at >= $4)
  AND ($5::timestamptz IS NULL OR estimates.created_at < $5)
  AND ($6::boolean IS NULL OR coalesce(estimates.is_actual, false) = $6)
ORDER BY estimates.created_at DESC, estimates.id DESC
LIMIT $7
"""


async def list_shipping(
    connection: Connection,
    scope: Scope,
    start: Position,
    limit: int,
    *,
    since: datetime | None,
    until: datetime | None,
    is_actual: bool | None,
) -> Sequence[CalculatedEstimate]:
    """Newest first. `since` is included, `until` is not."""
    rows = await connection.fetch(
        LIST_SHIPPING, scope.account_id, start.created_at, start.id, since, until, is_actual, limit
    )
    return [CalculatedEstimate(scope=scope, **row) for row in rows]
