from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor, Scope
from tonne.selling.accounts.logos.store import Logo, set_logo
from tonne.selling.accounts.lookup import require_account
from tonne.selling.accounts.store import lock_account


async def change_logo(tx: Connection, scope: Scope, logo: Logo | None, *, actor: Actor, now: datetime) -> str | None:
    """Returns the version of the new logo, which is part of its address; None without a logo."""
    await lock_account(tx, scope)
    before = await require_account(tx, scope)
    await set_logo(tx, scope, logo)
    after = await require_account(tx, scope)
    await audit.record(
        tx,
        scope,
        "account.logo_changed",
        actor=actor,
        at=now,
        before={"logo": before.logo_version},
        after={"logo": after.logo_version},
    )
    return after.logo_version
