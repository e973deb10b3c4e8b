"""SQL of calculated estimates and their versions."""

from datetime import datetime
from typing import Any

import asyncpg

from tonne.platform.db.database import Connection, parameters_of
from tonne.platform.values.amounts import MassUnit
from tonne.platform.values.context import Scope
from tonne.selling.estimates.calculated import CalculatedEstimate, mass_out
from tonne.selling.estimates.errors import IdempotencyKeyTaken

# One statement, so that an estimate needs one round trip and no transaction.
INSERT_CALCULATED = """
WITH made AS (
    INSERT INTO estimates (account_id, id, kind, version, idempotency_key, request_digest, mass_grams, mass_amount,
                           mass_unit, description, metadata, is_actual, occurred_at, created_at)
    VALUES ($1, $2, $3, 1, $4, $13, $5, $14, $15, $6, $7, $8, $9, $12)
    ON CONFLICT (account_id, idempotency_key) DO NOTHING RETURNING true
)
INSERT INTO estimate_versions (account_id, id, version, mass_grams, request, result, created_at)
SELECT $1, $2, 1, $5, $10, $11, $12 FROM made
RETURNING true
"""


async def insert_calculated(connection: Connection, estimate: CalculatedEstimate, request_digest: bytes) -> bool:
    """False if the idempotency key is taken."""
    parameters = _parameters(estimate, estimate.created_at, request_digest)
    return await connection.fetchval(INSERT_CALCULATED, *parameters) is True


# The current version, or the one asked for.
FIND_CALCULATED = """
SELECT estimates.id, estimates.kind, found.version, estimates.idempotency_key, found.mass_grams,
       estimates.description AS name, estimates.metadata, estimates.is_actual, estimates.occurred_at,
       estimates.created_at, found.request, found.result, found.created_at AS calculated_at
FROM estimates
JOIN estimate_versions AS found ON found.account_id = estimates.account_id AND found.id = estimates.id
    AND found.version = coalesce($4::integer, estimates.version)
WHERE estimates.account_id = $1 AND estimates.id = $2 AND estimates.kind = $3
"""


async def find_calculated(
    connection: Connection, scope: Scope, kind: str, estimate_id: str, version: int | None = None
) -> CalculatedEstimate | None:
    row = await connection.fetchrow(FIND_CALCULATED, scope.account_id, estimate_id, kind, version)
    return None if row is None else CalculatedEstimate(scope=scope, **row)


FIND_USED_KEY = """
SELECT estimates.request_digest, estimates.id, estimates.kind, found.version, estimates.idempotency_key,
       found.mass_grams, estimates.description AS name, estimates.metadata, estimates.is_actual,
       estimates.occurred_at, estimates.created_at, found.request, found.result, found.created_at AS calculated_at
FROM estimates
JOIN estimate_versions AS found ON found.account_id = estimates.account_id AND found.id = estimates.id
    AND found.version = estimates.version
WHERE estimates.account_id = $1 AND estimates.idempotency_key = $2
"""


async def find_by_used_key(
    connection: Connection, scope: Scope, idempotency_key: str
) -> tuple[CalculatedEstimate, bytes] | None:
    """The calculated estimate with this key and the digest of its request. None if a recorded one has it, too."""
    row = await connection.fetchrow(FIND_USED_KEY, scope.account_id, idempotency_key)
    if row is None:
        return None
    values: dict[str, Any] = dict(row)
    digest: bytes = values.pop("request_digest")
    return CalculatedEstimate(scope=scope, **values), digest


# The number of the new version comes from the row, whose lock serialises two PUTs of one estimate.
REPLACE_CALCULATED = """
WITH changed AS (
    UPDATE estimates
    SET version = version + 1, mass_grams = $5, mass_amount = $14, mass_unit = $15, description = $6, metadata = $7,
        is_actual = $8, occurred_at = $9, idempotency_key = $4,
        request_digest = CASE WHEN idempotency_key = $4 THEN request_digest ELSE $13 END
    WHERE account_id = $1 AND id = $2 AND kind = $3
    RETURNING version
)
INSERT INTO estimate_versions (account_id, id, version, mass_grams, request, result, created_at)
SELECT $1, $2, changed.version, $5, $10, $11, $12 FROM changed
RETURNING version
"""


async def replace_calculated(connection: Connection, estimate: CalculatedEstimate, request_digest: bytes) -> int | None:
    """The new version; None if there is no such estimate. Raises IdempotencyKeyTaken."""
    parameters = _parameters(estimate, estimate.calculated_at, request_digest)
    try:
        version: int | None = await connection.fetchval(REPLACE_CALCULATED, *parameters)
    except asyncpg.UniqueViolationError as error:
        raise IdempotencyKeyTaken(field="idempotency_key") from error
    return version


def _parameters(estimate: CalculatedEstimate, written_at: datetime, request_digest: bytes) -> list[Any]:
    """Of the two statements above, which write an estimate and a version of it."""
    names = """scope.account_id, id, kind, idempotency_key, mass_grams, name, metadata, is_actual, occurred_at,
               request, result"""
    mass = (mass_out(estimate.mass_grams).amount, MassUnit.KG)
    return [*parameters_of(estimate, names), written_at, request_digest, *mass]


ANNOTATE = """
UPDATE estimates
SET is_actual = $4, occurred_at = $5, metadata = $6, idempotency_key = $7
WHERE account_id = $1 AND id = $2 AND kind = $3
"""


async def annotate(connection: Connection, estimate: CalculatedEstimate) -> None:
    """Store the annotations of an estimate. Raises IdempotencyKeyTaken."""
    names = "scope.account_id, id, kind, is_actual, occurred_at, metadata, idempotency_key"
    try:
        await connection.execute(ANNOTATE, *parameters_of(estimate, names))
    except asyncpg.UniqueViolationError as error:
        raise IdempotencyKeyTaken(field="idempotency_key") from error
