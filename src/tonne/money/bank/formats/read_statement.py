"""Read a bank statement. Its format is detected from its content, never from its name."""

import codecs
import re

from tonne.money.bank.formats.camt_statement import read_camt
from tonne.money.bank.formats.csv_statement import Spelling, read_csv
from tonne.money.bank.formats.statement import Statement, StatementFormat, refuse
from tonne.platform.documents.sheets.read_sheet import MAX_BYTES, SheetFile

DETECTED = Spelling()
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
    if len(content) > MAX_BYTES:
        refuse(file, f"the file is larger than {MAX_BYTES // 1_000_000} MB: export shorter periods.")
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
