"""The journal as text: CSV for spreadsheets and accounting software, or the language of beancount."""

import csv
import io
from collections.abc import Callable, Iterable
from datetime import date

from tonne.money.accounting.journal.model import TAX_ACCOUNTS, JournalEntry, LedgerAccount, Posting
from tonne.platform.values.amounts import format_money
from tonne_verify.formulas import escape_formula

CSV_HEAD = (
    *("date", "entry", "kind", "account", "tax_code", "currency", "debit", "credit"),
    *("home_currency", "home_amount"),
    *("subject", "organisation_id", "description", "happened_on", "corrects"),
    "number",
)
# That of an account and a tax code in the chart of the accountant.
NumberOf = Callable[[str, str], str]


def csv_head() -> str:
    return _csv([CSV_HEAD])


def csv_entry(entry: JournalEntry, number_of: NumberOf | None = None) -> str:
    """One row per posting. Only text of others can be a formula: accounts, currencies and amounts are our own."""
    before = entry.booked_on.isoformat(), escape_formula(entry.name), entry.kind
    happened_on = "" if entry.happened_on is None else entry.happened_on.isoformat()
    after = escape_formula(entry.subject), entry.organisation_id or "", entry.description
    return _csv(
        (
            *(*before, posting.account, posting.tax_code or "", posting.currency, *_debit_and_credit(posting)),
            *(posting.home_currency or "", posting.home_text, *after),
            *(happened_on, escape_formula(entry.corrects)),
            "" if number_of is None else number_of(posting.account, posting.tax_code or ""),
        )
        for posting in entry.postings
    )


def _debit_and_credit(posting: Posting) -> tuple[str, str]:
    """Both are empty if only the amount in the currency of the country changes."""
    if not posting.amount_minor:
        return "", ""
    amount = format_money(abs(posting.amount_minor), posting.currency)
    return (amount, "") if posting.amount_minor > 0 else ("", amount)


def _csv(rows: Iterable[Iterable[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue()


def beancount_head(
    opened_on: date, tax_codes: Iterable[str] = (), number_of: Callable[[str, str], str | None] | None = None
) -> str:
    """Opens all accounts, so that the text is complete by itself. Their numbers are metadata."""
    accounts = [*((account, "") for account in LedgerAccount)]
    accounts += [(account, code) for account in TAX_ACCOUNTS for code in sorted(tax_codes)]
    lines = ['option "title" "Tonne"']
    for account, code in accounts:
        lines.append(f"{opened_on} open {account}:{code}" if code else f"{opened_on} open {account}")
        if number_of is not None and (number := number_of(account, code)):
            lines.append(f'  number: "{number}"')
    return "\n".join(lines) + "\n\n"


def beancount_entry(entry: JournalEntry) -> str:
    happened_on = None if entry.happened_on is None else entry.happened_on.isoformat()
    metadata = {"entry": entry.name, "organisation": entry.organisation_id}
    metadata |= {"happened": happened_on, "corrects": entry.corrects}
    lines = [f"{entry.booked_on} * {_quoted(entry.description)} {_quoted(entry.subject)}"]
    lines += [f"  {name}: {_quoted(value)}" for name, value in metadata.items() if value]
    for posting in entry.postings:
        amount = format_money(posting.amount_minor, posting.currency)
        lines.append(f"  {posting.account_name}  {amount} {posting.currency}")
        if posting.home_currency:
            lines.append(f"    home: {posting.home_text} {posting.home_currency}")
    return "\n".join(lines) + "\n\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
