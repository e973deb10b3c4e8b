"""Encrypt the tokens of links in mails again with the current key. See `platform/keys/reseal_secrets.py`."""

from datetime import datetime

import asyncpg

from tonne.money.cards.stored_cards import card_link_store
from tonne.platform.db.pool import Connection
from tonne.platform.keys.reseal_secrets import BATCH, ResealedBatch, reseal_rows
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.values.actor import Actor
from tonne.selling.orders import order_link_store


async def reseal_order_links_any_account(
    tx: Connection, box: SecretBox, after: tuple[str, str], *, actor: Actor, now: datetime
) -> ResealedBatch | None:
    """Reseal the next links to orders, ordered by the order's id. None when there are no more."""
    rows = await order_link_store.lock_links_sealed_otherwise_any_account(tx, after[1], box.header, BATCH)

    async def replace(row: asyncpg.Record, sealed: bytes, _: bytes | None) -> None:
        await order_link_store.replace_sealed_link_any_account(tx, row["account_id"], row["id"], sealed)

    return await reseal_rows(tx, rows, box, replace, action="order.link_resealed", actor=actor, now=now)


async def reseal_card_links_any_account(
    tx: Connection, box: SecretBox, after: tuple[str, str], *, actor: Actor, now: datetime
) -> ResealedBatch | None:
    """Reseal the next links to the pages of cards, ordered by the account's id. None when there are no more."""
    rows = await card_link_store.lock_card_links_sealed_otherwise_any_account(tx, after[1], box.header, BATCH)

    async def replace(row: asyncpg.Record, sealed: bytes, _: bytes | None) -> None:
        await card_link_store.replace_sealed_card_link_any_account(tx, row["account_id"], sealed)

    return await reseal_rows(tx, rows, box, replace, action="card.link_resealed", actor=actor, now=now)
