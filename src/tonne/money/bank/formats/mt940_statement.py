"""Bank statements as SWIFT MT940 files."""

import re
import warnings
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import mt940

from tonne.money.bank.formats.statement import (
    Statement,
    StatementFormat,
    StatementLine,
    clean_reference,
    clean_text,
    refuse,
)
from tonne.platform.documents.sheets.columns import quoted
from tonne.platform.documents.sheets.read_sheet import MAX_ROWS, SheetFile
from tonne.platform.process.progress import progress
from tonne.platform.values.amounts import DECIMALS, scaled
from tonne.platform.values.iban import compact_iban, is_iban

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_BLOCK = re.compile(r"^(?=:20:)", re.MULTILINE)
_LINE = re.compile(r"^(?=:61:)", re.MULTILINE)
_AFTER_CLOSING = re.compile(r"^(:62[FM]:[^\n]*)[\s\S]*", re.MULTILINE)
# Lines that are parsed at a time: what the library makes of a line takes many times its memory.
_AT_ONCE = 500
# A line has at most 6 × 65 characters of text. The library's time grows with the square of longer ones.
_MAX_LINE = 8000
_CLOSING = re.compile(r"^:62[FM]:", re.MULTILINE)
# Headers and trailers of SWIFT messages, and the line that ends one.
_ENVELOPE = re.compile(r"\{[1235]:[^{}]*(\{[^{}]*\}[^{}]*)*\}|\{4:|^-\}?\s*$", re.MULTILINE)
# `/NAME/Ada Ltd/REMI/…/`: banks of the Netherlands and others.
_SLASH_FIELD = re.compile(
    r"/(?P<key>NAME|IBAN|BIC|REMI|EREF|CNTP|ORDP|BENM|MARF|CSID|PREF|TRTP|RTRN|USTD|STRD|ID|ADDR|PURP|ULTD|ULTC|SVCL)/"
)
_TEXTS = ("transaction_details", "purpose", "additional_purpose")


def read_mt940(file: SheetFile) -> Statement:
    """Read all lines, or raise SheetInvalid with the first error."""
    text = _ENVELOPE.sub("", _decode(file).replace("\r\n", "\n").replace("\r", "\n"))
    lines: list[StatementLine] = []
    position = 1 + text.count("\n", 0, len(text) - len(text.lstrip()))
    with progress(f"Reading {file.name}", text.count("\n:61:")) as advance:
        for block in _BLOCK.split(text):
            if block.startswith(":20:"):
                # What follows the closing balance is about the account, not about the last line.
                for read in _read_block(file, _AFTER_CLOSING.sub(r"\1", block), position):
                    lines.extend(read)
                    if len(lines) > MAX_ROWS:
                        refuse(file, f"the file has more than {MAX_ROWS:,} lines: export shorter periods.")
                    advance(len(read))
            position += block.count("\n")
    return Statement(StatementFormat.MT940, lines)


def _decode(file: SheetFile) -> str:
    try:
        text = file.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = file.content.decode("cp1252", errors="replace")
    if _CONTROL.search(text) or "\N{REPLACEMENT CHARACTER}" in text:
        refuse(file, "the file is neither UTF-8 nor Windows-1252: export it again.")
    return text


def _read_block(file: SheetFile, block: str, position: int) -> Iterator[list[StatementLine]]:
    """The lines of one statement, some at a time. `position` is the line of the file at which it starts."""
    if not _CLOSING.search(block):
        refuse(
            file, "the statement has no closing balance (:62F:), so lines may be missing: export it again.", position
        )
    head, *texts = _LINE.split(block)
    at = position + head.count("\n")
    for start in range(0, max(1, len(texts)), _AT_ONCE):
        some = texts[start : start + _AT_ONCE]
        tag_lines = []
        for text in some:
            tag_lines.append(at)
            at += text.count("\n")
            if len(text) > _MAX_LINE:
                refuse(file, "the line is too long: export the file again, or import it as CSV.", tag_lines[-1])
        yield _parse(file, head + "".join(some), position, tag_lines)


def _parse(file: SheetFile, text: str, position: int, tag_lines: list[int]) -> list[StatementLine]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = mt940.models.Transactions(options=mt940.Options.all())
            parsed.parse(text.strip())
    except (RuntimeError, ValueError, KeyError, ArithmeticError, AssertionError, TypeError) as error:
        refuse(file, f"the statement cannot be read ({quoted(clean_text(str(error)))}): export it again.", position)
    if len(parsed.transactions) != len(tag_lines):
        refuse(file, "the statement has lines that cannot be read: export it again, or import it as CSV.", position)
    own = _own_account(str(parsed.data.get("account_identification") or ""))
    return [
        _line(file, transaction.data, own, line)
        for transaction, line in zip(parsed.transactions, tag_lines, strict=True)
    ]


def _line(file: SheetFile, data: dict[str, Any], own: str, line: int) -> StatementLine:
    amount, currency = data["amount"].amount, str(data["amount"].currency)
    if currency not in DECIMALS:
        refuse(file, f"{quoted(currency)} is not a currency: export the file again, or import it as CSV.", line)
    minor = scaled(Decimal(amount), DECIMALS[currency])
    if minor is None:
        refuse(file, f"{amount} {currency} is too precise: export the file again, or import it as CSV.", line)
    booked = data.get("entry_date") or data["date"]
    fields = _fields(data)
    return StatementLine(
        line=line,
        booked_on=date(booked.year, booked.month, booked.day),
        amount_minor=minor,
        currency=currency,
        payer=fields["name"],
        reference=fields["text"],
        own_account=own,
        payer_iban=fields["iban"],
        payer_bic=fields["bic"],
        bank_reference=clean_reference(str(data.get("bank_reference") or "").split("\n")[0]),
        end_to_end_id=fields["end_to_end"],
        is_reversal=str(data.get("status") or "").upper() in {"RC", "RD"},
    )


def _fields(data: dict[str, Any]) -> dict[str, str]:
    """Name, account and text of the other party, from the German `?20…` fields, `/NAME/…` fields or free text."""
    details = str(data.get("transaction_details") or "")
    slashed = _slash_fields(details)
    contact = (slashed.get("CNTP", "") + "///").split("/")
    iban = _iban(data.get("gvc_applicant_iban"), data.get("applicant_iban"), slashed.get("IBAN"), contact[0])
    bic = data.get("applicant_bin") or data.get("gvc_applicant_bin") or slashed.get("BIC") or contact[1]
    text = slashed.get("REMI") or slashed.get("USTD") or " ".join(str(data[key]) for key in _TEXTS if data.get(key))
    reference = data.get("end_to_end_reference") or slashed.get("EREF") or ""
    return {
        "name": clean_text(str(data.get("applicant_name") or slashed.get("NAME") or contact[2] or "")),
        "iban": iban,
        "bic": clean_text(str(bic or "")) if re.fullmatch(r"[A-Za-z0-9]{8}([A-Za-z0-9]{3})?", str(bic or "")) else "",
        "text": clean_text(re.sub(r"^/*(USTD|STRD)//|^/+", "", text)),
        "end_to_end": clean_reference(str(reference)),
    }


def _slash_fields(details: str) -> dict[str, str]:
    joined = details.replace("\n", "")
    found = list(_SLASH_FIELD.finditer(joined))
    ends = [*(each.start() for each in found[1:]), len(joined)]
    return {each["key"]: joined[each.end() : end].strip().strip("/") for each, end in zip(found, ends, strict=False)}


def _own_account(text: str) -> str:
    """An IBAN if it is one: banks put slashes before it and the currency behind it."""
    cleaned = clean_text(text).strip("/ ")
    candidates = (cleaned, cleaned[:-3], *cleaned.split("/"))
    return _iban(*candidates) or cleaned


def _iban(*candidates: object) -> str:
    """The first valid IBAN. Others are account numbers, which nobody can transfer to from abroad."""
    return next((compact_iban(text) for text in map(str, candidates) if is_iban(text)), "")
