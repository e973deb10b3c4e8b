"""What pyHanko's validator says about a signed PDF. It trusts the given certificate only."""

import io
from datetime import UTC, datetime

from asn1crypto import pem
from asn1crypto.x509 import Certificate
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.validation import validate_pdf_signature
from pyhanko.sign.validation.status import PdfSignatureStatus
from pyhanko_certvalidator import ValidationContext

AT = datetime(2026, 12, 1, tzinfo=UTC)


def certificate_of(text: str) -> Certificate:
    return Certificate.load(pem.unarmor(text.encode())[2])


def status_of(pdf: bytes, trusted: str, *time_authorities: str) -> PdfSignatureStatus:
    """In a thread: it starts an event loop. `trusted` is a certificate in PEM."""
    [signature] = PdfFileReader(io.BytesIO(pdf)).embedded_signatures
    roots = [[certificate_of(each) for each in texts] for texts in ([trusted], time_authorities)]
    signer, stamps = (ValidationContext(trust_roots=each, moment=AT, allow_fetching=False) for each in roots)
    return validate_pdf_signature(signature, signer, stamps)


def is_accepted(pdf: bytes, trusted: str) -> bool:
    """False also for a file whose signature cannot be read."""
    try:
        return status_of(pdf, trusted).bottom_line
    except Exception:  # noqa: BLE001 - the validator raises many kinds for damaged files
        return False
