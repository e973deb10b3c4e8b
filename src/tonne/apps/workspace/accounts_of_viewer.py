"""Finds the account or link that a page or a form names: only those of the viewer's organisation and mode exist."""

from tonne.apps.dashboard.viewer import MemberViewer, existing
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.store import find_link
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope, is_id
from tonne.selling.accounts import store
from tonne.selling.accounts.directory import ListedAccount, list_accounts_after
from tonne.selling.accounts.model import Account

# Accounts that a page offers in a list to choose from. The page of the accounts shows all.
MAX_CHOICES = 100


def scope_of(viewer: MemberViewer, account_id: str) -> Scope:
    return Scope(viewer.organisation_id, account_id, viewer.mode)


async def require_account(connection: Connection, viewer: MemberViewer, account_id: str) -> Account:
    is_valid = is_id("acc", account_id)
    return existing(await store.find_account(connection, scope_of(viewer, account_id)) if is_valid else None)


async def require_link(connection: Connection, viewer: MemberViewer) -> tuple[Account, OffsetLink]:
    """The offset link in the address, and its account."""
    account = await require_account(connection, viewer, viewer.request.path("account_id"))
    link_id = viewer.request.path("offset_link_id")
    return account, existing(await find_link(connection, account.scope, link_id) if is_id("lnk", link_id) else None)


async def require_chosen(connection: Connection, viewer: MemberViewer, account_id: str | None) -> Account:
    """The account with this id, or the first one if there is no id."""
    if not account_id:
        choices = await list_choices(connection, viewer)
        account_id = choices[0].id if choices else ""
    return await require_account(connection, viewer, account_id)


async def list_choices(connection: Connection, viewer: MemberViewer) -> list[ListedAccount]:
    """The first open accounts. The organisation's own are before those of clients."""
    found = await list_accounts_after(connection, viewer.tenant, after="", limit=MAX_CHOICES)
    return sorted((each for each in found if each.closed_at is None), key=lambda each: (each.is_client, each.id))
