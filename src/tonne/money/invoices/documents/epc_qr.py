"""The EPC QR code (EPC069-12) of an invoice: banking apps fill in a SEPA credit transfer from it."""

import io
from decimal import Decimal

import segno.helpers
from stdnum import iso11649

from tonne.money.invoices.documents.record import InvoiceRecord, Remaining

_MAX_NAME, _MAX_TEXT, _BIC_LENGTHS = 70, 140, (8, 11)
_LEAST, _MOST = Decimal("0.01"), Decimal("999999999.99")


def epc_qr_svg(record: InvoiceRecord, remaining: Remaining | None = None) -> str | None:
    """The code as SVG. None if the invoice cannot be paid by it, or must not be paid.

    It is for amounts in euros up to 999,999,999.99. An invoice in test mode has none: nothing is owed.
    """
    bank, amount = record.bank, Decimal(record.due if remaining is None else remaining.due)
    is_payable = record.document == "invoice" and record.mode == "live" and record.currency == "EUR"
    if not is_payable or bank.iban is None or not _LEAST <= amount <= _MOST:
        return None
    name = _one_line(bank.account_holder, _MAX_NAME)
    bic = "".join((bank.bic or "").split()).upper()
    is_creditor_reference = bool(iso11649.is_valid(record.reference))
    reference = iso11649.compact(record.reference) if is_creditor_reference else None
    text = None if is_creditor_reference else _one_line(record.reference, _MAX_TEXT)
    if not name or not (reference or text):
        return None
    code = segno.helpers.make_epc_qr(
        name,
        "".join(bank.iban.split()).upper(),
        amount,
        text=text,
        reference=reference,
        bic=bic if len(bic) in _BIC_LENGTHS else None,
        encoding="utf-8",
    )
    file = io.BytesIO()
    code.save(file, kind="svg", border=0, xmldecl=False, svgns=True, nl=False)
    return file.getvalue().decode()


def _one_line(text: str, longest: int) -> str:
    return " ".join(text.split())[:longest].strip()
