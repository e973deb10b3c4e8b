"""The one original of each invoice and credit note: rendered and signed once, then stored, and read by everybody."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, date, datetime, time

from msgspec import Struct

from tonne.money.invoices import store as invoice_store
from tonne.money.invoices.documents.einvoice_fields import ubl_format
from tonne.money.invoices.documents.electronic_credit_note import electronic_record
from tonne.money.invoices.documents.factur_x import factur_x_xml
from tonne.money.invoices.documents.pdf import credit_note_pdf, invoice_pdf, load_annex
from tonne.money.invoices.documents.record import DocumentRecord, InvoiceRecord
from tonne.money.invoices.documents.ubl import ubl_xml
from tonne.money.invoices.einvoices.delivery_store import Delivery, insert_delivery
from tonne.money.invoices.originals import file_store
from tonne.money.invoices.originals.document_file import (
    MEDIA_TYPES,
    DocumentFile,
    FileFormat,
    FileKey,
    document_file,
)
from tonne.money.invoices.tax_documents import TaxDocument
from tonne.platform.db.connections import Connections
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.stored_files import StoredFile
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.keys.signing.keys import SignDocuments
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode


class Originals(Struct, frozen=True):
    database: Connections
    signing: SignDocuments
    settings: Settings
    clock: Clock

    async def pdf(self, document: TaxDocument) -> DocumentFile:
        """The PDF. If it is not stored yet, it is rendered, signed and stored. Raises SigningUnavailable."""
        document = document.in_force
        found = await self._find(document, FileFormat.PDF)
        if found is None:
            await self.render(document)
            found = await self._find(document, FileFormat.PDF)
        if found is None:
            raise LookupError(f"document {document.id} has no file")
        return found

    async def file(self, document: TaxDocument, wanted: FileFormat) -> DocumentFile | None:
        """The PDF, the CII in it, or the UBL beside it; None if it has none. Raises SigningUnavailable."""
        pdf = await self.pdf(document)
        return pdf if wanted is FileFormat.PDF else await self._find(document.in_force, wanted)

    async def attachments(self, document: TaxDocument) -> list[StoredFile]:
        """What a mail refers to: the PDF, and the UBL unless a network delivers it. Raises SigningUnavailable."""
        document = document.in_force
        files: list[DocumentFile | None] = [await self.pdf(document)]
        if not self._is_delivered(document):
            files.append(await self._find(document, FileFormat.UBL))
        return [
            StoredFile(
                file_name(document, file.format),
                str(file.key),
                file.raw_size,
                file.sha256.hex(),
                MEDIA_TYPES[file.format],
            )
            for file in files
            if file is not None
        ]

    async def read(self, key: str) -> bytes:
        """A file that a mail refers to."""
        async with self.database.connection() as connection:
            found = await file_store.find_file_any_account(connection, FileKey.parse(key))
        if found is None:
            raise LookupError(f"no file {key}")
        return found.read()

    async def render(self, document: TaxDocument) -> None:
        """Render, sign and store all files of a document. If another process was faster, its files stay.

        Do not hold a lock meanwhile. Raises SigningUnavailable.
        """
        async with self.database.connection() as connection:
            annex = await load_annex(connection, document)
        record = document.read_content()
        if isinstance(record, InvoiceRecord):
            pdf = await in_turn(invoice_pdf, record, annex=annex)
        else:
            pdf = await in_turn(credit_note_pdf, record)
        contents = {FileFormat.PDF: await self.signing.sign(pdf, _midnight(document.issued_on))}
        if (electronic := electronic_record(record)) is not None:
            contents[FileFormat.CII] = factur_x_xml(electronic)
            if (chosen := ubl_format(electronic)) is not None:
                contents[FileFormat.UBL] = ubl_xml(electronic, chosen)
        files = await asyncio.to_thread(self._files, document, contents)
        async with self.database.transaction() as tx:
            await file_store.insert_files(tx, files)
            await file_store.forget_rendering_any_account(tx, document.id)
            if FileFormat.UBL in contents and self._is_delivered(document):
                await self._plan_delivery(tx, document, record)
            await invoice_store.wake_unmailed_any_account(tx, document.id, self.clock())

    def _is_delivered(self, document: TaxDocument) -> bool:
        """By a network: nobody may get test documents as if they were invoices."""
        return self.settings.einvoice_network != "mail" and document.mode is Mode.LIVE

    async def _plan_delivery(self, tx: Connection, document: TaxDocument, record: DocumentRecord) -> None:
        delivery = Delivery(
            document_id=document.id,
            organisation_id=document.organisation_id,
            mode=document.mode,
            number=document.reference,
            format=str(record.einvoice),
            receiver=str(record.buyer.endpoint),
            created_at=self.clock(),
        )
        await insert_delivery(tx, delivery)

    def _files(self, document: TaxDocument, contents: Mapping[FileFormat, bytes]) -> list[DocumentFile]:
        now, years = self.clock(), self.settings.document_retention_years
        return [
            document_file(
                FileKey(document.id, document.issued_on, each), content, rendered_at=now, retention_years=years
            )
            for each, content in contents.items()
        ]

    async def _find(self, document: TaxDocument, file_format: FileFormat) -> DocumentFile | None:
        key = FileKey(document.id, document.issued_on, file_format)
        async with self.database.connection() as connection:
            return await file_store.find_file_any_account(connection, key)


def file_name(document: TaxDocument, file_format: FileFormat) -> str:
    return (
        document.in_force.reference
        + {FileFormat.PDF: ".pdf", FileFormat.CII: ".xml", FileFormat.UBL: "-ubl.xml"}[file_format]
    )


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
