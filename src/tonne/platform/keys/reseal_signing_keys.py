"""Encrypt the signing keys of the operator again with the current key. See `platform/keys/reseal_secrets.py`."""

from datetime import datetime

import asyncpg

from tonne.platform.db.pool import Connection
from tonne.platform.keys.reseal_secrets import BATCH, ResealedBatch, reseal_rows
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.keys.signing.key_store import lock_signing_keys_sealed_otherwise, replace_sealed_signing_key
from tonne.platform.values.actor import Actor


async def reseal_signing_keys(
    tx: Connection, box: SecretBox, after: tuple[str, str], *, actor: Actor, now: datetime
) -> ResealedBatch | None:
    """Reseal the next keys, ordered by id. None when there are no more."""
    rows = await lock_signing_keys_sealed_otherwise(tx, after[1], box.header, BATCH)

    async def replace(row: asyncpg.Record, sealed: bytes, _: bytes | None) -> None:
        await replace_sealed_signing_key(tx, row["id"], sealed)

    return await reseal_rows(tx, rows, box, replace, action="signing_key.resealed", actor=actor, now=now)
