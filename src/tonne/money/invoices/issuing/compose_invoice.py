"""Compose the invoice of one order."""

from datetime import UTC, date, datetime, timedelta

import msgspec
from msgspec import Struct

from tonne.money.invoices.documents.home_tax import with_home_tax
from tonne.money.invoices.documents.parties import rate_text, seller_of, taxes_of
from tonne.money.invoices.documents.record import InvoiceFee, InvoiceLine, InvoiceRecord, Treatment
from tonne.money.invoices.model import (
    FEE_LABEL,
    NO_BANK,
    TEST_NOTE,
    BilledOrganisation,
    Invoice,
    InvoiceStatus,
    bank_of,
    nature_of,
    own_reference,
)
from tonne.money.invoices.tax_documents import DocumentKind, reference_in
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTerms, format_money, format_tonnes
from tonne.platform.values.context import Mode, new_id
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.catalogue.prices.reference_rates import HomeRate
from tonne.selling.orders.model import Order


class Prepaid(Struct, frozen=True):
    """Of the document of a payment that a card had made before. `by` issues it."""

    kind: DocumentKind
    paid_at: datetime
    by: str
    # The country whose tax the order has, if it is not that of the seller.
    taxed_in: str | None = None


def compose_invoice(
    order: Order,
    number: int,
    organisation: BilledOrganisation,
    settings: Settings,
    issued_on: date,
    *,
    client_name: str | None = None,
    home_rate: HomeRate | None = None,
    prepaid: Prepaid | None = None,
) -> Invoice:
    """A new invoice for a priced order, open and not mailed yet, or `prepaid`.

    `client_name` is that of its client account.
    """
    total_minor, mode = order.amount_due_minor, order.scope.mode
    if total_minor is None:
        raise LookupError(f"order {order.id} has no price")
    kind = DocumentKind.INVOICE if prepaid is None else prepaid.kind
    is_by_card = order.payment_method is PaymentMethod.CARD
    due_on = issued_on + timedelta(days=0 if is_by_card else settings.invoice_due_days)
    record = _record_of(
        order,
        organisation,
        settings,
        number=reference_in(kind, mode, number),
        issued_on=issued_on,
        due_on=due_on,
        client_name=client_name,
        prepaid=prepaid,
    )
    return Invoice(
        id=new_id("inv"),
        kind=kind,
        organisation_id=order.scope.organisation_id,
        mode=mode,
        order_count=1,
        first_order_id=order.id,
        number=number,
        reference=record.number,
        currency=order.currency,
        total_minor=total_minor,
        tax_minor=order.tax.tax_minor,
        status=InvoiceStatus.PAID if prepaid else InvoiceStatus.OPEN,
        payment_method=order.payment_method,
        settled_minor=total_minor if prepaid else None,
        settled_at=None if prepaid is None else prepaid.paid_at,
        settled_by=None if prepaid is None else prepaid.by,
        is_prepaid=prepaid is not None,
        issued_on=issued_on,
        due_on=due_on,
        record=msgspec.json.encode(with_home_tax(record, home_rate)),
    )


def _record_of(
    order: Order,
    organisation: BilledOrganisation,
    settings: Settings,
    *,
    number: str,
    issued_on: date,
    due_on: date,
    client_name: str | None,
    prepaid: Prepaid | None,
) -> InvoiceRecord:
    priced, currency = order.priced, order.currency
    if priced is None:
        raise LookupError(f"order {order.id} has no price")
    is_by_card = order.payment_method is PaymentMethod.CARD
    terms, tax_minor = TaxTerms(order.tax.treatment, order.tax.rate), order.tax.tax_minor or 0
    treatment: Treatment = terms.treatment.value
    part = terms, priced.total_cost_minor, tax_minor
    rate = rate_text(terms)
    lines = [
        InvoiceLine(
            description=nature_of(line.bundle_name, order.language),
            quantity=format_tonnes(line.quantity_grams),
            unit_price=format_money(line.unit_price_minor, currency),
            amount=format_money(line.offset_cost_minor, currency),
            treatment=treatment,
            rate=rate,
        )
        for line in priced.lines
    ]
    return InvoiceRecord(
        number=number,
        mode=order.scope.mode.value,
        issued_on=issued_on.isoformat(),
        due_on=due_on.isoformat(),
        order_id=order.id,
        language=order.language,
        seller=seller_of(settings, order.language),
        buyer=organisation.buyer([terms.treatment], order.language),
        currency=currency,
        lines=lines,
        fee=InvoiceFee(FEE_LABEL, format_money(priced.commission_minor, currency), treatment, rate),
        total=format_money(priced.total_cost_minor + tax_minor, currency),
        bank=NO_BANK if is_by_card else bank_of(settings, currency),
        paid_by_card=is_by_card,
        paid_on=None if prepaid is None else prepaid.paid_at.astimezone(UTC).date().isoformat(),
        document=DocumentKind.INVOICE.value if prepaid is None else prepaid.kind.value,
        reference=number,
        note=TEST_NOTE if order.scope.mode is Mode.TEST else None,
        taxes=taxes_of(
            [part],
            currency,
            organisation.tax,
            settings,
            language=order.language,
            oss_country=None if prepaid is None else prepaid.taxed_in,
        ),
        supplied_on=None if order.supplied_on is None else order.supplied_on.isoformat(),
        account=client_name,
        order_reference=own_reference(order),
        einvoice=organisation.tax.einvoice,
        tax_point=settings.tax_point,
    )
