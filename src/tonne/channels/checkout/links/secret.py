"""The secret of an offset link, with which the client signs queries."""

import secrets
from datetime import datetime, timedelta

import structlog

from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.values.context import Actor

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


_log = structlog.get_logger()


def new_link_secret() -> str:
    """`lsec_` and 43 URL-safe characters, which are 256 random bits."""
    return f"lsec_{secrets.token_urlsafe(32)}"


async def rotate_link_secret(
    tx: Connection, link: OffsetLink, box: SecretBox, *, overlap_s: int, actor: Actor, now: datetime
) -> str:
    """The new secret. For `overlap_s`, queries that are signed with the old one stay valid."""
    secret = new_link_secret()
    until = None if overlap_s == 0 else now + timedelta(seconds=overlap_s)
    await replace_secret(tx, link, box.seal(secret, link.id), until)
    action = "offset_link.secret_rotated"
    await audit.record(tx, link.scope, action, actor=actor, at=now, subject_id=link.id, overlap_s=overlap_s)
    return secret


async def open_link_secrets(connection: Connection, link: OffsetLink, box: SecretBox, now: datetime) -> list[str]:
    """The secrets that are valid now: two while a rotation overlaps.

    Raises SecretUnreadable if the current one cannot be opened.
    """
    found = await find_secrets(connection, link, now)
    opened = [box.open(sealed, link.id) for sealed in found[:1]]
    for sealed in found[1:]:
        try:
            opened.append(box.open(sealed, link.id))
        except SecretUnreadable as error:
            # After the loss of a key, rotating the secret must be enough.
            _log.warning("old_link_secret_unreadable", link_id=link.id, reason=str(error))
    return opened
