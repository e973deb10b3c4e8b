"""All kinds of business events that are booked."""

from tonne.money.accounting.journal.bad_debts import BAD_DEBTS
from tonne.money.accounting.journal.bank_money import BANK_MONEY
from tonne.money.accounting.journal.card_payments import CARD_PAYMENTS
from tonne.money.accounting.journal.credits import CREDITS
from tonne.money.accounting.journal.sales import SALES

SOURCES = (*SALES, *BANK_MONEY, *BAD_DEBTS, *CARD_PAYMENTS, *CREDITS)

_COLUMNS = "mode, at, source_id, subject, organisation_id, currency, account, amount_minor"


def all_postings(condition: str) -> str:
    """SQL of the postings of all kinds that meet the condition."""
    return " UNION ALL ".join(
        f"SELECT '{source.kind}' AS kind, {_COLUMNS} FROM ({source.sql}) AS source WHERE {condition}"  # noqa: S608
        for source in SOURCES
    )
