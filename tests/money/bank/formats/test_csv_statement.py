"""Bank statements as CSV files."""

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonne.money.bank.formats.csv_statement import Spelling
from tonne.money.bank.formats.local_numbers import (
    DateOrder,
    DecimalMark,
    detect_decimal_mark,
    parse_local_amount,
    parse_local_date,
)
from tonne.money.bank.formats.read_statement import read_statement
from tonne.money.bank.formats.statement import StatementLine
from tonne.platform.documents.sheets.columns import CellError, SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile

HEAD = "booked_on,amount,currency,payer,reference\n"
LOCAL = HEAD.replace(",", ";")


def read(text: str, spelling: Spelling | None = None) -> list[StatementLine]:
    return list(read_statement(SheetFile("march.csv", text.encode()), spelling or Spelling()).lines)


def refusal(text: str) -> list[tuple[int | None, str | None, str]]:
    with pytest.raises(SheetInvalid) as refused:
        read(text)
    return [(error.line, error.column, error.message) for error in refused.value.errors]


@pytest.mark.parametrize(
    "content",
    [
        HEAD.encode() + b"2026-03-05,13.95,EUR,Ada,TN\n",
        b"\xef\xbb\xbf" + HEAD.encode() + b"2026-03-05,13.95,EUR,Ada,TN",
        HEAD.replace(",", ";").encode() + b"2026-03-05;13.95;EUR;Ada;TN\r\n",
        b"Reference,PAYER,currency, amount ,booked_on\r\n\r\nTN,Ada,EUR,+13.95,2026-03-05\r\n,,,,\r\n",
        HEAD.encode() + b'2026-03-05,13.95,EUR,"  Ada ","TN\n"\n',
        (HEAD + "2026-03-05,13.95,EUR,Ada,TN").replace(",", "\t").encode("utf-16"),
        LOCAL.encode() + b"05.03.2026;13,95;EUR;Ada;TN\n",
        LOCAL.encode() + b"5.3.2026;13,95;EUR;Ada;TN\n",
        HEAD.encode() + b'2026/03/05,"13,95",EUR,Ada,TN\n',
    ],
    ids=[
        "commas",
        "byte order mark",
        "semicolons",
        "other order",
        "cells with line breaks",
        "UTF-16 and tabs",
        "local date and decimal comma",
        "short local date",
        "quoted decimal comma",
    ],
)
def test_all_spellings_give_the_same_line(content: bytes) -> None:
    [line] = read_statement(SheetFile("march.csv", content)).lines
    assert (str(line.booked_on), line.amount_minor, line.currency) == ("2026-03-05", 1395, "EUR")
    assert (line.payer, line.reference) == ("Ada", "TN")


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        ("2026-02-30,1.00,EUR,Ada,TN", "booked_on"),
        (",1.00,EUR,Ada,TN", "booked_on"),
        ("31.2.2026,1.00,EUR,Ada,TN", "booked_on"),
        ("5/3/2026,1.00,EUR,Ada,TN", "booked_on"),
        ("05-03-2026,1.00,EUR,Ada,TN", "booked_on"),
        ("05.03.26,1.00,EUR,Ada,TN", "booked_on"),
        ("13/13/2026,1.00,EUR,Ada,TN", "booked_on"),
        ("2026-03-05,,EUR,Ada,TN", "amount"),
        ("2026-03-05,1.005,EUR,Ada,TN", "amount"),
        ("2026-03-05,1.0055,EUR,Ada,TN", "amount"),
        ("2026-03-05,1.5,JPY,Ada,TN", "amount"),
        ("2026-03-05,1e3,EUR,Ada,TN", "amount"),
        ("2026-03-05,NaN,EUR,Ada,TN", "amount"),
        ('2026-03-05,"1,000",EUR,Ada,TN', "amount"),
        ('2026-03-05,"1,00,00",EUR,Ada,TN', "amount"),
        ('2026-03-05,"1.00,000.00",EUR,Ada,TN', "amount"),
        ("2026-03-05,.50,EUR,Ada,TN", "amount"),
        ("2026-03-05,1 2.00,EUR,Ada,TN", "amount"),
        ("5.3.2026,1.234,KWD,Ada,TN", "amount"),
        ("2026-03-05,9999999999999999,EUR,Ada,TN", "amount"),
        ("2026-03-05,--1.00,EUR,Ada,TN", "amount"),
        ("2026-03-05,1.00,euro,Ada,TN", "currency"),
        ("2026-03-05,1.00,,Ada,TN", "currency"),
        ("2026-03-05,1.00,EUR,A\x1bda,TN", "payer"),
        (f"2026-03-05,1.00,EUR,Ada,{'x' * 1001}", "reference"),
    ],
)
def test_an_invalid_cell_is_reported_with_its_column(cells: str, column: str) -> None:
    with pytest.raises(SheetInvalid) as refused:
        read(f"{HEAD}{cells}\n")
    assert [(error.line, error.column) for error in refused.value.errors] == [(2, column)]
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"booked_on,amount,currency,payer\n",
        b"booked_on,amount,currency,payer,reference,extra\n",
        b"booked_on,amount,currency,payer,payer\n",
        b"2026-03-05,13.95,EUR,Ada,TN\n",
        HEAD.encode() + b'2026-03-05,13.95,EUR,Ada,"TN\n',
        HEAD.encode() + b"2026-03-05,13.95,EUR,\xff,TN\n",
        b"x" * 20_000_001,
    ],
    ids=["nothing", "empty lines", "missing", "unknown", "twice", "no header", "open quote", "latin-1", "too large"],
)
def test_an_unreadable_statement_is_one_error(content: bytes) -> None:
    with pytest.raises(SheetInvalid) as refused:
        read_statement(SheetFile("march.csv", content))
    assert len(refused.value.errors) == 1
    assert str(refused.value).startswith("march.csv")


def test_every_error_is_reported() -> None:
    text = HEAD + "x,1.00,EUR,Ada,TN\n2026-03-05,1.00,EUR,Ada,TN\n2026-03-05,1.00\n2026-03-05,y,z,Ada,TN\n"
    assert [line for line, _, _ in refusal(text)] == [2, 4, 5, 5]


def test_optional_columns_name_the_accounts() -> None:
    head = "booked_on,amount,currency,payer,reference,own_iban,payer_iban,bank_reference\n"
    [line] = read(f"{head}2026-03-05,1.00,EUR,Ada,TN,DE89 3704 0044 0532 0130 00,de75512108001245126199,R-1\n")
    assert line.own_account == "DE89370400440532013000"
    assert line.payer_iban == "DE75512108001245126199"
    assert line.bank_reference == "R-1"
    [fault] = refusal(f"{head}2026-03-05,1.00,EUR,Ada,TN,,DE75512108001245126198,\n")
    assert fault[1] == "payer_iban"


def test_an_ambiguous_date_names_the_option() -> None:
    [(line, column, message)] = refusal(f"{HEAD}05/03/2026,1.00,EUR,Ada,TN\n")
    assert (line, column) == (2, "booked_on")
    assert "--dates dmy" in message
    assert "--dates mdy" in message
    for order, day in ((DateOrder.DMY, "2026-03-05"), (DateOrder.MDY, "2026-05-03")):
        [read_line] = read(f"{HEAD}05/03/2026,1.00,EUR,Ada,TN\n", Spelling(dates=order))
        assert str(read_line.booked_on) == day


def test_one_date_that_is_clear_decides_for_the_file() -> None:
    lines = read(f"{HEAD}05/03/2026,1.00,EUR,Ada,TN\n17/03/2026,1.00,EUR,Ada,TN\n")
    assert [str(line.booked_on) for line in lines] == ["2026-03-05", "2026-03-17"]
    lines = read(f"{HEAD}03/05/2026,1.00,EUR,Ada,TN\n03/17/2026,1.00,EUR,Ada,TN\n")
    assert [str(line.booked_on) for line in lines] == ["2026-03-05", "2026-03-17"]
    mixed = f"{HEAD}03/05/2026,1.00,EUR,Ada,TN\n03/17/2026,1.00,EUR,Ada,TN\n17/03/2026,1.00,EUR,Ada,TN\n"
    assert [line for line, _, _ in refusal(mixed)] == [2, 3, 4]


@pytest.mark.parametrize(("order", "day"), [("dmy", "2026-03-05"), ("mdy", "2026-05-03"), ("ymd", "2005-03-26")])
def test_years_of_two_digits_need_the_option(order: str, day: str) -> None:
    assert str(parse_local_date("05.03.26", DateOrder(order))) == day


def test_an_ambiguous_amount_names_the_option() -> None:
    [(_, column, message)] = refusal(f"{LOCAL}5.3.2026;1.234;EUR;Ada;TN\n")
    assert column == "amount"
    assert "--decimals point or --decimals comma" in message
    [line] = read(f"{LOCAL}5.3.2026;1.234;EUR;Ada;TN\n", Spelling(decimals=DecimalMark.COMMA))
    assert line.amount_minor == 123_400
    [line] = read(f"{LOCAL}5.3.2026;1.234;KWD;Ada;TN\n", Spelling(decimals=DecimalMark.POINT))
    assert line.amount_minor == 1234
    [line] = read(f"{HEAD}2026-03-05,1.234,KWD,Ada,TN\n")
    assert line.amount_minor == 1234, "Tonne's own format has a decimal point"


def test_one_amount_that_is_clear_decides_for_the_file() -> None:
    lines = read(f"{LOCAL}5.3.2026;1.234;EUR;Ada;TN\n5.3.2026;-1.234.567,89;EUR;Ada;TN\n5.3.2026;7,50-;EUR;B;\n")
    assert [line.amount_minor for line in lines] == [123_400, -123_456_789, -750]
    [fault] = refusal(f"{HEAD}2026-03-05,13.95,EUR,Ada,TN\n2026-03-05,1.005,EUR,Ada,TN\n")
    assert fault[:2] == (3, "amount")


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("1.234,00", "1234.00"),
        ("1,234.00", "1234.00"),
        ("1'234.50", "1234.50"),
        ("1\N{NO-BREAK SPACE}234,5", "1234.5"),
        ("1 234 567", "1234567"),
        ("\N{MINUS SIGN}0,01", "-0.01"),
        ("+7", "7"),
        ("1234.567", "1234.567"),
        ("0.123", "0.123"),
        ("1.234.567", "1234567"),
    ],
)
def test_amounts_with_one_meaning(cell: str, number: str) -> None:
    assert parse_local_amount(cell, None) == Decimal(number)


AMOUNTS = st.decimals(min_value=0, max_value=10**12, places=2)


@given(amounts=st.lists(AMOUNTS, min_size=1, max_size=20), mark=st.sampled_from(DecimalMark), grouped=st.booleans())
def test_amounts_survive_being_written_in_any_spelling(
    amounts: list[Decimal], mark: DecimalMark, *, grouped: bool
) -> None:
    cells = [f"{amount:,.2f}" if grouped else f"{amount:.2f}" for amount in amounts]
    if mark is DecimalMark.COMMA:
        cells = [cell.translate(str.maketrans(".,", ",.")) for cell in cells]
    assert detect_decimal_mark(cells) is mark
    assert [parse_local_amount(cell, mark) for cell in cells] == amounts
    assert [parse_local_amount(cell, None) for cell in cells] == amounts


@given(cell=st.text(alphabet="0123456789.,' -", min_size=1, max_size=12))
def test_an_amount_has_one_meaning_or_is_refused(cell: str) -> None:
    """Without a mark, the result is that of both marks, or of the only mark that can be meant."""
    try:
        number = parse_local_amount(cell.strip(), None)
    except CellError:
        return
    readings = set()
    for mark in DecimalMark:
        try:
            readings.add(parse_local_amount(cell.strip(), mark))
        except CellError:
            continue
    assert readings == {number}


@given(
    day=st.dates(date(2026, 1, 1), date(2026, 12, 31)),
    order=st.sampled_from([DateOrder.DMY, DateOrder.MDY]),
    sign=st.sampled_from("./-"),
)
def test_a_date_is_never_read_in_the_wrong_order(day: date, order: DateOrder, sign: str) -> None:
    parts = (day.day, day.month) if order is DateOrder.DMY else (day.month, day.day)
    cell = f"{parts[0]:02d}{sign}{parts[1]:02d}{sign}2026"
    assert parse_local_date(cell, order) == day
