import asyncpg

from tonne.accounts import audit, store
from tonne.accounts.errors import CurrencyUnknown, OrganisationNotFound
from tonne.accounts.model import Account
from tonne.accounts.open_organisation import check_name
from tonne.base.currency import DECIMALS
from tonne.db.pool import Connection


async def open_account(tx: Connection, account: Account, *, actor: str) -> Account:
    """The account's currency is fixed for good: its orders, prices and invoices are in it."""
    check_name(account.name)
    check_name(account.beneficiary)
    if account.currency not in DECIMALS:
        raise CurrencyUnknown(f"{account.currency} is not a currency code of ISO 4217, such as EUR.", field="currency")
    try:
        await store.insert_account(tx, account)
    except asyncpg.ForeignKeyViolationError as error:
        raise OrganisationNotFound from error
    await audit.record(
        tx,
        account.scope.organisation_id,
        actor=actor,
        action="account.opened",
        subject_id=account.scope.account_id,
        at=account.created_at,
        name=account.name,
        mode=account.scope.mode,
    )
    return account
