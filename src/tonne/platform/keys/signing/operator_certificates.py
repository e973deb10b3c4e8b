"""Reads the operator's certificates from a file."""

from pathlib import Path

from cryptography import x509

from tonne.platform.keys.signing.document_key import CertificateChain, KeyUnusable, check_certificate
from tonne.platform.settings.settings import Settings


def read_certificates(settings: Settings) -> CertificateChain:
    """From document_certificate_file: first the certificate of the key, then those of the authorities."""
    path = settings.document_certificate_file
    try:
        own, *chain = x509.load_pem_x509_certificates(read_file("document_certificate_file", path))
    except ValueError as error:
        raise KeyUnusable(
            f"TONNE_DOCUMENT_CERTIFICATE_FILE ({path}) has no certificates in PEM. Convert it with `openssl x509`."
        ) from error
    check_certificate(own)
    return CertificateChain(own, chain)


def read_file(setting: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KeyUnusable(f"TONNE_{setting.upper()} ({path}) cannot be read: {error.strerror}.") from error
