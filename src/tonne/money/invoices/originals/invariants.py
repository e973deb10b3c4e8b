"""What must hold of the stored originals."""

import asyncpg

from tonne.money.invoices.originals.document_file import DocumentFile, FileDamaged
from tonne.platform.db.database import value_of
from tonne.platform.db.invariant import RowInvariant, RowScan


def _is_damaged(_: asyncpg.Record, file: DocumentFile) -> str | None:
    try:
        file.read()
    except FileDamaged as error:
        return str(error)
    return None


# All files of ten years would be tens of gigabytes.
_SAMPLE = RowScan(
    """
    SELECT '' AS account_id, document_id AS order_id, document_id, issued_on, format, sha256, raw_size, body,
           rendered_at, retain_until
    FROM tax_document_files WHERE rendered_at >= coalesce($1::timestamptz, '-infinity') ORDER BY random() LIMIT 200
    """,
    lambda row: value_of(DocumentFile, row),
)
INVARIANTS = (
    RowInvariant(
        "the files of documents have the bytes that were stored",
        "An original has other bytes than its SHA-256 says: restore it from a backup or from a mail. Each run reads "
        "200 files chosen at random.",
        _SAMPLE,
        _is_damaged,
    ),
)
