"""Signed PDFs: the same bytes each time, accepted by a validator we did not write, and any change is detected."""

import io
import random
import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pyhanko.pdf_utils.generic import TextStringObject
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.diff_analysis import ModificationLevel

from tests.money.invoices.documents import document, line
from tests.money.invoices.test_pdf import RECORD as PLAIN_INVOICE
from tests.platform.keys.signing.validator import is_accepted, status_of
from tests.support.certificates import RECORD
from tests.support.document_key import shared_document_key, write_document_key
from tonne.money.invoices.documents.pdf import invoice_pdf
from tonne.platform.keys.signing.document_key import (
    CertificateChain,
    DocumentKey,
    check_certificate,
    document_key,
    sign_in_memory,
)
from tonne.platform.keys.signing.keys import make_key, new_record
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.platform.keys.signing.operator_key import load_operator_key
from tonne.platform.keys.signing.sign_pdf import sign_pdf
from tonne.platform.settings.settings import Settings
from tonne.supply.certificates.pdf import certificate_pdf

ISSUED = datetime(2026, 4, 2, 10, 30, 15, 250_000, tzinfo=UTC)


@pytest.fixture(scope="module")
def key() -> DocumentKey:
    loaded = load_operator_key(msgspec.structs.replace(Settings(), **shared_document_key()))
    assert loaded is not None
    record = new_record(KeyPurpose.DOCUMENT, loaded.certificate.pem, ISSUED)
    return document_key(record, loaded.certificate, loaded.sign_raw)


@pytest.fixture(scope="module", params=["certificate", "electronic invoice", "plain invoice"])
def drawn(request: pytest.FixtureRequest) -> bytes:
    match request.param:
        case "certificate":
            return certificate_pdf(RECORD)
        case "electronic invoice":
            return invoice_pdf(document(line("standard", "19")))
        case _:
            # Without countries there is no XML, and the file is no PDF/A.
            return invoice_pdf(PLAIN_INVOICE)


def test_the_validator_accepts_it_and_drawing_it_again_gives_the_same_bytes(drawn: bytes, key: DocumentKey) -> None:
    signed = sign_pdf(drawn, key, ISSUED)
    assert signed == sign_pdf(bytes(drawn), key, ISSUED)
    assert signed.startswith(drawn)
    status = status_of(signed, key.record.public)
    assert status.bottom_line
    assert status.modification_level is ModificationLevel.NONE
    assert status.signer_reported_dt == ISSUED.replace(microsecond=0)
    assert status.docmdp_ok
    [signature] = PdfFileReader(io.BytesIO(signed)).embedded_signatures
    assert signature.sig_object["/SubFilter"] == "/ETSI.CAdES.detached"


def test_the_signature_of_another_key_is_not_trusted(key: DocumentKey, tmp_path: Path) -> None:
    signed = sign_pdf(certificate_pdf(RECORD), key, ISSUED)
    other = Path(write_document_key(tmp_path)["document_certificate_file"]).read_text(encoding="ascii")
    status = status_of(signed, other)
    assert status.intact
    assert not status.trusted


def test_it_is_not_dated_before_the_certificate_was_valid(key: DocumentKey) -> None:
    signed = sign_pdf(certificate_pdf(RECORD), key, datetime(2019, 12, 31, tzinfo=UTC))
    assert status_of(signed, key.record.public).signer_reported_dt == key.valid_from


def test_a_changed_byte_or_an_added_part_is_detected(key: DocumentKey) -> None:
    signed = sign_pdf(certificate_pdf(RECORD), key, ISSUED)
    padding = re.search(rb"/Contents <[0-9A-F]+?(0*)>", signed)
    assert padding is not None
    # Readers ignore the zeros behind the signature.
    places = [place for place in range(len(signed)) if not padding.start(1) <= place < padding.end(1)]
    for place in random.Random(1).sample(places, 25):  # noqa: S311 - not a secret
        changed = signed[:place] + bytes([signed[place] ^ 1]) + signed[place + 1 :]
        assert not is_accepted(changed, key.record.public), place
    writer = IncrementalPdfFileWriter(io.BytesIO(signed))
    writer.root["/Lang"] = TextStringObject("fr")
    writer.update_root()  # type: ignore[no-untyped-call]
    added = io.BytesIO()
    writer.write(added)  # type: ignore[no-untyped-call]
    assert is_accepted(signed, key.record.public)
    assert not is_accepted(added.getvalue(), key.record.public)


def test_the_default_key_has_a_certificate_in_the_name_of_the_seller() -> None:
    made = make_key(KeyPurpose.DOCUMENT, "Offsets Ltd", ISSUED)
    chain = CertificateChain(x509.load_pem_x509_certificate(made.public.encode()))
    private_key = load_pem_private_key(made.private.encode(), None)
    assert isinstance(private_key, RSAPrivateKey)
    assert private_key.key_size >= 3072
    check_certificate(chain.own)
    key = document_key(new_record(KeyPurpose.DOCUMENT, made.public, ISSUED), chain, sign_in_memory(private_key))
    status = status_of(sign_pdf(certificate_pdf(RECORD), key, ISSUED), made.public)
    assert status.bottom_line
    assert status.signing_cert.subject.native == {"common_name": "Offsets Ltd"}
