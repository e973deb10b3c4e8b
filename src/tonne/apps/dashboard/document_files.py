"""The original of an invoice or credit note, for the pages of organisations and of the operator."""

from tonne.apps.dashboard.page import DashboardPage, OperatorSection, OrganisationSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, MemberViewer, OperatorViewer, existing
from tonne.money.invoices.originals.document_file import MEDIA_TYPES, FileFormat
from tonne.money.invoices.originals.originals import Originals, file_name
from tonne.money.invoices.tax_documents import TaxDocument, find_document, find_document_any_account
from tonne.platform.http.route import Response
from tonne.selling.users.model import Right

FILE = "/documents/{number}/{format}"


class DocumentFiles(DashboardPage, frozen=True):
    originals: Originals

    def organisation_section(self) -> OrganisationSection:
        return OrganisationSection(pages={FILE: (self.of_organisation, Right.VIEW)})

    def operator_section(self) -> OperatorSection:
        return OperatorSection(pages={FILE: self.of_any})

    async def of_organisation(self, viewer: MemberViewer) -> Response:
        number = viewer.request.path("number")
        return await self._file(viewer, await self.find(find_document, viewer.tenant, number))

    async def of_any(self, viewer: OperatorViewer) -> Response:
        number = viewer.request.path("number")
        return await self._file(viewer, await self.find(find_document_any_account, number, viewer.mode))

    async def _file(self, viewer: MemberViewer | OperatorViewer, document: TaxDocument) -> Response:
        format_ = viewer.request.path("format")
        if format_ not in set(FileFormat):
            raise DashboardPageNotFound
        wanted = FileFormat(format_)
        file = existing(await self.originals.file(document, wanted))
        name = file_name(document, wanted)
        headers = {"Content-Disposition": f'inline; filename="{name}"', "Cache-Control": "private, no-store"}
        return Response(file.read(), 200, MEDIA_TYPES[wanted].encode(), headers)


def pdf_response(pdf: bytes, name: str) -> Response:
    headers = {"Content-Disposition": f'inline; filename="{name}.pdf"', "Cache-Control": "private, no-store"}
    return Response(pdf, 200, b"application/pdf", headers)
