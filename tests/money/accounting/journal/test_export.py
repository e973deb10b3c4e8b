"""The text of the journal: beancount accepts it, and CSV has debits and credits."""

import csv
import io
from datetime import date

from beancount import loader
from beancount.core.data import Open
from hypothesis import given
from hypothesis import strategies as st

from tests.architecture.source import ROOT
from tonne.money.accounting.journal.export import CSV_HEAD, beancount_entry, beancount_head, csv_entry, csv_head
from tonne.money.accounting.journal.model import JournalEntry, LedgerAccount, Posting
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import replace

ACCOUNTS = st.sampled_from(LedgerAccount)
AMOUNTS = st.integers(-(10**12), 10**12).filter(bool)
CURRENCIES = st.sampled_from(["EUR", "JPY", "KWD"])
# What clients and banks write: quotes, backslashes, line breaks.
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=30) | st.just('a "b" \\ c\nd')


def entry(*postings: Posting, subject: str = "TN-LIVE-000001") -> JournalEntry:
    return JournalEntry(
        booked_on=date(2026, 11, 3),
        kind="captured",
        source_id="chg_1",
        subject=subject,
        organisation_id="org_1",
        description="Card payment captured",
        postings=postings,
    )


def balanced(currency: str, parts: list[tuple[LedgerAccount, int]], last: LedgerAccount) -> list[Posting]:
    postings = [Posting(account, currency, amount) for account, amount in parts]
    rest = -sum(amount for _, amount in parts)
    return [*postings, Posting(last, currency, rest)] if rest else postings


@given(st.lists(st.tuples(CURRENCIES, st.lists(st.tuples(ACCOUNTS, AMOUNTS), max_size=3), ACCOUNTS), max_size=3), TEXTS)
def test_beancount_accepts_every_balanced_entry(
    parts: list[tuple[str, list[tuple[LedgerAccount, int]], LedgerAccount]], subject: str
) -> None:
    postings = [posting for each in parts for posting in balanced(*each)]
    _, errors, _ = loader.load_string(
        beancount_head(date(2026, 11, 1)) + beancount_entry(entry(*postings, subject=subject))
    )
    assert errors == []


def test_beancount_refuses_an_entry_that_does_not_balance() -> None:
    wrong = entry(Posting(LedgerAccount.BANK, "EUR", 100), Posting(LedgerAccount.TAX, "EUR", -99))
    _, errors, _ = loader.load_string(beancount_head(date(2026, 11, 1)) + beancount_entry(wrong))
    assert len(errors) == 1


def test_amounts_have_the_decimals_of_their_currency() -> None:
    text = beancount_entry(entry(Posting(LedgerAccount.BANK, "KWD", 5), Posting(LedgerAccount.TAX, "KWD", -5)))
    assert "Assets:Bank  0.005 KWD" in text
    assert "Liabilities:Tax  -0.005 KWD" in text
    assert DECIMALS["KWD"] == 3


def test_csv_has_debits_and_credits_in_columns_and_runs_no_formula() -> None:
    postings = (Posting(LedgerAccount.BANK, "EUR", 1234), Posting(LedgerAccount.TAX, "EUR", -1234, "DE-S-19"))
    text = csv_head() + csv_entry(entry(*postings, subject="=1+1"))
    head, debit, credit = csv.reader(io.StringIO(text))
    assert tuple(head) == CSV_HEAD
    assert debit[3:11] == ["Assets:Bank", "", "EUR", "12.34", "", "", "", "'=1+1"]
    assert credit[3:8] == ["Liabilities:Tax", "DE-S-19", "EUR", "", "12.34"]


def test_an_entry_says_when_it_happened_and_what_it_corrects() -> None:
    postings = (Posting(LedgerAccount.BANK, "EUR", 5), Posting(LedgerAccount.TAX, "EUR", -5, "DE-S-19"))
    late = replace(entry(*postings), version=2, happened_on=date(2026, 10, 30))
    [row, _] = csv.DictReader(io.StringIO(csv_head() + csv_entry(late)))
    assert (row["entry"], row["corrects"], row["happened_on"]) == ("captured:chg_1:2", "captured:chg_1", "2026-10-30")
    text = beancount_head(date(2026, 11, 1), {"DE-S-19"}) + beancount_entry(late)
    assert '  corrects: "captured:chg_1"' in text
    assert "  Liabilities:Tax:DE-S-19  -0.05 EUR" in text
    _, errors, _ = loader.load_string(text)
    assert errors == []


def test_accounts_have_the_numbers_of_a_chart() -> None:
    numbers = {(str(LedgerAccount.BANK), ""): "1800", (str(LedgerAccount.TAX), "DE-S-19"): "3806"}
    postings = (Posting(LedgerAccount.BANK, "EUR", 5), Posting(LedgerAccount.TAX, "EUR", -5, "DE-S-19"))
    text = csv_head() + csv_entry(entry(*postings), lambda account, code: numbers[account, code])
    assert [row["number"] for row in csv.DictReader(io.StringIO(text))] == ["1800", "3806"]
    head = beancount_head(date(2026, 11, 1), {"DE-S-19"}, lambda account, code: numbers.get((account, code)))
    entries, errors, _ = loader.load_string(head + beancount_entry(entry(*postings)))
    assert errors == []
    found = {each.account: each.meta.get("number") for each in entries if isinstance(each, Open)}
    assert (found["Assets:Bank"], found["Liabilities:Tax:DE-S-19"], found["Assets:Credits"]) == ("1800", "3806", None)


def test_the_documentation_lists_all_accounts() -> None:
    text = (ROOT / "docs" / "accounting.md").read_text(encoding="utf-8")
    table = text.partition("<!-- accounts -->\n")[2].partition("<!-- /accounts -->")[0]
    listed = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert listed == [str(account) for account in LedgerAccount]
