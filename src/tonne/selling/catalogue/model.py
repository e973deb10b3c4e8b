"""Projects, bundles and exchange rates."""

from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from tonne.platform.values.amounts import MAX_GRAMS
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.details import NO_BUNDLE_DETAILS, NO_PROJECT_DETAILS, BundleDetails, ProjectDetails


class Project(Struct, frozen=True):
    id: str
    registry: str
    registry_project_id: str
    name: str
    slug: str
    country: str
    type: str
    methodology: str | None
    mechanism: str
    description: str | None
    image: str | None
    registry_url: str | None
    created_at: datetime
    # Digest of the imported picture.
    picture: str | None = None
    details: ProjectDetails = NO_PROJECT_DETAILS
    # A small form of `image`, if there is one.
    thumbnail: str | None = None


class BundleProject(Struct, frozen=True):
    """`weight` is the project's share of the bundle, relative to the others. `free_grams` may be a second old.

    `pending_grams` are held for customers at checkout who have not paid.
    """

    project: Project
    weight: int
    free_grams: int
    pending_grams: int = 0


class Bundle(Struct, frozen=True, dict=True):
    """`unit_price_minor` is the net price of a tonne in the catalogue's currency."""

    id: str
    slug: str
    name: str
    description: str
    primary_image: str | None
    unit_price_minor: int
    enabled: bool
    created_at: datetime
    projects: tuple[BundleProject, ...]
    # Digest of the imported picture.
    picture: str | None = None
    details: BundleDetails = NO_BUNDLE_DETAILS
    # A small form of `primary_image`, if there is one.
    thumbnail: str | None = None
    # When it was taken off sale; None if it is on sale, or never was.
    disabled_at: datetime | None = None

    @cached_property
    def free_grams(self) -> int:
        return min(MAX_GRAMS, sum(share.free_grams for share in self.projects))

    @property
    def mechanism(self) -> str:
        """`removal`, `avoidance` or `mixed`; empty for a bundle without projects."""
        found = {share.project.mechanism for share in self.projects}
        return "mixed" if len(found) > 1 else next(iter(found), "")

    @property
    def is_sold_out(self) -> bool:
        """What is held for customers who have not paid may become free again."""
        return not any(share.free_grams or share.pending_grams for share in self.projects)


class ExchangeRate(Struct, frozen=True):
    """One unit of `base` costs `rate` units of `quote`."""

    base: str
    quote: str
    rate: Decimal
    source: str
    as_of: datetime


class VintageSupply(Struct, frozen=True):
    """Grams of a project's lots of one year that are neither allocated nor held; and those of unpaid checkouts."""

    vintage: int
    free_grams: int
    pending_grams: int = 0


class Catalogue(Struct, frozen=True, dict=True):
    """A snapshot of everything that one mode sells.

    What is computed of it for many requests is kept in `kept`, which a changed copy does not have.
    """

    mode: Mode
    currency: str
    version: int
    default_selection: list[dict[str, Any]] | None
    projects: dict[str, Project]
    bundles: dict[str, Bundle]
    # By target currency, without the catalogue's own.
    rates: dict[str, ExchangeRate]
    # Older rates are not used. None: every rate is used.
    rates_since: datetime | None = None
    # By project, the oldest vintage first. In test mode as it was when the catalogue was loaded.
    vintages: dict[str, list[VintageSupply]] = field(default_factory=dict)

    @cached_property
    def kept(self) -> dict[Any, Any]:
        return {}
