"""SQL for the sealed secrets of offset links."""

from datetime import datetime

from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.db.database import Connection

ROTATE = """
UPDATE offset_links
SET secret_box = $5, old_secret_box = CASE WHEN $6::timestamptz IS NOT NULL THEN secret_box END,
    old_secret_until = $6::timestamptz
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
