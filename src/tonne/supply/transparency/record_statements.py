"""What happened waits for the log. The owners of certificates and parcels call this in the transaction of the change.

`AppendLeaves` composes the statements later and appends them to the tree. An invariant finds what nobody has recorded.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from tonne.platform.db.database import Connection, columns
from tonne.platform.values.context import Mode
from tonne.supply.transparency.statements import certificate_names
from tonne_verify.canonical import canonical_json
from tonne_verify.openings import StatementKind


class NewStatement(Struct, frozen=True):
    """About a certificate. `subject` is its number. `names` is JSON that the certificate itself does not keep."""

    mode: Mode
    kind: StatementKind
    subject: str
    at: datetime
    names: str | None = None


# In this order, which is that of the log.
INSERT_STATEMENTS = """
INSERT INTO log_statements (mode, kind, subject, at, names)
SELECT mode, kind, subject, at, names
FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::text[])
     WITH ORDINALITY AS new (mode, kind, subject, at, names, place)
ORDER BY place
"""


async def record_statements(tx: Connection, statements: Sequence[NewStatement]) -> None:
    await tx.execute(INSERT_STATEMENTS, *columns(statements, "mode, kind, subject, at, names"))


# A retirement that is corrected before a certificate states it is logged again. Without the lock, a worker that appends
# the old facts just now would not be noticed.
INSERT_RETIREMENTS = """
WITH known AS MATERIALIZED (
    SELECT subject, revision, log_id FROM log_statements
    WHERE mode = $1 AND kind = 'retirement' AND subject = ANY ($2::text[])
    ORDER BY id FOR UPDATE
), last AS (
    SELECT DISTINCT ON (subject) subject, revision, log_id FROM known ORDER BY subject, revision DESC
)
INSERT INTO log_statements (mode, kind, subject, revision, at)
SELECT $1, 'retirement', retired.id, coalesce(last.revision, 0) + 1, retired.at
FROM unnest($2::text[], $3::timestamptz[]) AS retired (id, at)
LEFT JOIN last ON last.subject = retired.id
WHERE last.revision IS NULL OR last.log_id IS NOT NULL
ORDER BY retired.id
"""


async def record_retirements(tx: Connection, mode: Mode, retired: Mapping[str, datetime]) -> None:
    """Parcels that are retired now, or whose retirement was corrected, and when. The caller has locked them."""
    if retired:
        await tx.execute(INSERT_RETIREMENTS, mode, list(retired), list(retired.values()))


# Whether the rows have names or not: a worker may be adding them, and the update then waits for it.
ERASE_NAMES = """
UPDATE log_statements SET names = NULL, names_salt = NULL
WHERE mode = $1 AND subject = $2 AND names IS DISTINCT FROM $3
  AND kind IN ('certificate.issued', 'certificate.replaced', 'certificate.withdrawn')
"""


async def erase_names(tx: Connection, mode: Mode, record: Mapping[str, Any]) -> None:
    """Of a certificate whose texts had a person who is erased. What `record` still names stays provable."""
    await tx.execute(ERASE_NAMES, mode, record["number"], canonical_json(certificate_names(record)).decode())
