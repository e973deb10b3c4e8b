"""Every booked line is counted once, in whatever files, formats and order it is imported."""

import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import date, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.money.invoices.bank import FILES, Line, camt_file, csv_file, mt940_file
from tests.money.invoices.billing import Billing
from tests.support.world import TESTER, World
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.bank.formats.identity import StoredLine, Verdict, identify, reference_key
from tonne.money.bank.formats.read_statement import read_statement, with_own_accounts
from tonne.money.bank.formats.statement import Statement
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, replace

FIRST = date(2026, 3, 2)
PEOPLE = (("Ada GmbH", "DE75512108001245126199"), ("Eve BV", "NL20INGB0001234567"))


class Bank:
    """What the import does with identities, without the database."""

    def __init__(self) -> None:
        self.stored: list[StoredLine] = []
        self.doubtful = 0

    def take(self, content: bytes) -> list[Verdict]:
        statement = _read(content)
        found = identify(statement.lines, statement.format, self.stored)
        by_id = {each.transfer_id: each for each in self.stored}
        for line, verdict, transfer_id, has_same_payer in found:
            key = reference_key(statement.format, line)
            if verdict is Verdict.NEW:
                new = StoredLine(transfer_id, statement.format, line, {key} if key else set())
                by_id[transfer_id] = new
                self.stored.append(new)
            elif verdict is Verdict.KNOWN:
                known = by_id[transfer_id]
                known.references |= {key} if key else set()
                if has_same_payer and not known.line.payer_iban:
                    known.line = replace(known.line, payer_iban=line.payer_iban)
            self.doubtful += verdict is Verdict.DOUBTFUL
        return [each.verdict for each in found]

    def money(self) -> dict[tuple[date, int], int]:
        counts: dict[tuple[date, int], int] = defaultdict(int)
        for each in self.stored:
            counts[each.line.booked_on, each.line.amount_minor] += 1
        return counts


def _read(content: bytes) -> Statement:
    file = SheetFile("file", content)
    statement = read_statement(file)
    options = Settings(bank_iban="DE89 3704 0044 0532 0130 00")
    return Statement(statement.format, with_own_accounts(file, statement.lines, options, None))


class Cut(NamedTuple):
    """A file: whole days, or with the bank's references any lines."""

    format: str
    start: int
    length: int


@st.composite
def statements(draw: st.DrawFn) -> list[Line]:
    """Lines of four days with few amounts, so that many are equal. All have a reference of the bank."""
    kinds = st.tuples(st.integers(0, 3), st.sampled_from([1395, 500, -500]), st.integers(0, 1), st.integers(1, 3))
    lines = [
        Line(FIRST + timedelta(days=day), minor, f"Invoice TN-LIVE-{number:06d}", *PEOPLE[person])
        for day, minor, person, number in sorted(draw(st.lists(kinds, min_size=1, max_size=12)), key=lambda k: k[0])
    ]
    return [Line(each.on, each.minor, each.text, each.payer, each.iban, f"B{i}") for i, each in enumerate(lines)]


CUTS = st.lists(
    st.builds(Cut, st.sampled_from(list(FILES)), st.integers(0, 11), st.integers(1, 12)), min_size=0, max_size=8
)


def _cut(lines: Sequence[Line], cut: Cut) -> list[Line]:
    if cut.format == "camt":
        return list(lines[cut.start : cut.start + cut.length])
    days = {each.on for each in lines[cut.start : cut.start + cut.length]}
    return [each for each in lines if each.on in days]


@settings(max_examples=150, deadline=None)
@given(lines=statements(), cuts=CUTS, last=st.sampled_from(list(FILES)))
def test_overlapping_files_in_any_format_and_order_book_the_same_money(
    lines: list[Line], cuts: list[Cut], last: str
) -> None:
    once, pieces = Bank(), Bank()
    once.take(FILES[last](lines))
    for cut in cuts:
        if part := _cut(lines, cut):
            pieces.take(FILES[cut.format](part))
    pieces.take(FILES[last](lines))
    pieces.take(FILES[last](lines))
    assert pieces.money() == once.money()
    assert len(once.stored) == len(lines)


@settings(max_examples=100, deadline=None)
@given(lines=statements(), name=st.sampled_from(list(FILES)))
def test_files_survive_being_written_and_read(lines: list[Line], name: str) -> None:
    read = _read(FILES[name](lines)).lines
    assert [(each.booked_on, each.amount_minor, each.currency) for each in read] == [
        (each.on, each.minor, each.currency) for each in lines
    ]
    assert [each.reference for each in read] == [each.text for each in lines]
    assert [each.payer.upper() for each in read] == [each.payer.upper() for each in lines]
    if name == "camt":
        assert [each.bank_reference for each in read] == [each.reference for each in lines]


def test_two_equal_part_payments_in_two_files_are_two_if_the_bank_says_so() -> None:
    bank = Bank()
    first, second = (Line(FIRST, 500, "TN-LIVE-000001", reference=name, end_to_end="SAME") for name in ("R1", "R2"))
    assert bank.take(camt_file([first])) == [Verdict.NEW]
    assert bank.take(camt_file([second])) == [Verdict.NEW]
    assert bank.take(mt940_file([first, second])) == [Verdict.KNOWN] * 2
    assert bank.take(csv_file([first, second])) == [Verdict.KNOWN] * 2
    assert bank.take(csv_file([first, second, second])) == [Verdict.KNOWN, Verdict.KNOWN, Verdict.NEW]


def test_the_end_to_end_id_identifies_nothing() -> None:
    bank = Bank()
    for day, text in ((2, "a"), (3, "a"), (3, "b")):
        line = Line(date(2026, 3, day), 500, text, end_to_end="SAME")
        assert bank.take(camt_file([line])) == [Verdict.NEW]


@pytest.mark.parametrize("change", [{"on": FIRST + timedelta(days=1)}, {"text": "TN-LIVE-000009"}])
def test_a_reference_of_the_bank_that_is_used_again_is_doubtful(change: dict[str, object]) -> None:
    bank = Bank()
    line = Line(FIRST, 500, "TN-LIVE-000001", reference="R1")
    again = Line(**{**vars(line), **change})
    assert bank.take(camt_file([line])) == [Verdict.NEW]
    assert bank.take(camt_file([again])) == [Verdict.DOUBTFUL]
    assert Bank().take(camt_file([line, again])) == [Verdict.NEW, Verdict.DOUBTFUL]


def test_a_reversal_may_have_the_reference_of_what_it_reverses() -> None:
    bank = Bank()
    line = Line(FIRST, 500, "TN-LIVE-000001", reference="R1")
    assert bank.take(camt_file([line, Line(FIRST, -500, "back", reference="R1")])) == [Verdict.NEW, Verdict.NEW]


def test_other_payers_in_one_format_are_other_lines() -> None:
    bank = Bank()
    assert bank.take(csv_file([Line(FIRST, 500, "a", payer="Ada")])) == [Verdict.NEW]
    assert bank.take(csv_file([Line(FIRST, 500, "a", payer="Eve")])) == [Verdict.NEW]


def test_names_and_texts_are_compared_as_banks_change_them() -> None:
    bank = Bank()
    text = "Rechnung TN-LIVE-000001 vom 1. März, herzlichen Dank für alles"
    line = Line(FIRST, 500, text, payer="Müller & Söhne Gesellschaft mbH & Co KG", reference="R1")
    assert bank.take(camt_file([line])) == [Verdict.NEW]
    mt940 = Line(FIRST, 500, "RECHNUNG TN-LIVE-000001 VOM 1. MAERZ", payer="MUELLER + SOEHNE GESELLSCHA")
    assert bank.take(mt940_file([mt940])) == [Verdict.KNOWN]
    other = Line(FIRST, 500, "RECHNUNG TN-LIVE-000002 VOM 1. MAERZ", payer="MUELLER + SOEHNE GESELLSCHA")
    assert bank.take(mt940_file([other])) == [Verdict.DOUBTFUL]


@pytest.mark.parametrize("seed", range(3))
async def test_the_database_books_the_same_money_whatever_the_files(billing: Billing, world: World, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a test
    orders = [await billing.place_order(world.ours_live.scope) for _ in range(3)]
    await billing.work()
    lines = [
        Line(
            FIRST + timedelta(days=number // 4),
            chance.choice([500, 895, 1395]),
            f"TN-LIVE-{chance.randint(1, 4):06d}",
            *chance.choice(PEOPLE),
            f"B{number}",
        )
        for number in range(12)
    ]
    for _ in range(6):
        cut = Cut(chance.choice(list(FILES)), chance.randrange(12), chance.randint(1, 12))
        await _import(billing, FILES[cut.format](_cut(lines, cut)))
    for name in FILES:
        await _import(billing, FILES[name](lines))
    rows = await billing.fetch("SELECT booked_on, amount_minor, reference FROM bank_transfers")
    assert sorted(map(tuple, rows)) == sorted((each.on, each.minor, each.text) for each in lines)
    for number, order in enumerate(orders, 1):
        received = sum(each.minor for each in lines if each.text == f"TN-LIVE-{number:06d}")
        assert await billing.status(order) == ("paid" if received >= 1395 else "placed")
    await billing.check_invariants()


async def _import(billing: Billing, content: bytes) -> None:
    async with billing.database.transaction() as tx:
        file, now = SheetFile("file", content), billing.clock.now
        await import_statement(tx, Mode.LIVE, file, settings=billing.settings, by=TESTER.at(now))
