"""Encrypt the tokens of all checkouts of the API again with the current key. See `platform/keys/reseal_secrets.py`."""

from datetime import datetime

import asyncpg

from tonne.channels.checkout import api_store
from tonne.platform.db.pool import Connection
from tonne.platform.keys.reseal_secrets import BATCH, ResealedBatch, reseal_rows
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.values.actor import Actor


async def reseal_checkouts_any_account(
    tx: Connection, box: SecretBox, after: tuple[str, str], *, actor: Actor, now: datetime
) -> ResealedBatch | None:
    """Reseal the next checkouts, ordered by id. None when there are no more."""
    rows = await api_store.lock_checkouts_sealed_otherwise_any_account(tx, after[1], box.header, BATCH)

    async def replace(row: asyncpg.Record, sealed: bytes, _: bytes | None) -> None:
        await api_store.replace_sealed_token_any_account(tx, row["account_id"], row["id"], sealed)

    return await reseal_rows(tx, rows, box, replace, action="checkout.token_resealed", actor=actor, now=now)
