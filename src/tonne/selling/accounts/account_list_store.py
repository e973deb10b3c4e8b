"""SQL that lists the accounts of an organisation in one mode, for people."""

from collections.abc import Collection
from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, value_of
from tonne.platform.values.context import Mode, Scope
from tonne.platform.values.paging import Position
from tonne.selling.accounts.model import Account, AccountKind, PaymentMethod
from tonne.selling.accounts.store import ACCOUNT_COLUMNS, account_of_row


class ListedAccount(Struct, frozen=True):
    id: str
    kind: AccountKind
    name: str
    currency: str
    beneficiary: str
    payment_method: PaymentMethod
    created_at: datetime
    closed_at: datetime | None
    archived_at: datetime | None

    @property
    def is_client(self) -> bool:
        return self.kind is AccountKind.CLIENT_ACCOUNT


# Ids sort by creation time, and the index on (organisation_id, mode, id) has them in order.
LIST_ACCOUNTS_AFTER = """
SELECT id, kind, name, currency, beneficiary, payment_method, created_at, closed_at, archived_at
FROM accounts
WHERE organisation_id = $1 AND mode = $2 AND id > $3 AND ($4 = '' OR strpos(lower(name), lower($4)) > 0)
ORDER BY id LIMIT $5
"""


async def list_accounts_after(
    connection: Connection, organisation_id: str, mode: Mode, *, after: str, limit: int, name: str = ""
) -> list[ListedAccount]:
    """Oldest first. With `name`, only accounts whose name contains it."""
    rows = await connection.fetch(LIST_ACCOUNTS_AFTER, organisation_id, mode, after, name, limit)
    return [value_of(ListedAccount, row) for row in rows]


HAS_OWN_SELECTION = """
SELECT default_bundle_selection IS NOT NULL FROM accounts WHERE organisation_id = $1 AND mode = $2 AND id = $3
"""


async def has_own_selection(connection: Connection, scope: Scope) -> bool:
    """Whether the account has default bundles of its own."""
    place = (scope.organisation_id, scope.mode, scope.account_id)
    return await connection.fetchval(HAS_OWN_SELECTION, *place) is True


class AccountFilter(Struct, frozen=True):
    """`account_ids` are those that the API key is restricted to; None: all. `archived` None: both."""

    kind: AccountKind
    name: str = ""
    archived: bool | None = None
    account_ids: Collection[str] | None = None


# Ids sort by creation time, and the index on (organisation_id, mode, id) has them in order.
LIST_ACCOUNTS_BEFORE = f"""
SELECT {ACCOUNT_COLUMNS} FROM accounts
WHERE organisation_id = $1 AND mode = $2 AND id < $3 AND kind = $4
  AND ($5 = '' OR strpos(lower(name), lower($5)) > 0)
  AND ($6::boolean IS NULL OR (archived_at IS NOT NULL) = $6) AND ($7::text[] IS NULL OR id = ANY ($7))
ORDER BY id DESC LIMIT $8
"""  # noqa: S608 - columns above
# Sorts after every id, in any collation.
_AFTER_ALL = "acc_" + "z" * 27


async def list_accounts_before(
    connection: Connection, scope: Scope, requested: AccountFilter, start: Position, limit: int
) -> list[Account]:
    """The accounts of one kind in the organisation and mode."""
    allowed = None if requested.account_ids is None else sorted(requested.account_ids)
    rows = await connection.fetch(
        LIST_ACCOUNTS_BEFORE,
        scope.organisation_id,
        scope.mode,
        min(start.id, _AFTER_ALL),
        requested.kind,
        requested.name,
        requested.archived,
        allowed,
        limit,
    )
    return [account_of_row(row) for row in rows]
