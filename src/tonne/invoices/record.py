"""What an invoice says, frozen when it is issued: what is mailed, shown and matched against payments is this."""

from typing import Literal

import msgspec


class Seller(msgspec.Struct, frozen=True):
    name: str
    address_lines: list[str]
    tax_id: str | None
    email: str | None


class Buyer(msgspec.Struct, frozen=True):
    name: str
    address_lines: list[str]


class InvoiceLine(msgspec.Struct, frozen=True):
    """`quantity` in tonnes; `unit_price` per tonne and `amount` in the invoice's currency."""

    description: str
    quantity: str
    unit_price: str
    amount: str


class Fee(msgspec.Struct, frozen=True):
    label: str
    amount: str


class BankAccount(msgspec.Struct, frozen=True):
    """`lines` carry whatever else a transfer needs, such as a sort code or the bank's address."""

    account_holder: str
    iban: str | None
    bic: str | None
    bank_name: str | None
    lines: list[str]


class InvoiceRecord(msgspec.Struct, frozen=True):
    """Dates as `YYYY-MM-DD`. The lines' amounts and the fee sum to the total."""

    number: str
    mode: Literal["live", "test"]
    issued_on: str
    due_on: str
    order_id: str
    seller: Seller
    buyer: Buyer
    currency: str
    lines: list[InvoiceLine]
    fee: Fee
    total: str
    bank: BankAccount
    reference: str
    note: str | None
