"""Payments as files for a bank: ISO 20022 pain.001 for SEPA, or CSV."""

import csv
import io
import re
from collections.abc import Sequence
from datetime import date, datetime

from lxml import etree
from msgspec import Struct
from sepaxml import SepaTransfer

from tonne.platform.process.progress import progress
from tonne.platform.settings.bank_accounts import OwnAccount
from tonne.platform.values.amounts import format_money
from tonne_verify.formulas import escape_formula

SEPA_CURRENCY = "EUR"
_SCHEMA = "pain.001.001.03"
_MAX_NAME, _MAX_TEXT = 70, 140
# The characters that every bank of SEPA accepts.
_OUTSIDE = re.compile(r"[^A-Za-z0-9/?:().,'+ -]")


class Payment(Struct, frozen=True):
    """`id` is the end-to-end id, at most 35 letters and digits."""

    id: str
    name: str
    iban: str
    bic: str
    amount_minor: int
    currency: str
    text: str


def write_sepa(
    payments: Sequence[Payment], sender: OwnAccount, *, name: str, batch_id: str, on: date, now: datetime
) -> bytes:
    """A credit transfer in euros. `batch_id` is the message id, by which banks recognise a file they got before."""
    config = {"name": name, "IBAN": sender.iban, "currency": SEPA_CURRENCY, "batch": True}
    if sender.bic:
        config["BIC"] = sender.bic
    file = SepaTransfer(config, schema=_SCHEMA, clean=True)
    with progress("Writing payments", len(payments)) as advance:
        for each in payments:
            values = {
                "name": each.name[:_MAX_NAME] or "Payer",
                "IBAN": each.iban,
                "amount": each.amount_minor,
                "execution_date": on,
                "description": each.text[:_MAX_TEXT],
                "endtoend_id": each.id,
            }
            file.add_payment(values | ({"BIC": each.bic} if each.bic else {}))
            advance(1)
    return _with_header(file.export(validate=False), batch_id, now)


def write_csv(payments: Sequence[Payment]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("id", "name", "iban", "bic", "amount", "currency", "reference"))
    for each in payments:
        amount = format_money(each.amount_minor, each.currency)
        cells = (each.id, each.name, each.iban, each.bic, amount, each.currency, each.text)
        writer.writerow([escape_formula(cell) for cell in cells])
    return text.getvalue().encode()


def _with_header(content: bytes, batch_id: str, now: datetime) -> bytes:
    """With our own message id and time: the library makes up both."""
    root = etree.fromstring(content)
    space = f"{{urn:iso:std:iso:20022:tech:xsd:{_SCHEMA}}}"
    for name, value in {"MsgId": batch_id, "CreDtTm": f"{now:%Y-%m-%dT%H:%M:%S}"}.items():
        element = root.find(f"{space}CstmrCdtTrfInitn/{space}GrpHdr/{space}{name}")
        if element is None:
            raise LookupError(f"the file has no {name}")
        element.text = value
    # The library has transliterated letters, but left signs that banks refuse.
    for element in root.iter(f"{space}Nm", f"{space}Ustrd"):
        element.text = _sepa_text(element.text or "") or "-"
    for number, element in enumerate(root.iter(f"{space}PmtInfId"), 1):
        element.text = f"{batch_id}-{number}"
    return etree.tostring(root, encoding="UTF-8", xml_declaration=True)


def _sepa_text(text: str) -> str:
    return " ".join(_OUTSIDE.sub(" ", text).split()).strip()
