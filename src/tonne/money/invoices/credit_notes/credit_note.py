"""Credit notes as values: what each takes off an order, and how one is composed."""

from collections.abc import Mapping, Sequence
from datetime import date
from enum import StrEnum

import msgspec

from tonne.money.invoices.documents.home_tax import homes_of_credit
from tonne.money.invoices.documents.record import CreditNoteLine, CreditNoteRecord, InvoiceRecord, InvoiceTax
from tonne.money.invoices.model import BilledOrder, Invoice, InvoiceStatus, IssuedDocument
from tonne.money.invoices.tax_documents import DocumentKind, reference_in
from tonne.platform.values.amounts import apportion, format_money
from tonne.platform.values.context import new_id, replace, same_named
from tonne.platform.values.tax_codes import NO_TAX_CODE
from tonne.selling.orders.model import OrderKey

# A credit note with more orders lists accounts instead: the orders are on the invoice.
MAX_LINES = 200


class CreditCause(StrEnum):
    # The orders were cancelled: they are taken off the invoice.
    CANCELLATION = "cancellation"
    # A part of an order was cancelled.
    REDUCTION = "reduction"
    # Money is returned, but the orders stay.
    REFUND = "refund"
    # The operator reduces an invoice.
    CORRECTION = "correction"
    # The card issuer reversed the payment of orders that were delivered.
    DISPUTE = "dispute"
    # The invoice stated a wrong reference or address: another one replaces it.
    REPLACEMENT = "replacement"


class CreditedOrder(msgspec.Struct, frozen=True):
    """What a credit note takes off an order. The parts sum to the total."""

    account_id: str
    order_id: str
    reference: str
    offset_minor: int
    fee_minor: int
    tax_minor: int | None
    total_minor: int

    @property
    def key(self) -> OrderKey:
        return OrderKey(self.account_id, self.order_id)


class CreditNote(IssuedDocument, frozen=True, kw_only=True):
    kind: DocumentKind = DocumentKind.CREDIT_NOTE
    invoice_id: str
    cause: CreditCause
    reason: str | None
    refund_id: str | None
    issued_by: str
    # The invoice that takes it back: it does not count.
    taken_back_by: str | None = None

    def read_record(self) -> CreditNoteRecord:
        return msgspec.json.decode(self.record, type=CreditNoteRecord)


def credit_in_full(billed: BilledOrder) -> CreditedOrder:
    return same_named(CreditedOrder, billed)


def credit_in_part(billed: BilledOrder, amount_minor: int) -> CreditedOrder:
    """An amount of an order, divided into its parts by largest remainder."""
    weights = [billed.offset_minor, billed.fee_minor, billed.tax_minor or 0]
    offset_minor, fee_minor, tax_minor = apportion(amount_minor, weights)
    return same_named(
        CreditedOrder,
        billed,
        offset_minor=offset_minor,
        fee_minor=fee_minor,
        tax_minor=None if billed.tax_minor is None else tax_minor,
        total_minor=amount_minor,
    )


def without(billed: BilledOrder, credited: CreditedOrder | None) -> BilledOrder:
    """What is left of an order after earlier credit notes."""
    if credited is None:
        return billed
    return replace(
        billed,
        offset_minor=billed.offset_minor - credited.offset_minor,
        fee_minor=billed.fee_minor - credited.fee_minor,
        tax_minor=None if billed.tax_minor is None else billed.tax_minor - (credited.tax_minor or 0),
        total_minor=billed.total_minor - credited.total_minor,
    )


# Treatment and rate in per cent, by order id.
TermsOfOrders = Mapping[str, tuple[str, str | None]]


def credited_taxes(
    issued: InvoiceRecord, credited: Sequence[CreditedOrder], terms: TermsOfOrders | None
) -> list[InvoiceTax]:
    """What is credited of each treatment and rate of the invoice, in its order."""
    billed = issued.taxes or [InvoiceTax(NO_TAX_CODE, "none", None, "", "")]
    found = []
    for tax in billed:
        of_rate = [each for each in credited if len(billed) == 1 or _terms_of(each, terms) == (tax.treatment, tax.rate)]
        tax_minor = sum(each.tax_minor or 0 for each in of_rate)
        net_minor = sum(each.total_minor for each in of_rate) - tax_minor
        if of_rate:
            net, amount = (format_money(minor, issued.currency) for minor in (net_minor, tax_minor))
            found.append(replace(tax, net=net, tax=amount))
    return found


def _terms_of(credited: CreditedOrder, terms: TermsOfOrders | None) -> tuple[str, str | None] | None:
    return None if terms is None else terms[credited.order_id]


def compose_credit_note(
    invoice: Invoice,
    credited: Sequence[CreditedOrder],
    number: int,
    issued_on: date,
    *,
    cause: CreditCause,
    reason: str | None,
    refund_id: str | None,
    issued_by: str,
    cancels_invoice: bool,
    terms: TermsOfOrders | None = None,
    returned_minor: int = 0,
    replaced_by: str | None = None,
) -> CreditNote:
    """`terms` are needed if the invoice has several rates. `replaced_by` is the number of the invoice that follows."""
    total_minor = sum(each.total_minor for each in credited)
    taxes = [each.tax_minor for each in credited if each.tax_minor is not None]
    tax_minor = sum(taxes) if taxes else None
    issued, currency = invoice.read_record(), invoice.currency
    reference = reference_in(DocumentKind.CREDIT_NOTE, invoice.mode, number)
    parts, home = homes_of_credit(issued, credited_taxes(issued, credited, terms))
    record = CreditNoteRecord(
        number=reference,
        mode=invoice.mode.value,
        issued_on=issued_on.isoformat(),
        invoice_number=issued.number,
        invoice_issued_on=issued.issued_on,
        cancels_invoice=cancels_invoice,
        seller=issued.seller,
        buyer=issued.buyer,
        currency=currency,
        lines=_lines(credited, currency),
        order_count=len(credited),
        tax=None if tax_minor is None else format_money(tax_minor, currency),
        total=format_money(total_minor, currency),
        reason=reason,
        note=issued.note,
        invoice_paid=invoice.status is InvoiceStatus.PAID,
        paid_by_card=issued.paid_by_card,
        returned=format_money(returned_minor, currency) if returned_minor else None,
        taxes=parts,
        home=home,
        language=issued.language,
        einvoice=issued.einvoice,
        tax_point=issued.tax_point,
        replaced_by=replaced_by,
    )
    return CreditNote(
        id=new_id("crn"),
        invoice_id=invoice.id,
        corrects=invoice.in_force.id,
        organisation_id=invoice.organisation_id,
        mode=invoice.mode,
        number=number,
        reference=reference,
        currency=currency,
        total_minor=total_minor,
        tax_minor=tax_minor,
        cause=cause,
        reason=reason,
        refund_id=refund_id,
        issued_on=issued_on,
        issued_by=issued_by,
        record=msgspec.json.encode(record),
    )


def _lines(credited: Sequence[CreditedOrder], currency: str) -> list[CreditNoteLine]:
    if len(credited) <= MAX_LINES:
        return [_line(each.order_id, each.reference, [each], currency) for each in credited]
    by_account: dict[str, list[CreditedOrder]] = {}
    for each in credited:
        by_account.setdefault(each.account_id, []).append(each)
    return [_line(f"{len(orders):,} orders", account_id, orders, currency) for account_id, orders in by_account.items()]


def _line(order_id: str, reference: str, credited: Sequence[CreditedOrder], currency: str) -> CreditNoteLine:
    total_minor = sum(each.total_minor for each in credited)
    net_minor = sum(each.offset_minor + each.fee_minor for each in credited)
    return CreditNoteLine(order_id, reference, format_money(total_minor, currency), format_money(net_minor, currency))
