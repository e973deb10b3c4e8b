"""The documents of an organisation."""

from tonne.apps.dashboard.document_files import FILE, file_response
from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import MemberViewer
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.tax_documents import find_document
from tonne.platform.http.route import Response
from tonne.selling.users.model import Right


class DocumentsPage(DashboardPage, frozen=True):
    originals: Originals

    def section(self) -> OrganisationSection:
        return OrganisationSection(pages={FILE: (self.file, Right.VIEW)})

    async def file(self, viewer: MemberViewer) -> Response:
        found = await self.find(find_document, viewer.tenant, viewer.request.path("number"))
        return await file_response(self.originals, found, viewer.request.path("format"))
