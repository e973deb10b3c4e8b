"""Records of invoices and credit notes with every tax treatment."""

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import msgspec

from tonne.money.invoices.documents.record import (
    BankAccount,
    CorrectedInvoice,
    InvoiceBuyer,
    InvoiceFee,
    InvoiceLine,
    InvoicePeriod,
    InvoiceRecord,
    InvoiceSeller,
    InvoiceTax,
    PostalAddress,
    Treatment,
)
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.tax_codes import code_of

NOTES: dict[Treatment, str] = {
    "reverse_charge": "Reverse charge: the recipient of the supply is liable for the tax.",
    "exempt": "Exempt under section 19 UStG.",
    "outside_scope": "Outside the scope of tax.",
}
SELLER = InvoiceSeller(
    "Beispiel Klima GmbH",
    ["Hafenstraße 12", "20457 Hamburg", "Germany"],
    "DE136695976",
    "billing@klima.example",
    vat_id="DE136695976",
    registration="HRB 12345",
    postal=PostalAddress("DE", "Hafenstraße 12", "20457", "Hamburg"),
)
BUYER = InvoiceBuyer(
    "Marlowe & Finch Shipping SARL",
    ["1 rue de la Paix", "75002 Paris", "France"],
    tax_id="FR83404833048",
    reference="PO 4711",
    postal=PostalAddress("FR", "1 rue de la Paix", "75002", "Paris"),
)
BANK = BankAccount("Beispiel Klima GmbH", "DE89370400440532013000", "COBADEFFXXX", "Example Bank")


def line(treatment: Treatment = "none", rate: str | None = None, amount: str = "7176.00", **facts: Any) -> InvoiceLine:
    return InvoiceLine("Wind power", "1040", "6.90", amount, treatment=treatment, rate=rate, **facts)


def document(*entries: InvoiceLine, fees: list[InvoiceFee] | None = None, **changes: Any) -> InvoiceRecord:
    """With the taxes and the total of these lines and fees."""
    fees = fees if fees is not None else [InvoiceFee("Service fee", "800.80", entries[0].treatment, entries[0].rate)]
    groups: dict[tuple[Treatment, str | None], Decimal] = {}
    billed: list[InvoiceLine | InvoiceFee] = [*entries, *fees]
    for entry in billed:
        place = entry.treatment, entry.rate
        groups[place] = groups.get(place, Decimal(0)) + Decimal(entry.amount)
    taxes = [
        InvoiceTax(
            code_for(treatment, rate), treatment, rate, f"{net:.2f}", f"{tax_of(net, rate):.2f}", NOTES.get(treatment)
        )
        for (treatment, rate), net in groups.items()
    ]
    total = sum(groups.values()) + sum(Decimal(tax.tax) for tax in taxes)
    record = InvoiceRecord(
        number="TN-LIVE-000042",
        mode="live",
        issued_on="2026-11-16",
        due_on="2026-12-16",
        order_id="ord_06gtv1alff3htg9thvlvj59t20",
        seller=SELLER,
        buyer=BUYER,
        currency="EUR",
        lines=list(entries),
        fee=fees[0],
        more_fees=fees[1:],
        total=f"{total:.2f}",
        bank=BANK,
        reference="TN-LIVE-000042",
        note=None,
        taxes=[] if {treatment for treatment, _ in groups} == {"none"} else taxes,
        supplied_on="2026-11-15",
        account="Paris office",
        order_reference="flight-2026-11-15-0042",
    )
    return msgspec.structs.replace(record, **changes)


def code_for(treatment: Treatment, rate: str | None) -> str:
    return code_of(SELLER.vat_id and SELLER.vat_id[:2], TaxTreatment(treatment), Fraction(rate or 0) / 100)


def tax_of(net: Decimal, rate: str | None) -> Decimal:
    return (net * Decimal(rate or 0) / 100).quantize(Decimal("0.01"), ROUND_HALF_UP)


def credit_note(**changes: Any) -> InvoiceRecord:
    return document(
        line("standard", "19"),
        document="credit_note",
        number="TN-LIVE-C-000007",
        reference="TN-LIVE-C-000007",
        corrects=CorrectedInvoice("TN-LIVE-000042", "2026-11-16"),
        **changes,
    )


def consolidated(count: int) -> InvoiceRecord:
    lines = [
        line(
            "standard",
            "19",
            f"{number % 300 / 100 + 0.01:.2f}",
            order_id=f"ord_{number:026d}",
            reference=f"booking-{number}",
        )
        for number in range(count)
    ]
    return document(*lines, order_id="", period=InvoicePeriod("2026-10-01", "2026-10-31"), supplied_on=None)
