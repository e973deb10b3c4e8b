"""Which settings for signing in by OpenID Connect are valid."""

from tonne.platform.settings.settings import Settings
from tonne.platform.values.urls import WEB, UrlInvalid, parse_host, parse_url

_LOCAL = {"localhost", "127.0.0.1", "[::1]"}


def find_oidc_fault(settings: Settings) -> str | None:
    """What is wrong, and what to do. The secret is not repeated."""
    if not settings.oidc_issuer:
        others = (settings.oidc_client_id, settings.oidc_client_secret, settings.oidc_email_domains)
        return "TONNE_OIDC_ISSUER must be set, too: the address of the sign-in provider." if any(others) else None
    if not settings.oidc_client_id:
        return "TONNE_OIDC_CLIENT_ID must be set, too: register Tonne as a client at the provider."
    return _find_issuer_fault(settings.oidc_issuer) or _find_domain_fault(settings.oidc_domains)


def _find_issuer_fault(issuer: str) -> str | None:
    try:
        url = parse_url(issuer, WEB)
    except UrlInvalid as error:
        return f"TONNE_OIDC_ISSUER is not valid: {error}."
    if "?" in url.rest or "#" in url.rest:
        return "TONNE_OIDC_ISSUER must not have a query or a fragment."
    if url.scheme != "https" and url.host not in _LOCAL:
        return "TONNE_OIDC_ISSUER must start with https://, because sign-ins depend on it."
    return None


def _find_domain_fault(domains: tuple[str, ...]) -> str | None:
    for domain in domains:
        try:
            parse_host(domain)
        except UrlInvalid:
            return f"TONNE_OIDC_EMAIL_DOMAINS: {domain!r} is no domain such as example.com. Separate several by commas."
    return None
