"""Statements of account: what an organisation was billed, credited and paid in a period, and what it owes."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import msgspec

from tonne.money.accounting.reports import statement_store
from tonne.money.invoices.documents.parties import buyer_of, seller_of
from tonne.money.invoices.documents.record import InvoiceBuyer, InvoiceSeller
from tonne.money.invoices.store import find_billed_organisation
from tonne.platform.db.database import Connection
from tonne.platform.documents.pdf import render_pdf
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Mode, Tenant
from tonne.platform.values.language import DEFAULT_LANGUAGE

TEMPLATE = Path(__file__).parent / "templates" / "account_statement.typ"


class AccountStatement(msgspec.Struct, frozen=True):
    """In one currency."""

    organisation_id: str
    mode: Mode
    currency: str
    first_day: date
    last_day: date
    opening_minor: int
    entries: Sequence[statement_store.StatementEntry]

    @property
    def closing_minor(self) -> int:
        return self.entries[-1].balance_minor if self.entries else self.opening_minor


# They change nothing that the customer owes.
LIST_WRITE_OFFS = """
SELECT (written.booked_at AT TIME ZONE 'UTC')::date AS day, 'write_off' AS kind, invoices.reference, invoices.currency,
       written.amount_minor
FROM write_offs written JOIN invoices ON invoices.id = written.invoice_id
WHERE invoices.organisation_id = $1 AND invoices.mode = $2 AND written.booked_at IS NOT NULL
UNION ALL
SELECT (written.undone_at AT TIME ZONE 'UTC')::date, 'reinstated', invoices.reference, invoices.currency,
       written.undone_minor
FROM write_offs written JOIN invoices ON invoices.id = written.invoice_id
WHERE invoices.organisation_id = $1 AND invoices.mode = $2 AND written.undone_minor IS NOT NULL
"""
_WORDS = {"write_off": "written off, and still owed", "reinstated": "expected to be paid again"}
# After all entries of a day.
_LAST_PLACE = 9


async def _list_write_offs(connection: Connection, tenant: Tenant) -> list[dict[str, Any]]:
    """As entries without an amount."""
    return [
        {
            **row,
            "place": _LAST_PLACE,
            "text": f"{format_money(row['amount_minor'], row['currency'])} {_WORDS[row['kind']]}",
            "amount_minor": 0,
        }
        for row in await connection.fetch(LIST_WRITE_OFFS, *tenant)
    ]


async def make_statements(
    connection: Connection, tenant: Tenant, first_day: date, last_day: date
) -> list[AccountStatement]:
    """One for each currency in which the organisation was ever billed up to `last_day`, with write-offs.

    It reads all entries from the first one on. For pages there is `read_period`.
    """
    written_off = await _list_write_offs(connection, tenant)
    rows = [
        *await statement_store.list_entries(connection, tenant, last_day),
        *(each for each in written_off if each["day"] <= last_day),
    ]
    rows.sort(key=lambda row: (row["currency"], row["day"], row["place"], row["reference"]))
    statements = []
    for currency in dict.fromkeys(row["currency"] for row in rows):
        opening = balance = 0
        entries = []
        for row in rows:
            if row["currency"] != currency:
                continue
            balance += row["amount_minor"]
            if row["day"] < first_day:
                opening = balance
            else:
                entries.append(
                    statement_store.StatementEntry(
                        row["day"], row["kind"], row["reference"], row["text"], row["amount_minor"], balance
                    )
                )
        statements.append(AccountStatement(*tenant, currency, first_day, last_day, opening, entries))
    return statements


async def read_period(
    tx: Connection, tenant: Tenant, days: tuple[date, date], balance: statement_store.StatementBalance
) -> AccountStatement:
    """The statement of one currency, without write-offs. Call it in a transaction."""
    batches = statement_store.read_statement_entries(tx, tenant, days=days, balance=balance, limit=None)
    entries = [entry async for batch in batches for entry in batch]
    return AccountStatement(*tenant, balance.currency, *days, balance.opening_minor, entries)


class _PrintedEntry(msgspec.Struct, frozen=True):
    on: str
    kind: str
    reference: str
    text: str
    amount: str
    balance: str


class PrintedStatement(msgspec.Struct, frozen=True):
    mode: str
    currency: str
    first_day: str
    last_day: str
    seller: InvoiceSeller
    buyer: InvoiceBuyer
    opening: str
    closing: str
    entries: list[_PrintedEntry]


async def print_statement(
    connection: Connection, statement: AccountStatement, organisation_id: str, settings: Settings
) -> PrintedStatement:
    """For the customer: without write-offs, which are internal."""
    organisation = await find_billed_organisation(connection, organisation_id)
    currency = statement.currency
    return PrintedStatement(
        mode=statement.mode.value,
        currency=currency,
        first_day=statement.first_day.isoformat(),
        last_day=statement.last_day.isoformat(),
        seller=seller_of(settings),
        buyer=buyer_of(organisation.name, organisation.address, organisation.tax, DEFAULT_LANGUAGE),
        opening=signed_amount(statement.opening_minor, currency),
        closing=signed_amount(statement.closing_minor, currency),
        entries=[
            _PrintedEntry(
                on=entry.on.isoformat(),
                kind=entry.kind.replace("_", " ").capitalize(),
                reference=entry.reference,
                text=entry.text,
                amount=signed_amount(entry.amount_minor, currency),
                balance=signed_amount(entry.balance_minor, currency),
            )
            for entry in statement.entries
            if entry.kind not in _WORDS
        ],
    )


def signed_amount(amount_minor: int, currency: str) -> str:
    return f"{'-' if amount_minor < 0 else ''}{format_money(abs(amount_minor), currency)}"


def account_statement_pdf(printed: PrintedStatement) -> bytes:
    """CPU-bound: call it through `asyncio.to_thread` from a coroutine."""
    made_at = datetime.combine(date.fromisoformat(printed.last_day), time(), UTC)
    return render_pdf(TEMPLATE, msgspec.to_builtins(printed), issued_at=made_at)
