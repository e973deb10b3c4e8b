"""An archive: the rows of a partition, one JSON object per line, compressed with gzip, and a manifest beside it.

The file appears under its name only after it was read again from the disk and found complete.
"""

import contextlib
import gzip
import hashlib
import os
import secrets
import time
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import asyncpg
import msgspec

from tonne import __version__
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.partitions import ATTEMPTS, DOCUMENTS, EVENTS, MAILS, Partition, PartitionedTable
from tonne.platform.db.session_settings import LONG_STATEMENT_S
from tonne.platform.events.payload import event_payload, head_of
from tonne.platform.process.private_files import create_private_folder, write_private_file

# The version of the format of lines and manifests.
FORMAT = 1
_CHUNK = 1 << 20
_SUFFIX = ".jsonl.gz"
# A file that a process has left unfinished is removed after this time.
_LEFT_AFTER_S = 86_400.0
MANIFEST = ".manifest.json"


class ArchiveError(Exception):
    """The archive cannot be written, or is damaged. The message says what to do."""


class ArchiveManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`sha256` is that of the compressed file, `content_sha256` that of the lines in it."""

    format: int
    table: str
    partition: str
    starts_at: datetime | None
    ends_at: datetime
    row_count: int
    file_name: str
    byte_count: int
    sha256: str
    content_sha256: str
    written_at: datetime
    written_by: str


class _Contents(msgspec.Struct, frozen=True):
    rows: int
    content_sha256: str
    byte_count: int
    sha256: str


class ArchiveWriter:
    """Writes the lines of one partition. Call `verify` and `finish`, or `discard`."""

    def __init__(self, folder: Path, table: PartitionedTable, partition: Partition) -> None:
        self._table, self._partition = table, partition
        self._path = folder / f"{partition.name}{_SUFFIX}"
        # Another process may write the same archive.
        self._unfinished = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}.unfinished")
        self._rows = 0
        self._content = hashlib.sha256()
        try:
            create_private_folder(folder)
            for left in folder.glob(f"{self._path.name}.*.unfinished"):
                # The process that writes it may have finished, and renamed it.
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - left.stat().st_mtime > _LEFT_AFTER_S:
                        left.unlink()
            self._file = os.fdopen(os.open(self._unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        except OSError as error:
            raise _not_written(self._path, error) from error
        # Without time and name: the same rows give the same file.
        self._zip = gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=0)

    def write(self, lines: Sequence[bytes]) -> None:
        """Each without its line break."""
        data = b"".join(line + b"\n" for line in lines)
        self._rows += len(lines)
        self._content.update(data)
        try:
            self._zip.write(data)
        except OSError as error:
            raise _not_written(self._path, error) from error

    def verify(self) -> None:
        """Flush the file to the disk, and read all of it again."""
        try:
            self._zip.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            found = _read(self._unfinished)
            if (found.rows, found.content_sha256) != (self._rows, self._content.hexdigest()):
                raise ArchiveError(f"{self._unfinished} differs from what was written: check the disk.")
        except OSError as error:
            raise _not_written(self._path, error) from error
        self._found = found

    def finish(self, written_at: datetime) -> ArchiveManifest:
        """Give the verified file its name."""
        try:
            manifest = self._manifest(self._found, written_at)
            # The manifest first: a file without one would look complete, and could not be checked.
            path = manifest_of(self._path)
            write_private_file(path, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
            self._unfinished.replace(self._path)
            for synced in (path, self._path.parent):
                _sync(synced)
        except OSError as error:
            raise _not_written(self._path, error) from error
        return manifest

    def discard(self) -> None:
        """After a failure. A finished file stays."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._unfinished.unlink(missing_ok=True)

    def _manifest(self, found: _Contents, written_at: datetime) -> ArchiveManifest:
        return ArchiveManifest(
            format=FORMAT,
            table=self._table.name,
            partition=self._partition.name,
            starts_at=self._partition.start,
            ends_at=self._partition.end,
            row_count=found.rows,
            file_name=self._path.name,
            byte_count=found.byte_count,
            sha256=found.sha256,
            content_sha256=found.content_sha256,
            written_at=written_at,
            written_by=f"tonne {__version__}",
        )


def manifest_of(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(_SUFFIX) + MANIFEST)


def read_manifest(path: Path) -> ArchiveManifest:
    """The manifest of an archive. Raises ArchiveError."""
    file = manifest_of(path)
    try:
        return msgspec.json.decode(file.read_bytes(), type=ArchiveManifest)
    except FileNotFoundError as error:
        raise ArchiveError(f"{file} is missing: restore it from a backup of the archive folder.") from error
    except (OSError, msgspec.DecodeError) as error:
        raise ArchiveError(f"{file} cannot be read ({error}): restore it from a backup.") from error


def check_size(path: Path, manifest: ArchiveManifest) -> None:
    """Raises ArchiveError if the file is missing or has another length. Its contents are not read."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ArchiveError(f"{path} is missing: restore it from a backup of the archive folder.") from error
    if size != manifest.byte_count:
        raise ArchiveError(f"{path} has {size} bytes instead of {manifest.byte_count}: restore it from a backup.")


def check_contents(path: Path, manifest: ArchiveManifest) -> None:
    """Raises ArchiveError if the file is not as its manifest says. Reads all of it."""
    check_size(path, manifest)
    expected = _Contents(manifest.row_count, manifest.content_sha256, manifest.byte_count, manifest.sha256)
    try:
        found = _read(path)
    except OSError as error:
        raise ArchiveError(f"{path} is damaged ({error}): restore it from a backup.") from error
    if found != expected:
        raise ArchiveError(f"{path} differs from its manifest: restore it from a backup.")


class _Hashed:
    """A file whose bytes are hashed as they are read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.hash.update(data)
        self.size += len(data)
        return data


def _read(path: Path) -> _Contents:
    """Raises OSError if the file is damaged."""
    content, rows = hashlib.sha256(), 0
    with path.open("rb") as file:
        hashed = _Hashed(file)
        unzip = zlib.decompressobj(wbits=31)
        while data := hashed.read(_CHUNK):
            try:
                plain = unzip.decompress(data)
            except zlib.error as error:
                raise OSError(str(error)) from error
            content.update(plain)
            rows += plain.count(b"\n")
        if not unzip.eof or unzip.unused_data:
            raise OSError("the compressed data does not end where the file ends")
    return _Contents(rows, content.hexdigest(), hashed.size, hashed.hash.hexdigest())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _not_written(path: Path, error: OSError) -> ArchiveError:
    return ArchiveError(
        f"{path} cannot be written ({error.strerror or error}): check the folder in TONNE_ARCHIVE_DIR, its permissions "
        "and the free space. No row was removed."
    )


# Rows per round trip.
BATCH = 500
_Rows = AsyncIterable[asyncpg.Record]

ARCHIVE_EVENTS = f"""
SELECT organisation_id, mode, position, subject_id, {head_of("events")} AS head, document FROM events
WHERE sequence >= $1 AND sequence < $2 ORDER BY organisation_id, mode, position
"""  # noqa: S608 - our own words


def read_events_any_account(tx: Connection, start: datetime, end: datetime) -> _Rows:
    return tx.cursor(ARCHIVE_EVENTS, start, end, prefetch=BATCH, timeout=LONG_STATEMENT_S)


ARCHIVE_ATTEMPTS = """
SELECT organisation_id, webhook_id, id, at, positions, status, error, acknowledged, duration_ms, answer
FROM webhook_attempts WHERE at >= $1 AND at < $2 ORDER BY organisation_id, webhook_id, at, id
"""


def read_attempts_any_account(tx: Connection, start: datetime, end: datetime) -> _Rows:
    return tx.cursor(ARCHIVE_ATTEMPTS, start, end, prefetch=BATCH, timeout=LONG_STATEMENT_S)


ARCHIVE_MAILS = """
SELECT id, organisation_id, subject_id, recipients, created_at, attempts, sent_at, held_reason, discarded_at,
       last_error, message
FROM mails WHERE created_at >= $1 AND created_at < $2 ORDER BY id
"""


def read_mails_any_account(tx: Connection, start: datetime, end: datetime) -> _Rows:
    return tx.cursor(ARCHIVE_MAILS, start, end, prefetch=BATCH, timeout=LONG_STATEMENT_S)


ARCHIVE_DOCUMENTS = """
SELECT document_id, format, issued_on, sha256, raw_size, body, rendered_at, retain_until
FROM tax_document_files WHERE issued_on >= $1 AND issued_on < $2 ORDER BY document_id, format
"""


def read_documents_any_account(tx: Connection, start: datetime, end: datetime) -> _Rows:
    return tx.cursor(ARCHIVE_DOCUMENTS, start, end, prefetch=BATCH, timeout=LONG_STATEMENT_S)


async def read_lines(
    tx: Connection, table: PartitionedTable, start: datetime, end: datetime
) -> AsyncIterator[list[bytes]]:
    """In batches, in the order of the primary key."""
    rows, line = _TABLES[table.name]
    lines = []
    # Iterating closes the cursor at its end: an open one would prevent that the partition is dropped.
    async for row in rows(tx, start, end):
        lines.append(line(row))
        if len(lines) == BATCH:
            yield lines
            lines = []
    yield lines


def _event_line(row: asyncpg.Record) -> bytes:
    """`event` is the JSON that was delivered, byte for byte."""
    values: dict[str, Any] = dict(row)
    values["event"] = msgspec.Raw(event_payload(values.pop("head"), values.pop("document")))
    return msgspec.json.encode(values)


def _line(row: asyncpg.Record) -> bytes:
    """Binary columns are in base64."""
    return msgspec.json.encode(dict(row))


_TABLES: Mapping[str, tuple[Callable[[Connection, datetime, datetime], _Rows], Callable[[asyncpg.Record], bytes]]] = {
    EVENTS.name: (read_events_any_account, _event_line),
    ATTEMPTS.name: (read_attempts_any_account, _line),
    MAILS.name: (read_mails_any_account, _line),
    DOCUMENTS.name: (read_documents_any_account, _line),
}
