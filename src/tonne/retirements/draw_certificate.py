"""A certificate on its way out, whoever it goes to."""

import asyncio
import hashlib

from tonne.base.clock import Clock
from tonne.db.pool import Database
from tonne.retirements.certificate_pdf import certificate_pdf
from tonne.retirements.certificate_record import CertificateRecord
from tonne.retirements.certificates import note_document


async def draw_certificate(database: Database, record: CertificateRecord, clock: Clock) -> bytes:
    """The PDF, drawn from the frozen record; its hash is kept before it goes out, so that it can be verified."""
    pdf = await asyncio.to_thread(certificate_pdf, record)
    async with database.connection() as connection:
        await note_document(connection, record.number, hashlib.sha256(pdf).digest(), clock())
    return pdf
