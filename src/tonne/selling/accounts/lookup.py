"""Finding organisations and accounts, with an error when there is none; for the operator it says where to look."""

from tonne.platform.db.database import Connection
from tonne.platform.http.errors import AccountNotFound
from tonne.platform.values.context import Scope
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.selling.accounts import store
from tonne.selling.accounts.errors import OrganisationNotFound
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.model import Account, ApiKey, OrganisationDetails


async def require_organisation(connection: Connection, organisation_id: str) -> OrganisationDetails:
    found = await store.find_organisation(connection, organisation_id)
    if found is None:
        raise OrganisationNotFound(
            f"There is no organisation {organisation_id}. Run `tonne org list` to see all organisations."
        )
    return found


async def require_account(connection: Connection, scope: Scope) -> Account:
    found = await store.find_account(connection, scope)
    if found is None:
        raise AccountNotFound
    return found


async def require_account_any_account(connection: Connection, account_id: str) -> Account:
    found = await store.find_account_any_account(connection, account_id)
    if found is None:
        raise AccountNotFound(
            f"There is no account {account_id}. Run `tonne account list` to see the accounts of an organisation."
        )
    return found


async def list_accounts(connection: Connection, organisation_id: str) -> list[Account]:
    await require_organisation(connection, organisation_id)
    return await store.list_accounts(connection, organisation_id)


async def list_keys(connection: Connection, organisation_id: str) -> list[ApiKey]:
    await require_organisation(connection, organisation_id)
    return await key_store.list_keys(connection, organisation_id)


FIND_LANGUAGE = "SELECT language FROM accounts WHERE organisation_id = $1 ORDER BY created_at, id LIMIT 1"


async def find_language(connection: Connection, organisation_id: str) -> str:
    """The language of mails to the organisation's people that concern no single account: that of its first account."""
    language: str | None = await connection.fetchval(FIND_LANGUAGE, organisation_id)
    return language or DEFAULT_LANGUAGE
