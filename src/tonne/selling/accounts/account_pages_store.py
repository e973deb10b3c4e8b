"""SQL of the lists of accounts and client accounts that the API returns, newest first."""

from collections.abc import Collection

from msgspec import Struct

from tonne.platform.db.pool import Connection
from tonne.platform.values.paging import Position
from tonne.platform.values.scope import Scope
from tonne.selling.accounts.model import Account, AccountKind
from tonne.selling.accounts.store import ACCOUNT_COLUMNS, account_of_row


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
