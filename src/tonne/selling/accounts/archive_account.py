"""Archive client accounts, and end it. Of an archived account nothing new is ordered; everything can be read."""

from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor, Scope
from tonne.platform.values.replace import replace
from tonne.selling.accounts import store
from tonne.selling.accounts.lookup import require_account
from tonne.selling.accounts.model import Account


async def archive_account(tx: Connection, scope: Scope, *, archived: bool, actor: Actor, now: datetime) -> Account:
    """Repeating it changes nothing: the first time is kept."""
    await store.lock_account(tx, scope)
    account = await require_account(tx, scope)
    if (account.archived_at is not None) is archived:
        return account
    archived_at = now if archived else None
    await store.set_archived(tx, scope, archived_at)
    await audit.record(
        tx,
        scope,
        "account.archived" if archived else "account.unarchived",
        actor=actor,
        at=now,
        before={"archived": not archived},
        after={"archived": archived},
    )
    return replace(account, archived_at=archived_at)
