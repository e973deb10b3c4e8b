"""Which settings of accounts at registries are valid. Messages do not repeat secrets."""

import re

from tonne.platform.settings.settings import Settings
from tonne.platform.values.urls import WEB, UrlInvalid, is_loopback, parse_url


def find_registry_fault(settings: Settings) -> str | None:
    """What is wrong, and what to do."""
    return _find_isometric_fault(settings) or _find_puro_fault(settings)


def _find_isometric_fault(settings: Settings) -> str | None:
    secrets = {
        "TONNE_ISOMETRIC_CLIENT_SECRET": settings.isometric_client_secret,
        "TONNE_ISOMETRIC_ACCESS_TOKEN": settings.isometric_access_token,
    }
    if not settings.isometric_organisation_id:
        return "TONNE_ISOMETRIC_ORGANISATION_ID must be set, too: org_…." if any(secrets.values()) else None
    if not re.fullmatch(r"org_[A-Za-z0-9]{16,33}", settings.isometric_organisation_id):
        return "TONNE_ISOMETRIC_ORGANISATION_ID must be the id of your organisation at Isometric: org_…."
    return _find_secret_fault(secrets) or _find_base_fault("TONNE_ISOMETRIC_API_BASE", settings.isometric_api_base)


def _find_puro_fault(settings: Settings) -> str | None:
    secrets = {"TONNE_PURO_API_KEY": settings.puro_api_key, "TONNE_PURO_API_SECRET": settings.puro_api_secret}
    if not settings.puro_account_number:
        return "TONNE_PURO_ACCOUNT_NUMBER must be set, too." if any(secrets.values()) else None
    if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", settings.puro_account_number):
        return "TONNE_PURO_ACCOUNT_NUMBER must be the number of the account at Puro, such as f4826423-21b9-…."
    if not re.fullmatch(r"[A-Z]{3} [0-9]{1,9}\.[0-9]{1,2}", settings.puro_unit_price):
        return "TONNE_PURO_UNIT_PRICE must be what you paid for a tonne, such as EUR 120.00: Puro asks for it."
    if not re.fullmatch(r"[^@\s]+@[^@\s]+", settings.puro_contact_email) or not settings.seller_country:
        return "TONNE_PURO_CONTACT_EMAIL and TONNE_SELLER_COUNTRY must be set, too: Puro asks for both."
    return _find_secret_fault(secrets) or _find_base_fault("TONNE_PURO_API_BASE", settings.puro_api_base)


def _find_secret_fault(secrets: dict[str, str]) -> str | None:
    wrong = next((name for name, value in secrets.items() if not re.fullmatch("[!-~]+", value)), None)
    return wrong and f"{wrong} must be set, too, to what the registry shows, without spaces."


def _find_base_fault(variable: str, address: str) -> str | None:
    try:
        url = parse_url(address, WEB)
    except UrlInvalid as error:
        return f"{variable} is not valid: {error}."
    if "?" in url.rest or "#" in url.rest:
        return f"{variable} must not have a query or a fragment."
    if url.scheme != "https" and url.host != "localhost" and not is_loopback(url.host.strip("[]")):
        return f"{variable} must start with https://, because the requests have secrets."
    return None
