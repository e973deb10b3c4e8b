"""Certificates rendered with their attached files and signed, per second on one core."""

import json
import random
import time
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from msgspec.structs import replace

from bench.pace import LifePace
from bench.report import Goal, Result
from tests.support.certificates import LINE, RECORD
from tonne.platform.keys.signing.document_key import CertificateChain, DocumentKey, document_key, sign_in_memory
from tonne.platform.keys.signing.keys import make_key, new_record
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.platform.keys.signing.sign_pdf import sign_pdf
from tonne.supply.certificates.pdf import AttachedFiles, certificate_pdf
from tonne.supply.certificates.record import CertificateRecord

LEAST_PER_SECOND = 15.0
WARM_UP = 5
CREDENTIAL_BYTES, PROOF_BYTES = 12_000, 1_500


def certificates(pace: LifePace) -> Result:
    """Each certificate has another beneficiary and link, so that none repeats the one before."""
    key = _default_key()
    for number in range(WARM_UP):
        _render(number, key)
    # CPU time, not elapsed time: typst can use a second core for part of the work.
    started = time.process_time()
    rendered = 0
    while (spent_s := time.process_time() - started) < pace.certificates_s:
        _render(WARM_UP + rendered, key)
        rendered += 1
    return Result("certificates, signed", rendered / spent_s, "1/s", LEAST_PER_SECOND, Goal(reach=1.0))


def _render(number: int, key: DocumentKey) -> None:
    record = _record(number)
    sign_pdf(certificate_pdf(record, attached=_attached(number)), key, datetime.fromisoformat(record.issued_at))


def _attached(number: int) -> AttachedFiles:
    """As large as a credential and a proof of a log with ten million entries, and as hard to compress."""
    hexadecimal = random.Random(number).randbytes(CREDENTIAL_BYTES // 2).hex()
    return AttachedFiles(json.dumps({"evidence": hexadecimal}), hexadecimal[:PROOF_BYTES])


def _default_key() -> DocumentKey:
    """As the service makes it if the operator sets none."""
    now = datetime.now(UTC)
    made = make_key(KeyPurpose.DOCUMENT, "Offsets Ltd", now)
    private_key = load_pem_private_key(made.private.encode(), None)
    assert isinstance(private_key, RSAPrivateKey)
    chain = CertificateChain(x509.load_pem_x509_certificate(made.public.encode()))
    return document_key(new_record(KeyPurpose.DOCUMENT, made.public, now), chain, sign_in_memory(private_key))


def _record(number: int) -> CertificateRecord:
    """Like most orders: two retirements, one of them a share of a tonne."""
    return replace(
        RECORD,
        number=f"C-{number:08}",
        beneficiary=f"Marlowe & Finch Shipping No. {number} Ltd",
        verification_url=f"https://tonne.example.org/certificates/{number:022}",
        lines=[replace(LINE, quantity="2", shared=None), LINE],
    )
