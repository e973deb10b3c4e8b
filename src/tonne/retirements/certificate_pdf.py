"""The certificate as a PDF."""

from datetime import datetime
from pathlib import Path

import msgspec
import segno

from tonne.gateways.pdf import render_pdf
from tonne.retirements.certificate_record import CertificateRecord

TEMPLATE = Path(__file__).parent / "templates" / "certificate.typ"


def certificate_pdf(record: CertificateRecord) -> bytes:
    """The same record gives the same bytes. It takes processor time: call it through `asyncio.to_thread`."""
    printed = msgspec.to_builtins(record) | {"qr": qr_rows(record.verification_url)}
    return render_pdf(TEMPLATE, printed, issued_at=datetime.fromisoformat(record.issued_at))


def qr_rows(url: str) -> list[str]:
    """The modules of the code, row by row, `1` for a dark one; it stays readable with a sixth of them spoilt."""
    code = segno.make_qr(url, error="m", boost_error=False)
    return ["".join("1" if module else "0" for module in row) for row in code.matrix]
