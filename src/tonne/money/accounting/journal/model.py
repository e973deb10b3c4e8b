"""The journal as values: accounts, postings and where they come from. Amounts are signed: debits are positive."""

from datetime import date
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from tonne.platform.values.amounts import format_money


class LedgerAccount(StrEnum):
    """The chart of accounts, in the spelling of beancount: the first part is the kind of account."""

    BANK = "Assets:Bank"
    # What the card gateway owes us: captured, not yet paid out.
    CARD_CLEARING = "Assets:Card-Clearing"
    # Payouts that the gateway has sent, until the bank's statement shows them.
    PAYOUTS = "Assets:Payouts-In-Transit"
    # Card payments that the gateway has withdrawn because of an open dispute.
    DISPUTED = "Assets:Disputed"
    RECEIVABLES = "Assets:Receivables"
    # Invoices that an operator settled by hand, until the transfer is imported.
    SETTLED_BY_HAND = "Assets:Settled-By-Hand"
    CREDITS = "Assets:Credits"
    # Money that arrived and pays for nothing: it is assigned or goes back.
    UNALLOCATED = "Liabilities:Unallocated-Receipts"
    TAX = "Liabilities:Tax"
    # Tax of documents that is owed later: when the customer pays, or when the service is supplied.
    TAX_NOT_DUE = "Liabilities:Tax-Not-Due"
    # Billed or paid, not yet delivered.
    DEFERRED = "Liabilities:Deferred-Revenue"
    # Transfers that an operator dealt with outside of Tonne.
    RESOLVED_BY_HAND = "Equity:Resolved-By-Hand"
    OFFSETS = "Income:Offsets"
    FEES = "Income:Fees"
    REFUNDS = "Income:Refunds"
    COST_OF_CREDITS = "Expenses:Cost-Of-Credits"
    GATEWAY_FEES = "Expenses:Gateway-Fees"
    # Written off, and neither paid nor credited since.
    BAD_DEBTS = "Expenses:Bad-Debts"
    BANK_FEES = "Expenses:Bank-Fees"
    # Of payments, in both directions: too small to ask for, or to return.
    SMALL_DIFFERENCES = "Expenses:Small-Differences"
    # Of amounts in the currency of the seller's country.
    CURRENCY_DIFFERENCES = "Expenses:Currency-Differences"
    DISPUTE_LOSSES = "Expenses:Dispute-Losses"


# Their postings have tax codes.
TAX_ACCOUNTS = (LedgerAccount.TAX, LedgerAccount.TAX_NOT_DUE)


class JournalSource(Struct, frozen=True):
    """A kind of business event that is booked.

    `sql` returns one row per posting: mode, at, source_id, subject (order, invoice or transfer), organisation_id,
    currency, account, amount_minor. The postings of one source_id are one entry, and sum to zero per currency. A tax
    code follows the account after another colon: `Liabilities:Tax:DE-S-19`.
    """

    kind: str
    description: str
    sql: str


class Posting(NamedTuple):
    account: LedgerAccount
    currency: str
    amount_minor: int
    tax_code: str | None = None
    # In the currency of the seller's country, if that is another one.
    home_minor: int | None = None
    home_currency: str | None = None

    @property
    def account_name(self) -> str:
        """With the tax code."""
        return self.account if self.tax_code is None else f"{self.account}:{self.tax_code}"

    @property
    def home_text(self) -> str:
        if self.home_minor is None or self.home_currency is None:
            return ""
        return format_money(self.home_minor, self.home_currency)


class JournalEntry(Struct, frozen=True):
    booked_on: date
    # The kind of the source: `captured`, `completed`, ...
    kind: str
    source_id: str
    subject: str
    organisation_id: str | None
    description: str
    postings: tuple[Posting, ...]
    version: int = 1
    # When it happened, if it was booked later because that month was closed.
    happened_on: date | None = None

    @property
    def name(self) -> str:
        return _name(self.kind, self.source_id, self.version)

    @property
    def corrects(self) -> str:
        """The name of the entry that it corrects, or an empty text."""
        return _name(self.kind, self.source_id, self.version - 1) if self.version > 1 else ""


def _name(kind: str, source_id: str, version: int) -> str:
    return f"{kind}:{source_id}" if version == 1 else f"{kind}:{source_id}:{version}"


class Payout(Struct, frozen=True, kw_only=True):
    """`amount_minor` goes to the bank, `fee_minor` the gateway keeps."""

    payout_id: str
    paid_on: date
    currency: str
    amount_minor: int
    fee_minor: int
