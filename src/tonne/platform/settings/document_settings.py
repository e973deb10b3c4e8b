"""Rules of the settings about the key that signs PDFs."""

from pathlib import Path

from tonne.platform.settings.settings import Settings
from tonne.platform.values.urls import WEB, UrlInvalid, parse_url


def find_document_fault(settings: Settings) -> str | None:
    """What is wrong with the settings, and what to do; None if they are valid. Keys are opened later."""
    for name, path in (
        ("TONNE_DOCUMENT_KEY_FILE", settings.document_key_file),
        ("TONNE_DOCUMENT_CERTIFICATE_FILE", settings.document_certificate_file),
        ("TONNE_DOCUMENT_PKCS11_MODULE", settings.document_pkcs11_module),
    ):
        if path and not Path(path).is_file():
            return f"{name}: there is no file {path}."
    if settings.document_key_file and settings.document_pkcs11_module:
        return "TONNE_DOCUMENT_KEY_FILE and TONNE_DOCUMENT_PKCS11_MODULE exclude each other: set one of them."
    if settings.document_certificate_file and not (settings.document_key_file or settings.document_pkcs11_module):
        return "TONNE_DOCUMENT_CERTIFICATE_FILE needs TONNE_DOCUMENT_KEY_FILE or TONNE_DOCUMENT_PKCS11_MODULE."
    if settings.document_pkcs11_module and not (settings.document_pkcs11_token and settings.document_pkcs11_key):
        return "TONNE_DOCUMENT_PKCS11_MODULE needs TONNE_DOCUMENT_PKCS11_TOKEN and TONNE_DOCUMENT_PKCS11_KEY."
    if settings.document_time_stamp_url:
        try:
            parse_url(settings.document_time_stamp_url, WEB)
        except UrlInvalid as error:
            return f"TONNE_DOCUMENT_TIME_STAMP_URL must be an http or https URL: {error}."
    return None
