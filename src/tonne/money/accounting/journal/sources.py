"""All kinds of business events that are booked, and the rows that each of them is about.

Triggers note a row that was inserted or changed (`ledger_due`), and the rows of other kinds that depend on it.
"""

from tonne.money.accounting.journal.bad_debts import BAD_DEBTS
from tonne.money.accounting.journal.bank_money import BANK_MONEY
from tonne.money.accounting.journal.card_payments import CARD_PAYMENTS
from tonne.money.accounting.journal.credits import CREDITS
from tonne.money.accounting.journal.model import JournalSource
from tonne.money.accounting.journal.sales import SALES

SOURCES = (*SALES, *BANK_MONEY, *BAD_DEBTS, *CARD_PAYMENTS, *CREDITS)

_COLUMNS = "mode, at, source_id, subject, organisation_id, currency, account, amount_minor"


def all_postings(condition: str) -> str:
    """SQL of the postings of all kinds that meet the condition."""
    return " UNION ALL ".join(
        f"SELECT '{source.kind}' AS kind, {_COLUMNS} FROM ({source.sql}) AS source WHERE {condition}"  # noqa: S608
        for source in SOURCES
    )


# The table whose ids are the source ids of each kind.
TABLE_OF_KIND = {
    **dict.fromkeys(("invoiced", "credited", "tax_due"), "tax_documents"),
    **dict.fromkeys(("settled", "billing_adjusted"), "invoices"),
    **dict.fromkeys(("completed", "closed_for_nothing", "cancelled", "delivered"), "orders"),
    "reduced": "order_reductions",
    "resupplied": "shares",
    "received": "bank_transfers",
    "assigned": "transfer_assignments",
    "difference": "invoice_differences",
    **dict.fromkeys(("returned", "return_failed"), "transfer_returns"),
    "resolved": "transfer_resolutions",
    **dict.fromkeys(("refunded_by_hand", "refunded", "refund_failed"), "refunds"),
    **dict.fromkeys(("written_off", "reinstated"), "write_offs"),
    **dict.fromkeys(("captured", "captured_for_invoice", "accepted"), "charges"),
    **dict.fromkeys(("withdrawn", "dispute_closed"), "disputes"),
    "paid_out": "gateway_payouts",
}
TABLES = tuple(dict.fromkeys(TABLE_OF_KIND.values()))
KINDS_OF_TABLE = {table: tuple(kind for kind, of in TABLE_OF_KIND.items() if of == table) for table in TABLES}


def postings_of_due_rows(first_parameter: int) -> str:
    """SQL of the postings of some rows. For each table in `TABLES` there is a parameter, the ids of its rows."""
    numbers = {table: first_parameter + place for place, table in enumerate(TABLES)}
    return " UNION ALL ".join(_postings_of_ids(source, numbers[TABLE_OF_KIND[source.kind]]) for source in SOURCES)


def _postings_of_ids(source: JournalSource, number: int) -> str:
    """Without an id the source is not read at all. Shares are found by their order: no index has their source id."""
    orders = f"ARRAY(SELECT split_part(id, ':', 1) FROM unnest(${number}::text[]) AS id)"  # noqa: S608
    return (
        f"SELECT '{source.kind}' AS kind, {_COLUMNS} FROM ({source.sql}) AS source "  # noqa: S608
        f"WHERE cardinality(${number}::text[]) > 0 AND source_id = ANY (${number}::text[]) "
        f"{f'AND subject = ANY ({orders})' if TABLE_OF_KIND[source.kind] == 'shares' else ''} "
        "AND amount_minor <> 0 AND at IS NOT NULL"
    )
