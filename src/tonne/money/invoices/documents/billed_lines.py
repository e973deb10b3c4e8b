"""The lines of an issued invoice as numbers, for pages: the record has them as text."""

from collections.abc import Sequence
from decimal import Decimal

from msgspec import Struct

from tonne.money.invoices.documents.record import InvoiceRecord

_GRAMS_PER_TONNE = 1_000_000


class BilledLine(Struct, frozen=True):
    """A line, a fee, an allowance or a tax. Only lines have a quantity and a price per tonne."""

    text: str
    detail: str
    amount_minor: int
    quantity_grams: int | None = None
    unit_price_minor: int | None = None


def billed_lines(record: InvoiceRecord, limit: int) -> Sequence[BilledLine]:
    """At most `limit` lines, then all fees, allowances and taxes. They sum to the total if no line is left out."""
    return [
        *(
            BilledLine(
                line.description,
                "",
                _minor(line.amount),
                int(Decimal(line.quantity) * _GRAMS_PER_TONNE),
                _minor(line.unit_price),
            )
            for line in record.lines[:limit]
        ),
        *(BilledLine(fee.label, "", _minor(fee.amount)) for fee in (record.fee, *record.more_fees)),
        *(BilledLine(each.label, "", -_minor(each.amount)) for each in record.allowances),
        *(
            BilledLine("Tax" if tax.rate is None else f"Tax {tax.rate} %", tax.note or "", _minor(tax.tax))
            for tax in record.taxes
        ),
    ]


def _minor(amount: str) -> int:
    """The record has amounts with exactly the decimals of the currency."""
    return int(amount.replace(".", ""))
