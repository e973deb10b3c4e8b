"""What a package declares about the secrets that it seals, so that their keys can be checked, counted and changed."""

from collections.abc import Sequence

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.keys.secret_box import HEADER_BYTES, sealed_with


class SealedSecrets(Struct, frozen=True, kw_only=True):
    """The sealed secrets of one table, with the SQL of its owner.

    Rows may have older secrets, which the queries call `old`: an array with a null for each that is not in use.
    """

    # The kind of the row, for messages.
    owner: str
    # Of the audit entry about a row that is sealed again.
    action: str
    # The values in use: `id`, `sealed`, and `organisation_id` if the organisation has to replace a lost secret. $1
    # limits their number.
    list_in_use: str
    # How many values start with which header, in use or not: `header`, `count`. $1 is the length of a header.
    count: str
    # The next rows after id $1 with a value that does not start with header $2, of length $3, at most $4, locked: `id`,
    # `sealed`, `old`, and, if the rows have them, `organisation_id` and `mode`.
    lock_others: str
    # Sets the values. Its parameters are the columns of `key`, the new value and any older ones.
    update: str
    key: tuple[str, ...] = ("id",)

    async def fetch_in_use(self, connection: Connection, limit: int | None = None) -> Sequence[asyncpg.Record]:
        return await connection.fetch(self.list_in_use, limit)

    async def count_by_key(self, connection: Connection) -> dict[str, int]:
        """By the id of the key. Values without the id of a key are counted under ''."""
        counts: dict[str, int] = {}
        for row in await connection.fetch(self.count, HEADER_BYTES):
            key_id = sealed_with(row["header"]) or ""
            counts[key_id] = counts.get(key_id, 0) + row["count"]
        return counts

    async def lock_next(self, tx: Connection, after: str, header: bytes, limit: int) -> Sequence[asyncpg.Record]:
        return await tx.fetch(self.lock_others, after, header, HEADER_BYTES, limit)

    async def replace(self, tx: Connection, row: asyncpg.Record, sealed: bytes, old: Sequence[bytes | None]) -> None:
        await tx.execute(self.update, *(row[name] for name in self.key), sealed, *old)


async def count_secrets(connection: Connection, sealed: Sequence[SealedSecrets]) -> dict[str, int]:
    """How many values are sealed with each key, by its id. Values without the id of a key are counted under ''."""
    counts: dict[str, int] = {}
    for each in sealed:
        for key_id, count in (await each.count_by_key(connection)).items():
            counts[key_id] = counts.get(key_id, 0) + count
    return counts
