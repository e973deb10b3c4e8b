"""Projects, bundles and exchange rates."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from tonne.base.mass import MAX_GRAMS
from tonne.base.scope import Mode


@dataclass(frozen=True, slots=True)
class Project:
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


@dataclass(frozen=True, slots=True)
class BundleProject:
    """`weight` is the project's share of the bundle, relative to the others. `free_grams` may be a second old."""

    project: Project
    weight: int
    free_grams: int


@dataclass(frozen=True, slots=True)
class Bundle:
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

    @property
    def free_grams(self) -> int:
        return min(MAX_GRAMS, sum(share.free_grams for share in self.projects))


@dataclass(frozen=True, slots=True)
class ExchangeRate:
    """One unit of `base` costs `rate` units of `quote`."""

    base: str
    quote: str
    rate: Decimal
    source: str
    as_of: datetime


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A snapshot of everything that one mode sells."""

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
