"""SQL of the files of documents, and of the documents that have none yet."""

from collections.abc import Sequence
from datetime import date, datetime

from tonne.money.invoices.originals.document_file import DocumentFile, FileKey
from tonne.platform.db.database import Connection, columns, optional, value_of

_COLUMNS = "document_id, issued_on, format, sha256, raw_size, body, rendered_at, retain_until"
FIND_FILE = f"""
SELECT {_COLUMNS} FROM tax_document_files WHERE document_id = $1 AND issued_on = $2 AND format = $3
"""  # noqa: S608 - columns above


async def find_file_any_account(connection: Connection, key: FileKey) -> DocumentFile | None:
    """The caller has found the document, or its reference in a mail."""
    row = await connection.fetchrow(FIND_FILE, key.document_id, key.issued_on, key.format)
    return optional(lambda found: value_of(DocumentFile, found), row)


# The first one stays: a document has one original.
INSERT_FILES = f"""
INSERT INTO tax_document_files ({_COLUMNS})
SELECT {_COLUMNS}
FROM unnest($1::text[], $2::date[], $3::text[], $4::bytea[], $5::integer[], $6::bytea[], $7::timestamptz[], $8::date[])
     AS rendered ({_COLUMNS})
ON CONFLICT DO NOTHING
"""  # noqa: S608 - columns above


async def insert_files(tx: Connection, files: Sequence[DocumentFile]) -> None:
    await tx.execute(INSERT_FILES, *columns(files, _COLUMNS))


FIND_LAST_RETENTION = "SELECT max(retain_until) FROM tax_document_files WHERE issued_on >= $1 AND issued_on < $2"


async def find_last_retention_any_account(connection: Connection, start: datetime, end: datetime) -> date | None:
    """Until when files of documents issued in this time are kept."""
    last: date | None = await connection.fetchval(FIND_LAST_RETENTION, start, end)
    return last


QUEUE = """
INSERT INTO unrendered_documents (document_id, mode, created_at, next_attempt_at)
SELECT id, 'live', $2, $2 FROM unnest($1::text[]) AS issued (id)
"""


async def queue_rendering_any_account(tx: Connection, document_ids: Sequence[str], now: datetime) -> None:
    """Live documents, in the transaction that issues them."""
    await tx.execute(QUEUE, document_ids, now)


# A lease: if the worker dies, the documents are due again when it expires.
CLAIM_UNRENDERED = """
UPDATE unrendered_documents SET next_attempt_at = $2
FROM (SELECT document_id FROM unrendered_documents WHERE next_attempt_at <= $1
      ORDER BY next_attempt_at LIMIT $3 FOR UPDATE SKIP LOCKED) due
WHERE unrendered_documents.document_id = due.document_id RETURNING unrendered_documents.document_id
"""


async def claim_unrendered(connection: Connection, now: datetime, until: datetime, limit: int) -> list[str]:
    """The ids of documents without files, in the order in which they were issued."""
    rows = await connection.fetch(CLAIM_UNRENDERED, now, until, limit)
    return sorted(row["document_id"] for row in rows)


FORGET = "DELETE FROM unrendered_documents WHERE document_id = $1"


async def forget_rendering_any_account(tx: Connection, document_id: str) -> None:
    """Its files are stored."""
    await tx.execute(FORGET, document_id)
