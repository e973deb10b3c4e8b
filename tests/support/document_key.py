"""A key and certificate with which tests sign PDFs, as files of the operator."""

import atexit
import shutil
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TypedDict

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class DocumentKeyFiles(TypedDict):
    """Settings that name them."""

    document_key_file: str
    document_certificate_file: str


@cache
def shared_document_key() -> DocumentKeyFiles:
    """One for all tests of a process and the commands that they run: creating a key takes time."""
    folder = Path(tempfile.mkdtemp(prefix="tonne-document-key-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_document_key(folder)


def write_document_key(
    folder: Path, *, name: str = "Signer of tests", until: datetime = datetime(2046, 1, 1, tzinfo=UTC)
) -> DocumentKeyFiles:
    """Short, because it is made quickly. The certificate is self-signed."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(until)
        .sign(key, hashes.SHA256())
    )
    key_file, certificate_file = folder / "document.key", folder / "document.pem"
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificate_file.write_bytes(certificate.public_bytes(Encoding.PEM))
    return {"document_key_file": str(key_file), "document_certificate_file": str(certificate_file)}
