"""What a package declares about the secrets that it seals, so that their keys can be checked, counted and changed.

Secrets of all tables are encrypted again with the current key, so that older keys can be removed.
"""

from collections.abc import Callable, Mapping, Sequence

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.keys import secret_key_store as secret_store
from tonne.platform.keys.secret_box import HEADER_BYTES, SecretBox, SecretUnreadable, sealed_with
from tonne.platform.values.context import Actor, By, Clock, Mode


class SealedSecrets(Struct, frozen=True, kw_only=True):
    """The sealed secrets of one table of the package that declares them."""

    # The kind of the row, for messages.
    owner: str
    # Of the audit entry about a row that is sealed again.
    action: str
    table: str
    # The id that each value is sealed with, which is unique in the table.
    id: str = "id"
    # The columns that find a row: those of the primary key.
    key: tuple[str, ...] = ("id",)
    # The column of the value.
    column: str
    # Columns of older values, and for each the column that says until when it is in use.
    older: Mapping[str, str] = {}
    # Of which rows the values are in use.
    in_use: str = "true"
    # The rows have `organisation_id` and `mode`.
    has_scope: bool = True
    # The organisation has to replace a lost secret: nobody else can.
    is_replaced_by_organisation: bool = False

    @property
    def list_in_use(self) -> str:
        """`id`, `sealed`, and `organisation_id` if the organisation has to replace it. $1 limits their number."""
        organisation = ", organisation_id" if self.is_replaced_by_organisation else ""
        conditions = {self.column: "true"}
        conditions |= {column: f"{until} > clock_timestamp()" for column, until in self.older.items()}
        selects = (
            f"SELECT {self.id} AS id, {column} AS sealed{organisation} FROM {self.table} "  # noqa: S608 - our own names
            f"WHERE {column} IS NOT NULL AND {condition} AND {self.in_use}"
            for column, condition in conditions.items()
        )
        return " UNION ALL ".join(selects) + " ORDER BY id LIMIT $1"

    @property
    def count(self) -> str:
        """How many values start with which header, in use or not: `header`, `count`. $1 is the length of a header."""
        columns = (self.column, *self.older)
        values = " UNION ALL ".join(f"SELECT {column} FROM {self.table}" for column in columns)  # noqa: S608
        return f"""
        SELECT substring(sealed FROM 1 FOR $1) AS header, count(*) AS count
        FROM ({values}) AS secrets (sealed) WHERE sealed IS NOT NULL GROUP BY 1
        """  # noqa: S608 - our own names

    @property
    def lock_others(self) -> str:
        """The next rows after id $1 with a value that does not start with header $2, of length $3, at most $4, locked.

        `id`, `sealed`, the columns of the key and of the scope, and `old`: the older values, null where one is not in
        use any more.
        """
        columns = {*self.key, *(("organisation_id", "mode") if self.has_scope else ())} - {"id"}
        older = (f"CASE WHEN {until} > clock_timestamp() THEN {column} END" for column, until in self.older.items())
        differs = (f"substring({column} FROM 1 FOR $3) <> $2::bytea" for column in (self.column, *self.older))
        return f"""
        SELECT {"".join(f"{name}, " for name in sorted(columns))} {self.id} AS id, {self.column} AS sealed,
               ARRAY[{", ".join(older)}]::bytea[] AS old
        FROM {self.table} WHERE {self.id} > $1 AND ({" OR ".join(differs)})
        ORDER BY {self.id} LIMIT $4 FOR NO KEY UPDATE
        """  # noqa: S608 - our own names

    @property
    def update(self) -> str:
        """Sets the values, and removes older ones that are not in use. Parameters: the key, the value, older values."""
        numbered = {name: f"${number}" for number, name in enumerate((*self.key, self.column, *self.older), 1)}
        sets = [f"{column} = {numbered[column]}" for column in (self.column, *self.older)]
        sets += [
            f"{until} = CASE WHEN {numbered[column]}::bytea IS NOT NULL THEN {until} END"
            for column, until in self.older.items()
        ]
        found = " AND ".join(f"{name} = {numbered[name]}" for name in self.key)
        return f"UPDATE {self.table} SET {', '.join(sets)} WHERE {found}"  # noqa: S608 - our own names

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


BATCH = 100


class Resealed(Struct, frozen=True):
    count: int
    # The ids of rows with a secret that cannot be opened. They are left as they are.
    unreadable: Sequence[str]


class _Batch(Resealed, frozen=True):
    # The next batch starts after this id.
    last: str


async def reseal_secrets(
    connection: Connection,
    sealed: Sequence[SealedSecrets],
    box: SecretBox,
    *,
    actor: Actor,
    clock: Clock,
    advance: Callable[[int], None],
) -> Resealed:
    """One transaction per batch, so that no row is locked for long and an interrupted run loses nothing.

    A worker may open secrets meanwhile: it opens the old value and the new one.
    """
    count, unreadable = 0, list[str]()
    for each in sealed:
        after: str | None = ""
        while after is not None:
            async with connection.transaction():
                batch = await _reseal_batch(connection, each, box, after, by=actor.at(clock()))
            after = None if batch is None else batch.last
            if batch is not None:
                count += batch.count
                unreadable += batch.unreadable
                advance(batch.count)
    return Resealed(count, unreadable)


async def _reseal_batch(tx: Connection, sealed: SealedSecrets, box: SecretBox, after: str, *, by: By) -> _Batch | None:
    """Reseal the next rows, each with an audit entry. None when there are no more."""
    rows = await sealed.lock_next(tx, after, box.header, BATCH)
    if not rows:
        return None
    unreadable, entries = [], []
    for row in rows:
        try:
            value = _reseal(box, row["sealed"], row["id"])
            old = [None if each is None else _reseal(box, each, row["id"]) for each in row["old"]]
        except SecretUnreadable:
            unreadable.append(row["id"])
            continue
        await sealed.replace(tx, row, value, old)
        mode = row.get("mode")
        entries.append(
            audit.Entry(
                action=sealed.action,
                subject_id=row["id"],
                organisation_id=row.get("organisation_id"),
                mode=None if mode is None else Mode(mode),
                details={"key_id": box.key_id},
            )
        )
    await audit.record_all(tx, entries, by=by)
    return _Batch(len(rows) - len(unreadable), unreadable, rows[-1]["id"])


def _reseal(box: SecretBox, sealed: bytes, owner_id: str) -> bytes:
    """Raises SecretUnreadable."""
    return sealed if sealed.startswith(box.header) else box.seal(box.open(sealed, owner_id), owner_id)


async def retire_keys(tx: Connection, sealed: Sequence[SealedSecrets], box: SecretBox, *, by: By) -> list[str]:
    """Remove the recorded keys that no value needs any more. Returns their ids."""
    await secret_store.lock_keys(tx)
    counts = await count_secrets(tx, sealed)
    # A value without the id of a key may need any of them.
    retired = [] if "" in counts else await secret_store.forget_keys_except(tx, [box.key_id, *counts])
    await _record_keys(tx, "secret_key.retired", retired, box, by=by)
    return retired


async def give_up_keys(tx: Connection, sealed: Sequence[SealedSecrets], box: SecretBox, *, by: By) -> list[str]:
    """Make the configured keys the only ones of this database. Returns the ids of the keys that were given up."""
    await secret_store.lock_keys(tx)
    given_up = await secret_store.forget_keys_except(tx, sorted(box.key_ids))
    await secret_store.record_key(tx, box.key_id)
    await _record_keys(tx, "secret_key.given_up", given_up, box, by=by)
    entries = [
        audit.Entry(
            action="organisation.secret_keys_given_up",
            subject_id=organisation_id,
            organisation_id=organisation_id,
            details={"key_ids": given_up, "key_id": box.key_id},
        )
        for organisation_id in await _find_organisations(tx, sealed)
    ]
    await audit.record_all(tx, entries, by=by)
    return given_up


async def _find_organisations(tx: Connection, sealed: Sequence[SealedSecrets]) -> list[str]:
    """Those that have secrets which only they can replace."""
    found = {row.get("organisation_id") for each in sealed for row in await each.fetch_in_use(tx)}
    return sorted(organisation_id for organisation_id in found if organisation_id is not None)


async def _record_keys(tx: Connection, action: str, key_ids: Sequence[str], box: SecretBox, *, by: By) -> None:
    """For the operator."""
    details = {"current_key_id": box.key_id}
    entries = [audit.Entry(action=action, subject_id=key_id, details=details) for key_id in key_ids]
    await audit.record_all(tx, entries, by=by)
