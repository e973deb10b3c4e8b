"""Encrypt the secrets of all webhooks again with the current key, so that older keys can be removed."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import asyncpg
from msgspec import Struct

from tonne.platform.db.pool import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.keys import secret_key_store as secret_store
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.values.actor import Actor
from tonne.platform.values.scope import Mode

BATCH = 100
START = ("", "")
# Stores the new values of a row.
Replace = Callable[[asyncpg.Record, bytes, bytes | None], Awaitable[None]]


class ResealedBatch(Struct, frozen=True):
    # The organisation and id of the last object, after which the next batch starts.
    last: tuple[str, str]
    resealed: int
    # The ids of objects with a secret that cannot be opened. They are left as they are.
    unreadable: Sequence[str]


async def reseal_batch_any_account(
    tx: Connection, box: SecretBox, after: tuple[str, str], *, actor: Actor, now: datetime
) -> ResealedBatch | None:
    """Reseal the next webhooks. None when there are no more.

    A worker may deliver meanwhile: it opens the old value and the new one.
    """
    rows = await secret_store.lock_sealed_otherwise_any_account(tx, after, box.header, BATCH)

    async def replace(row: asyncpg.Record, sealed: bytes, old_sealed: bytes | None) -> None:
        await secret_store.replace_sealed(tx, row["organisation_id"], row["id"], sealed, old_sealed)

    return await reseal_rows(tx, rows, box, replace, action="webhook.secret_resealed", actor=actor, now=now)


async def reseal_rows(
    tx: Connection,
    rows: Sequence[asyncpg.Record],
    box: SecretBox,
    replace: Replace,
    *,
    action: str,
    actor: Actor,
    now: datetime,
) -> ResealedBatch | None:
    """Reseal `secret_box` and `old` of locked rows, each with an audit entry. None when there are no rows."""
    if not rows:
        return None
    unreadable, entries = [], []
    for row in rows:
        try:
            sealed = reseal(box, row["secret_box"], row["id"])
            old_sealed = None if row["old"] is None else reseal(box, row["old"], row["id"])
        except SecretUnreadable:
            unreadable.append(row["id"])
            continue
        await replace(row, sealed, old_sealed)
        entries.append(
            audit.Entry(
                action=action,
                subject_id=row["id"],
                organisation_id=row["organisation_id"],
                mode=None if row["mode"] is None else Mode(row["mode"]),
                details={"key_id": box.key_id},
            )
        )
    await audit.record_all(tx, entries, actor=actor, at=now)
    last = rows[-1]["organisation_id"], rows[-1]["id"]
    return ResealedBatch(last, len(rows) - len(unreadable), unreadable)


def reseal(box: SecretBox, sealed: bytes, owner_id: str) -> bytes:
    """Raises SecretUnreadable."""
    return sealed if sealed.startswith(box.header) else box.seal(box.open(sealed, owner_id), owner_id)


async def retire_keys_any_account(tx: Connection, box: SecretBox, *, actor: Actor, now: datetime) -> list[str]:
    """Remove the recorded keys that no value needs any more. Returns their ids."""
    await secret_store.lock_keys(tx)
    counts = await secret_store.count_secrets_any_account(tx)
    # A value without the id of a key may need any of them.
    retired = [] if "" in counts else await secret_store.forget_keys_except(tx, [box.key_id, *counts])
    await _record_keys(tx, "secret_key.retired", retired, box, actor=actor, now=now)
    return retired


async def give_up_keys_any_account(tx: Connection, box: SecretBox, *, actor: Actor, now: datetime) -> list[str]:
    """Make the configured keys the only ones of this database. Returns the ids of the keys that were given up."""
    await secret_store.lock_keys(tx)
    given_up = await secret_store.forget_keys_except(tx, sorted(box.key_ids))
    await secret_store.record_key(tx, box.key_id)
    await _record_keys(tx, "secret_key.given_up", given_up, box, actor=actor, now=now)
    entries = [
        audit.Entry(
            action="organisation.secret_keys_given_up",
            subject_id=organisation_id,
            organisation_id=organisation_id,
            details={"key_ids": given_up, "key_id": box.key_id},
        )
        for organisation_id in await secret_store.list_organisations_any_account(tx)
    ]
    await audit.record_all(tx, entries, actor=actor, at=now)
    return given_up


async def _record_keys(
    tx: Connection, action: str, key_ids: Sequence[str], box: SecretBox, *, actor: Actor, now: datetime
) -> None:
    """For the operator."""
    details = {"current_key_id": box.key_id}
    entries = [audit.Entry(action=action, subject_id=key_id, details=details) for key_id in key_ids]
    await audit.record_all(tx, entries, actor=actor, at=now)
