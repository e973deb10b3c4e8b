"""Check of the key that signs PDFs."""

from datetime import timedelta

from cryptography import x509

from tonne.apps.cli.check.check_result import CheckResult
from tonne.platform.db.database import Connection
from tonne.platform.keys.signing.document_key import KeyUnusable
from tonne.platform.keys.signing.key_store import find_current_key, find_key_by_public
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.platform.keys.signing.operator_key import load_operator_key
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now

NAME = "document key"
EXPIRES_SOON = timedelta(days=30)
_OWN = (
    "To be trusted by PDF readers, set TONNE_DOCUMENT_KEY_FILE or TONNE_DOCUMENT_PKCS11_MODULE to a key with a "
    "certificate of a certificate authority."
)


async def check_document_key(connection: Connection, settings: Settings) -> CheckResult:
    """It changes nothing: a missing key is created by the first signature."""
    try:
        loaded = load_operator_key(settings)
    except KeyUnusable as error:
        return CheckResult.error(NAME, "It cannot be used: no PDF can be signed.", str(error))
    stored = await find_current_key(connection, KeyPurpose.DOCUMENT)
    if loaded is not None:
        known = await find_key_by_public(connection, loaded.certificate.pem)
        if known is not None and known.revoked_from is not None:
            return CheckResult.error(NAME, f"The key {known.id} was revoked.", "Set another key and certificate.")
        return _expiry(loaded.certificate.own, f"your own, {loaded.certificate.name}")
    if stored is None:
        return CheckResult.ok(NAME, f"none yet: the first PDF creates a self-signed one. {_OWN}")
    if stored.sealed is None:
        remedy = (
            "Set TONNE_DOCUMENT_KEY_FILE or TONNE_DOCUMENT_PKCS11_MODULE, or run `tonne signing-keys rotate document`."
        )
        return CheckResult.error(NAME, f"The settings do not name the current key {stored.record.id}.", remedy)
    certificate = x509.load_pem_x509_certificate(stored.record.public.encode())
    return _expiry(certificate, f"Tonne's own with a self-signed certificate. {_OWN}")


def _expiry(certificate: x509.Certificate, found: str) -> CheckResult:
    end, now = certificate.not_valid_after_utc, utc_now()
    remedy = "Get a new certificate and set it, see docs/signing.md. What was signed before stays valid."
    if end <= now:
        return CheckResult.error(NAME, f"Its certificate expired on {end:%Y-%m-%d}.", remedy)
    if end - now <= EXPIRES_SOON:
        return CheckResult.warning(NAME, f"Its certificate expires on {end:%Y-%m-%d}.", remedy)
    return CheckResult.ok(NAME, found)
