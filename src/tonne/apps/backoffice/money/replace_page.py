"""The operator replaces an invoice that states a wrong name, reference or address."""

from tonne.apps.backoffice.money.invoice_page import ONE
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.replace_form import facts_of, proposed, read_stated
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer
from tonne.money.invoices.credit_notes.replace_invoice import InvoiceReplacement, read_replacement, replace_invoice
from tonne.money.invoices.document_numbers import find_by_references_any_account
from tonne.money.invoices.model import Invoice
from tonne.platform.http.route import Response
from tonne.platform.web.render import see_other

PATH = f"{ONE}/replace"


class OperatorReplacePage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(pages={PATH: self.show}, forms={PATH: self.replace})

    async def show(self, viewer: OperatorViewer) -> Response:
        invoice, found = await self._find(viewer)
        return self._page(viewer, proposed(found), invoice, found)

    async def replace(self, viewer: OperatorViewer, form: Form) -> Response:
        invoice, found = await self._find(viewer)
        stated = read_stated(form, found, with_name=True)
        async with self.saving(form) as tx:
            await replace_invoice(tx, invoice, stated, settings=self.settings, by=viewer.actor.at(self.clock()))
        if form.faults:
            return self._page(viewer, form, invoice, found)
        self.notifier.notify()
        return see_other(f"{viewer.base}/money/invoices/{invoice.reference}?done=invoice_replaced")

    async def _find(self, viewer: OperatorViewer) -> tuple[Invoice, InvoiceReplacement]:
        found = await self.database.run(find_by_references_any_account, [viewer.request.path("number")])
        invoice = next((each for each in found if each.mode is viewer.mode), None)
        if invoice is None:
            raise DashboardPageNotFound
        return invoice, await self.database.run(read_replacement, invoice, self.settings)

    def _page(self, viewer: OperatorViewer, form: Form, invoice: Invoice, found: InvoiceReplacement) -> Response:
        return self.layout.page(viewer, "operator_replace.html", form, entered=form, invoice=invoice, **facts_of(found))
