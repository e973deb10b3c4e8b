"""What must hold of the stored originals."""

import asyncpg

from tonne.money.invoices.originals.document_file import DocumentFile, FileDamaged
from tonne.money.invoices.originals.file_store import SAMPLE_FILES
from tonne.platform.db.database import value_of
from tonne.platform.db.invariant import RowInvariant, RowScan


def _is_damaged(_: asyncpg.Record, file: DocumentFile) -> str | None:
    try:
        file.read()
    except FileDamaged as error:
        return str(error)
    return None


INVARIANTS = (
    RowInvariant(
        "the files of documents have the bytes that were stored",
        "An original has other bytes than its SHA-256 says: restore it from a backup or from a mail. Each run reads "
        "200 files chosen at random.",
        RowScan(SAMPLE_FILES, lambda row: value_of(DocumentFile, row)),
        _is_damaged,
    ),
)
