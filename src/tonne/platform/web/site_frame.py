"""What the header and footer of every page show: the operator's logo and the legal links."""

from hashlib import sha256

from msgspec import Struct

from tonne.platform.settings.settings import Settings
from tonne.platform.settings.site_settings import LogoFile, contact_link, read_logo_file
from tonne.platform.values.language import N_

_LABELS = {
    "terms_url": N_("Terms"),
    "privacy_url": N_("Privacy"),
    "imprint_url": N_("Imprint"),
    "refunds_url": N_("Refunds"),
}
_CONTACT = N_("Contact")


def legal_links(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Labels, to be translated, with their URLs. Only those that are set."""
    named = [(label, getattr(settings, name)) for name, label in _LABELS.items()]
    return tuple((label, url) for label, url in named if url)


class SiteFrame(Struct, frozen=True):
    """`links` are labels, to be translated, with their URLs. Only those that are set."""

    links: tuple[tuple[str, str], ...]
    contact_url: str
    logo: LogoFile | None

    @classmethod
    def of(cls, settings: Settings) -> "SiteFrame":
        contact = contact_link(settings)
        links = (*legal_links(settings), *([(_CONTACT, contact)] if contact else []))
        return cls(links, contact, read_logo_file(settings))

    @property
    def logo_url(self) -> str | None:
        """None: pages show the built-in mark and the seller's name."""
        return None if self.logo is None else f"/logo?v={sha256(self.logo.content).hexdigest()[:12]}"
