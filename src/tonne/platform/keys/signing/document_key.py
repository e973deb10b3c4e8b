"""The key that signs PDFs: a certificate, and a private key that may be in memory or in a hardware module."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import Struct

from tonne.platform.keys.signing.model import KeyRecord

if TYPE_CHECKING:
    from tonne.platform.keys.signing.cms_template import CmsTemplate

MIN_RSA_BITS = 2048


class KeyUnusable(Exception):
    """A key or certificate cannot sign documents. The message says why."""


class CertificateChain(Struct, frozen=True):
    """The certificate of the key, and those of the authorities above it."""

    own: x509.Certificate
    chain: Sequence[x509.Certificate] = ()

    @property
    def pem(self) -> str:
        return self.own.public_bytes(Encoding.PEM).decode()

    @property
    def name(self) -> str:
        return self.own.subject.rfc4514_string()


class DocumentKey(Struct, frozen=True):
    """`template` signs. CPU-bound, or waits for a hardware module."""

    record: KeyRecord
    certificate: CertificateChain
    template: "CmsTemplate"

    @property
    def valid_from(self) -> datetime:
        return self.certificate.own.not_valid_before_utc


def document_key(record: KeyRecord, certificate: CertificateChain, sign_raw: Callable[[bytes], bytes]) -> DocumentKey:
    """CPU-bound."""
    # pyHanko takes long to import, and commands need only the errors of this module.
    from asn1crypto import x509 as asn1_x509  # noqa: PLC0415

    from tonne.platform.keys.signing.cms_template import CmsTemplate  # noqa: PLC0415

    own, *chain = (
        asn1_x509.Certificate.load(each.public_bytes(Encoding.DER)) for each in (certificate.own, *certificate.chain)
    )
    return DocumentKey(record, certificate, CmsTemplate(own, chain, sign_raw))


def sign_in_memory(private_key: rsa.RSAPrivateKey) -> Callable[[bytes], bytes]:
    return partial(_sign, private_key)


def _sign(private_key: rsa.RSAPrivateKey, text: bytes) -> bytes:
    return private_key.sign(text, padding.PKCS1v15(), hashes.SHA256())


def check_certificate(certificate: x509.Certificate) -> rsa.RSAPublicKey:
    """Its public key. Raises KeyUnusable if a reader would refuse its signatures."""
    key = certificate.public_key()
    if not isinstance(key, rsa.RSAPublicKey):
        # ECDSA signatures contain a random number: the same document would give another file each time.
        raise KeyUnusable("the certificate is not for an RSA key")
    if key.key_size < MIN_RSA_BITS:
        raise KeyUnusable(f"the RSA key has {key.key_size} bits, and at least {MIN_RSA_BITS} are required")
    try:
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return key
    if not (usage.digital_signature or usage.content_commitment):
        raise KeyUnusable("the certificate does not allow signatures (key usage)")
    return key
