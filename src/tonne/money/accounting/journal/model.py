"""The journal as values: accounts, postings and where they come from. Amounts are signed: debits are positive."""

from datetime import date
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct


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
    DISPUTE_LOSSES = "Expenses:Dispute-Losses"


class JournalSource(Struct, frozen=True):
    """A kind of business event that is booked.

    `sql` returns one row per posting: mode, at, source_id, subject (order, invoice or transfer), organisation_id,
    currency, account, amount_minor. The postings of one source_id are one entry, and sum to zero per currency.
    """

    kind: str
    description: str
    sql: str


class Posting(NamedTuple):
    account: LedgerAccount
    currency: str
    amount_minor: int


class JournalEntry(Struct, frozen=True):
    booked_on: date
    # The kind of the source: `captured`, `completed`, ...
    kind: str
    source_id: str
    subject: str
    organisation_id: str | None
    description: str
    postings: tuple[Posting, ...]


class Payout(Struct, frozen=True, kw_only=True):
    """`amount_minor` goes to the bank, `fee_minor` the gateway keeps."""

    payout_id: str
    paid_on: date
    currency: str
    amount_minor: int
    fee_minor: int
