"""SQL of limits, and of closed accounts and organisations."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.platform.values.spending_limit import SpendingLimit


class AccountLimits(Struct, frozen=True):
    """Amounts are in the account's currency. None: no limit, and the minimum order of the settings.

    `closed_at` is the account's own: its organisation may be closed, too.
    """

    monthly_limit_minor: int | None
    minimum_order_minor: int | None
    closed_at: datetime | None
    closed_reason: str | None
    organisation_closed_at: datetime | None


FIND_LIMITS = """
SELECT account.monthly_limit_minor, account.minimum_order_minor, account.closed_at, account.closed_reason,
       organisation.closed_at AS organisation_closed_at
FROM accounts account JOIN organisations organisation ON organisation.id = account.organisation_id
WHERE account.organisation_id = $1 AND account.id = $2
"""


async def find_limits(connection: Connection, scope: Scope) -> AccountLimits:
    row = await connection.fetchrow(FIND_LIMITS, scope.organisation_id, scope.account_id)
    if row is None:
        raise LookupError(f"no account {scope.account_id}")
    return AccountLimits(**row)


SET_LIMITS = """
UPDATE accounts SET monthly_limit_minor = $3, minimum_order_minor = $4 WHERE organisation_id = $1 AND id = $2
"""


async def set_limits(tx: Connection, scope: Scope, limits: AccountLimits) -> None:
    place = (scope.organisation_id, scope.account_id)
    await tx.execute(SET_LIMITS, *place, limits.monthly_limit_minor, limits.minimum_order_minor)


SET_CLOSED = "UPDATE accounts SET closed_at = $3, closed_reason = $4 WHERE organisation_id = $1 AND id = $2"


async def set_closed(tx: Connection, scope: Scope, closed_at: datetime | None, reason: str | None) -> None:
    await tx.execute(SET_CLOSED, scope.organisation_id, scope.account_id, closed_at, reason)


LIST_CLOSED_ACCOUNTS = "SELECT id, closed_at FROM accounts WHERE organisation_id = $1 AND closed_at IS NOT NULL"


async def list_closed_accounts(connection: Connection, organisation_id: str) -> dict[str, datetime]:
    rows = await connection.fetch(LIST_CLOSED_ACCOUNTS, organisation_id)
    return {row["id"]: row["closed_at"] for row in rows}


FIND_ORGANISATION_CLOSED = "SELECT closed_at FROM organisations WHERE id = $1"


async def find_organisation_closed(connection: Connection, organisation_id: str) -> datetime | None:
    closed_at: datetime | None = await connection.fetchval(FIND_ORGANISATION_CLOSED, organisation_id)
    return closed_at


SET_ORGANISATION_CLOSED = "UPDATE organisations SET closed_at = $2, closed_reason = $3 WHERE id = $1"


async def set_organisation_closed(
    tx: Connection, organisation_id: str, closed_at: datetime | None, reason: str | None
) -> None:
    await tx.execute(SET_ORGANISATION_CLOSED, organisation_id, closed_at, reason)


FIND_KEY_LIMIT = """
SELECT coalesce(limit_key_id, api_keys.id) AS subject_id, api_keys.monthly_limit_minor, account.currency FROM api_keys
JOIN accounts account ON account.organisation_id = api_keys.organisation_id AND account.id = default_account_id
WHERE api_keys.organisation_id = $1 AND api_keys.id = $2
"""


async def find_key_limit(connection: Connection, organisation_id: str, key_id: str) -> SpendingLimit | None:
    row = await connection.fetchrow(FIND_KEY_LIMIT, organisation_id, key_id)
    if row is None or row["monthly_limit_minor"] is None:
        return None
    return SpendingLimit(row["subject_id"], "API key", row["monthly_limit_minor"], row["currency"])


class KeyLimit(Struct, frozen=True):
    scope: Scope
    currency: str
    limit_minor: int | None
    # Counts what is ordered: the first key of a chain of rotations.
    subject_id: str


LOCK_KEY = """
SELECT api_keys.organisation_id, api_keys.default_account_id, api_keys.mode, account.currency,
       api_keys.monthly_limit_minor, coalesce(limit_key_id, api_keys.id) AS subject_id
FROM api_keys
JOIN accounts account ON account.organisation_id = api_keys.organisation_id AND account.id = default_account_id
WHERE api_keys.id = $1 FOR NO KEY UPDATE OF api_keys
"""


async def lock_key_any_account(tx: Connection, key_id: str) -> KeyLimit | None:
    row = await tx.fetchrow(LOCK_KEY, key_id)
    if row is None:
        return None
    scope = Scope(row["organisation_id"], row["default_account_id"], row["mode"])
    return KeyLimit(scope, row["currency"], row["monthly_limit_minor"], row["subject_id"])


SET_KEY_LIMIT = "UPDATE api_keys SET monthly_limit_minor = $3 WHERE organisation_id = $1 AND id = $2"


async def set_key_limit(tx: Connection, organisation_id: str, key_id: str, limit_minor: int | None) -> None:
    await tx.execute(SET_KEY_LIMIT, organisation_id, key_id, limit_minor)
