"""Rules of the settings about requests to receivers."""

import ssl
from pathlib import Path
from urllib.parse import urlsplit

from tonne.platform.settings.settings import Settings
from tonne.platform.values.urls import UrlInvalid, parse_url

# A request must be able to take its whole timeout and still be settled before its lease expires.
LEASE_PER_TIMEOUT = 1.5


def find_webhook_fault(settings: Settings) -> str | None:
    """What is wrong with the settings, and what to do; None if they are valid."""
    if settings.webhook_lease_s < LEASE_PER_TIMEOUT * settings.webhook_timeout_s - 1e-9:
        return (
            f"TONNE_WEBHOOK_LEASE_S ({settings.webhook_lease_s:g}) must be at least {LEASE_PER_TIMEOUT:g} times "
            f"TONNE_WEBHOOK_TIMEOUT_S ({settings.webhook_timeout_s:g}): otherwise a second worker sends the same "
            "request while the first still waits for the response."
        )
    for name, path in (
        ("TONNE_WEBHOOK_CA_FILE", settings.webhook_ca_file),
        ("TONNE_WEBHOOK_CLIENT_CERTIFICATE_FILE", settings.webhook_client_certificate_file),
        ("TONNE_WEBHOOK_CLIENT_KEY_FILE", settings.webhook_client_key_file),
    ):
        if path and not Path(path).is_file():
            return f"{name}: there is no file {path}."
    return _find_identity_fault(settings) or _find_proxy_fault(settings)


def _find_identity_fault(settings: Settings) -> str | None:
    certificate, key = settings.webhook_client_certificate_file, settings.webhook_client_key_file
    if not certificate:
        return "TONNE_WEBHOOK_CLIENT_KEY_FILE needs TONNE_WEBHOOK_CLIENT_CERTIFICATE_FILE." if key else None
    try:
        # Without a password: nobody could type it in when a worker starts.
        ssl.create_default_context().load_cert_chain(certificate, key or None, password="")
    except OSError as error:
        return (
            "TONNE_WEBHOOK_CLIENT_CERTIFICATE_FILE and TONNE_WEBHOOK_CLIENT_KEY_FILE cannot be used "
            f"({error.strerror or type(error).__name__}): give a certificate and its private key as PEM files, the key "
            "without a password."
        )
    return None


def _find_proxy_fault(settings: Settings) -> str | None:
    """The message never shows the setting: it may contain a password."""
    if not settings.egress_proxy:
        return None
    try:
        url = parse_url(settings.egress_proxy, ("http",), credentials=True)
        password = urlsplit(settings.egress_proxy).password
    except (UrlInvalid, ValueError) as error:
        return f"TONNE_EGRESS_PROXY must be an address such as http://user:password@proxy.example.com:3128: {error}."
    if url.port is None or url.rest not in {"", "/"} or (url.userinfo and password is None):
        return (
            "TONNE_EGRESS_PROXY must be an address such as http://user:password@proxy.example.com:3128, with a port "
            "and without a path."
        )
    return None
