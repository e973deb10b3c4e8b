"""Stored documents as plain JSON, which is read as compressed one is: tests can then change them in SQL."""

from tonne.platform.db.database import Connection
from tonne.platform.db.json_compression import decompress_json

_COLUMNS = (("certificates", "number", "record"), ("log_statements", "id", "statement"))


async def store_plainly(tx: Connection) -> None:
    for table, key, column in _COLUMNS:
        rows = await tx.fetch(f"SELECT {key}, {column} FROM {table} WHERE {column} IS NOT NULL")  # noqa: S608 - ours
        plain = [(row[key], decompress_json(row[column])) for row in rows]
        await tx.executemany(f"UPDATE {table} SET {column} = $2 WHERE {key} = $1", plain)  # noqa: S608 - ours
