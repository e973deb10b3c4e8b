"""The texts of the PDFs of invoices and credit notes in the language of their record.

The templates fill in values, written as `{name}`.
"""

from tonne.money.invoices.documents.record import CreditNoteRecord
from tonne.platform.web.translate import Translator

_AMOUNT, _DAY = {"amount": "{amount}"}, {"day": "{day}"}
_TAX = {"rate": "{rate}", "net": "{net}"}
_RATE = {name: f"{{{name}}}" for name in ("currency", "base", "rate", "quote", "source", "day")}


def invoice_labels(_: Translator) -> dict[str, str]:
    return (
        _shared_labels(_)
        | _facts(_)
        | _taxes(_)
        | _payment(_)
        | {
            "invoice": _("Invoice"),
            "simplified_invoice": _("Simplified invoice"),
            "credits": _("Carbon credits"),
            "tonnes": _("Tonnes"),
            "unit_price": _("Price per tonne"),
            "tax": _("Tax"),
            "total": _("Total"),
            "annex": _("Annex: orders of invoice %(number)s", number="{number}"),
            "annex_note": _("Amounts contain the service fee, without tax. Days are in UTC."),
            "placed_sum": _("Single orders as placed"),
            "rounding": _("Rounding in your favour"),
            "replaces": _("Replaces invoice"),
            "received_before": _("Received"),
            "billed_sum": _("Billed, without tax"),
            "placed_on": _("Placed on"),
            "net": _("Net (%(currency)s)", currency="{currency}"),
        }
    )


def sum_label(count: int, _: Translator) -> str:
    """Below the orders of an account in the annex."""
    return _.plural("Sum of %(n)s order", "Sum of %(n)s orders", count)


def credit_note_labels(record: CreditNoteRecord, _: Translator) -> dict[str, str]:
    values = {"amount": "{amount}", "number": "{number}"}
    if record.replaced_by is not None:
        effect = _("Invoice %(number)s is replaced by invoice %(other)s", **values, other=record.replaced_by)
    elif record.cancels_invoice and not record.invoice_paid:
        effect = _("Invoice %(number)s is cancelled, do not pay it", **values)
    elif record.invoice_paid:
        effect = _("%(amount)s of paid invoice %(number)s are credited", **values)
    else:
        effect = _("%(amount)s of invoice %(number)s are credited", **values)
    return _shared_labels(_) | {
        "effect": effect,
        "credited_order": _("Credited order"),
        "tax_included_rate": _("Tax included: %(rate)s %% on %(net)s", **_TAX),
        "reason": _("Reason"),
    }


def state_labels(_: Translator) -> dict[str, str]:
    shared = _shared_labels(_) | _facts(_) | _payment(_)
    return shared | {
        "confirmation": _("Payment confirmation"),
        "reminder": _("Reminder"),
        "state": _("State of the invoice"),
        "as_of": _("As of"),
        "invoiced": _("Total of invoice %(number)s", number="{number}"),
        "credit_of": _("Credit note %(number)s of %(day)s", number="{number}", **_DAY),
        "received_sum": _("Received"),
        "left": _("Left to pay"),
        "pay_now": _("Please pay %(amount)s now", **_AMOUNT),
        "no_tax_document": _(
            "This is not an invoice. For your tax records, use invoice %(number)s.", number="{number}"
        ),
    }


def _shared_labels(_: Translator) -> dict[str, str]:
    return {
        "credit_note": _("Credit note"),
        "test": _("Issued in test mode: nothing is owed."),
        "number": _("Number"),
        "issued_on": _("Issued on"),
        "for_invoice": _("For invoice"),
        "invoice_date": _("Invoice date"),
        "your_reference": _("Your reference"),
        "home_tax": _("Tax in %(currency)s, at 1 %(base)s = %(rate)s %(quote)s (%(source)s, %(day)s)", **_RATE),
        "amount": _("Amount (%(currency)s)", currency="{currency}"),
        "total_credited": _("Total credited"),
        "seller": _("From"),
        "buyer": _("To"),
        "tax_id": _("Tax ID %(id)s", id="{id}"),
        "vat_id": _("VAT ID %(id)s", id="{id}"),
        "registered": _("Registered %(id)s", id="{id}"),
        "tax_representative": _("Tax representative"),
    }


def _facts(_: Translator) -> dict[str, str]:
    return {
        "paid_by": _("Paid by"),
        "card": _("Card"),
        "due_on": _("Due on"),
        "paid_on": _("Paid on"),
        "orders_from": _("Orders from"),
        "orders_to": _("Orders to"),
        "supplied_on": _("Supplied on"),
        "supplied_from": _("Supplied from"),
        "supplied_to": _("Supplied to"),
        "supplied_later": _("Supply: on retirement. Its date is on the certificate."),
        "your_order": _("Your order"),
        "client_account": _("Client account"),
        "orders": _("Orders"),
        "order": _("Order"),
        "see_annex": _("%(count)s, see annex", count="{count}"),
    }


def _taxes(_: Translator) -> dict[str, str]:
    return {
        "total_net": _("Total without tax"),
        "total_gross": _("Total including tax"),
        "tax_none": _("No tax, on %(net)s", **_TAX),
        "tax_standard": _("Tax %(rate)s %%, on %(net)s", **_TAX),
        "tax_reverse_charge": _("Reverse charge, on %(net)s", **_TAX),
        "tax_exempt": _("Exempt from tax, on %(net)s", **_TAX),
        "tax_outside_scope": _("Outside the scope of tax, on %(net)s", **_TAX),
    }


def _payment(_: Translator) -> dict[str, str]:
    return {
        "please_pay": _("Please pay %(amount)s by %(day)s", **_AMOUNT, **_DAY),
        "account_holder": _("Account holder"),
        "bank": _("Bank"),
        "reference": _("Reference"),
        "quote_reference": _("Quote the reference so that we can match your payment to this invoice."),
        "qr": _("QR code for the bank transfer"),
        "scan": _("Scan with your banking app"),
        "charge": _("We charge %(amount)s to your card", **_AMOUNT),
        "nothing_to_do": _("You have nothing to do. Please do not transfer money for this invoice."),
        "we_credit": _("We credit %(amount)s to you", **_AMOUNT),
        "paid_note": _("Paid on %(day)s, nothing is due", **_DAY),
        "credited_note": _("Credited in full on %(day)s, nothing is due", **_DAY),
        "cancelled_note": _("Cancelled on %(day)s, do not pay", **_DAY),
    }
