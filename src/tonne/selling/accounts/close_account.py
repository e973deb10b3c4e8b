"""Close accounts and organisations, and open them again.

A closed account orders nothing new, and its own keys stop working. Open orders finish, webhooks
deliver their events, and the data stays.
"""

from datetime import datetime
from typing import Any

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor, Scope
from tonne.platform.values.replace import replace
from tonne.selling.accounts import errors, limit_store, store
from tonne.selling.accounts.lookup import require_account, require_organisation
from tonne.selling.accounts.model import Account


async def close_account(tx: Connection, scope: Scope, reason: str, *, actor: Actor, now: datetime) -> None:
    await store.lock_account(tx, scope)
    if (await limit_store.find_limits(tx, scope)).closed_at is not None:
        raise errors.AccountAlreadyClosed
    await limit_store.set_closed(tx, scope, now, reason)
    await _record(tx, scope, "account.closed", is_closed=True, reason=reason, actor=actor, now=now)


async def reopen_account(tx: Connection, scope: Scope, *, actor: Actor, now: datetime) -> None:
    await store.lock_account(tx, scope)
    if (await limit_store.find_limits(tx, scope)).closed_at is None:
        raise errors.AccountNotClosed
    await limit_store.set_closed(tx, scope, None, None)
    await _record(tx, scope, "account.reopened", is_closed=False, reason=None, actor=actor, now=now)


async def close_organisation(
    tx: Connection, organisation_id: str, reason: str, *, actor: Actor, now: datetime
) -> list[Scope]:
    """Returns the scopes of its accounts. Each account is open again when the organisation is, unless itself closed."""
    await require_organisation(tx, organisation_id)
    await store.lock_organisation(tx, organisation_id)
    if await limit_store.find_organisation_closed(tx, organisation_id) is not None:
        raise errors.OrganisationAlreadyClosed
    await limit_store.set_organisation_closed(tx, organisation_id, now, reason)
    await _record(tx, organisation_id, "organisation.closed", is_closed=True, reason=reason, actor=actor, now=now)
    return [account.scope for account in await store.list_accounts(tx, organisation_id)]


async def reopen_organisation(tx: Connection, organisation_id: str, *, actor: Actor, now: datetime) -> list[Scope]:
    """Returns the scopes of the accounts that are now open."""
    await require_organisation(tx, organisation_id)
    await store.lock_organisation(tx, organisation_id)
    if await limit_store.find_organisation_closed(tx, organisation_id) is None:
        raise errors.OrganisationNotClosed
    await limit_store.set_organisation_closed(tx, organisation_id, None, None)
    await _record(tx, organisation_id, "organisation.reopened", is_closed=False, actor=actor, now=now)
    scopes = [account.scope for account in await store.list_accounts(tx, organisation_id)]
    return [scope for scope in scopes if (await limit_store.find_limits(tx, scope)).closed_at is None]


async def _record(
    tx: Connection, owner: Scope | str, action: str, *, is_closed: bool, actor: Actor, now: datetime, **details: Any
) -> None:
    before, after = {"closed": not is_closed}, {"closed": is_closed}
    await audit.record(tx, owner, action, actor=actor, at=now, before=before, after=after, **details)


# Archive client accounts, and end it. Of an archived account nothing new is ordered; everything can be read.


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
