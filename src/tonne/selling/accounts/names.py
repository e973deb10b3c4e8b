"""The names behind ids, for lists that people read."""

from collections.abc import Iterable

from msgspec import Struct, field

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode


class Names(Struct, frozen=True):
    """Names of accounts and organisations by id. An unknown id is its own name."""

    by_id: dict[str, str] = field(default_factory=dict)

    def of(self, id_: str | None) -> str:
        return "-" if id_ is None else self.by_id.get(id_, id_)


FIND_NAMES = """
SELECT id, name FROM accounts WHERE id = ANY ($1::text[])
UNION ALL SELECT id, name FROM organisations WHERE id = ANY ($1::text[])
"""


async def find_names_any_account(connection: Connection, ids: Iterable[str | None]) -> Names:
    """The names of the accounts and organisations with these ids."""
    requested = sorted({id_ for id_ in ids if id_ is not None})
    return Names({row["id"]: row["name"] for row in await connection.fetch(FIND_NAMES, requested)} if requested else {})


FIND_NAMES_OF_ORGANISATION = """
SELECT id, name FROM accounts WHERE organisation_id = $1 AND id = ANY ($2::text[])
UNION ALL SELECT id, name FROM organisations WHERE id = $1
"""


async def find_names(connection: Connection, organisation_id: str, account_ids: Iterable[str]) -> Names:
    """The names of these accounts and of their organisation."""
    rows = await connection.fetch(FIND_NAMES_OF_ORGANISATION, organisation_id, sorted(set(account_ids)))
    return Names({row["id"]: row["name"] for row in rows})


LIST_ACCOUNT_NAMES = """
SELECT id, name FROM accounts WHERE organisation_id = $1 AND mode = $2 ORDER BY created_at, id LIMIT $3
"""


async def list_account_names(connection: Connection, organisation_id: str, mode: Mode, *, limit: int) -> Names:
    """The oldest accounts of an organisation, to choose one of."""
    rows = await connection.fetch(LIST_ACCOUNT_NAMES, organisation_id, mode, limit)
    return Names({row["id"]: row["name"] for row in rows})


FIND_KEY_NAMES = "SELECT id, name FROM api_keys WHERE organisation_id = $1 AND id = ANY ($2::text[])"


async def find_key_names(connection: Connection, organisation_id: str, key_ids: Iterable[str]) -> dict[str, str]:
    """The names of API keys by id."""
    rows = await connection.fetch(FIND_KEY_NAMES, organisation_id, sorted(set(key_ids)))
    return {row["id"]: row["name"] for row in rows}
