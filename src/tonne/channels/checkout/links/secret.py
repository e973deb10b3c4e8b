"""The secret of an offset link, with which the client signs queries."""

import secrets
from datetime import datetime, timedelta

import structlog

from tonne.channels.checkout.links import secret_store as store
from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.values.context import Actor

_log = structlog.get_logger()


def new_link_secret() -> str:
    """`lsec_` and 43 URL-safe characters, which are 256 random bits."""
    return f"lsec_{secrets.token_urlsafe(32)}"


async def rotate_link_secret(
    tx: Connection, link: OffsetLink, box: SecretBox, *, overlap_seconds: int, actor: Actor, now: datetime
) -> str:
    """The new secret. For `overlap_seconds`, queries that are signed with the old one stay valid."""
    secret = new_link_secret()
    until = None if overlap_seconds == 0 else now + timedelta(seconds=overlap_seconds)
    await store.replace_secret(tx, link, box.seal(secret, link.id), until)
    action = "offset_link.secret_rotated"
    await audit.record(tx, link.scope, action, actor=actor, at=now, subject_id=link.id, overlap_seconds=overlap_seconds)
    return secret


async def open_link_secrets(connection: Connection, link: OffsetLink, box: SecretBox, now: datetime) -> list[str]:
    """The secrets that are valid now: two while a rotation overlaps.

    Raises SecretUnreadable if the current one cannot be opened.
    """
    found = await store.find_secrets(connection, link, now)
    opened = [box.open(sealed, link.id) for sealed in found[:1]]
    for sealed in found[1:]:
        try:
            opened.append(box.open(sealed, link.id))
        except SecretUnreadable as error:
            # After the loss of a key, rotating the secret must be enough.
            _log.warning("old_link_secret_unreadable", link_id=link.id, reason=str(error))
    return opened
