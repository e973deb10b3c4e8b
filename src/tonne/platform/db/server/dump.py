"""Dumps a database with pg_dump and loads it with pg_restore, the programs that come with the embedded PostgreSQL."""

import re
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tonne.platform.db.database import Connection
from tonne.platform.db.server.backup_file import CHUNK, BackupError, Write
from tonne.platform.db.server.postmaster import postgres_binaries, postgres_environment
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
