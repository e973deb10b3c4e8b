"""The content of an invoice, frozen when it is issued. Mails, PDFs and the matching of payments use this record."""

from typing import Literal

import msgspec


class InvoiceSeller(msgspec.Struct, frozen=True):
    name: str
    address_lines: list[str]
    tax_id: str | None
    email: str | None


class InvoiceBuyer(msgspec.Struct, frozen=True):
    name: str
    address_lines: list[str]


class InvoiceLine(msgspec.Struct, frozen=True):
    """`quantity` in tonnes; `unit_price` per tonne and `amount` in the currency of the invoice."""

    description: str
    quantity: str
    unit_price: str
    amount: str


class InvoiceFee(msgspec.Struct, frozen=True):
    label: str
    amount: str


class BankAccount(msgspec.Struct, frozen=True):
    account_holder: str
    iban: str | None
    bic: str | None
    bank_name: str | None


class InvoiceRecord(msgspec.Struct, frozen=True):
    """Dates as `YYYY-MM-DD`. The amounts of the lines and the fee sum to the total."""

    number: str
    mode: Literal["live", "test"]
    issued_on: str
    due_on: str
    order_id: str
    seller: InvoiceSeller
    buyer: InvoiceBuyer
    currency: str
    lines: list[InvoiceLine]
    fee: InvoiceFee
    total: str
    bank: BankAccount
    reference: str
    note: str | None


class Closing(msgspec.Struct, frozen=True):
    """How and when an invoice was closed. Not part of the record, which is frozen at issue."""

    status: Literal["paid", "cancelled"]
    on: str
