"""The documents of all organisations."""

from tonne.apps.dashboard.document_files import FILE, file_response
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import OperatorViewer
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.tax_documents import find_document_any_account
from tonne.platform.http.route import Response


class AllDocumentsPage(DashboardPage, frozen=True):
    originals: Originals

    def section(self) -> OperatorSection:
        return OperatorSection(pages={FILE: self.file})

    async def file(self, viewer: OperatorViewer) -> Response:
        found = await self.find(find_document_any_account, viewer.request.path("number"), viewer.mode)
        return await file_response(self.originals, found, viewer.request.path("format"))
