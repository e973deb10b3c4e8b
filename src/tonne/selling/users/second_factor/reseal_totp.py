"""Encrypt the secrets of authenticator apps again with the current key. See `platform/keys/reseal_secrets.py`."""

from datetime import datetime

import asyncpg

from tonne.platform.db.pool import Connection
from tonne.platform.keys.reseal_secrets import BATCH, ResealedBatch, reseal_rows
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.values.actor import Actor
from tonne.selling.users.store import lock_totp_sealed_otherwise, replace_sealed_totp


async def reseal_totp(
    tx: Connection, box: SecretBox, after: tuple[str, str], *, actor: Actor, now: datetime
) -> ResealedBatch | None:
    """Reseal the secrets of the next users, ordered by id. None when there are no more."""
    rows = await lock_totp_sealed_otherwise(tx, after[1], box.header, BATCH)

    async def replace(row: asyncpg.Record, sealed: bytes, _: bytes | None) -> None:
        await replace_sealed_totp(tx, row["id"], sealed)

    return await reseal_rows(tx, rows, box, replace, action="user.secret_resealed", actor=actor, now=now)
