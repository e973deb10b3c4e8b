from tonne.platform.db.database import Connection
from tonne.selling.accounts import store
from tonne.selling.accounts.errors import AccountIdempotencyExists, HandleNotUnique
from tonne.selling.accounts.model import Account


async def require_unique_fields(tx: Connection, account: Account) -> None:
    """Raises HandleNotUnique or AccountIdempotencyExists if another account has the handle or the key.

    Locks the organisation's mode until the commit, so that two requests cannot choose the same at once.
    """
    if account.handle is None and account.idempotency_key is None:
        return
    await store.lock_organisation_mode(tx, account.scope)
    own_id = account.scope.account_id
    if account.handle is not None:
        owner = await store.find_handle_owner(tx, account.scope, account.handle)
        if owner not in {None, own_id}:
            raise HandleNotUnique(field="handle")
    if account.idempotency_key is not None:
        found = await store.find_by_idempotency_key(tx, account.scope, account.idempotency_key)
        if found is not None and found.scope.account_id != own_id:
            raise AccountIdempotencyExists(field="idempotency_key")
