"""Close a customer with all accounts, stored cards and public pages, and open it again."""

from datetime import datetime

from tonne.channels.public_pages.change_page import PageChange, change_page, read_page
from tonne.money.cards.stored_cards.remove_closed_cards import schedule_removal
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Actor, Scope
from tonne.selling.accounts.close_account import close_organisation, reopen_organisation


async def close_customer(
    tx: Connection, organisation_id: str, reason: str, *, disable_pages: bool, actor: Actor, now: datetime
) -> int:
    """Returns the number of its accounts. Stored cards are removed once no order needs them."""
    scopes = await close_organisation(tx, organisation_id, reason, actor=actor, now=now)
    for scope in scopes:
        await schedule_removal(tx, scope, now)
        if disable_pages:
            await disable_public_page(tx, scope, actor=actor, now=now)
    return len(scopes)


async def reopen_customer(tx: Connection, organisation_id: str, *, actor: Actor, now: datetime) -> None:
    """Accounts that were closed themselves stay closed."""
    for scope in await reopen_organisation(tx, organisation_id, actor=actor, now=now):
        await schedule_removal(tx, scope, None)


async def disable_public_page(tx: Connection, scope: Scope, *, actor: Actor, now: datetime) -> None:
    if (await read_page(tx, scope)).enabled:
        await change_page(tx, scope, PageChange(enabled=False), actor=actor, now=now)
