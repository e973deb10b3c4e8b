"""The operator's own key for PDFs: PEM files, a PKCS#12 file, or a hardware module (PKCS#11)."""

from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12
from msgspec import Struct

from tonne.platform.keys.signing.document_key import CertificateChain, KeyUnusable, check_certificate, sign_in_memory
from tonne.platform.keys.signing.operator_certificates import read_certificates, read_file
from tonne.platform.settings.settings import Settings


class OperatorKey(Struct, frozen=True):
    certificate: CertificateChain
    sign_raw: Callable[[bytes], bytes]


def has_outside_key(settings: Settings) -> bool:
    """Whether the settings name a key. Otherwise a key in the database signs PDFs."""
    return bool(settings.document_key_file or settings.document_pkcs11_module)


def load_operator_key(settings: Settings) -> OperatorKey | None:
    """None: the settings name no key. Raises KeyUnusable with what to do. CPU-bound, reads files."""
    if settings.document_pkcs11_module:
        # Imported only if it is used: the package is the extra `pkcs11`.
        from tonne.platform.keys.signing.pkcs11_key import open_pkcs11_key  # noqa: PLC0415

        return OperatorKey(*open_pkcs11_key(settings))
    if not settings.document_key_file:
        return None
    content = read_file("document_key_file", settings.document_key_file)
    password = settings.document_key_password.encode() or None
    if content.lstrip().startswith(b"-----BEGIN"):
        private_key, chain = _load_pem(content, password, settings), read_certificates(settings)
    else:
        private_key, chain = _load_pkcs12(content, password, settings)
    if not isinstance(private_key, rsa.RSAPrivateKey):
        raise KeyUnusable(f"{_named(settings)} is not an RSA key. Create an RSA key.")
    if check_certificate(chain.own).public_numbers() != private_key.public_key().public_numbers():
        raise KeyUnusable(
            f"The certificate {chain.name} belongs to another key than the one in {_named(settings)}. Name the "
            "certificate of this key, and put it first in its file."
        )
    return OperatorKey(chain, sign_in_memory(private_key))


def _load_pem(content: bytes, password: bytes | None, settings: Settings) -> object:
    try:
        return load_pem_private_key(content, password)
    except TypeError as error:
        raise KeyUnusable(_about_password(settings, has_password=password is not None)) from error
    except ValueError as error:
        raise KeyUnusable(
            f"{_named(settings)} cannot be opened: it is not a private key in PEM, or TONNE_DOCUMENT_KEY_PASSWORD is "
            "not its password."
        ) from error


def _load_pkcs12(content: bytes, password: bytes | None, settings: Settings) -> tuple[object, CertificateChain]:
    try:
        private_key, own, chain = pkcs12.load_key_and_certificates(content, password)
    except ValueError as error:
        raise KeyUnusable(
            f"{_named(settings)} cannot be opened: it is neither PEM nor PKCS#12, or TONNE_DOCUMENT_KEY_PASSWORD is "
            "not its password."
        ) from error
    if own is None:
        raise KeyUnusable(f"{_named(settings)} has no certificate. Export the key together with its certificate.")
    return private_key, CertificateChain(own, chain)


def _named(settings: Settings) -> str:
    return f"TONNE_DOCUMENT_KEY_FILE ({settings.document_key_file})"


def _about_password(settings: Settings, *, has_password: bool) -> str:
    if has_password:
        return f"{_named(settings)} has no password: remove TONNE_DOCUMENT_KEY_PASSWORD."
    return f"{_named(settings)} has a password: set TONNE_DOCUMENT_KEY_PASSWORD."
