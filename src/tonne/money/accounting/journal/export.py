"""The journal as text: CSV for spreadsheets and accounting software, or the language of beancount."""

import csv
import io
from collections.abc import Iterable
from datetime import date

from tonne.money.accounting.journal.model import JournalEntry, LedgerAccount, Posting
from tonne.platform.documents.sheets.formulas import escape_formula
from tonne.platform.values.amounts import format_money

CSV_HEAD = (
    *("date", "entry", "kind", "account", "currency", "debit", "credit"),
    *("subject", "organisation_id", "description"),
)


def csv_head() -> str:
    return _csv([CSV_HEAD])


def csv_entry(entry: JournalEntry) -> str:
    """One row per posting. Only text of others can be a formula: accounts, currencies and amounts are our own."""
    before = entry.booked_on.isoformat(), escape_formula(f"{entry.kind}:{entry.source_id}"), entry.kind
    after = escape_formula(entry.subject), entry.organisation_id or "", entry.description
    return _csv(
        (*before, posting.account, posting.currency, *_debit_and_credit(posting), *after) for posting in entry.postings
    )


def _debit_and_credit(posting: Posting) -> tuple[str, str]:
    amount = format_money(abs(posting.amount_minor), posting.currency)
    return (amount, "") if posting.amount_minor > 0 else ("", amount)


def _csv(rows: Iterable[Iterable[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue()


def beancount_head(opened_on: date) -> str:
    """Opens all accounts, so that the text is complete by itself."""
    lines = ['option "title" "Tonne"', *(f"{opened_on} open {account}" for account in LedgerAccount)]
    return "\n".join(lines) + "\n\n"


def beancount_entry(entry: JournalEntry) -> str:
    metadata = {"entry": f"{entry.kind}:{entry.source_id}", "organisation": entry.organisation_id}
    lines = [f"{entry.booked_on} * {_quoted(entry.description)} {_quoted(entry.subject)}"]
    lines += [f"  {name}: {_quoted(value)}" for name, value in metadata.items() if value]
    lines += [
        f"  {posting.account}  {format_money(posting.amount_minor, posting.currency)} {posting.currency}"
        for posting in entry.postings
    ]
    return "\n".join(lines) + "\n\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
