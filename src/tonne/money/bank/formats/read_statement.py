"""Read a bank statement. Its format and the account that it is of are detected from its content, not from its name."""

import codecs
import re
from collections.abc import Sequence

from tonne.money.bank.formats.camt_statement import read_camt
from tonne.money.bank.formats.csv_statement import Spelling, read_csv
from tonne.money.bank.formats.statement import Statement, StatementFormat, StatementLine, refuse
from tonne.platform.documents.sheets.columns import quoted
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.bank_accounts import own_account, own_ibans
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import replace
from tonne.platform.values.iban import compact_iban, is_iban

DETECTED = Spelling()
# Bounds the memory. CSV files have the limit of all sheets.
MAX_STATEMENT_BYTES = 64_000_000
FORMATS = "camt.053, MT940 or CSV"
_SNIFFED = 4096
_OTHER_FILES = (
    (b"PK\x03\x04", f"a workbook or an archive: unpack it, or save the sheet as “CSV UTF-8”. Tonne reads {FORMATS}."),
    (b"PK\x05\x06", "an empty archive: export the statement again."),
    (b"\xd0\xcf\x11\xe0", "an old workbook: save the sheet as “CSV UTF-8” and import that."),
    (b"%PDF", f"a PDF, which has no data to import: export the statement as {FORMATS}."),
    (b"\x1f\x8b", "compressed: unpack it and import what is inside."),
    (b"OFXHEADER", f"an OFX file: export the statement as {FORMATS}."),
    (b"!Type:", f"a QIF file: export the statement as {FORMATS}."),
    (b"{\\rtf", f"a text document: export the statement as {FORMATS}."),
)
_MT940 = re.compile(rb"(?m)^:20:")
_MT942 = re.compile(rb"(?m)^:34F:")
_OPENING = re.compile(rb"(?m)^:60[FM]:")


def read_statement(file: SheetFile, spelling: Spelling = DETECTED) -> Statement:
    """Read all lines, or raise SheetInvalid with every error. `spelling` applies to CSV files."""
    content = file.content
    if len(content) > MAX_STATEMENT_BYTES:
        refuse(file, f"the file is larger than {MAX_STATEMENT_BYTES // 1_000_000} MB: export shorter periods.")
    for start, message in _OTHER_FILES:
        if content.startswith(start):
            refuse(file, f"the file is {message}")
    if _is_xml(content):
        return read_camt(file)
    if content.lstrip().startswith(b"{1:") or _MT940.search(content):
        if _MT942.search(content) and not _OPENING.search(content):
            refuse(file, "the file is an MT942 report of the day, whose lines may change: import the MT940 statement.")
        # Its library takes long to import.
        from tonne.money.bank.formats.mt940_statement import read_mt940  # noqa: PLC0415

        return read_mt940(file)
    return Statement(StatementFormat.CSV, read_csv(file, spelling))


def _is_xml(content: bytes) -> bool:
    head = content[:_SNIFFED]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return head.decode("utf-16", errors="ignore").lstrip().startswith("<")
    return head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"<")


_BANK_CODE_DIGITS, _ACCOUNT_DIGITS = 8, 10


def with_own_accounts(
    file: SheetFile, lines: Sequence[StatementLine], settings: Settings, iban: str | None
) -> list[StatementLine]:
    """The lines with the IBAN of the account that they were booked on. Raises SheetInvalid.

    `iban` is the operator's word for a file that names the account in another way, or not at all.
    """
    named = {line.own_account for line in lines}
    found = {name: _resolve(file, name, settings, iban) for name in named if name}
    return [replace(line, own_account=found.get(line.own_account) or _default(line, settings, iban)) for line in lines]


def _default(line: StatementLine, settings: Settings, iban: str | None) -> str:
    if iban is not None:
        return compact_iban(iban)
    account = own_account(settings, line.currency)
    return account.iban if account else ""


def _resolve(file: SheetFile, name: str, settings: Settings, iban: str | None) -> str:
    own = own_ibans(settings)
    given = None if iban is None else compact_iban(iban)
    if is_iban(name):
        found = compact_iban(name)
    else:
        found = next((each for each in own if _has_number(each, name)), given or "")
    if given is not None and found != given:
        refuse(file, f"the statement is of account {quoted(name)}, not of {given}: check the file and --iban.")
    if own and not found:
        refuse(file, f"the statement is of account {quoted(name)}, and it is unclear which IBAN that is: pass --iban.")
    if own and found not in own:
        refuse(
            file,
            f"the statement is of account {quoted(name)}, which is not one of your own: check the file, or add the "
            "account to TONNE_BANK_ACCOUNTS.",
        )
    return found or name


def _has_number(iban: str, name: str) -> bool:
    """Whether a national account number is that of the IBAN, such as the German 37040044/0532013000."""
    bank, _, account = name.partition("/")
    if bank.isdecimal() and account.isdecimal() and len(bank) == _BANK_CODE_DIGITS:
        return iban[4:] == bank + account.zfill(_ACCOUNT_DIGITS)
    number = "".join(filter(str.isalnum, name)).upper()
    return len(number) >= _BANK_CODE_DIGITS and iban[4:].endswith(number)
