"""Writes a backup of the embedded database, and restores one, while nothing else may start the database."""

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import asyncpg

from tonne import __version__
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.migration_files import all_migrations
from tonne.platform.db.server.backup_file import DUMP, FORMAT, BackupError, BackupFile, BackupWriter, Manifest
from tonne.platform.db.server.dump import check_counts, count_rows, dump, load
from tonne.platform.db.server.embedded import DATABASE, ensure_database, start_lock
from tonne.platform.db.server.postmaster import RESTORING, Postmaster, embedded_major, make_private_folder

T = TypeVar("T")
# The compressed dump and the loaded database beside it, compared with the size of the dump.
_SPACE_FACTOR = 12

LATEST_VERSION = "SELECT max(version) FROM schema_migrations"


async def write_backup(
    connection: Connection, url: str, writer: BackupWriter, *, key_ids: list[str], now: datetime
) -> Manifest:
    """Add the dump and the manifest: what one snapshot of the running database contains."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        snapshot = await connection.fetchval("SELECT pg_export_snapshot()")
        version = await connection.fetchval(LATEST_VERSION)
        tables = await count_rows(connection)
        with writer.adding(DUMP) as write:
            await asyncio.to_thread(dump, url, snapshot, write, len(tables))
    manifest = Manifest(
        format=FORMAT,
        created_at=now,
        tonne_version=__version__,
        postgres_major=embedded_major(),
        schema_version=version,
        key_ids=key_ids,
        tables=tables,
        files=writer.files,
    )
    writer.finish(manifest)
    return manifest


def require_restorable(backup: BackupFile, folder: Path) -> None:
    """Raises BackupError if this release cannot restore the backup, or the folder is not empty."""
    manifest = backup.manifest
    if (folder / "data").exists():
        raise BackupError(
            f"{folder} holds a database, which a restore never overwrites: set TONNE_DATA_DIR to an empty folder, or "
            "move that database away."
        )
    newest = all_migrations()[-1].version
    if manifest.schema_version > newest or manifest.postgres_major > embedded_major():
        raise BackupError(
            f"The backup was made by Tonne {manifest.tonne_version} with the schema {manifest.schema_version}, which "
            f"this release does not know (it knows {newest}): restore it with that release or a newer one."
        )
    make_private_folder(folder)
    needed = manifest.files[DUMP].size * _SPACE_FACTOR
    if shutil.disk_usage(folder).free < needed:
        raise BackupError(f"{folder} has too little space: the restore needs about {needed // 1024**2 + 1} MiB.")


def restore(
    backup: BackupFile, folder: Path, finish: Callable[[Connection], Awaitable[T]], place_files: Callable[[], None]
) -> T:
    """Restore into `folder`, which must have no database.

    The database is built in a folder beside its place. `finish` completes it, `place_files` adds the files that belong
    to it, and the last step is a rename: a restore that is killed leaves nothing that looks complete.
    """
    make_private_folder(folder)
    with start_lock(folder):
        # Again, now that no other process can start the database.
        require_restorable(backup, folder)
        with built_database(folder / RESTORING) as postmaster:
            file = postmaster.folder / DUMP
            backup.extract_dump(file)
            load(postmaster.url(DATABASE), file, len(backup.manifest.tables))
            file.unlink()
            result = asyncio.run(_complete(postmaster.url(DATABASE), backup.manifest, finish))
            place_files()
            stop_for_good(postmaster)
            postmaster.data.rename(folder / "data")
    return result


@contextlib.contextmanager
def built_database(folder: Path) -> Iterator[Postmaster]:
    """A running server with an empty database in a new folder, which is removed at the end.

    A killed process may have left the folder, with a server that still runs.
    """
    _remove(folder)
    postmaster = Postmaster(folder)
    try:
        postmaster.prepare()
        postmaster.start()
        asyncio.run(ensure_database(postmaster.url(DATABASE)))
        yield postmaster
    finally:
        _remove(folder)


def stop_for_good(postmaster: Postmaster) -> None:
    """Raises BackupError if the server does not stop: its files must not be moved then."""
    postmaster.stop()
    if postmaster.running() is not None:
        raise BackupError(f"The database in {postmaster.folder} does not stop. Its log is {postmaster.log}.")


def _remove(folder: Path) -> None:
    postmaster = Postmaster(folder)
    if not folder.exists():
        return
    stop_for_good(postmaster)
    subprocess.run(["rm", "-rf", "--", folder], check=True)  # noqa: S603, S607 - files of the embedded server
    if postmaster.socket_folder != postmaster.folder:
        shutil.rmtree(postmaster.socket_folder, ignore_errors=True)


async def _complete(url: str, manifest: Manifest, finish: Callable[[Connection], Awaitable[T]]) -> T:
    connection: Connection = await asyncpg.connect(url)
    try:
        await check_counts(connection, manifest.tables)
        # A dump has no statistics: without them, the first queries are planned badly.
        await connection.execute("ANALYZE")
        return await finish(connection)
    finally:
        await connection.close()
