"""SQL of estimates."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tonne.platform.db.database import Connection, columns, optional
from tonne.platform.values.context import Scope
from tonne.selling.accounts.organisations.activity import EstimateActivity
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit
from tonne.selling.estimates.model import Estimate, EstimateMassUnit

FIND_MASS = "SELECT mass_grams FROM estimates WHERE account_id = $1 AND id = $2"


async def find_mass_grams(connection: Connection, scope: Scope, estimate_id: str) -> int | None:
    return optional(int, await connection.fetchval(FIND_MASS, scope.account_id, estimate_id))


FIND_MASSES = """
SELECT estimates.account_id, estimates.id, estimates.mass_grams
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN estimates ON estimates.account_id = keys.account_id AND estimates.id = keys.id
"""


class EstimateKey(NamedTuple):
    """The primary key of an estimate."""

    account_id: str
    id: str


async def find_masses_grams(connection: Connection, keys: Sequence[EstimateKey]) -> dict[EstimateKey, int]:
    """The masses of several estimates. Unknown ones are missing."""
    rows = await connection.fetch(FIND_MASSES, *columns(keys, "account_id, id"))
    return {EstimateKey(row["account_id"], row["id"]): row["mass_grams"] for row in rows}


_COLUMNS = "id, idempotency_key, mass_grams, mass_amount, mass_unit, description, metadata, created_at, quantity_trunc"
FIND_ESTIMATE = f"SELECT {_COLUMNS} FROM estimates WHERE account_id = $1 AND id = $2"  # noqa: S608 - a constant


async def find_estimate(connection: Connection, scope: Scope, estimate_id: str) -> Estimate | None:
    row = await connection.fetchrow(FIND_ESTIMATE, scope.account_id, estimate_id)
    return None if row is None else _estimate(scope, dict(row))


FIND_BY_KEY = f"""
SELECT request_digest, {_COLUMNS} FROM estimates WHERE account_id = $1 AND idempotency_key = $2
"""  # noqa: S608 - a constant


async def find_by_key(connection: Connection, scope: Scope, idempotency_key: str) -> tuple[Estimate, bytes] | None:
    row = await connection.fetchrow(FIND_BY_KEY, scope.account_id, idempotency_key)
    if row is None:
        return None
    values = dict(row)
    digest = values.pop("request_digest")
    return _estimate(scope, values), digest


INSERT_ESTIMATE = f"""
INSERT INTO estimates (account_id, request_digest, {_COLUMNS})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (account_id, idempotency_key) DO NOTHING RETURNING true
"""  # noqa: S608 - a constant


async def insert_estimate(tx: Connection, estimate: Estimate, request_digest: bytes) -> bool:
    """False if the idempotency key is taken."""
    values = [value for [value] in columns([estimate], _COLUMNS)]
    return await tx.fetchval(INSERT_ESTIMATE, estimate.scope.account_id, request_digest, *values) is True


def _estimate(scope: Scope, values: dict[str, Any]) -> Estimate:
    unit = values.pop("quantity_trunc")
    return Estimate(
        scope=scope,
        mass_unit=EstimateMassUnit(values.pop("mass_unit")),
        quantity_trunc=None if unit is None else QuantityUnit(unit),
        **values,
    )


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
