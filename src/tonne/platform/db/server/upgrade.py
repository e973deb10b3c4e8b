"""Moves the data of the embedded database to a newer major version of PostgreSQL, and keeps the old files."""

import asyncio
import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import asyncpg

from tonne.platform.db.database import Connection
from tonne.platform.db.server.backup import built_database, check_counts, count_rows, dump, load, stop_for_good
from tonne.platform.db.server.backup_file import DUMP, BackupError
from tonne.platform.db.server.embedded import DATABASE, ensure_database, start_lock
from tonne.platform.db.server.postmaster import OLD_DATA, UPGRADING, Postmaster, embedded_major, embedded_majors


class Upgrade(NamedTuple):
    """`old_data` has the files of the version before."""

    from_major: int
    to_major: int
    rows: int
    old_data: Path


def upgrade_postgres(folder: Path) -> Upgrade | None:
    """Dump the old database and load it into a new one. None if it has the version of this release already.

    The old files are only read. They are renamed at the end, and the new ones take their place; if the process is
    killed between the two renames, the next attempt takes the first one back.
    """
    if not folder.exists():
        raise BackupError(f"There is no database in {folder}.")
    with start_lock(folder), _unused(folder):
        _take_back(folder)
        old = Postmaster(folder)
        if not (old.data / "PG_VERSION").exists():
            raise BackupError(f"There is no database in {folder}.")
        major = old.data_major()
        if major == old.major:
            return None
        if major in embedded_majors() and major < old.major:
            old = Postmaster(folder, major=major)
        # Raises DatabaseUnavailable if there are no programs for this version.
        old.prepare()
        kept = folder / f"{OLD_DATA}{major}"
        if kept.exists():
            raise BackupError(f"{kept} exists already: move it to another place.")
        _check_space(old.data)
        old.start()
        try:
            with built_database(folder / UPGRADING) as new:
                rows = asyncio.run(_copy(old.url(DATABASE), new))
                stop_for_good(old)
                stop_for_good(new)
                old.data.rename(kept)
                new.data.rename(folder / "data")
        finally:
            old.stop()
    return Upgrade(major, embedded_major(), rows, kept)


@contextlib.contextmanager
def _unused(folder: Path) -> Iterator[None]:
    """Raises BackupError if another process uses the database."""
    with (folder / "users").open("a") as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupError("The database is in use: stop `tonne serve` and all other commands first.") from error
        yield


def _take_back(folder: Path) -> None:
    kept = list(folder.glob(f"{OLD_DATA}*"))
    if not (folder / "data").exists() and len(kept) == 1:
        kept[0].rename(folder / "data")


def _check_space(data: Path) -> None:
    needed = 2 * sum(file.lstat().st_size for file in (data / "base").rglob("*"))
    if shutil.disk_usage(data).free < needed:
        raise BackupError(f"{data.parent} has too little space: the upgrade needs about {needed // 1024**2 + 1} MiB.")


async def _copy(url: str, new: Postmaster) -> int:
    """The number of rows."""
    await ensure_database(url)
    file = new.folder / DUMP
    connection: Connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            snapshot = await connection.fetchval("SELECT pg_export_snapshot()")
            tables = await count_rows(connection)
            with file.open("xb") as out:
                await asyncio.to_thread(dump, url, snapshot, out.write, len(tables))
    finally:
        await connection.close()
    await asyncio.to_thread(load, new.url(DATABASE), file, len(tables))
    file.unlink()
    loaded: Connection = await asyncpg.connect(new.url(DATABASE))
    try:
        await check_counts(loaded, tables)
        # A dump has no statistics: without them, the first queries are planned badly.
        await loaded.execute("ANALYZE")
    finally:
        await loaded.close()
    return sum(tables.values())
