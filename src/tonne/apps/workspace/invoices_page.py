"""The invoices and credit notes of an organisation, how to pay, and what the next invoices will have."""

import re

from markupsafe import Markup

from tonne.apps.dashboard.document_files import download
from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import MemberViewer
from tonne.money.accounting.reports.organisation_documents import (
    find_invoice_of,
    list_charges_of_invoice,
    list_invoices_of,
    list_next_invoices,
    list_open_invoices_of,
    list_received,
    sum_received_of,
)
from tonne.money.invoices.credit_notes.replace_invoice import is_replaceable
from tonne.money.invoices.credit_notes.store import list_credit_notes
from tonne.money.invoices.documents.billed_lines import billed_lines
from tonne.money.invoices.documents.epc_qr import epc_qr_svg
from tonne.money.invoices.issuing.billed_order_store import list_billed_orders
from tonne.money.invoices.model import Invoice, describe_invoice, find_remaining
from tonne.money.invoices.originals.invoice_state import invoice_state_pdf, payable_record, read_state
from tonne.platform.http.route import Response
from tonne.platform.values.context import Mode
from tonne.selling.accounts.directory import find_names
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.users.model import Right

PAGE = 30
# Orders that the page of an invoice lists. The annex of the PDF has all.
SHOWN_ORDERS = 100
SHOWN_LINES = 50
_SIZE = re.compile(r'width="(\d+)" height="(\d+)"')
ONE = "/invoices/{number}"


class InvoicesPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        pages = {
            "/invoices": self.list_invoices,
            ONE: self.show,
            f"{ONE}/state": self.state,
        }
        return OrganisationSection(pages={path: (page, Right.VIEW) for path, page in pages.items()})

    async def list_invoices(self, viewer: MemberViewer) -> Response:
        after, show = viewer.request.query("after", "show")
        only_open = show == "open"
        async with self.database.connection() as connection:
            list_ = list_open_invoices_of if only_open else list_invoices_of
            found = await list_(connection, viewer.tenant, _number(after), PAGE + 1)
            shown = found[:PAGE]
            received = await sum_received_of(connection, viewer.organisation_id, shown)
            coming = [] if after else await list_next_invoices(connection, viewer.tenant)
        today = self.today()
        rows = [
            (
                each,
                describe_invoice(each, received.get(each.id, 0), today),
                max(0, each.due_minor - received.get(each.id, 0)) if each.closing is None else 0,
            )
            for each in shown
        ]
        chosen = "show=open&" if only_open else ""
        return self.layout.page(
            viewer,
            "invoices.html",
            rows=rows,
            coming=coming,
            only_open=only_open,
            is_first=not after,
            next_query=f"{chosen}after={shown[-1].number}" if len(found) > PAGE else None,
        )

    async def show(self, viewer: MemberViewer) -> Response:
        invoice = await self._find(viewer)
        async with self.database.connection() as connection:
            received = await list_received(connection, invoice)
            charges = await list_charges_of_invoice(connection, invoice)
            notes = await list_credit_notes(connection, invoice)
            orders = await list_billed_orders(connection, invoice, SHOWN_ORDERS)
            remaining = await find_remaining(connection, invoice)
            names = await find_names(connection, viewer.organisation_id, [each.account_id for each in orders])
            can_be_replaced = await is_replaceable(connection, invoice)
            record = await payable_record(connection, invoice, self.settings)
        received_minor = sum(each.amount_minor for each in received)
        is_payable = invoice.closing is None and invoice.payment_method is PaymentMethod.INVOICE
        code = epc_qr_svg(record, remaining) if is_payable else None
        return self.layout.page(
            viewer,
            "invoice.html",
            invoice=invoice,
            record=record,
            state=describe_invoice(invoice, received_minor, self.today()),
            left_minor=max(0, invoice.due_minor - received_minor) if invoice.closing is None else 0,
            received=received,
            received_minor=received_minor,
            charges=[each for each in charges if each.status in {"captured", "refunded"}],
            notes=notes,
            credits=[note for note in notes if note.taken_back_by is None],
            may_replace=can_be_replaced and viewer.may(Right.MONEY),
            orders=orders,
            names=names,
            is_payable=is_payable and invoice.mode is Mode.LIVE,
            lines=billed_lines(record, SHOWN_LINES),
            qr_svg=None if code is None else Markup(_scalable(code)),  # noqa: S704 - ours
        )

    async def state(self, viewer: MemberViewer) -> Response:
        """What became of it: a payment confirmation, or what is left to pay."""
        invoice = await self._find(viewer)
        async with self.database.connection() as connection:
            found = await read_state(connection, invoice, self.clock())
            record = await payable_record(connection, invoice, self.settings)
        pdf = await invoice_state_pdf(record, found)
        return download(pdf, f"{invoice.reference}-{found.kind}.pdf")

    async def _find(self, viewer: MemberViewer) -> Invoice:
        return await self.find(find_invoice_of, viewer.tenant, viewer.request.path("number"))


def _scalable(svg: str) -> str:
    """The style sheet decides how large the code is."""
    return _SIZE.sub(r'viewBox="0 0 \1 \2" role="img" aria-label="Payment code"', svg, count=1)


def _number(after: str | None) -> int | None:
    """A position of a list that is not valid is its beginning."""
    return int(after) if after is not None and after.isdecimal() and len(after) < 16 else None
