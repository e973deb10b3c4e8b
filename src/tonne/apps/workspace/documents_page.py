"""The documents of an organisation: a list with a search, and their files."""

from tonne.apps.dashboard.document_files import FILE, LIST, file_response, read_query, rows_of
from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import MemberViewer
from tonne.money.accounting.reports.document_list import list_documents
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.tax_documents import find_document
from tonne.platform.http.route import Response
from tonne.selling.users.model import Right


class DocumentsPage(DashboardPage, frozen=True):
    originals: Originals

    def section(self) -> OrganisationSection:
        return OrganisationSection(pages={LIST: (self.list_documents, Right.VIEW), FILE: (self.file, Right.VIEW)})

    async def list_documents(self, viewer: MemberViewer) -> Response:
        search, text = read_query(viewer.request)
        found = await self.database.run(list_documents, viewer.tenant, search)
        return self.layout.page(viewer, "documents.html", documents=rows_of(found, text, self.today()))

    async def file(self, viewer: MemberViewer) -> Response:
        found = await self.find(find_document, viewer.tenant, viewer.request.path("number"))
        return await file_response(self.originals, found, viewer.request.path("format"))
