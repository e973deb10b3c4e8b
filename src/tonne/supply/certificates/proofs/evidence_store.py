"""SQL of what proves a certificate."""

from msgspec import Struct

from tonne.platform.db.database import Connection, value_of
from tonne.platform.db.json_compression import decompress_json
from tonne.platform.settings.settings import MAX_WITNESSES
from tonne.platform.values.context import Mode


class CoveredStatement(Struct, frozen=True):
    """A statement about a certificate or one of its retirements, with the checkpoint that its proof is against."""

    kind: str
    statement: bytes
    salt: bytes
    # Null if there are none, or if they were erased.
    names: str | None
    names_salt: bytes | None
    log_id: int
    position: int
    checkpoint_size: int
    note: str


_STATEMENT = "kind, statement, salt, names, names_salt, log_id, position"
_CHECKPOINT = "size, note, cosignatures, published_at"
_COVERING = """FROM log_checkpoints
WHERE log_checkpoints.log_id = logged.log_id AND size > logged.position
  AND (log.closed_at IS NULL OR size = log.published_size)"""
# The proof is against the first checkpoint that covers the statement; a later one is better if more witnesses have
# cosigned it. Verifiers accept a proof that is at most 48 hours younger than the certificate. The last checkpoint of a
# closed log counts even if the key of the log has leaked.
# The retirements of an order are also those of lots that were invalidated later: earlier certificates state them.
READ_STATEMENTS = f"""
WITH logged AS (
    SELECT id, {_STATEMENT} FROM log_statements
    WHERE mode = $1 AND subject = $2
      AND kind IN ('certificate.issued', 'certificate.replaced', 'certificate.withdrawn')
    UNION ALL
    SELECT last.id, {_STATEMENT}
    FROM (SELECT share.parcel_id FROM certificates certificate JOIN shares share USING (account_id, order_id)
          WHERE certificate.number = $2
          UNION
          SELECT share.parcel_id FROM certificates certificate JOIN replaced_shares share USING (account_id, order_id)
          WHERE certificate.number = $2) AS parcel
    CROSS JOIN LATERAL (SELECT id, {_STATEMENT} FROM log_statements
                        WHERE mode = $1 AND kind = 'retirement' AND subject = parcel.parcel_id
                        ORDER BY revision DESC LIMIT 1) AS last
)
SELECT {_STATEMENT}, checkpoint.size AS checkpoint_size, checkpoint.note
FROM logged LEFT JOIN logs log ON log.id = logged.log_id
LEFT JOIN LATERAL (
    SELECT size, note
    FROM (SELECT {_CHECKPOINT}, min(published_at) OVER () + interval '47 hours' AS late_at
          FROM ((SELECT {_CHECKPOINT} {_COVERING} ORDER BY size LIMIT 1)
                UNION ALL
                SELECT {_CHECKPOINT} FROM generate_series(1, {MAX_WITNESSES}) AS number
                CROSS JOIN LATERAL (SELECT {_CHECKPOINT} {_COVERING} AND cosignatures > 0 AND cosignatures = number
                                    ORDER BY size LIMIT 1) AS cosigned) AS candidate) AS dated
    ORDER BY CASE WHEN published_at < late_at THEN 2 * cosignatures ELSE least(cosignatures, 1) END DESC, size LIMIT 1
) AS checkpoint ON true
ORDER BY logged.id
"""  # noqa: S608 - columns above


async def read_statements_any_account(
    connection: Connection, mode: Mode, number: str
) -> tuple[list[CoveredStatement], set[str]]:
    """What is stated about a certificate and about all retirements of its order, and the kinds of those statements
    that no checkpoint covers yet."""
    rows = await connection.fetch(READ_STATEMENTS, mode, number)
    covered = [
        value_of(CoveredStatement, row, statement=decompress_json(row["statement"]))
        for row in rows
        if row["note"] is not None
    ]
    return covered, {row["kind"] for row in rows if row["note"] is None}
