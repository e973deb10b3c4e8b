"""Create a key. A key for documents gets a self-signed certificate, which the operator may replace by their own."""

from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID
from msgspec import Struct

from tonne.platform.keys.signing.model import KeyPurpose

# Long enough for signatures that are checked after decades.
RSA_BITS = 3072
CERTIFICATE_VALIDITY = timedelta(days=20 * 365)
# The maximum of X.520.
_MAX_COMMON_NAME = 64


class NewKey(Struct, frozen=True):
    """Both in PEM. `public` is a certificate or a public key."""

    private: str
    public: str


def make_key(purpose: KeyPurpose, seller: str, now: datetime) -> NewKey:
    """CPU-bound for documents: call it through `asyncio.to_thread`."""
    if purpose is KeyPurpose.DOCUMENT:
        return _make_document_key(seller, now)
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return NewKey(_private_pem(key), public.decode())


def _make_document_key(seller: str, now: datetime) -> NewKey:
    key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, seller[:_MAX_COMMON_NAME])])
    usage = x509.KeyUsage(
        digital_signature=True,
        # Required by readers for signatures on documents: the signer answers for the content.
        content_commitment=True,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    # Certificates know only whole seconds.
    start = now.replace(microsecond=0)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + CERTIFICATE_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return NewKey(_private_pem(key), certificate.public_bytes(Encoding.PEM).decode())


def _private_pem(key: Ed25519PrivateKey | rsa.RSAPrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
