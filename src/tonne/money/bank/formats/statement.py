"""The lines of a bank statement, whatever its format."""

import re
from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from typing import NoReturn

from msgspec import Struct

from tonne.platform.documents.sheets.columns import RowError, SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.amounts import format_money

MAX_TEXT = 1000
_MAX_ID = 100
# Control characters and direction marks: with them a text can be made to look like another one.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# What banks write when there is no reference.
_NO_REFERENCE = frozenset({"", "NONREF", "NOREF", "NOTPROVIDED", "NOTAVAILABLE", "NOTPROVIDE"})


class StatementFormat(StrEnum):
    CSV = "csv"
    CAMT = "camt.053"
    MT940 = "mt940"


class BankLine(Struct, frozen=True, kw_only=True):
    """What the bank says. Incoming amounts are positive, outgoing ones negative; `payer` is the other party of either.

    `own_account` is empty if the file does not say whose statement it is. `end_to_end_id` is chosen by the payer and
    identifies nothing.
    """

    booked_on: date
    amount_minor: int
    currency: str
    payer: str
    reference: str
    own_account: str = ""
    payer_iban: str = ""
    payer_bic: str = ""
    end_to_end_id: str = ""
    is_reversal: bool = False

    @property
    def amount(self) -> str:
        return signed_money(self.amount_minor, self.currency)


class StatementLine(BankLine, frozen=True, kw_only=True):
    """One booked line of a file. `bank_reference` is the bank's own reference of it, or empty.

    That is camt's AcctSvcrRef, or the part behind // in MT940. It is unique within one account and format.
    """

    line: int
    bank_reference: str = ""


class Statement(Struct, frozen=True):
    format: StatementFormat
    lines: Sequence[StatementLine]


def signed_money(amount_minor: int, currency: str) -> str:
    """For people: `-13.95 EUR`."""
    sign = "-" if amount_minor < 0 else ""
    return f"{sign}{format_money(abs(amount_minor), currency)} {currency}"


def clean_text(text: str) -> str:
    """One line of printable text: banks break and pad what payers write."""
    return " ".join(_CONTROL.sub(" ", text).split())[:MAX_TEXT].rstrip()


def clean_reference(text: str) -> str:
    """A reference that a bank gives, or nothing if it only says that there is none."""
    cleaned = clean_text(text)[:_MAX_ID]
    letters = "".join(filter(str.isalnum, cleaned)).upper()
    return "" if letters in _NO_REFERENCE or not letters.strip("0") else cleaned


def refuse(file: SheetFile, message: str, line: int | None = None) -> NoReturn:
    """Raise SheetInvalid with one error."""
    raise SheetInvalid([RowError(file.name, line, None, message)])
