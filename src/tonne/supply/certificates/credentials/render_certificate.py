"""Renders a certificate and records the PDF's hash."""

import asyncio
import hashlib
from datetime import datetime

from tonne.platform.db.database import Database
from tonne.platform.http.route import Response
from tonne.platform.keys.signing.sign_documents import SignDocuments
from tonne.platform.values.context import Clock
from tonne.supply.certificates.credentials.issue_credential import IssueCredential
from tonne.supply.certificates.logo_store import find_certificate_logo
from tonne.supply.certificates.pdf import certificate_pdf
from tonne.supply.certificates.record import CertificateRecord
from tonne.supply.certificates.store import record_document_any_account

PDF = b"application/pdf"


class RenderCertificate:
    """Every certificate that leaves the service as a PDF is rendered here."""

    def __init__(self, database: Database, credentials: IssueCredential, signing: SignDocuments, clock: Clock) -> None:
        self._database = database
        self._credentials = credentials
        self._signing = signing
        self._clock = clock

    async def render(self, record: CertificateRecord) -> bytes:
        """The signed PDF, with its credential and proof attached. Raises SigningUnavailable.

        Its hash is stored before anybody gets the file, so that the file can always be verified.
        """
        logo = None
        if record.logo is not None and record.name_erased_on is None:
            logo = await self._database.run(find_certificate_logo, record.logo)
        attached = await self._credentials.attachments(record)
        drawn = await asyncio.to_thread(certificate_pdf, record, logo, attached)
        pdf = await self._signing.sign(drawn, datetime.fromisoformat(record.issued_at))
        await self._database.run(
            record_document_any_account, record.number, hashlib.sha256(pdf).digest(), self._clock()
        )
        return pdf

    async def answer(self, record: CertificateRecord) -> Response:
        name = f'inline; filename="certificate-{record.number}.pdf"'
        return Response(await self.render(record), media_type=PDF, headers={"content-disposition": name})
