"""SQL of imported emission factors. Those of the package are not in the table."""

from collections.abc import Sequence

from tonne.platform.db.database import Connection, columns
from tonne.selling.estimates.factors.model import Factor

_COLUMNS = (
    "id, version, category, activity, unit, kg_per_unit, well_to_tank, region, year, source, source_code, licence, "
    "created_at"
)
COUNT_VERSIONS = "SELECT count(*) FROM emission_factors"


async def count_versions(connection: Connection) -> int:
    """Rows are only ever added, so the count changes with every import that changes something."""
    return int(await connection.fetchval(COUNT_VERSIONS))


LOAD_LATEST = f"""
SELECT DISTINCT ON (id) {_COLUMNS} FROM emission_factors ORDER BY id, version DESC
"""  # noqa: S608 - a constant


async def load_latest(connection: Connection) -> list[Factor]:
    return [Factor(**row) for row in await connection.fetch(LOAD_LATEST)]


# One import at a time: two would give the same version to different rows.
LOCK_FACTORS = "LOCK TABLE emission_factors IN SHARE ROW EXCLUSIVE MODE"


async def lock_factors(tx: Connection) -> None:
    await tx.execute(LOCK_FACTORS)


INSERT_VERSIONS = f"""
INSERT INTO emission_factors ({_COLUMNS})
SELECT {_COLUMNS}
FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::numeric[], $7::numeric[], $8::text[],
            $9::integer[], $10::text[], $11::text[], $12::text[], $13::timestamptz[]) AS new ({_COLUMNS})
"""  # noqa: S608 - a constant


async def insert_versions(tx: Connection, factors: Sequence[Factor]) -> None:
    await tx.execute(INSERT_VERSIONS, *columns(factors, _COLUMNS))
