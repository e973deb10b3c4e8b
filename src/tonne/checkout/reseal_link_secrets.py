"""Encrypt the secrets of all offset links again with the current key. See `webhooks/reseal_secrets.py`."""

from datetime import datetime

from tonne.accounts import audit
from tonne.base.actor import Actor
from tonne.base.scope import Mode
from tonne.base.secret_box import SecretBox, SecretUnreadable
from tonne.checkout import link_secret_store
from tonne.db.pool import Connection
from tonne.webhooks.reseal_secrets import BATCH, ResealedBatch, reseal


async def reseal_links_any_account(
    tx: Connection, box: SecretBox, after: tuple[str, str], *, actor: Actor, now: datetime
) -> ResealedBatch | None:
    """Reseal the next links, ordered by id. None when there are no more."""
    rows = await link_secret_store.lock_links_sealed_otherwise_any_account(tx, after[1], box.header, BATCH)
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
        await link_secret_store.replace_sealed_any_account(tx, row["account_id"], row["id"], sealed, old_sealed)
        entries.append(
            audit.Entry(
                action="offset_link.secret_resealed",
                subject_id=row["id"],
                organisation_id=row["organisation_id"],
                mode=Mode(row["mode"]),
                details={"key_id": box.key_id},
            )
        )
    await audit.record_all(tx, entries, actor=actor, at=now)
    last = rows[-1]["organisation_id"], rows[-1]["id"]
    return ResealedBatch(last, len(rows) - len(unreadable), unreadable)
