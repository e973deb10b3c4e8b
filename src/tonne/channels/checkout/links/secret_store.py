"""SQL for the sealed secrets of offset links."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.db.pool import Connection
from tonne.platform.keys.secret_box import HEADER_BYTES

ROTATE = """
UPDATE offset_links
SET secret_box = $5, old_secret_box = CASE WHEN $6::timestamptz IS NOT NULL THEN secret_box END,
    old_secret_until = CASE WHEN secret_box IS NOT NULL THEN $6::timestamptz END
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND id = $4
"""


async def replace_secret(tx: Connection, link: OffsetLink, sealed: bytes, old_until: datetime | None) -> None:
    """The old secret stays valid until `old_until`."""
    scope = link.scope
    await tx.execute(ROTATE, scope.organisation_id, scope.mode, scope.account_id, link.id, sealed, old_until)


FIND_SECRETS = """
SELECT secret_box, CASE WHEN old_secret_until > $5 THEN old_secret_box END AS old
FROM offset_links WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND id = $4
"""


async def find_secrets(connection: Connection, link: OffsetLink, now: datetime) -> list[bytes]:
    """The sealed secrets that are valid, the current one first."""
    scope = link.scope
    row = await connection.fetchrow(FIND_SECRETS, scope.organisation_id, scope.mode, scope.account_id, link.id, now)
    return [] if row is None else [sealed for sealed in row if sealed is not None]


LOCK_OTHERS = """
SELECT organisation_id, mode, account_id, id, secret_box,
       CASE WHEN old_secret_until > clock_timestamp() THEN old_secret_box END AS old
FROM offset_links
WHERE id > $1
  AND (substring(secret_box FROM 1 FOR $3) <> $2::bytea OR substring(old_secret_box FROM 1 FOR $3) <> $2::bytea)
ORDER BY id LIMIT $4 FOR UPDATE
"""


async def lock_links_sealed_otherwise_any_account(
    tx: Connection, after: str, header: bytes, limit: int
) -> Sequence[asyncpg.Record]:
    """The next links with a secret that does not start with `header`, locked. `old` is null once it has expired."""
    return await tx.fetch(LOCK_OTHERS, after, header, HEADER_BYTES, limit)


REPLACE_SEALED = """
UPDATE offset_links SET secret_box = $3, old_secret_box = $4,
                        old_secret_until = CASE WHEN $4::bytea IS NOT NULL THEN old_secret_until END
WHERE account_id = $1 AND id = $2
"""


async def replace_sealed_any_account(
    tx: Connection, account_id: str, link_id: str, sealed: bytes, old_sealed: bytes | None
) -> None:
    await tx.execute(REPLACE_SEALED, account_id, link_id, sealed, old_sealed)
