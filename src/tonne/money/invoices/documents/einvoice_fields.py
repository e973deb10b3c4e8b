"""What a document must state to be an electronic invoice in the format of its buyer, and whether its sums agree."""

from decimal import Decimal

from tonne.money.invoices.documents.positions import is_electronic, order_number_of, parts_of
from tonne.money.invoices.documents.record import InvoiceBuyer, InvoiceRecord, InvoiceSeller, PostalAddress
from tonne.platform.values.einvoice import EInvoiceFormat, can_receive

_NOWHERE = PostalAddress("")


def missing_of_seller(seller: InvoiceSeller, chosen: EInvoiceFormat) -> tuple[str, ...]:
    """The variables to set. XRechnung needs a contact and the city, and takes an e-mail address as endpoint."""
    postal = seller.postal or _NOWHERE
    given = {
        "TONNE_SELLER_COUNTRY": postal.country,
        "TONNE_SELLER_ENDPOINT": can_receive(seller.endpoint, chosen),
    }
    if chosen is EInvoiceFormat.XRECHNUNG:
        given |= {
            "TONNE_SELLER_CITY": postal.city,
            "TONNE_SELLER_POSTCODE": postal.postcode,
            "TONNE_SELLER_CONTACT_NAME": seller.contact_name,
            "TONNE_SELLER_PHONE": seller.phone,
            "TONNE_SELLER_EMAIL": seller.email,
        }
    return tuple(name for name, value in given.items() if not value)


def missing_of_buyer(
    buyer: InvoiceBuyer, chosen: EInvoiceFormat, order_reference: str | None = None
) -> tuple[str, ...]:
    """Parts of the tax profile. Peppol takes the reference of the order for that of the buyer."""
    postal = buyer.postal or _NOWHERE
    given = {"country": postal.country, "electronic address": can_receive(buyer.endpoint, chosen)}
    if chosen is EInvoiceFormat.XRECHNUNG:
        given |= {"reference": buyer.reference, "city": postal.city, "postcode": postal.postcode}
    else:
        given |= {"reference": order_number_of(buyer.reference, order_reference) or buyer.reference}
    return tuple(name for name, value in given.items() if not value)


def ubl_format(record: InvoiceRecord) -> EInvoiceFormat | None:
    """None if the buyer wants none, or it cannot be made: a test document is issued although something is missing."""
    chosen = record.einvoice
    if chosen is None or not is_electronic(record) or _missing_fields(record, chosen):
        return None
    return chosen


def _missing_fields(record: InvoiceRecord, chosen: EInvoiceFormat) -> tuple[str, ...]:
    of_buyer = missing_of_buyer(record.buyer, chosen, record.order_reference)
    return (*missing_of_seller(record.seller, chosen), *of_buyer)


class RecordRefused(Exception):
    """A document would contradict itself, or lacks what its format demands. No number is used for it."""


def check_record(record: InvoiceRecord) -> None:
    """Before it is stored: an original cannot be corrected. Raises RecordRefused."""
    parts = parts_of(record)
    totals = parts.totals
    wrong = []
    if totals.net + totals.tax != totals.total:
        wrong.append(f"{totals.net} and the tax {totals.tax} are not the total {totals.total}")
    if sum((each.net for each in parts.taxes), Decimal(0)) != totals.net:
        wrong.append("the groups of tax are not the net amount")
    if record.taxes and sum(Decimal(each.net) for each in record.taxes) != totals.net:
        wrong.append("the lines of tax are not the net amount")
    if record.taxes and sum((each.tax for each in parts.taxes), Decimal(0)) != totals.tax:
        wrong.append("the tax is not that of the groups")
    # What corrects a document has the parties of that, and must not wait: money may have gone back already.
    is_first = record.corrects is None
    if is_first and record.mode == "live" and record.einvoice is not None and is_electronic(record):
        wrong += [f"{name} is missing" for name in _missing_fields(record, record.einvoice)]
    if wrong:
        raise RecordRefused(f"{record.number}: {'; '.join(wrong)}")
