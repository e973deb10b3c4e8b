"""What the catalogue tells about projects and bundles beyond what selling them needs. All of it is optional.

The structs are stored as JSON in the column `details`, and their parts are on the wire as they are here.
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta


class OffsetType(StrEnum):
    EMISSIONS_REDUCTION = "emissions_reduction"
    CARBON_REMOVAL = "carbon_removal"


class Approach(StrEnum):
    TRADITIONAL = "traditional"
    INNOVATIVE = "innovative"


class CarbonPermanence(StrEnum):
    LONG_TERM = "long_term"
    SHORT_TERM = "short_term"
    NO_STORAGE = "no_storage"


class OffsetDelivery(StrEnum):
    EX_POST = "ex_post"
    EX_ANTE = "ex_ante"
    PRE_PURCHASE = "pre_purchase"


class RetirementTimeframe(StrEnum):
    INSTANT = "instant"
    NEAR_TERM = "near_term"
    FUTURE = "future"


class MediaType(StrEnum):
    IMAGE = "image"
    VIDEO = "video"


_YEAR = Meta(description="The year.", examples=[2024])
_TITLE = Meta(description="A few words.", examples=["Forest inventory 2024"])
_TEXT = Meta(description="A sentence or two.", examples=["Community patrols began in the north."])
_TONNES = Meta(description="In tonnes.", examples=[12500])
_URL = Meta(description="A web address.", examples=["https://example.org/report"], extra_json_schema={"format": "uri"})


class ProjectMedia(msgspec.Struct, frozen=True):
    """A picture or a film, and whom to credit for it."""

    type: Annotated[MediaType, Meta(description="`image` or `video`.", examples=["image"])]
    url: Annotated[str, _URL]
    attribution_text: Annotated[
        str | None, Meta(description="Whom to credit, or null.", examples=["Photo: A. Bekele"])
    ] = None
    attribution_url: Annotated[str | None, _URL] = None


class TitledText(msgspec.Struct, frozen=True):
    title: Annotated[str, _TITLE]
    description: Annotated[str, _TEXT]


class ProjectYear(msgspec.Struct, frozen=True):
    year: Annotated[int, _YEAR]
    description: Annotated[str, _TEXT]


class ImpactEntry(msgspec.Struct, frozen=True):
    label: Annotated[str, Meta(description="A short label.", examples=["Biodiversity"])]
    title: Annotated[str, _TITLE]
    description: Annotated[str, _TEXT]
    image_url: Annotated[str, _URL]
    icon: Annotated[str, Meta(description="Name of an icon.", examples=["forest"])]


class CarbonStorageYear(msgspec.Struct, frozen=True):
    """The amounts of one year, in tonnes."""

    year: Annotated[int, _YEAR]
    baseline: Annotated[float, _TONNES]
    carbon_stock: Annotated[float, _TONNES]
    assumed_leakage: Annotated[float, _TONNES]
    buffer: Annotated[float, _TONNES]
    credits_issued: Annotated[float, _TONNES]


class Dataset(msgspec.Struct, frozen=True):
    dataset: Annotated[str, _TITLE]
    description: Annotated[str, _TEXT]
    thumbnail_url: Annotated[str, _URL]
    url: Annotated[str | None, _URL] = None


class ProjectLink(msgspec.Struct, frozen=True):
    title: Annotated[str, _TITLE]
    destination_url: Annotated[str, _URL]
    favicon_url: Annotated[str, _URL]


class NewsArticle(msgspec.Struct, frozen=True):
    title: Annotated[str, _TITLE]
    article_url: Annotated[str, _URL]
    published_at: Annotated[
        str | None,
        Meta(
            description="Date of the article, or null.", examples=["2026-01-31"], extra_json_schema={"format": "date"}
        ),
    ] = None
    description: Annotated[str | None, _TEXT] = None
    image_url: Annotated[str | None, _URL] = None
    favicon_url: Annotated[str | None, _URL] = None


class Rating(msgspec.Struct, frozen=True):
    """A rating by others, as they published it."""

    agency: Annotated[str, Meta(description="Who rates.", examples=["Example Ratings"])]
    grade: Annotated[str, Meta(description="As it was published.", examples=["AA"])]
    as_of: Annotated[str, Meta(description="The day of the rating.", examples=["2026-01-31"])]
    url: Annotated[str, _URL]


class ProjectDetails(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The fields have the names of the columns of projects.csv. Dates are ISO 8601, amounts decimal text."""

    short_name: str | None = None
    # The project as serials name it, if that is not the `registry_project_id`.
    serial_project: str | None = None
    region: str | None = None
    latitude: float | None = None
    longitude: float | None = None
    protocol: list[str] | None = None
    additional_standards_met: list[str] | None = None
    verifying_body: str | None = None
    registration_date: str | None = None
    crediting_start_date: str | None = None
    crediting_end_date: str | None = None
    avg_annual_emission_reductions: str | None = None
    durability: str | None = None
    # Facts that certificates state. The last two say where they come from.
    removal_percent: int | None = None
    sink: str | None = None
    methodology_version: str | None = None
    durability_years: int | None = None
    reversible: bool | None = None
    buffer: bool | None = None
    ratings: list[Rating] | None = None
    verified_on: str | None = None
    facts_source: str | None = None
    facts_as_of: str | None = None
    risk_of_reversal: str | None = None
    risk_of_predicted_emissions: str | None = None
    results: list[str] | None = None
    un_sdg: list[int] | None = None
    logo: str | None = None
    media: list[ProjectMedia] | None = None
    offset_delivery: str | None = None
    retirement_timeframe: str | None = None
    carbon_permanence: str | None = None
    oxford_type: int | None = None
    quality_durability: TitledText | None = None
    quality_additionality: TitledText | None = None
    quality_measurement: TitledText | None = None
    quality_risk_mitigation: TitledText | None = None
    quality_cobenefits: TitledText | None = None
    impact_summary: list[ImpactEntry] | None = None
    timeline: list[ProjectYear] | None = None
    carbon_storage_over_time: list[CarbonStorageYear] | None = None
    datasets: list[Dataset] | None = None
    links: list[ProjectLink] | None = None
    news: list[NewsArticle] | None = None


class BundleDetails(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The fields have the names of the columns of bundles.csv."""

    approach: str | None = None
    carbon_permanence: str | None = None
    background_colour: str | None = None


NO_PROJECT_DETAILS = ProjectDetails()
NO_BUNDLE_DETAILS = BundleDetails()
