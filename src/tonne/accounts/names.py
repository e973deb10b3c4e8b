"""The names behind ids, for lists that people read."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tonne.db.pool import Connection


@dataclass(frozen=True, slots=True)
class Names:
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
    wanted = sorted({id_ for id_ in ids if id_ is not None})
    return Names({row["id"]: row["name"] for row in await connection.fetch(FIND_NAMES, wanted)} if wanted else {})
