"""Who did what: append-only, in the transaction that did it."""

from datetime import datetime
from typing import Any

from tonne.accounts.store import insert_audit
from tonne.base.ids import new_id
from tonne.db.pool import Connection


async def record(
    tx: Connection, organisation_id: str, *, actor: str, action: str, subject_id: str, at: datetime, **details: Any
) -> None:
    """`details` may hold names and numbers, never a secret."""
    entry = {"id": new_id("aud"), "actor": actor, "action": action, "subject_id": subject_id, "details": details}
    await insert_audit(tx, organisation_id, entry=entry, at=at)
