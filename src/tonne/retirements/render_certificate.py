"""Renders a certificate and records the PDF's hash."""

import asyncio
import hashlib

from tonne.base.clock import Clock
from tonne.db.pool import Database
from tonne.retirements.certificate_pdf import certificate_pdf
from tonne.retirements.certificate_record import CertificateRecord
from tonne.retirements.certificates import record_document_any_account


async def render_certificate(database: Database, record: CertificateRecord, clock: Clock) -> bytes:
    """The PDF. Its hash is stored before anybody gets the file, so that the file can always be verified."""
    pdf = await asyncio.to_thread(certificate_pdf, record)
    async with database.connection() as connection:
        await record_document_any_account(connection, record.number, hashlib.sha256(pdf).digest(), clock())
    return pdf
