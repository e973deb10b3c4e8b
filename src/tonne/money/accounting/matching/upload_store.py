"""SQL of `statement_uploads`: bank statements that an operator has uploaded and not imported yet."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from hashlib import sha256

import msgspec
from msgspec import Struct

from tonne.money.accounting.matching.import_statement import StatementOptions
from tonne.money.bank.formats.csv_statement import Spelling
from tonne.money.invoices.errors import StatementUploadNotFound
from tonne.platform.db.database import Connection, value_of, value_or_none
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Mode, new_id

# A body is in memory while it arrives. Larger files are imported with the command line.
MAX_UPLOAD_BYTES = 20 * 1024 * 1024
# A statement has names of payers: it is not kept if nobody imports it.
KEPT_FOR = timedelta(days=7)


class UploadStatus(StrEnum):
    READING = "reading"
    READ = "read"
    REFUSED = "refused"
    IMPORTING = "importing"


class PreviewLine(Struct, frozen=True):
    line: int
    payer: str
    text: str
    booked_on: date
    amount_minor: int
    currency: str
    outcome: str
    reference: str | None


class Preview(Struct, frozen=True):
    """What importing a file would do, or its first errors."""

    lines: Sequence[PreviewLine] = ()
    # For each outcome: the number of lines, and their sums by currency.
    outcomes: dict[str, tuple[int, dict[str, int]]] = {}
    errors: Sequence[str] = ()
    error_count: int = 0


class StatementUpload(Struct, frozen=True, kw_only=True):
    """`done` of `total` of the current `step` are done."""

    id: str
    mode: Mode
    file_name: str
    byte_count: int
    uploaded_at: datetime
    uploaded_by: str
    status: UploadStatus
    step: str
    done: int
    total: int
    preview: bytes | None
    imported_by: str | None
    imported_from: str | None

    @property
    def is_in_work(self) -> bool:
        return self.status in {UploadStatus.READING, UploadStatus.IMPORTING}

    @property
    def seen(self) -> Preview:
        return Preview() if self.preview is None else msgspec.json.decode(self.preview, type=Preview)


_COLUMNS = """
id, mode, file_name, length(content) AS byte_count, uploaded_at, uploaded_by, status, step, done, total, preview,
imported_by, imported_from
"""
INSERT_UPLOAD = """
WITH expired AS (DELETE FROM statement_uploads WHERE uploaded_at < $9)
INSERT INTO statement_uploads (id, mode, file_name, content, date_order, decimal_mark, own_iban, uploaded_at,
                               uploaded_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $10)
"""


async def upload_statement(tx: Connection, mode: Mode, file: SheetFile, options: StatementOptions, *, by: By) -> str:
    """Store a file as it was received; returns the id. The worker reads it."""
    upload_id, spelling = new_id("stm"), options.spelling
    statement = (file.name, file.content, spelling.dates, spelling.decimals, options.iban)
    await tx.execute(INSERT_UPLOAD, upload_id, mode, *statement, by.at, by.at - KEPT_FOR, str(by.actor))
    digest = sha256(file.content).hexdigest()
    await audit.record(tx, None, "bank_statement.uploaded", by=by, subject_id=digest, mode=mode, file=file.name)
    return upload_id


LIST_UPLOADS = f"""
SELECT {_COLUMNS} FROM statement_uploads WHERE mode = $1 ORDER BY uploaded_at DESC, id LIMIT 50
"""  # noqa: S608 - columns above


async def list_uploads(connection: Connection, mode: Mode) -> Sequence[StatementUpload]:
    """Those that wait to be imported, newest first."""
    return [value_of(StatementUpload, row) for row in await connection.fetch(LIST_UPLOADS, mode)]


FIND_UPLOAD = f"SELECT {_COLUMNS} FROM statement_uploads WHERE id = $1 AND mode = $2"  # noqa: S608 - columns above


async def find_upload(connection: Connection, mode: Mode, upload_id: str) -> StatementUpload:
    """Raises StatementUploadNotFound."""
    row = await connection.fetchrow(FIND_UPLOAD, upload_id, mode)
    if row is None:
        raise StatementUploadNotFound
    return value_of(StatementUpload, row)


READ_FILE = """
SELECT file_name, content, date_order AS dates, decimal_mark AS decimals, own_iban FROM statement_uploads WHERE id = $1
"""


async def read_upload(connection: Connection, upload_id: str) -> tuple[SheetFile, StatementOptions]:
    """Raises StatementUploadNotFound."""
    row = await connection.fetchrow(READ_FILE, upload_id)
    if row is None:
        raise StatementUploadNotFound
    file = SheetFile(row["file_name"], row["content"])
    return file, StatementOptions(value_of(Spelling, row), row["own_iban"])


ASK_FOR_IMPORT = """
UPDATE statement_uploads
SET status = 'importing', imported_by = $3, imported_from = $4, next_attempt_at = now(), failures = 0, step = '',
    done = 0, total = 0
WHERE id = $1 AND mode = $2 AND status = 'read' RETURNING true
"""


async def ask_for_import(tx: Connection, mode: Mode, upload_id: str, *, by: By) -> bool:
    """The worker imports it, in the name of who asks. False if it cannot be imported, or is being imported already."""
    asked = await tx.fetchval(ASK_FOR_IMPORT, upload_id, mode, str(by.actor), by.actor.address)
    return asked is True


DELETE_UPLOAD = "DELETE FROM statement_uploads WHERE id = $1 RETURNING true"


async def delete_upload(tx: Connection, upload_id: str) -> None:
    """Raises StatementUploadNotFound."""
    if await tx.fetchval(DELETE_UPLOAD, upload_id) is not True:
        raise StatementUploadNotFound


async def discard_upload(tx: Connection, mode: Mode, upload_id: str, *, by: By) -> None:
    await find_upload(tx, mode, upload_id)
    file, _ = await read_upload(tx, upload_id)
    await delete_upload(tx, upload_id)
    digest = sha256(file.content).hexdigest()
    await audit.record(tx, None, "bank_statement.discarded", by=by, subject_id=digest, mode=mode, file=file.name)


CLAIM_UPLOAD = f"""
UPDATE statement_uploads SET next_attempt_at = now() + $1
WHERE id = (
    SELECT id FROM statement_uploads WHERE next_attempt_at <= now()
    ORDER BY next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING {_COLUMNS}
"""  # noqa: S608 - columns above


async def claim_upload(connection: Connection, lease: timedelta) -> StatementUpload | None:
    return value_or_none(StatementUpload, await connection.fetchrow(CLAIM_UPLOAD, lease))


# Does not wait for the transaction that imports the upload and deletes it.
NOTE_PROGRESS = """
UPDATE statement_uploads SET step = $2, done = $3, total = $4, next_attempt_at = now() + $5
WHERE id = (SELECT id FROM statement_uploads WHERE id = $1 AND next_attempt_at IS NOT NULL FOR UPDATE SKIP LOCKED)
"""


async def note_progress(
    connection: Connection, upload_id: str, progress: tuple[str, int, int], lease: timedelta
) -> None:
    """Extends the lease."""
    await connection.execute(NOTE_PROGRESS, upload_id, *progress, lease)


FINISH_UPLOAD = """
UPDATE statement_uploads SET status = $2, preview = $3, next_attempt_at = NULL WHERE id = $1
"""


async def finish_upload(connection: Connection, upload_id: str, status: UploadStatus, preview: Preview) -> None:
    await connection.execute(FINISH_UPLOAD, upload_id, status, msgspec.json.encode(preview))


NOTE_FAILURE = """
UPDATE statement_uploads
SET failures = failures + 1, status = CASE WHEN failures + 1 >= $2 THEN 'refused' ELSE status END,
    next_attempt_at = CASE WHEN failures + 1 >= $2 THEN NULL ELSE now() + $3 END,
    preview = CASE WHEN failures + 1 >= $2 THEN $4 ELSE preview END
WHERE id = $1 AND next_attempt_at IS NOT NULL
"""


async def note_failure(connection: Connection, upload_id: str, most: int, pause: timedelta, preview: Preview) -> None:
    """After too many failures, `preview` says that a person must look."""
    await connection.execute(NOTE_FAILURE, upload_id, most, pause, msgspec.json.encode(preview))
