"""The content of an invoice or credit note, frozen when it is issued.

Mails, PDFs and the matching of payments use this record.
"""

from datetime import date
from decimal import Decimal
from typing import Literal

import msgspec

from tonne.platform.values.einvoice import EInvoiceFormat
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.platform.values.tax_ids import has_vat_prefix
from tonne.selling.catalogue.prices.reference_rates import HomeRate

Treatment = Literal["none", "standard", "reverse_charge", "exempt", "outside_scope"]
# Which event makes the tax due.
TaxPoint = Literal["invoice", "payment", "supply"]


class PostalAddress(msgspec.Struct, frozen=True):
    """The parts of an address that an electronic invoice needs. `country` is an ISO 3166 code."""

    country: str
    street: str | None = None
    postcode: str | None = None
    city: str | None = None


class TaxRepresentative(msgspec.Struct, frozen=True):
    """Who owes the tax for a seller that is established elsewhere: Art. 204 and 226(15) of Directive 2006/112/EC."""

    name: str
    address_lines: list[str]
    vat_id: str
    country: str

    @property
    def three_lines(self) -> list[str]:
        """The address in as many lines as electronic invoices have."""
        return [*self.address_lines[:2], ", ".join(self.address_lines[2:])][: min(3, len(self.address_lines))]


class InvoiceSeller(msgspec.Struct, frozen=True):
    """`registration` is a number in a register of companies, `endpoint` an electronic address as `9930:DE811569869`."""

    name: str
    address_lines: list[str]
    tax_id: str | None
    email: str | None
    vat_id: str | None = None
    registration: str | None = None
    postal: PostalAddress | None = None
    endpoint: str | None = None
    contact_name: str | None = None
    phone: str | None = None
    representative: TaxRepresentative | None = None


class VatProof(msgspec.Struct, frozen=True):
    """`consultation_number` is that of the register, which proves that and when it was asked."""

    checked_on: str
    source: str
    consultation_number: str | None


class InvoiceBuyer(msgspec.Struct, frozen=True):
    """`reference` is a purchase order number, or the Leitweg-ID of a public buyer."""

    name: str
    address_lines: list[str]
    tax_id: str | None = None
    reference: str | None = None
    postal: PostalAddress | None = None
    # The check of the VAT id that a document without tax is based on.
    vat_check: VatProof | None = None
    endpoint: str | None = None

    @property
    def vat_id(self) -> str | None:
        """The tax id, if it is a VAT number of the buyer's country."""
        if self.tax_id is None or self.postal is None or not has_vat_prefix(self.tax_id, self.postal.country):
            return None
        return self.tax_id


class InvoiceLine(msgspec.Struct, frozen=True):
    """`quantity` in tonnes; `unit_price` per tonne and `amount` in the currency of the invoice, without tax.

    A line of a credit note is an order: the quantity is then 1 piece, and it names the client's reference of the order.
    `rate` is in per cent.
    """

    description: str
    quantity: str
    unit_price: str
    amount: str
    order_id: str | None = None
    reference: str | None = None
    treatment: Treatment = "none"
    rate: str | None = None
    unit: Literal["tonne", "piece"] = "tonne"


class InvoiceFee(msgspec.Struct, frozen=True):
    label: str
    amount: str
    treatment: Treatment = "none"
    rate: str | None = None


class InvoiceAllowance(InvoiceFee, frozen=True):
    """What is taken off the lines and fees with one treatment and rate, because each of them was rounded."""


class InvoiceTax(msgspec.Struct, frozen=True):
    """The tax of all lines, fees and allowances with one treatment and rate.

    `net` is their sum, `rate` is in per cent, `code` is that of `tax_codes.py`. `home_…` are the amounts in the
    national currency, if that is another one.
    """

    code: str
    treatment: Treatment
    rate: str | None
    net: str
    tax: str
    note: str | None = None
    home_net: str | None = None
    home_tax: str | None = None


class HomeTax(msgspec.Struct, frozen=True):
    """The tax of a document in the national currency, at a rate: one `base` is `rate` units of `quote`."""

    currency: str
    tax: str
    rate: str
    base: str
    quote: str
    source: str
    on: str

    @property
    def home_rate(self) -> HomeRate:
        return HomeRate(self.base, self.quote, Decimal(self.rate), self.source, date.fromisoformat(self.on))


class BankAccount(msgspec.Struct, frozen=True):
    account_holder: str
    iban: str | None
    bic: str | None
    bank_name: str | None


class CorrectedInvoice(msgspec.Struct, frozen=True):
    """The invoice that a credit note cancels or reduces."""

    number: str
    issued_on: str


class InvoicePeriod(msgspec.Struct, frozen=True):
    """First and last day of the orders of a consolidated invoice, or of their supply."""

    first_day: str
    last_day: str


class DocumentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the records of invoices and credit notes have in common. Dates as `YYYY-MM-DD`."""

    number: str
    mode: Literal["live", "test"]
    issued_on: str
    seller: InvoiceSeller
    buyer: InvoiceBuyer
    currency: str
    total: str
    note: str | None
    # The stored card of the account pays: the buyer has nothing to do, and the document names no bank account.
    paid_by_card: bool = False
    # If the document is in a foreign currency.
    home: HomeTax | None = None
    # The electronic invoice that the buyer wants beside the PDF.
    einvoice: EInvoiceFormat | None = None
    # The language of the document and of the mails about it: that of the first order.
    language: str = DEFAULT_LANGUAGE
    # Which event makes the tax due, by the setting when the invoice was issued.
    tax_point: TaxPoint = "invoice"


class InvoiceRecord(DocumentRecord, frozen=True, kw_only=True):
    """The lines and the fees, less the allowances, and the taxes sum to the total, which the buyer pays.

    `fee` and `more_fees`: one per treatment and rate. Without `taxes` the document does not mention tax. Amounts of a
    credit note are positive: what the buyer gets back.
    """

    due_on: str
    order_id: str
    lines: list[InvoiceLine]
    fee: InvoiceFee
    bank: BankAccount
    reference: str
    document: Literal["invoice", "simplified_invoice", "credit_note"] = "invoice"
    # When a card had paid all of it before it was issued: nothing is due.
    paid_on: str | None = None
    taxes: list[InvoiceTax] = []
    more_fees: list[InvoiceFee] = []
    allowances: list[InvoiceAllowance] = []
    # The day of supply, or its first and last day. Neither is known before all orders are complete.
    supplied_on: str | None = None
    supply: InvoicePeriod | None = None
    # When the orders of a consolidated invoice were placed.
    period: InvoicePeriod | None = None
    # The client account and the client's own reference of the only order.
    account: str | None = None
    order_reference: str | None = None
    corrects: CorrectedInvoice | None = None
    # Above 1, `order_id` is empty and the orders are listed in an annex.
    order_count: int = 1
    # What the orders of the annex cost as they were placed, without tax: each was rounded up.
    placed_total: str | None = None
    # The invoice whose reference or address was wrong, and what had been received of it.
    replaces: CorrectedInvoice | None = None
    received: str | None = None

    @property
    def due(self) -> str:
        """What was left to pay when it was issued."""
        received = Decimal(self.total if self.paid_on is not None else self.received or 0)
        return str(Decimal(self.total) - received)


class Closing(msgspec.Struct, frozen=True):
    """How and when an invoice was closed. Not part of the record, which is frozen at issue.

    `credited`: credit notes took all of it off, so nothing was paid.
    """

    status: Literal["paid", "credited", "cancelled"]
    on: str


class Remaining(msgspec.Struct, frozen=True):
    """What is left to pay of an open invoice after part payments and credit notes. Not part of the record either.

    Amounts are decimal strings without a currency, as in the record.
    """

    received: str | None
    credited: str | None
    due: str


class CreditNoteLine(msgspec.Struct, frozen=True):
    """An order, or all credited orders of an account if there are many. `reference` is the client's own.

    `net` is the amount without tax: what it has of the sums of the invoice, not tonnes at a price.
    """

    order_id: str
    reference: str
    amount: str
    net: str


class CreditNoteRecord(DocumentRecord, frozen=True, kw_only=True):
    """The amounts of the lines sum to the total, which contains the tax."""

    invoice_number: str
    invoice_issued_on: str
    # Whether nothing of the invoice is left.
    cancels_invoice: bool
    lines: list[CreditNoteLine]
    order_count: int
    tax: str | None
    reason: str | None
    # Whether the invoice was paid when the note was issued. Then money goes back.
    invoice_paid: bool = False
    # What the cancelled invoice had received, which goes back.
    returned: str | None = None
    # What is credited, by treatment and rate.
    taxes: list[InvoiceTax] = []
    # The number of the invoice that is issued instead, because its reference or address was wrong.
    replaced_by: str | None = None
