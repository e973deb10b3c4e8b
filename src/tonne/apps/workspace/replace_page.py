"""An organisation replaces an invoice that states a wrong reference or address."""

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.replace_form import facts_of, proposed, read_stated
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, MemberViewer
from tonne.money.accounting.reports.organisation_documents import find_invoice_of
from tonne.money.invoices.credit_notes.replace_invoice import InvoiceReplacement, read_replacement, replace_invoice
from tonne.money.invoices.model import Invoice
from tonne.platform.http.route import Response
from tonne.platform.web.render import see_other
from tonne.selling.users.model import Right

PATH = "/invoices/{number}/replace"


class ReplaceInvoicePage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        return OrganisationSection(pages={PATH: (self.show, Right.MONEY)}, forms={PATH: (self.replace, Right.MONEY)})

    async def show(self, viewer: MemberViewer) -> Response:
        invoice, found = await self._find(viewer)
        return self._page(viewer, proposed(found), invoice, found)

    async def replace(self, viewer: MemberViewer, form: Form) -> Response:
        invoice, found = await self._find(viewer)
        stated = read_stated(form, found, with_name=False)
        async with self.saving(form) as tx:
            await replace_invoice(tx, invoice, stated, settings=self.settings, by=viewer.actor.at(self.clock()))
        if form.faults:
            return self._page(viewer, form, invoice, found)
        self.notifier.notify()
        return see_other(f"{viewer.base}/invoices/{invoice.reference}?done=invoice_replaced")

    async def _find(self, viewer: MemberViewer) -> tuple[Invoice, InvoiceReplacement]:
        """Not of a customer who paid at checkout: that is another buyer."""
        invoice = await self.find(find_invoice_of, viewer.tenant, viewer.request.path("number"))
        found = await self.database.run(read_replacement, invoice, self.settings)
        if found.organisation is None:
            raise DashboardPageNotFound
        return invoice, found

    def _page(self, viewer: MemberViewer, form: Form, invoice: Invoice, found: InvoiceReplacement) -> Response:
        return self.layout.page(viewer, "replace.html", form, entered=form, invoice=invoice, **facts_of(found))
