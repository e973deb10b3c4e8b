"""A key for PDFs in a hardware module (PKCS#11). The only module that uses python-pkcs11, the extra `pkcs11`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from tonne.platform.keys.signing.document_key import CertificateChain, KeyUnusable, check_certificate
from tonne.platform.keys.signing.operator_certificates import read_certificates
from tonne.platform.settings.settings import Settings

try:
    import pkcs11
    from pkcs11 import Attribute, Mechanism, ObjectClass
    from pkcs11.exceptions import PKCS11Error, UserAlreadyLoggedIn
except ImportError as error:
    raise KeyUnusable(
        "The package python-pkcs11 is not installed: install Tonne with it (pip install 'tonne[pkcs11]')."
    ) from error


def open_pkcs11_key(settings: Settings) -> tuple[CertificateChain, Callable[[bytes], bytes]]:
    """The certificate, and the function that signs. Raises KeyUnusable."""
    module = Pkcs11Key(settings)
    chain = read_certificates(settings) if settings.document_certificate_file else module.read_certificate()
    public_key = check_certificate(chain.own)
    probe = b"Does the certificate belong to the key?"
    try:
        public_key.verify(module.sign(probe), probe, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature as error:
        raise KeyUnusable(
            f"The certificate {chain.name} belongs to another key than {settings.document_pkcs11_key} in the token "
            f"{settings.document_pkcs11_token}. Name the certificate of this key."
        ) from error
    return chain, module.sign


class Pkcs11Key:
    """One session, which one thread uses at a time. If the module fails, the next signature opens a new one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._session: pkcs11.Session | None = None
        self._turn = Lock()

    def sign(self, text: bytes) -> bytes:
        with self._turn, self._errors():
            key = self._open().get_key(object_class=ObjectClass.PRIVATE_KEY, label=self._settings.document_pkcs11_key)
            if not isinstance(key, pkcs11.SignMixin):
                raise KeyUnusable(f"The key {self._settings.document_pkcs11_key} cannot sign.")
            return bytes(key.sign(text, mechanism=Mechanism.SHA256_RSA_PKCS))

    def read_certificate(self) -> CertificateChain:
        """The certificate with the label of the key."""
        label = self._settings.document_pkcs11_key
        with self._turn, self._errors():
            requested = {Attribute.CLASS: ObjectClass.CERTIFICATE, Attribute.LABEL: label}
            found = [each[Attribute.VALUE] for each in self._open().get_objects(requested)]
        if not found:
            raise KeyUnusable(
                f"The token {self._settings.document_pkcs11_token} has no certificate with the label {label}. Store it "
                "there, or name a PEM file in TONNE_DOCUMENT_CERTIFICATE_FILE."
            )
        return CertificateChain(x509.load_der_x509_certificate(found[0]))

    def _open(self) -> pkcs11.Session:
        if self._session is None:
            module = pkcs11.lib(self._settings.document_pkcs11_module)
            token = module.get_token(token_label=self._settings.document_pkcs11_token)
            try:
                self._session = token.open(user_pin=self._settings.document_pkcs11_pin or None)
            except UserAlreadyLoggedIn:
                # A login counts for the whole process, also after a session that failed.
                self._session = token.open()
        return self._session

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(PKCS11Error, RuntimeError, OSError):
                session.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (PKCS11Error, RuntimeError, OSError) as error:
            # A session does not survive that its device was removed or its service restarted.
            self._close()
            reason = " ".join(filter(None, (type(error).__name__, str(error))))
            raise KeyUnusable(
                f"The module {self._settings.document_pkcs11_module} cannot use the key "
                f"{self._settings.document_pkcs11_key} in the token {self._settings.document_pkcs11_token} ({reason}). "
                "Check TONNE_DOCUMENT_PKCS11_TOKEN, TONNE_DOCUMENT_PKCS11_KEY and TONNE_DOCUMENT_PKCS11_PIN, and that "
                "the device is connected."
            ) from error
