"""A Sustainability page: the public summary of what was retired for an account."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from tonne.channels.public_pages.errors import SlugReserved
from tonne.platform.values.context import Mode, Scope
from tonne.platform.values.errors import Fault, Invalid
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.selling.accounts.model import PagesVisibility

SLUG_PATTERN = "^[a-z0-9]+(-[a-z0-9]+)*$"
MIN_SLUG, MAX_SLUG = 3, 60
MAX_TITLE, MAX_DESCRIPTION = 200, 2000
_RESERVED = """
about abuse account accounts admin administrator api app asset assets billing blog certificate certificates checkout
contact dashboard demo doc docs download edit example faq favicon feed health help home imprint index info invoice
invoices legal live login logo logout mail metrics new null oauth offset offsets official order orders page pages
payment payments preview privacy public register robots root search security service settings shop signin signup
sitemap staff static status support sustainability system team terms test tonne undefined user users v1 verify
webhook webhooks well-known www
"""
# Paths that the service uses or may use, and words with which a page could pose as the service.
RESERVED = frozenset(_RESERVED.split())
_SLUG = re.compile(SLUG_PATTERN.removeprefix("^").removesuffix("$"), re.ASCII)
_NOT_SLUG = re.compile("[^a-z0-9]+")


class PageSection(StrEnum):
    """In the order of the page."""

    TIMELINE = "timeline"
    BUNDLES_BREAKDOWN = "bundles_breakdown"
    PROJECTS = "projects"
    CERTIFICATES = "certificates"
    # The goals of the United Nations that the projects contribute to.
    UNSDG = "unsdg"
    # Orders of former providers, as the account states them.
    HISTORY = "history"


# The sections of pages that were never set up.
DEFAULT_SECTIONS = (PageSection.TIMELINE, PageSection.BUNDLES_BREAKDOWN, PageSection.PROJECTS, PageSection.CERTIFICATES)


class TitleFormat(StrEnum):
    """What the total is shown in: tonnes, or the money that was paid for them."""

    BY_VOLUME = "by_volume"
    BY_PRICE = "by_price"


class DescriptionFormat(StrEnum):
    """What the text below the heading says."""

    BY_EQUIVALENT = "by_equivalent"
    BY_SUPPORTED_GOALS = "by_supported_goals"
    BY_CUSTOM_DESCRIPTION = "by_custom_description"


class SustainabilityPage(Struct, frozen=True):
    """`logo_version` changes with the logo and is None without one. `updated_at` is None until the page is set up."""

    scope: Scope
    slug: str
    enabled: bool
    title: str
    description: str
    sections: tuple[PageSection, ...]
    logo_version: str | None
    updated_at: datetime | None
    # The language of the account, for visitors whose browser names none of ours.
    language: str = DEFAULT_LANGUAGE
    title_format: TitleFormat = TitleFormat.BY_VOLUME
    # `description` is shown only by custom description.
    description_format: DescriptionFormat = DescriptionFormat.BY_CUSTOM_DESCRIPTION
    visibility: PagesVisibility = PagesVisibility.PUBLIC

    @property
    def is_hidden(self) -> bool:
        """Whether search engines are asked not to list it."""
        return self.visibility is not PagesVisibility.PUBLIC

    def address(self, base_url: str) -> str:
        return f"{base_url}{page_path(self.scope.mode, self.slug)}"

    def logo_address(self, base_url: str) -> str | None:
        """Contains the logo's version, so that browsers may cache the image."""
        return None if self.logo_version is None else f"{self.address(base_url)}/logo?v={self.logo_version}"


def page_path(mode: Mode, slug: str) -> str:
    return f"/sustainability/test/{slug}" if mode is Mode.TEST else f"/sustainability/{slug}"


def project_path(mode: Mode, slug: str) -> str:
    return f"/projects/test/{slug}" if mode is Mode.TEST else f"/projects/{slug}"


def check_slug(slug: str) -> str:
    if not MIN_SLUG <= len(slug) <= MAX_SLUG or not _SLUG.fullmatch(slug):
        raise _invalid("slug", "slug must have 3 to 60 characters: a-z, 0-9, and single hyphens between them.")
    if slug in RESERVED:
        raise SlugReserved(field="slug")
    return slug


def check_title(title: str) -> str:
    title = title.strip()
    if not 1 <= len(title) <= MAX_TITLE or _has_controls(title, allowed=""):
        raise _invalid("title", "title must be one line of 1 to 200 characters.")
    return title


def check_description(description: str) -> str:
    description = description.replace("\r\n", "\n").strip()
    if len(description) > MAX_DESCRIPTION or _has_controls(description, allowed="\n\t"):
        raise _invalid("description", "description must be text of at most 2000 characters.")
    return description


def check_sections(sections: Iterable[PageSection]) -> tuple[PageSection, ...]:
    sections = tuple(sections)
    if len(set(sections)) != len(sections):
        raise _invalid("sections", "sections must not contain a section twice.")
    return tuple(section for section in PageSection if section in sections)


def slug_candidates(names: Iterable[str], account_id: str) -> Iterator[str]:
    """The most readable first. The last one contains a hash and is practically always free."""
    words = [word for word in map(_slug_of, names) if len(word) >= MIN_SLUG]
    free = [word for word in words if word not in RESERVED]
    yield from free
    for word in words:
        yield from (_joined(word, str(number)) for number in range(2, 10))
    mark = hashlib.sha256(account_id.encode()).hexdigest()[:10]
    yield _joined(words[0] if words else "page", mark)


def _slug_of(name: str) -> str:
    """Latin letters without accents. Other characters are dropped."""
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    return _NOT_SLUG.sub("-", plain)[:MAX_SLUG].strip("-")


def _joined(word: str, tail: str) -> str:
    return f"{word[: MAX_SLUG - len(tail) - 1].rstrip('-')}-{tail}"


def _has_controls(text: str, *, allowed: str) -> bool:
    return any(unicodedata.category(letter) == "Cc" and letter not in allowed for letter in text)


def _invalid(field: str, message: str) -> Invalid:
    return Invalid([Fault("validation_error", message, field)])
