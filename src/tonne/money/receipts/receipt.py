"""The payment confirmation of a paid order: the amounts, how it was paid, and what was refunded since.

It is no tax document: it names the number of the invoice, which is one.
"""

from datetime import datetime
from pathlib import Path

import msgspec

from tonne.money.invoices.documents.parties import seller_of
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.store import find_invoice
from tonne.money.receipts.compose import tax_name
from tonne.money.refunds.model import Refund, RefundPurpose, RefundState
from tonne.money.refunds.store import list_of_order
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.layout import one_line
from tonne.platform.documents.pdf import render_pdf
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope
from tonne.platform.web.wording import LocalWording
from tonne.selling.accounts.logos.merchant import Merchant, find_merchant
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.model import Order, OrderStatus, PaymentState

_TEMPLATE = Path(__file__).parent / "templates" / "receipt.typ"


class ReceiptFacts(msgspec.Struct, frozen=True):
    """What a receipt states, read from one snapshot."""

    order: Order
    merchant: Merchant
    invoice: Invoice | None
    paid_at: datetime
    # Made or under way, oldest first, without those of money that never paid for the order.
    refunds: list[Refund]


class ReceiptLine(msgspec.Struct, frozen=True):
    name: str
    quantity: str
    unit_price: str
    amount: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a receipt, in one language. The page and the PDF show the same."""

    mode: str
    title: str
    # Whether the order was refunded or cancelled since; None if not.
    state: str | None
    seller_label: str
    seller_name: str
    seller_lines: list[str]
    merchant_label: str
    merchant: str
    facts: list[tuple[str, str]]
    # The heads of the columns of `lines`.
    heads: list[str]
    lines: list[ReceiptLine]
    sums: list[tuple[str, str]]
    total: tuple[str, str]
    after: list[tuple[str, str]]
    notes: list[str] = msgspec.field(default_factory=list)


LAST_CAPTURE = """
SELECT max(settled_at) FROM charges
WHERE account_id = $1 AND order_id = $2 AND reference IS NOT NULL AND NOT is_surplus
"""


async def _find_capture(connection: Connection, scope: Scope, order_id: str) -> datetime | None:
    captured_at: datetime | None = await connection.fetchval(LAST_CAPTURE, scope.account_id, order_id)
    return captured_at


async def read_receipt(connection: Connection, order: Order) -> ReceiptFacts | None:
    """None if the order was not paid."""
    if order.payment_state is PaymentState.UNPAID or order.priced is None:
        return None
    invoice = await find_invoice(connection, order.scope, order.id)
    paid_at = None if invoice is None else invoice.settled_at
    paid_at = paid_at or await _find_capture(connection, order.scope, order.id)
    return ReceiptFacts(
        order,
        await find_merchant(connection, order.scope, order.offset_link_id),
        invoice,
        paid_at or order.created_at,
        [
            refund
            for refund in await list_of_order(connection, order)
            if refund.purpose is not RefundPurpose.SURPLUS
            and refund.state in {RefundState.DUE, RefundState.PENDING, RefundState.SUCCEEDED}
        ],
    )


def write_receipt(found: ReceiptFacts, wording: LocalWording, settings: Settings) -> Receipt:
    _, order, seller = wording.translate, found.order, seller_of(settings)
    priced, currency = order.priced, order.currency
    if priced is None:
        raise ValueError(f"order {order.id} has no price")
    due = priced.total_cost_minor if order.amount_due_minor is None else order.amount_due_minor
    sums = [(_("Service fee"), wording.money(priced.commission_minor, currency))] if priced.commission_minor else []
    tax = tax_name(order, wording)
    if tax is not None:
        sums.append((_("Without tax"), wording.money(priced.total_cost_minor, currency)))
        sums.append((tax, wording.money(order.tax.tax_minor or 0, currency)))
    return Receipt(
        mode=order.scope.mode,
        title=_("Payment confirmation"),
        state=_state(order, wording),
        seller_label=_("Sold by"),
        seller_name=one_line(seller.name),
        seller_lines=[
            *seller.address_lines,
            *([_("VAT ID: %(vat_id)s", vat_id=seller.vat_id)] if seller.vat_id else []),
            *([_("Tax ID: %(tax_id)s", tax_id=seller.tax_id)] if seller.tax_id and not seller.vat_id else []),
            *([seller.email] if seller.email else []),
        ],
        merchant_label=_("Merchant"),
        merchant=one_line(found.merchant.name),
        facts=[
            (_("Order number"), order.id),
            (_("Paid on"), wording.day(found.paid_at)),
            (_("Paid by"), _method(found, wording)),
            *([(_("E-mail"), order.email)] if order.email else []),
            (_("Name on the certificate"), one_line(order.beneficiary)),
        ],
        heads=[_("Carbon credits"), _("Quantity"), _("Price per tonne"), _("Amount")],
        lines=[
            ReceiptLine(
                one_line(line.bundle_name),
                wording.mass(line.quantity_grams),
                wording.money(line.unit_price_minor, currency),
                wording.money(line.offset_cost_minor, currency),
            )
            for line in priced.lines
        ],
        sums=sums,
        total=(_("Total paid"), wording.money(due, currency)),
        after=_refunds(found, wording, due),
        notes=_notes(found, wording),
    )


async def receipt_pdf(found: ReceiptFacts, wording: LocalWording, settings: Settings) -> bytes:
    receipt = write_receipt(found, wording, settings)
    record = msgspec.to_builtins(receipt) | {"language": wording.code, "region": wording.locale.territory}
    return await in_turn(render_pdf, _TEMPLATE, record, issued_at=found.paid_at)


def _state(order: Order, wording: LocalWording) -> str | None:
    _ = wording.translate
    if order.payment_state is PaymentState.REFUNDED:
        return _("Refunded")
    if order.payment_state is PaymentState.DISPUTED:
        return _("Disputed with the bank")
    if order.status is OrderStatus.CANCELLED:
        return _("Cancelled")
    return _("Partly refunded") if order.refunded_minor else None


def _method(found: ReceiptFacts, wording: LocalWording) -> str:
    _, invoice = wording.translate, found.invoice
    if not found.order.amount_due_minor and invoice is None:
        return _("Nothing to pay")
    if found.order.payment_method is PaymentMethod.CARD:
        return _("Card") if invoice is None else _("Card, invoice %(reference)s", reference=invoice.in_force.reference)
    if invoice is None:
        return _("Bank transfer")
    return _("Bank transfer, invoice %(reference)s", reference=invoice.in_force.reference)


def _refunds(found: ReceiptFacts, wording: LocalWording, due_minor: int) -> list[tuple[str, str]]:
    """Rows below the total: each refund that was made, and what is left of the payment."""
    _, order = wording.translate, found.order
    if not order.refunded_minor:
        return []
    made = [refund for refund in found.refunds if refund.state is RefundState.SUCCEEDED and refund.settled_at]
    rows = [
        (
            _("Refunded on %(day)s", day=wording.day(refund.settled_at or refund.created_at)),
            wording.money(-refund.amount_minor, order.currency),
        )
        for refund in made
    ]
    if sum(refund.amount_minor for refund in made) != order.refunded_minor:
        # Some were made elsewhere, such as at the card gateway.
        rows = [(_("Refunded"), wording.money(-order.refunded_minor, order.currency))]
    return [*rows, (_("Paid after refunds"), wording.money(due_minor - order.refunded_minor, order.currency))]


def _notes(found: ReceiptFacts, wording: LocalWording) -> list[str]:
    _, order, notes = wording.translate, found.order, []
    if order.status is OrderStatus.CANCELLED:
        notes.append(_("This order was cancelled. No credits are retired for it."))
    if any(refund.state is not RefundState.SUCCEEDED for refund in found.refunds):
        notes.append(_("A refund is under way. It is on this receipt once it was made."))
    notes.append(_("This is not a tax document."))
    if found.invoice is not None:
        notes.append(_("For your tax records, use invoice %(reference)s.", reference=found.invoice.in_force.reference))
    return notes
