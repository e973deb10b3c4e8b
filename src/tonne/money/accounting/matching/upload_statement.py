"""Bank statements that an operator uploads: stored, previewed, and then imported or discarded."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256

import asyncpg
from msgspec import Struct

from tonne.money.accounting.matching.import_statement import BookedLine, StatementOptions, import_statement
from tonne.money.bank.formats.csv_statement import Spelling
from tonne.money.invoices.errors import StatementUploadNotFound
from tonne.platform.db.database import Connection, value_of
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, Mode, new_id

# Larger files are imported with the command line.
MAX_UPLOAD_BYTES = 4 * 1024 * 1024
# A statement has names of payers: it is not kept if nobody imports it.
KEPT_FOR = timedelta(days=7)


class StatementUpload(Struct, frozen=True):
    id: str
    mode: Mode
    file: SheetFile
    options: StatementOptions
    uploaded_at: datetime
    uploaded_by: str


class WaitingUpload(Struct, frozen=True):
    id: str
    file_name: str
    byte_count: int
    uploaded_at: datetime
    uploaded_by: str


INSERT_UPLOAD = """
WITH expired AS (DELETE FROM statement_uploads WHERE uploaded_at < $9)
INSERT INTO statement_uploads (id, mode, file_name, content, date_order, decimal_mark, own_iban, uploaded_at,
                               uploaded_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $10)
"""


async def upload_statement(
    tx: Connection, mode: Mode, file: SheetFile, options: StatementOptions, *, actor: Actor, now: datetime
) -> str:
    """Store a file for the preview; returns the id. Nothing is booked."""
    upload_id, spelling = new_id("stm"), options.spelling
    statement = (file.name, file.content, spelling.dates, spelling.decimals, options.iban)
    await tx.execute(INSERT_UPLOAD, upload_id, mode, *statement, now, now - KEPT_FOR, str(actor))
    await _record(tx, "bank_statement.uploaded", mode, file, actor=actor, now=now)
    return upload_id


LIST_UPLOADS = """
SELECT id, file_name, length(content) AS byte_count, uploaded_at, uploaded_by FROM statement_uploads
WHERE mode = $1 ORDER BY uploaded_at DESC, id LIMIT 50
"""


async def list_uploads(connection: Connection, mode: Mode) -> Sequence[WaitingUpload]:
    """Those that wait to be imported, newest first."""
    return [WaitingUpload(**row) for row in await connection.fetch(LIST_UPLOADS, mode)]


FIND_UPLOAD = """
SELECT id, mode, file_name, content, date_order AS dates, decimal_mark AS decimals, own_iban, uploaded_at, uploaded_by
FROM statement_uploads WHERE id = $1 AND mode = $2
"""


async def find_upload(connection: Connection, mode: Mode, upload_id: str) -> StatementUpload:
    """Raises StatementUploadNotFound."""
    row = await connection.fetchrow(FIND_UPLOAD, upload_id, mode)
    if row is None:
        raise StatementUploadNotFound
    return _upload(row)


def _upload(row: asyncpg.Record) -> StatementUpload:
    options = StatementOptions(value_of(Spelling, row), row["own_iban"])
    return value_of(StatementUpload, row, file=SheetFile(row["file_name"], row["content"]), options=options)


async def import_upload(
    tx: Connection, mode: Mode, upload_id: str, *, settings: Settings, actor: Actor, now: datetime
) -> list[BookedLine]:
    """Import the statement and delete the upload. Rolled back, it is a preview. Raises SheetInvalid."""
    upload = await find_upload(tx, mode, upload_id)
    # Before the import: a second import of the same upload waits here and then does not find it.
    await _delete(tx, upload)
    return await import_statement(
        tx, mode, upload.file, settings=settings, actor=actor, now=now, options=upload.options
    )


async def discard_upload(tx: Connection, mode: Mode, upload_id: str, *, actor: Actor, now: datetime) -> None:
    upload = await find_upload(tx, mode, upload_id)
    await _delete(tx, upload)
    await _record(tx, "bank_statement.discarded", mode, upload.file, actor=actor, now=now)


DELETE_UPLOAD = "DELETE FROM statement_uploads WHERE id = $1 RETURNING true"


async def _delete(tx: Connection, upload: StatementUpload) -> None:
    if await tx.fetchval(DELETE_UPLOAD, upload.id) is not True:
        raise StatementUploadNotFound


async def _record(tx: Connection, action: str, mode: Mode, file: SheetFile, *, actor: Actor, now: datetime) -> None:
    digest = sha256(file.content).hexdigest()
    await audit.record(tx, None, action, actor=actor, at=now, subject_id=digest, mode=mode, file=file.name)
