"""The PDFs with time stamps: each is made once and stored, and only `tonne signing renew` appends to it."""

import hashlib
from datetime import datetime
from typing import NamedTuple

from tonne.platform.db.database import Connection, optional
from tonne.supply.certificates.record import CertificateRecord, decode_record
from tonne.supply.certificates.store import record_document_any_account

FIND = "SELECT pdf FROM certificate_documents WHERE number = $1 AND pdf IS NOT NULL"


async def find_pdf_any_account(connection: Connection, number: str) -> bytes | None:
    return optional(bytes, await connection.fetchval(FIND, number))


async def store_pdf_any_account(tx: Connection, record: CertificateRecord, pdf: bytes, now: datetime) -> bytes:
    """The stored PDF: this one, unless another process was faster."""
    if await _lock_record_any_account(tx, record.number) == record:
        await _insert_any_account(tx, record.number, pdf, now)
        return await find_pdf_any_account(tx, record.number) or pdf
    await record_document_any_account(tx, record.number, hashlib.sha256(pdf).digest(), now)
    return pdf


LOCK_RECORD = "SELECT record FROM certificates WHERE number = $1 FOR SHARE"


async def _lock_record_any_account(tx: Connection, number: str) -> CertificateRecord:
    """Until the commit, nobody erases a name: an erased person is not stored again."""
    return decode_record(await tx.fetchval(LOCK_RECORD, number))


INSERT = """
INSERT INTO certificate_documents (number, sha256, rendered_at, pdf) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING
"""


async def _insert_any_account(tx: Connection, number: str, pdf: bytes, now: datetime) -> None:
    await tx.execute(INSERT, number, hashlib.sha256(pdf).digest(), now, pdf)


# The hash stays: a copy of the file still verifies.
FORGET = "UPDATE certificate_documents SET pdf = NULL WHERE number = $1 AND pdf IS NOT NULL"


async def forget_pdf_any_account(tx: Connection, number: str) -> None:
    """It is made again when it is asked for. The certificate is locked."""
    await tx.execute(FORGET, number)


FORGET_SIGNED_SINCE = """
UPDATE certificate_documents d SET pdf = NULL FROM certificates c
WHERE d.pdf IS NOT NULL AND c.number = d.number AND c.issued_at >= $1
"""


async def forget_pdfs_signed_since_any_account(tx: Connection, since: datetime) -> None:
    """Their signatures no longer count."""
    await tx.execute(FORGET_SIGNED_SINCE, since)


class StoredPdf(NamedTuple):
    """`rendered_at`: when it was made or renewed last."""

    rendered_at: datetime
    number: str
    pdf: bytes


LIST_TO_RENEW = """
SELECT rendered_at, number, pdf FROM certificate_documents
WHERE pdf IS NOT NULL AND rendered_at < $1 AND (rendered_at, number) > ($2, $3)
ORDER BY rendered_at, number LIMIT $4
"""


async def list_to_renew_any_account(
    connection: Connection, before: datetime, after: tuple[datetime, str], limit: int
) -> list[StoredPdf]:
    return [StoredPdf(**row) for row in await connection.fetch(LIST_TO_RENEW, before, *after, limit)]


async def replace_pdf_any_account(tx: Connection, old: StoredPdf, new: bytes, now: datetime) -> None:
    """Store a renewed PDF and its hash, unless the old one is no longer the stored one."""
    await _lock_record_any_account(tx, old.number)
    if await find_pdf_any_account(tx, old.number) == old.pdf:
        await forget_pdf_any_account(tx, old.number)
        await _insert_any_account(tx, old.number, new, now)
