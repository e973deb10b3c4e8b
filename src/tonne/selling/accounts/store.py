"""SQL for organisations and accounts."""

import json
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import asyncpg

from tonne.platform.db.database import Connection, optional, parameters_of, value_of
from tonne.platform.values.amounts import NO_TAX, TaxTerms, TaxTreatment
from tonne.platform.values.context import Mode, Scope
from tonne.selling.accounts.model import (
    Account,
    Organisation,
    OrganisationDetails,
    Terms,
)

INSERT_ORGANISATION = "INSERT INTO organisations (id, name, fee_rate, created_at) VALUES ($1, $2, $3, $4)"


async def insert_organisation(tx: Connection, organisation: Organisation, fee_rate: Decimal) -> None:
    await tx.execute(INSERT_ORGANISATION, organisation.id, organisation.name, fee_rate, organisation.created_at)


INSERT_MODE = "INSERT INTO organisation_modes (organisation_id, mode) VALUES ($1, $2)"


async def insert_mode(tx: Connection, organisation_id: str, mode: Mode) -> None:
    await tx.execute(INSERT_MODE, organisation_id, mode)


LIST_ORGANISATIONS = "SELECT id, name, fee_rate, created_at FROM organisations ORDER BY created_at, id"


async def list_organisations_any_account(connection: Connection) -> list[Organisation]:
    return [_organisation(row) for row in await connection.fetch(LIST_ORGANISATIONS)]


FIND_ORGANISATION = """
SELECT id, name, fee_rate, created_at, address,
       ARRAY(SELECT email FROM organisation_admins WHERE organisation_id = $1 ORDER BY email) AS admins,
       ARRAY(SELECT host FROM redirect_hosts WHERE organisation_id = $1 ORDER BY host) AS redirect_hosts,
       ARRAY(SELECT email FROM test_mail_addresses WHERE organisation_id = $1 ORDER BY email) AS test_mail_addresses
FROM organisations WHERE id = $1
"""


async def find_organisation(connection: Connection, organisation_id: str) -> OrganisationDetails | None:
    row = await connection.fetchrow(FIND_ORGANISATION, organisation_id)
    if row is None:
        return None
    return value_of(OrganisationDetails, row, organisation=_organisation(row))


LOCK_ORGANISATION = "SELECT id FROM organisations WHERE id = $1 FOR NO KEY UPDATE"


async def lock_organisation(tx: Connection, organisation_id: str) -> None:
    await tx.execute(LOCK_ORGANISATION, organisation_id)


SET_FEE_RATE = """
UPDATE organisations SET fee_rate = $2 FROM (SELECT fee_rate FROM organisations WHERE id = $1) AS old
WHERE id = $1 RETURNING old.fee_rate
"""


async def set_fee_rate(tx: Connection, organisation_id: str, fee_rate: Decimal) -> Decimal:
    """Returns the previous rate. The caller has locked the organisation."""
    previous: Decimal = await tx.fetchval(SET_FEE_RATE, organisation_id, fee_rate)
    return previous


SET_ADDRESS = "UPDATE organisations SET address = $2 WHERE id = $1"


async def set_address(tx: Connection, organisation_id: str, address: str) -> None:
    """`address` holds the lines that invoices print, separated by newlines."""
    await tx.execute(SET_ADDRESS, organisation_id, address)


SET_ORGANISATION_SELECTION = """
UPDATE organisation_modes SET default_bundle_selection = $3::jsonb
FROM (SELECT default_bundle_selection FROM organisation_modes
      WHERE organisation_id = $1 AND mode = $2 FOR NO KEY UPDATE) AS old
WHERE organisation_id = $1 AND mode = $2 RETURNING old.default_bundle_selection
"""


async def set_organisation_selection(
    tx: Connection, organisation_id: str, mode: Mode, selection: list[dict[str, Any]] | None
) -> list[dict[str, Any]] | None:
    """Returns the previous selection."""
    text = None if selection is None else json.dumps(selection)
    previous = await tx.fetchval(SET_ORGANISATION_SELECTION, organisation_id, mode, text)
    return None if previous is None else json.loads(previous)


ADD_ADMIN = """
INSERT INTO organisation_admins (organisation_id, email, created_at) VALUES ($1, $2, $3)
ON CONFLICT (organisation_id, email) DO NOTHING
"""


async def add_admin(tx: Connection, organisation_id: str, email: str, now: datetime) -> None:
    await tx.execute(ADD_ADMIN, organisation_id, email, now)


REMOVE_ADMIN = "DELETE FROM organisation_admins WHERE organisation_id = $1 AND email = $2 RETURNING true"


async def remove_admin(tx: Connection, organisation_id: str, email: str) -> bool:
    return await tx.fetchval(REMOVE_ADMIN, organisation_id, email) is True


_CHANGEABLE = """
name, beneficiary, payment_method, auto_advance, receipt_email, card_email, refunds_by_api, billing,
billing_threshold_minor, fulfil, credit_limit_minor, small_card_orders, language, has_own_beneficiary, handle,
external_pages_visibility, idempotency_key, reference, fulfil_delay
"""
_INSERTED = f"kind, currency, created_at, sibling_id, {_CHANGEABLE}"
# The last two are written by functions of their own.
ACCOUNT_COLUMNS = f"organisation_id, mode, id, {_INSERTED}, archived_at, logo_version"
INSERT_ACCOUNT = f"""
INSERT INTO accounts (organisation_id, mode, id, {_INSERTED})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        $25, $26)
"""  # noqa: S608 - columns above


async def insert_account(tx: Connection, account: Account) -> None:
    scope = account.scope
    place = (scope.organisation_id, scope.mode, scope.account_id)
    await tx.execute(INSERT_ACCOUNT, *place, *parameters_of(account, _INSERTED))


LIST_ACCOUNTS = f"SELECT {ACCOUNT_COLUMNS} FROM accounts WHERE organisation_id = $1 ORDER BY mode, created_at, id"  # noqa: S608 - columns above


async def list_accounts(connection: Connection, organisation_id: str) -> list[Account]:
    return [account_of_row(row) for row in await connection.fetch(LIST_ACCOUNTS, organisation_id)]


FIND_ACCOUNT = f"SELECT {ACCOUNT_COLUMNS} FROM accounts WHERE organisation_id = $1 AND mode = $2 AND id = $3"  # noqa: S608 - columns above


async def find_account(connection: Connection, scope: Scope) -> Account | None:
    row = await connection.fetchrow(FIND_ACCOUNT, scope.organisation_id, scope.mode, scope.account_id)
    return None if row is None else account_of_row(row)


FIND_ACCOUNT_BY_ID = f"SELECT {ACCOUNT_COLUMNS} FROM accounts WHERE id = $1"  # noqa: S608 - columns above


async def find_account_any_account(connection: Connection, account_id: str) -> Account | None:
    return optional(account_of_row, await connection.fetchrow(FIND_ACCOUNT_BY_ID, account_id))


FIND_HANDLE_OWNER = """
SELECT id FROM accounts WHERE organisation_id = $1 AND mode = $2 AND lower(handle) = lower($3)
"""


async def find_handle_owner(connection: Connection, scope: Scope, handle: str) -> str | None:
    """The account of this organisation and mode that has the handle."""
    return optional(str, await connection.fetchval(FIND_HANDLE_OWNER, scope.organisation_id, scope.mode, handle))


FIND_BY_IDEMPOTENCY_KEY = f"""
SELECT {ACCOUNT_COLUMNS} FROM accounts WHERE organisation_id = $1 AND mode = $2 AND idempotency_key = $3
"""  # noqa: S608 - columns above


async def find_by_idempotency_key(connection: Connection, scope: Scope, key: str) -> Account | None:
    """The client account of this organisation and mode that has the key."""
    row = await connection.fetchrow(FIND_BY_IDEMPOTENCY_KEY, scope.organisation_id, scope.mode, key)
    return None if row is None else account_of_row(row)


SET_ARCHIVED = "UPDATE accounts SET archived_at = $3 WHERE organisation_id = $1 AND id = $2"


async def set_archived(tx: Connection, scope: Scope, archived_at: datetime | None) -> None:
    await tx.execute(SET_ARCHIVED, scope.organisation_id, scope.account_id, archived_at)


UPDATE_ACCOUNT = f"""
UPDATE accounts SET ({_CHANGEABLE})
    = ($3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
WHERE organisation_id = $1 AND id = $2
"""  # noqa: S608 - columns above


async def update_account(tx: Connection, account: Account) -> None:
    scope = account.scope
    values = parameters_of(account, _CHANGEABLE)
    await tx.execute(UPDATE_ACCOUNT, scope.organisation_id, scope.account_id, *values)


SET_ACCOUNT_SELECTION = """
UPDATE accounts SET default_bundle_selection = $3::jsonb
FROM (SELECT default_bundle_selection FROM accounts WHERE organisation_id = $1 AND id = $2 FOR NO KEY UPDATE) AS old
WHERE organisation_id = $1 AND id = $2 RETURNING old.default_bundle_selection
"""


async def set_account_selection(
    tx: Connection, scope: Scope, selection: list[dict[str, Any]] | None
) -> list[dict[str, Any]] | None:
    """Returns the previous selection."""
    text = None if selection is None else json.dumps(selection)
    previous = await tx.fetchval(SET_ACCOUNT_SELECTION, scope.organisation_id, scope.account_id, text)
    return None if previous is None else json.loads(previous)


SET_SIMULATED_SUPPLY = "UPDATE accounts SET simulated_supply_grams = $3 WHERE organisation_id = $1 AND id = $2"


async def set_simulated_supply(tx: Connection, scope: Scope, grams: int | None) -> None:
    await tx.execute(SET_SIMULATED_SUPPLY, scope.organisation_id, scope.account_id, grams)


HAS_ACCOUNT = "SELECT EXISTS (SELECT FROM accounts WHERE organisation_id = $1 AND mode = $2 AND id = $3)"


async def has_account(connection: Connection, organisation_id: str, mode: Mode, account_id: str) -> bool:
    return await connection.fetchval(HAS_ACCOUNT, organisation_id, mode, account_id) is True


FIND_TERMS = """
SELECT account.currency, account.payment_method, account.auto_advance, account.beneficiary,
       account.simulated_supply_grams, account.billing, organisation.fee_rate, account.monthly_limit_minor,
       account.minimum_order_minor, account.small_card_orders, account.language,
       coalesce(account.closed_at, organisation.closed_at) AS closed_at, account.archived_at,
       coalesce(account.default_bundle_selection, organisation_mode.default_bundle_selection) AS default_selection,
       profile.treatment AS tax_treatment, profile.rate AS tax_rate
FROM accounts account
JOIN organisations organisation ON organisation.id = account.organisation_id
JOIN organisation_modes organisation_mode USING (organisation_id, mode)
LEFT JOIN tax_profiles profile ON profile.organisation_id = account.organisation_id
WHERE account.organisation_id = $1 AND account.mode = $2 AND account.id = $3
"""


async def find_terms(connection: Connection, scope: Scope, seller_tax: TaxTerms = NO_TAX) -> Terms:
    """Callers that price must give `seller_tax`.

    It applies unless the organisation has a treatment of its own, and to customers at checkout.
    """
    row = await connection.fetchrow(FIND_TERMS, scope.organisation_id, scope.mode, scope.account_id)
    if row is None:
        raise LookupError(f"no account {scope.account_id}")
    selection, treatment = row["default_selection"], row["tax_treatment"]
    own_tax = None if treatment is None else TaxTerms(TaxTreatment(treatment), Fraction(row["tax_rate"] or 0))
    return value_of(
        Terms,
        row,
        fee_rate=Fraction(row["fee_rate"]),
        default_selection=None if selection is None else json.loads(selection),
        tax=own_tax or seller_tax,
        seller_tax=seller_tax,
        is_closed=row["closed_at"] is not None,
        is_archived=row["archived_at"] is not None,
    )


def _organisation(row: asyncpg.Record) -> Organisation:
    return value_of(Organisation, row, fee_rate=Fraction(row["fee_rate"]))


def account_of_row(row: asyncpg.Record) -> Account:
    return value_of(Account, row, scope=Scope(row["organisation_id"], row["id"], Mode(row["mode"])))


LOCK_ORGANISATION_MODE = """
SELECT mode FROM organisation_modes WHERE organisation_id = $1 AND mode = $2 FOR NO KEY UPDATE
"""


async def lock_organisation_mode(tx: Connection, scope: Scope) -> None:
    await tx.execute(LOCK_ORGANISATION_MODE, scope.organisation_id, scope.mode)


LOCK_ACCOUNT = """
SELECT id FROM accounts WHERE organisation_id = $1 AND mode = $2 AND id = $3 FOR NO KEY UPDATE
"""


async def lock_account(tx: Connection, scope: Scope) -> None:
    await tx.execute(LOCK_ACCOUNT, scope.organisation_id, scope.mode, scope.account_id)
