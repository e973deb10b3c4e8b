"""SQL of estimates."""

import asyncpg

from tonne.base.mass import MassUnit
from tonne.base.scope import Scope
from tonne.db.pool import Connection
from tonne.estimates.model import Estimate

FIND_MASS = "SELECT mass_grams FROM estimates WHERE account_id = $1 AND id = $2"


async def find_mass_grams(connection: Connection, scope: Scope, estimate_id: str) -> int | None:
    mass_grams: int | None = await connection.fetchval(FIND_MASS, scope.account_id, estimate_id)
    return mass_grams


FIND_ESTIMATE = """
SELECT id, idempotency_key, mass_grams, mass_amount, mass_unit, description, metadata, created_at
FROM estimates WHERE account_id = $1 AND id = $2
"""


async def find_estimate(connection: Connection, scope: Scope, estimate_id: str) -> Estimate | None:
    row = await connection.fetchrow(FIND_ESTIMATE, scope.account_id, estimate_id)
    return None if row is None else _estimate(scope, row)


FIND_BY_KEY = """
SELECT id, idempotency_key, mass_grams, mass_amount, mass_unit, description, metadata, created_at, request_digest
FROM estimates WHERE account_id = $1 AND idempotency_key = $2
"""


async def find_by_key(connection: Connection, scope: Scope, idempotency_key: str) -> tuple[Estimate, bytes] | None:
    row = await connection.fetchrow(FIND_BY_KEY, scope.account_id, idempotency_key)
    return None if row is None else (_estimate(scope, row), row["request_digest"])


INSERT_ESTIMATE = """
INSERT INTO estimates (account_id, id, idempotency_key, request_digest, mass_grams, mass_amount, mass_unit, description,
                       metadata, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (account_id, idempotency_key) DO NOTHING RETURNING true
"""


async def insert_estimate(tx: Connection, estimate: Estimate, request_digest: bytes) -> bool:
    """False when the key is taken already."""
    inserted = await tx.fetchval(
        INSERT_ESTIMATE,
        estimate.scope.account_id,
        estimate.id,
        estimate.idempotency_key,
        request_digest,
        estimate.mass_grams,
        estimate.mass_amount,
        estimate.mass_unit,
        estimate.description,
        estimate.metadata,
        estimate.created_at,
    )
    return inserted is True


def _estimate(scope: Scope, row: asyncpg.Record) -> Estimate:
    return Estimate(
        scope=scope,
        id=row["id"],
        idempotency_key=row["idempotency_key"],
        mass_grams=row["mass_grams"],
        mass_amount=row["mass_amount"],
        mass_unit=MassUnit(row["mass_unit"]),
        description=row["description"],
        metadata=row["metadata"],
        created_at=row["created_at"],
    )
