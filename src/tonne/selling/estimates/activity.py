"""What accounts have estimated."""

from collections.abc import Sequence

from tonne.platform.db.pool import Connection
from tonne.platform.values.scope import Scope
from tonne.selling.accounts.organisations.activity import EstimateActivity

# The latest estimate of each account is the end of an index; a covering index counts the estimates.
FIND_ACTIVITY = """
SELECT accounts.id, counted.estimates, counted.emission_grams, (newest.created_at AT TIME ZONE 'UTC')::date AS last_day
FROM accounts CROSS JOIN LATERAL (
    SELECT created_at FROM estimates WHERE estimates.account_id = accounts.id ORDER BY id DESC LIMIT 1
) AS newest CROSS JOIN LATERAL (
    SELECT count(*) AS estimates, coalesce(sum(mass_grams), 0)::bigint AS emission_grams
    FROM estimates WHERE estimates.account_id = accounts.id
) AS counted
WHERE accounts.organisation_id = $1 AND accounts.mode = $2 AND accounts.id = ANY ($3::text[])
"""


async def find_estimate_activity(
    connection: Connection, scope: Scope, account_ids: Sequence[str]
) -> dict[str, EstimateActivity]:
    """Of accounts of the organisation and mode, by their ids. Accounts without an estimate are missing."""
    rows = await connection.fetch(FIND_ACTIVITY, scope.organisation_id, scope.mode, list(account_ids))
    return {row["id"]: EstimateActivity(row["last_day"], row["estimates"], row["emission_grams"]) for row in rows}
