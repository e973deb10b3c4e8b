"""Encrypt the tokens of all checkouts of the API again with the current key. See `webhooks/reseal_secrets.py`."""

from datetime import datetime

from tonne.accounts import audit
from tonne.base.actor import Actor
from tonne.base.scope import Mode
from tonne.base.secret_box import SecretBox, SecretUnreadable
from tonne.checkout import api_store
from tonne.db.pool import Connection
from tonne.webhooks.reseal_secrets import BATCH, ResealedBatch, reseal


async def reseal_checkouts_any_account(
    tx: Connection, box: SecretBox, after: tuple[str, str], *, actor: Actor, now: datetime
) -> ResealedBatch | None:
    """Reseal the next checkouts, ordered by id. None when there are no more."""
    rows = await api_store.lock_checkouts_sealed_otherwise_any_account(tx, after[1], box.header, BATCH)
    if not rows:
        return None
    unreadable, entries = [], []
    for row in rows:
        try:
            sealed = reseal(box, row["token_box"], row["id"])
        except SecretUnreadable:
            unreadable.append(row["id"])
            continue
        await api_store.replace_sealed_token_any_account(tx, row["account_id"], row["id"], sealed)
        entries.append(
            audit.Entry(
                action="checkout.token_resealed",
                subject_id=row["id"],
                organisation_id=row["organisation_id"],
                mode=Mode(row["mode"]),
                details={"key_id": box.key_id},
            )
        )
    await audit.record_all(tx, entries, actor=actor, at=now)
    last = rows[-1]["organisation_id"], rows[-1]["id"]
    return ResealedBatch(last, len(rows) - len(unreadable), unreadable)
