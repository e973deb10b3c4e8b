"""SQL for organisations, accounts and API keys."""

import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import asyncpg

from tonne.accounts.model import (
    Account,
    AccountKind,
    ApiKey,
    Billing,
    Fulfil,
    Organisation,
    OrganisationDetails,
    PaymentMethod,
    Terms,
)
from tonne.base.scope import Mode, Scope
from tonne.base.tax import NO_TAX, TaxTerms, TaxTreatment
from tonne.db.pool import Connection
from tonne.http.authenticator import KeyHolder

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
    return OrganisationDetails(
        _organisation(row), row["address"], row["admins"], row["redirect_hosts"], row["test_mail_addresses"]
    )


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


_ACCOUNT = """
organisation_id, id, mode, kind, name, currency, beneficiary, payment_method, created_at, auto_advance, receipt_email,
card_email, refunds_by_api, billing, billing_threshold_minor, fulfil, credit_limit_minor
"""
INSERT_ACCOUNT = f"""
INSERT INTO accounts ({_ACCOUNT})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
"""  # noqa: S608 - columns above


async def insert_account(tx: Connection, account: Account) -> None:
    scope = account.scope
    await tx.execute(
        INSERT_ACCOUNT,
        *(scope.organisation_id, scope.account_id, scope.mode, account.kind, account.name, account.currency),
        *(account.beneficiary, account.payment_method, account.created_at, account.auto_advance),
        *(account.receipt_email, account.card_email, account.refunds_by_api, account.billing),
        *(account.billing_threshold_minor, account.fulfil, account.credit_limit_minor),
    )


LIST_ACCOUNTS = f"SELECT {_ACCOUNT} FROM accounts WHERE organisation_id = $1 ORDER BY mode, created_at, id"  # noqa: S608 - columns above


async def list_accounts(connection: Connection, organisation_id: str) -> list[Account]:
    return [_account(row) for row in await connection.fetch(LIST_ACCOUNTS, organisation_id)]


FIND_ACCOUNT = f"SELECT {_ACCOUNT} FROM accounts WHERE organisation_id = $1 AND mode = $2 AND id = $3"  # noqa: S608 - columns above


async def find_account(connection: Connection, scope: Scope) -> Account | None:
    row = await connection.fetchrow(FIND_ACCOUNT, scope.organisation_id, scope.mode, scope.account_id)
    return None if row is None else _account(row)


FIND_ACCOUNT_BY_ID = f"SELECT {_ACCOUNT} FROM accounts WHERE id = $1"  # noqa: S608 - columns above


async def find_account_any_account(connection: Connection, account_id: str) -> Account | None:
    row = await connection.fetchrow(FIND_ACCOUNT_BY_ID, account_id)
    return None if row is None else _account(row)


UPDATE_ACCOUNT = """
UPDATE accounts SET name = $3, beneficiary = $4, payment_method = $5, auto_advance = $6, receipt_email = $7,
    card_email = $8, refunds_by_api = $9, billing = $10, billing_threshold_minor = $11, fulfil = $12,
    credit_limit_minor = $13
WHERE organisation_id = $1 AND id = $2
"""


async def update_account(tx: Connection, account: Account) -> None:
    await tx.execute(
        UPDATE_ACCOUNT,
        *(account.scope.organisation_id, account.scope.account_id, account.name, account.beneficiary),
        *(account.payment_method, account.auto_advance, account.receipt_email, account.card_email),
        *(account.refunds_by_api, account.billing, account.billing_threshold_minor, account.fulfil),
        account.credit_limit_minor,
    )


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
       account.minimum_order_minor, coalesce(account.closed_at, organisation.closed_at) AS closed_at,
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
    return Terms(
        currency=row["currency"],
        payment_method=PaymentMethod(row["payment_method"]),
        fee_rate=Fraction(row["fee_rate"]),
        default_selection=None if selection is None else json.loads(selection),
        beneficiary=row["beneficiary"],
        auto_advance=row["auto_advance"],
        simulated_supply_grams=row["simulated_supply_grams"],
        billing=Billing(row["billing"]),
        tax=own_tax or seller_tax,
        seller_tax=seller_tax,
        monthly_limit_minor=row["monthly_limit_minor"],
        minimum_order_minor=row["minimum_order_minor"],
        is_closed=row["closed_at"] is not None,
    )


INSERT_KEY = """
INSERT INTO api_keys (organisation_id, id, mode, default_account_id, name, secret_hash, last_four, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""


async def insert_key(tx: Connection, key: ApiKey, secret_hash: bytes) -> None:
    scope = key.scope
    await tx.execute(
        INSERT_KEY,
        *(scope.organisation_id, key.id, scope.mode, scope.account_id, key.name, secret_hash),
        *(key.last_four, key.created_at),
    )


FIND_VALID_KEY = """
SELECT key.id, key.organisation_id, key.default_account_id, key.mode,
       account.closed_at IS NOT NULL OR organisation.closed_at IS NOT NULL AS is_closed
FROM api_keys key
JOIN accounts account ON account.organisation_id = key.organisation_id AND account.id = key.default_account_id
JOIN organisations organisation ON organisation.id = key.organisation_id
WHERE key.secret_hash = $1 AND key.revoked_at IS NULL
"""


async def find_valid_key(connection: Connection, secret_hash: bytes) -> KeyHolder | None:
    row = await connection.fetchrow(FIND_VALID_KEY, secret_hash)
    if row is None:
        return None
    scope = Scope(row["organisation_id"], row["default_account_id"], Mode(row["mode"]))
    return KeyHolder(row["id"], scope, row["is_closed"])


_KEY = """
id, organisation_id, default_account_id, mode, name, last_four, created_at, last_used_at, revoked_at,
monthly_limit_minor,
(SELECT account.currency FROM accounts account
 WHERE account.organisation_id = api_keys.organisation_id AND account.id = api_keys.default_account_id) AS currency
"""
LIST_KEYS = f"SELECT {_KEY} FROM api_keys WHERE organisation_id = $1 ORDER BY created_at, id"  # noqa: S608 - columns above


async def list_keys(connection: Connection, organisation_id: str) -> list[ApiKey]:
    return [_api_key(row) for row in await connection.fetch(LIST_KEYS, organisation_id)]


FIND_KEY_KIND = """
SELECT account.kind FROM api_keys
JOIN accounts account ON account.organisation_id = api_keys.organisation_id AND account.id = default_account_id
WHERE api_keys.organisation_id = $1 AND api_keys.id = $2
"""


async def find_key_kind(connection: Connection, organisation_id: str, key_id: str) -> AccountKind | None:
    """The kind of the key's own account, which is not always the account that a request acts for."""
    kind = await connection.fetchval(FIND_KEY_KIND, organisation_id, key_id)
    return None if kind is None else AccountKind(kind)


REVOKE_KEY = f"UPDATE api_keys SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1 RETURNING {_KEY}"  # noqa: S608 - columns above


async def revoke_key_any_account(tx: Connection, key_id: str, now: datetime) -> ApiKey | None:
    row = await tx.fetchrow(REVOKE_KEY, key_id, now)
    return None if row is None else _api_key(row)


NOTE_USES = """
UPDATE api_keys SET last_used_at = greatest(last_used_at, used.at)
FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS used (organisation_id, id, at)
WHERE api_keys.organisation_id = used.organisation_id AND api_keys.id = used.id
"""


async def note_uses_any_account(connection: Connection, uses: Sequence[tuple[str, str, datetime]]) -> None:
    """The rows are sorted so that processes lock them in the same order: otherwise they could deadlock."""
    organisations, ids, moments = zip(*sorted(uses), strict=True)
    await connection.execute(NOTE_USES, organisations, ids, moments)


def _organisation(row: asyncpg.Record) -> Organisation:
    return Organisation(
        id=row["id"], name=row["name"], fee_rate=Fraction(row["fee_rate"]), created_at=row["created_at"]
    )


def _account(row: asyncpg.Record) -> Account:
    values = dict(row)
    scope = Scope(values.pop("organisation_id"), values.pop("id"), Mode(values.pop("mode")))
    kind, payment_method = AccountKind(values.pop("kind")), PaymentMethod(values.pop("payment_method"))
    billing, fulfil = Billing(values.pop("billing")), Fulfil(values.pop("fulfil"))
    return Account(scope=scope, kind=kind, payment_method=payment_method, billing=billing, fulfil=fulfil, **values)


def _api_key(row: asyncpg.Record) -> ApiKey:
    values = dict(row)
    scope = Scope(values.pop("organisation_id"), values.pop("default_account_id"), Mode(values.pop("mode")))
    return ApiKey(scope=scope, **values)


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
