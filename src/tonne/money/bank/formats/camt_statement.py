"""Bank statements as ISO 20022 camt.053 files, versions 02 to 12. Elements are found by their local names.

The file comes from outside: no DTD, no entities, no network, and the limits of libxml2 on depth and size stay on.
"""

import codecs
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from io import BytesIO
from typing import Any

from lxml import etree
from msgspec import Struct

from tonne.money.bank.formats.statement import (
    Statement,
    StatementFormat,
    StatementLine,
    clean_reference,
    clean_text,
    refuse,
)
from tonne.platform.documents.sheets.columns import RowError, SheetInvalid, quoted
from tonne.platform.documents.sheets.read_sheet import MAX_ERRORS, MAX_ROWS, SheetFile
from tonne.platform.process.progress import progress
from tonne.platform.values.amounts import DECIMALS, parse_decimal, scaled
from tonne.platform.values.context import replace
from tonne.platform.values.iban import compact_iban

Element = etree._Element  # noqa: SLF001 - the type has no public name
BOOKED = "BOOK"
_ENCODINGS = {
    **dict.fromkeys(("utf-8", "utf8", "us-ascii", "ascii"), "utf-8-sig"),
    **dict.fromkeys(("utf-16", "utf-16le", "utf-16be"), "utf-16"),
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1"), "iso-8859-1"),
    "iso-8859-15": "iso-8859-15",
    "windows-1252": "cp1252",
}
_DECLARED = re.compile(rb"""^(?:\xef\xbb\xbf)?\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DOCUMENT_TYPE = re.compile("<!(DOCTYPE|ENTITY)", re.IGNORECASE)
_MESSAGE = "BkToCstmrStmt"
_OTHER_MESSAGES = {
    "BkToCstmrAcctRpt": "a camt.052 report of the day, whose lines may still change",
    "BkToCstmrDbtCdtNtfctn": "a camt.054 notification, which repeats lines of the statement",
}


class _EntryError(Exception):
    """An entry cannot be read. The message says why and what to do."""


class _TooManyError(Exception):
    """The entry has more transactions than may be read."""


class _Account(Struct, frozen=True):
    id: str
    currency: str


def read_camt(file: SheetFile) -> Statement:
    """Read all booked lines, or raise SheetInvalid with every error. Entries are forgotten once they are read."""
    text = _decode(file)
    # Entities can read other files or expand to gigabytes. No bank's statement has a document type.
    if _DOCUMENT_TYPE.search(text):
        refuse(file, "the XML file declares a document type, which no bank statement needs: export it from your bank.")
    lines: list[StatementLine] = []
    errors: list[RowError] = []
    with progress(f"Reading {file.name}", text.count("Ntry>") // 2) as advance:
        for account, entry in _read_entries(file, text):
            advance(1)
            # What is not booked yet may still change.
            if _status(entry) != BOOKED:
                continue
            try:
                lines.extend(_read_entry(entry, account, MAX_ROWS - len(lines)))
            except _TooManyError:
                refuse(file, f"the file has more than {MAX_ROWS:,} lines: export shorter periods.", _line_of(entry))
            except _EntryError as error:
                errors.append(RowError(file.name, _line_of(entry), None, str(error)))
            if len(errors) >= MAX_ERRORS:
                break
    if errors:
        raise SheetInvalid(errors)
    return Statement(StatementFormat.CAMT, _without_ambiguous_references(lines))


def _read_entries(file: SheetFile, text: str) -> Iterator[tuple[_Account, Element]]:
    content = BytesIO(_DECLARATION.sub("", text, count=1).encode())
    parser: Any = etree.iterparse(
        content,
        tag="{*}Ntry",
        encoding="utf-8",
        resolve_entities=False,
        load_dtd=False,
        dtd_validation=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        for _, entry in parser:
            statement = entry.getparent()
            message = None if statement is None else statement.getparent()
            if message is None or (_name(message), _name(statement)) != (_MESSAGE, "Stmt"):
                continue
            yield _account(statement), entry
            entry.clear()
            while (before := entry.getprevious()) is not None and before.tag == entry.tag:
                statement.remove(before)
    except etree.XMLSyntaxError as error:
        line = getattr(error, "lineno", None) or None
        damage = f"the XML file is damaged or incomplete ({clean_text(str(error))}): export it again."
        raise SheetInvalid([RowError(file.name, line, None, damage)]) from error
    names = [_name(child) for child in parser.root.iterchildren()]
    if _MESSAGE not in names:
        other = next((text for name, text in _OTHER_MESSAGES.items() if name in names), "no camt.053 statement")
        refuse(file, f"the XML file is {other}: export the statement as camt.053 and import that.")


def _decode(file: SheetFile) -> str:
    content = file.content
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        name = "utf-16"
    else:
        declared = _DECLARED.match(content)
        name = declared[1].decode().lower() if declared else "utf-8"
    encoding = _ENCODINGS.get(name)
    if not encoding:
        refuse(file, f"the encoding {quoted(name)} is not supported: export the file in UTF-8.", 1)
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"the file is not {name.upper()}, as it says, from here on: export it again."
        raise SheetInvalid([RowError(file.name, line, None, message)]) from error


def _read_entry(entry: Element, account: _Account, at_most: int) -> Iterator[StatementLine]:
    """One line per transaction of a batch booking, if their amounts add up; otherwise one line for the entry."""
    booked_on = _booked_on(entry)
    amount_minor, currency = _amount(_child(entry, "Amt"), account.currency)
    sign = _sign(entry)
    base = StatementLine(
        line=_line_of(entry) or 0,
        booked_on=booked_on,
        amount_minor=sign * amount_minor,
        currency=currency,
        payer="",
        reference=clean_text(_text(entry, "AddtlNtryInf")),
        own_account=account.id,
        bank_reference=clean_reference(_text(entry, "AcctSvcrRef")),
        is_reversal=_text(entry, "RvslInd").lower() in {"true", "1"},
    )
    details = [each for group in _children(entry, "NtryDtls") for each in _children(group, "TxDtls")]
    if max(1, len(details)) > at_most:
        raise _TooManyError
    if not details:
        yield base
        return
    lines = [_with_details(base, each) for each in details]
    if len(lines) == 1:
        yield lines[0]
        return
    parts = [_detail_amount(each, currency, sign) for each in details]
    if None in parts or sum(part for part in parts if part is not None) != base.amount_minor:
        # A part that is wrong would settle a wrong invoice. The whole is left to a person.
        texts = dict.fromkeys(line.reference for line in lines if line.reference)
        yield replace(base, reference=clean_text(" / ".join(texts)) or base.reference)
        return
    for number, (line, part) in enumerate(zip(lines, parts, strict=True), 1):
        own = clean_reference(_text(details[number - 1], "Refs", "AcctSvcrRef"))
        shared = f"{base.bank_reference}/{number}" if base.bank_reference else ""
        reference = own if own and own != base.bank_reference else shared
        yield replace(line, amount_minor=part or 0, bank_reference=reference)


def _with_details(base: StatementLine, details: Element) -> StatementLine:
    """The other party and the text of a transaction."""
    incoming = base.amount_minor > 0
    sides = ("Dbtr", "Cdtr") if incoming else ("Cdtr", "Dbtr")
    parties = [_party(details, side) for side in sides]
    # A payment that comes back names us where the payer is otherwise.
    name, iban, bic = parties[1] if parties[0][1] and parties[0][1] == base.own_account else parties[0]
    own = clean_reference(_text(details, "Refs", "AcctSvcrRef"))
    return replace(
        base,
        payer=name,
        payer_iban=iban,
        payer_bic=bic,
        reference=_remittance(details) or base.reference,
        end_to_end_id=clean_reference(_text(details, "Refs", "EndToEndId")),
        bank_reference=own or base.bank_reference,
    )


def _party(details: Element, side: str) -> tuple[str, str, str]:
    """Name, IBAN and BIC. Newer versions put the name into `Pty`."""
    parties = _child(details, "RltdPties")
    agent = _child(_child(_child(details, "RltdAgts"), f"{side}Agt"), "FinInstnId")
    name = _text(parties, side, "Nm") or _text(parties, side, "Pty", "Nm") or _text(parties, f"Ultmt{side}", "Nm")
    iban = compact_iban(_text(parties, f"{side}Acct", "Id", "IBAN"))
    bic = _text(agent, "BIC") or _text(agent, "BICFI")
    return clean_text(name), iban[:34], clean_text(bic)[:11]


def _remittance(details: Element) -> str:
    """What the payer wrote: free text, creditor references, numbers of documents."""
    information = _child(details, "RmtInf")
    texts = [each.text or "" for each in _children(information, "Ustrd")]
    for structured in _children(information, "Strd"):
        texts.append(_text(structured, "CdtrRefInf", "Ref"))
        texts += [_text(document, "Nb") for document in _children(structured, "RfrdDocInf")]
        texts += [each.text or "" for each in _children(structured, "AddtlRmtInf")]
    return clean_text(" ".join(dict.fromkeys(filter(None, texts)))) or clean_text(_text(details, "AddtlTxInf"))


def _detail_amount(details: Element, currency: str, entry_sign: int) -> int | None:
    """The signed part of an entry; None if it is not given in the currency of the entry."""
    amount = _child(details, "Amt")
    if amount is None:
        amount = _child(_child(_child(details, "AmtDtls"), "TxAmt"), "Amt")
    if amount is None or amount.get("Ccy", currency) != currency:
        return None
    try:
        minor, _ = _amount(amount, currency)
    except _EntryError:
        return None
    return (_sign(details) if _child(details, "CdtDbtInd") is not None else entry_sign) * minor


def _account(statement: Element) -> _Account:
    account = _child(statement, "Acct")
    own = compact_iban(_text(account, "Id", "IBAN")) or clean_text(_text(account, "Id", "Othr", "Id"))
    return _Account(own, _text(account, "Ccy"))


def _status(entry: Element) -> str:
    """A code since version 08; plain text before."""
    return _text(entry, "Sts", "Cd") or _text(entry, "Sts")


def _booked_on(entry: Element) -> date:
    for place in ("BookgDt", "ValDt"):
        text = _text(entry, place, "Dt") or _text(entry, place, "DtTm")
        if found := _DAY.match(text):
            try:
                return date.fromisoformat(found[0])
            except ValueError:
                break
    raise _EntryError("the entry has no valid booking date: export the file again, or import the line as CSV.")


def _amount(amount: Element | None, default_currency: str) -> tuple[int, str]:
    if amount is None:
        raise _EntryError("the entry has no amount: export the file again, or import the line as CSV.")
    currency = amount.get("Ccy") or default_currency
    number = parse_decimal((amount.text or "").strip())
    minor = None if number is None or currency not in DECIMALS else scaled(Decimal(number), DECIMALS[currency])
    if minor is None:
        given = quoted(f"{(amount.text or '').strip()} {currency}")
        raise _EntryError(f"{given} is not an amount: export the file again, or import the line as CSV.")
    return minor, currency


def _sign(entry: Element) -> int:
    """The direction of the money, also of reversals: a reversed debit is a credit entry."""
    indicator = _text(entry, "CdtDbtInd")
    if indicator not in {"CRDT", "DBIT"}:
        raise _EntryError("the entry says neither CRDT nor DBIT: export the file again.")
    return 1 if indicator == "CRDT" else -1


def _without_ambiguous_references(lines: list[StatementLine]) -> list[StatementLine]:
    """A reference shared by transactions of different amounts identifies none of them."""
    amounts: dict[tuple[str, str], set[int]] = {}
    for line in lines:
        amounts.setdefault((line.own_account, line.bank_reference), set()).add(line.amount_minor)
    return [
        replace(line, bank_reference="")
        if line.bank_reference and _is_ambiguous(amounts[line.own_account, line.bank_reference])
        else line
        for line in lines
    ]


def _is_ambiguous(amounts: set[int]) -> bool:
    """An entry and its reversal may share a reference."""
    return len({abs(amount) for amount in amounts}) > 1


def _children(element: Element | None, name: str) -> Iterator[Element]:
    if element is not None:
        yield from (child for child in element.iterchildren() if _name(child) == name)


def _child(element: Element | None, name: str) -> Element | None:
    return next(_children(element, name), None)


def _text(element: Element | None, *path: str) -> str:
    for name in path:
        element = _child(element, name)
    return "" if element is None else (element.text or "").strip()


def _name(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _line_of(element: Element) -> int | None:
    line: Any = element.sourceline
    return line if isinstance(line, int) else None
