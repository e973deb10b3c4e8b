"""Which accounts an API key may manage: a key of one of the organisation's own accounts, all of its mode."""

from tonne.platform.db.database import Connection
from tonne.platform.http.errors import AccountNotFound, KeyAccountNotAllowed
from tonne.platform.http.route import Request
from tonne.platform.values.context import Scope, is_id
from tonne.platform.values.replace import replace
from tonne.selling.accounts import store
from tonne.selling.accounts.errors import AccountScopeIncorrect
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.model import Account, AccountKind


async def require_manager(connection: Connection, request: Request) -> None:
    """Raises AccountScopeIncorrect for keys of client accounts, and for requests that act for one."""
    acting = await store.find_account(connection, request.scope)
    is_own = acting is not None and acting.kind is AccountKind.ACCOUNT
    if not is_own or not await _is_own_key(connection, request):
        raise AccountScopeIncorrect


async def require_creator(connection: Connection, request: Request) -> None:
    await require_manager(connection, request)
    if request.accounts is not None:
        raise KeyAccountNotAllowed(
            "This API key is restricted to some accounts, so it cannot create others. Use a key for all accounts."
        )


async def require_managed(connection: Connection, request: Request, account_id: str, kind: AccountKind) -> Scope:
    """The scope of the account that the path names.

    An account of another organisation, mode or kind is not found, and for keys of client accounts none is.
    """
    scope = replace(request.scope, account_id=account_id)
    account: Account | None = None
    if is_id("acc", account_id) and await _is_own_key(connection, request):
        account = await store.find_account(connection, scope)
    if account is None or account.kind is not kind:
        raise AccountNotFound
    if request.accounts is not None and account_id not in request.accounts:
        raise KeyAccountNotAllowed
    return scope


async def _is_own_key(connection: Connection, request: Request) -> bool:
    scope = request.scope
    kind = await key_store.find_key_kind(connection, scope.organisation_id, request.actor.name)
    return kind is AccountKind.ACCOUNT
