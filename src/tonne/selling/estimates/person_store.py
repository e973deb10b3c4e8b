"""Finds estimates whose texts contain an e-mail address or a name, and erases it."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from tonne.platform.db.database import Connection, columns
from tonne.platform.values.context import Scope
from tonne.platform.values.erased import ERASED_DIGEST

SCAN_ESTIMATES = """
WITH batch AS MATERIALIZED (
    SELECT id, concat_ws(' ', description, metadata, idempotency_key,
                         (SELECT string_agg(each.request || ' ' || each.result, ' ') FROM estimate_versions AS each
                          WHERE each.account_id = estimates.account_id AND each.id = estimates.id)) AS texts
    FROM estimates WHERE account_id = $1 AND id > $2 ORDER BY id LIMIT $3
)
SELECT (SELECT max(id) FROM batch) AS last_id,
       ARRAY (SELECT id FROM batch
              WHERE EXISTS (SELECT FROM unnest($4::text[]) AS term WHERE strpos(lower(texts), term) > 0)
              ORDER BY id) AS found
"""


async def scan_estimates(
    connection: Connection, scope: Scope, terms: Sequence[str], after: str, limit: int
) -> tuple[str | None, list[str]]:
    """The last id of the next `limit` estimates of the account, None at the end, and those that contain a term."""
    [row] = await connection.fetch(SCAN_ESTIMATES, scope.account_id, after, limit, terms)
    return row["last_id"], row["found"]


class VersionTexts(NamedTuple):
    """Both are JSON: the request, and the result, which may repeat words of it."""

    version: int
    request: str
    result: str


class EstimateTexts(Struct, frozen=True):
    """What the client wrote. `metadata` is JSON. Only calculated estimates have versions."""

    description: str | None
    metadata: str
    idempotency_key: str
    versions: tuple[VersionTexts, ...] = ()

    @property
    def all(self) -> list[str | None]:
        of_versions = [text for each in self.versions for text in (each.request, each.result)]
        return [self.description, self.metadata, self.idempotency_key, *of_versions]


FIND_TEXTS = "SELECT description, metadata, idempotency_key FROM estimates WHERE account_id = $1 AND id = $2"
FIND_VERSION_TEXTS = """
SELECT version, request, result FROM estimate_versions WHERE account_id = $1 AND id = $2 ORDER BY version
"""


async def find_texts(tx: Connection, scope: Scope, estimate_id: str) -> EstimateTexts | None:
    row = await tx.fetchrow(FIND_TEXTS, scope.account_id, estimate_id)
    if row is None:
        return None
    versions = await tx.fetch(FIND_VERSION_TEXTS, scope.account_id, estimate_id)
    return EstimateTexts(**row, versions=tuple(VersionTexts(**each) for each in versions))


SET_TEXTS = """
UPDATE estimates SET description = $3, metadata = $4, idempotency_key = $5, request_digest = $6
WHERE account_id = $1 AND id = $2
"""
SET_VERSION_TEXTS = """
UPDATE estimate_versions SET request = changed.request, result = changed.result
FROM unnest($3::integer[], $4::text[], $5::text[]) AS changed (version, request, result)
WHERE account_id = $1 AND id = $2 AND estimate_versions.version = changed.version
"""


async def erase_texts(tx: Connection, scope: Scope, estimate_id: str, texts: EstimateTexts) -> None:
    """Store the texts of an estimate without the data of a person."""
    await tx.execute(
        SET_TEXTS,
        scope.account_id,
        estimate_id,
        texts.description,
        texts.metadata,
        texts.idempotency_key,
        ERASED_DIGEST,
    )
    if texts.versions:
        values = columns(texts.versions, "version, request, result")
        await tx.execute(SET_VERSION_TEXTS, scope.account_id, estimate_id, *values)
