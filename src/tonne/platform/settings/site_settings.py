"""Settings of the frame of public pages: legal links and the operator's logo."""

import re
from pathlib import Path

from msgspec import Struct

from tonne.platform.settings.settings import Settings
from tonne.platform.values.urls import WEB, UrlInvalid, parse_url

MAX_LOGO_BYTES = 256 * 1024
# What a seller on the web must publish in most countries.
REQUIRED_LINKS = ("terms_url", "privacy_url", "imprint_url")
LINKS = (*REQUIRED_LINKS, "refunds_url", "contact_url")
_MAIL = re.compile(r"(mailto:)?[^@\s:/]+@[^@\s:/]+")
_LOGO_TYPES = {
    ".svg": ("image/svg+xml", re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<svg[\s>]", re.DOTALL)),
    ".png": ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ".webp": ("image/webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
    ".jpg": ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ".jpeg": ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
}


class LogoFile(Struct, frozen=True):
    media_type: str
    content: bytes


def find_site_fault(settings: Settings) -> str | None:
    """What is wrong, and what to do."""
    for name in LINKS:
        value = getattr(settings, name)
        if value and not _is_link(name, value):
            also = ", or an e-mail address" if name == "contact_url" else ""
            return f"TONNE_{name.upper()} must be an https URL such as https://example.com/terms{also}."
    try:
        read_logo_file(settings)
    except ValueError as error:
        return f"TONNE_LOGO_FILE: {error}"
    return None


def read_logo_file(settings: Settings) -> LogoFile | None:
    """None if the operator has no logo. Raises ValueError if the file cannot be used."""
    if not settings.logo_file:
        return None
    path = Path(settings.logo_file).expanduser()
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_LOGO_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}).") from error
    media_type, beginning = _LOGO_TYPES.get(path.suffix.lower(), ("", None))
    if beginning is None or not beginning.match(content):
        raise ValueError(f"{path} is no SVG, PNG, WebP or JPEG file with the ending of its format.")
    if len(content) > MAX_LOGO_BYTES:
        raise ValueError(f"{path} is larger than {MAX_LOGO_BYTES // 1024} KiB.")
    return LogoFile(media_type, content)


def contact_link(settings: Settings) -> str:
    """A URL, or `mailto:` with the seller's address. Empty if there is neither."""
    contact = settings.contact_url or settings.seller_email
    return f"mailto:{contact}" if _MAIL.fullmatch(contact) and not contact.startswith("mailto:") else contact


def _is_link(name: str, value: str) -> bool:
    if name == "contact_url" and _MAIL.fullmatch(value):
        return True
    try:
        return parse_url(value, WEB).scheme == "https"
    except UrlInvalid:
        return False
