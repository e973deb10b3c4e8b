"""Renders a certificate as a PDF."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import segno

from tonne.gateways.pdf import render_pdf
from tonne.retirements.certificate_record import CertificateRecord

TEMPLATE = Path(__file__).parent / "templates" / "certificate.typ"
_DARK_RUN = re.compile(b"\x01+")


def certificate_pdf(record: CertificateRecord) -> bytes:
    """The same record gives the same bytes. Uses CPU time: call it with `asyncio.to_thread`."""
    printed = msgspec.to_builtins(record) | {"qr": qr_code(record.verification_url)}
    return render_pdf(TEMPLATE, printed, issued_at=datetime.fromisoformat(record.issued_at))


def qr_code(url: str) -> dict[str, Any]:
    """A QR code as an SVG path, one bar per run of dark modules. Error correction level M restores 15 % of damage."""
    rows = segno.make_qr(url, error="m", boost_error=False).matrix
    bars = [
        f"M{run.start()} {y}h{len(run.group())}v1H{run.start()}z"
        for y, row in enumerate(rows)
        for run in _DARK_RUN.finditer(bytes(row))
    ]
    return {"side": len(rows), "path": "".join(bars)}
