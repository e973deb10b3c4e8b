"""Encrypt the secrets of all offset links again with the current key. See `platform/keys/reseal_secrets.py`."""

from datetime import datetime

import asyncpg

from tonne.channels.checkout.links import secret_store as link_secret_store
from tonne.platform.db.pool import Connection
from tonne.platform.keys.reseal_secrets import BATCH, ResealedBatch, reseal_rows
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.values.actor import Actor


async def reseal_links_any_account(
    tx: Connection, box: SecretBox, after: tuple[str, str], *, actor: Actor, now: datetime
) -> ResealedBatch | None:
    """Reseal the next links, ordered by id. None when there are no more."""
    rows = await link_secret_store.lock_links_sealed_otherwise_any_account(tx, after[1], box.header, BATCH)

    async def replace(row: asyncpg.Record, sealed: bytes, old_sealed: bytes | None) -> None:
        await link_secret_store.replace_sealed_any_account(tx, row["account_id"], row["id"], sealed, old_sealed)

    return await reseal_rows(tx, rows, box, replace, action="offset_link.secret_resealed", actor=actor, now=now)
