"""The documents of all organisations: a list with a search, and their files."""

from tonne.apps.dashboard.document_files import FILE, LIST, file_response, read_query, rows_of
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import OperatorViewer
from tonne.money.accounting.reports.document_list import list_documents_any_account
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.tax_documents import find_document_any_account
from tonne.platform.http.route import Response
from tonne.selling.accounts.directory import find_names_any_account


class AllDocumentsPage(DashboardPage, frozen=True):
    originals: Originals

    def section(self) -> OperatorSection:
        return OperatorSection(pages={LIST: self.list_documents, FILE: self.file})

    async def list_documents(self, viewer: OperatorViewer) -> Response:
        search, text = read_query(viewer.request)
        async with self.database.connection() as connection:
            found = await list_documents_any_account(connection, viewer.mode, search)
            names = await find_names_any_account(connection, [each.organisation_id for each in found.documents])
        documents = rows_of(found, text, self.today())
        return self.layout.page(viewer, "operator_documents.html", documents=documents, names=names)

    async def file(self, viewer: OperatorViewer) -> Response:
        found = await self.find(find_document_any_account, viewer.request.path("number"), viewer.mode)
        return await file_response(self.originals, found, viewer.request.path("format"))
