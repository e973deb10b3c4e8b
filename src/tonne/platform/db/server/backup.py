"""Writes a backup of the embedded database, and restores one, while nothing else may start the database.

With pg_dump and pg_restore, the programs that come with the embedded PostgreSQL.
"""

import asyncio
import contextlib
import re
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, TypeVar

import asyncpg

from tonne import __version__
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.migration_files import all_migrations
from tonne.platform.db.server.backup_file import (
    CHUNK,
    DUMP,
    FORMAT,
    BackupError,
    BackupFile,
    BackupWriter,
    Manifest,
    Write,
)
from tonne.platform.db.server.embedded import DATABASE, ensure_database, start_lock
from tonne.platform.db.server.postmaster import (
    RESTORING,
    Postmaster,
    embedded_major,
    make_private_folder,
    postgres_binaries,
    postgres_environment,
)
from tonne.platform.process.progress import Advance, progress

# pg_restore loads this many tables at a time.
JOBS = 2
_TABLE = re.compile(r"dumping contents of table|processing data for table")

LIST_TABLES = """
SELECT quote_ident(relname) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY relname
"""


async def list_tables(connection: Connection) -> list[str]:
    """All tables, and the partitions of partitioned ones, quoted."""
    return [row[0] for row in await connection.fetch(LIST_TABLES)]


async def count_rows(connection: Connection) -> dict[str, int]:
    tables = await list_tables(connection)
    counts = {}
    with progress("Counting rows", len(tables)) as advance:
        for table in tables:
            counts[table] = await connection.fetchval(f"SELECT count(*) FROM public.{table}")  # noqa: S608 - quoted
            advance(1)
    return counts


def dump(url: str, snapshot: str, write: Write, tables: int) -> None:
    """Write a dump of what the exported snapshot sees. Raises BackupError."""
    arguments = ("--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}", f"--dbname={url}")
    with progress("Dumping tables", tables) as advance, _running("pg_dump", *arguments, advance=advance) as output:
        while data := output.read(CHUNK):
            write(data)


def load(url: str, file: Path, tables: int) -> None:
    """Load a dump into an empty database, all of it or with an error. Raises BackupError."""
    arguments = ("--no-owner", "--no-privileges", "--exit-on-error", f"--jobs={JOBS}", f"--dbname={url}", str(file))
    with progress("Loading tables", tables) as advance, _running("pg_restore", *arguments, advance=advance):
        pass


async def check_counts(connection: Connection, expected: Mapping[str, int]) -> None:
    """Raises BackupError if a table does not have the expected number of rows."""
    found = await count_rows(connection)
    wrong = [name for name in {**expected, **found} if found.get(name) != expected.get(name)]
    if wrong:
        raise BackupError(f"The dump is incomplete: the number of rows of {', '.join(wrong)} is wrong.")


@contextmanager
def _running(program: str, *arguments: str, advance: Advance) -> Iterator[IO[bytes]]:
    """The standard output of a program that reports each table on standard error."""
    command = [str(postgres_binaries() / program), "--verbose", "--no-password", *arguments]
    process = subprocess.Popen(  # noqa: S603 - our own binary
        command,
        env=postgres_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    last: deque[str] = deque(maxlen=5)
    reader = threading.Thread(target=_follow, args=(process.stderr, last, advance), daemon=True)
    reader.start()
    try:
        yield process.stdout
        process.stdout.read()
    except BaseException:
        process.kill()
        raise
    finally:
        process.wait()
        reader.join()
        process.stdout.close()
    if process.returncode != 0:
        errors = [line for line in last if "error" in line.lower()] or list(last)
        raise BackupError(f"{program} failed: {' '.join(errors) or 'no message'}.")


def _follow(errors: IO[bytes], last: deque[str], advance: Advance) -> None:
    for line in errors:
        text = line.decode("utf-8", "replace").strip()
        if _TABLE.search(text):
            advance(1)
        last.append(text)
    errors.close()


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
    remove_server(folder)
    postmaster = Postmaster(folder)
    try:
        postmaster.prepare()
        postmaster.start()
        asyncio.run(ensure_database(postmaster.url(DATABASE)))
        yield postmaster
    finally:
        remove_server(folder)


def stop_for_good(postmaster: Postmaster) -> None:
    """Raises BackupError if the server does not stop: its files must not be moved then."""
    postmaster.stop()
    if postmaster.running() is not None:
        raise BackupError(f"The database in {postmaster.folder} does not stop. Its log is {postmaster.log}.")


def remove_server(folder: Path) -> None:
    """Stop the server in the folder, if one runs, and remove both."""
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
