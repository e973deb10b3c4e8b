"""The rows of projects.csv."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from tonne.platform.documents.sheets.columns import (
    CellError,
    Column,
    Image,
    Label,
    Slug,
    WebUrl,
    choice,
    parse_flag,
    text,
    whole,
)
from tonne.platform.documents.sheets.read_sheet import Row
from tonne.platform.values.amounts import GRAMS_PER_TONNE
from tonne.selling.catalogue import details
from tonne.selling.catalogue.imports import detail_columns

ProjectKey = tuple[str, str]


def _granularity(cell: str) -> int:
    grams = whole(1, GRAMS_PER_TONNE)(cell)
    if grams not in {1_000, GRAMS_PER_TONNE}:
        raise CellError("registries count tonnes or kilograms: write 1000000 for 1 t or 1000 for 1 kg.")
    return grams


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectReference(Row):
    registry: Label
    registry_project_id: Label

    @property
    def project_key(self) -> ProjectKey:
        return (self.registry, self.registry_project_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRow(ProjectReference):
    KEY: ClassVar[tuple[str, ...]] = ("registry", "registry_project_id")

    name: Annotated[str, Column(text(300))]
    country: Label
    type: Label
    methodology: Label | None
    mechanism: Annotated[str, Column(choice("avoidance", "removal"))]
    granularity_grams: Annotated[int, Column(_granularity)]
    # The import sets it if it is missing.
    slug: Slug | None = None
    description: Annotated[str, Column(text(2000))] | None = None
    image: Image | None = None
    registry_url: WebUrl | None = None
    # The fields of ProjectDetails.
    short_name: Label | None = None
    serial_project: Label | None = None
    region: Label | None = None
    latitude: Annotated[float, Column(detail_columns.parse_coordinate(90))] | None = None
    longitude: Annotated[float, Column(detail_columns.parse_coordinate(180))] | None = None
    protocol: detail_columns.Texts | None = None
    additional_standards_met: detail_columns.Texts | None = None
    verifying_body: Label | None = None
    registration_date: detail_columns.Day | None = None
    crediting_start_date: detail_columns.Day | None = None
    crediting_end_date: detail_columns.Day | None = None
    avg_annual_emission_reductions: Annotated[str, Column(detail_columns.parse_tonnes)] | None = None
    durability: detail_columns.ShortText | None = None
    removal_percent: Annotated[int, Column(whole(1, 99))] | None = None
    sink: Annotated[str, Column(choice("biogenic", "technological", "hybrid"))] | None = None
    methodology_version: Label | None = None
    durability_years: Annotated[int, Column(whole(0, 1_000_000))] | None = None
    reversible: Annotated[bool, Column(parse_flag)] | None = None
    buffer: Annotated[bool, Column(parse_flag)] | None = None
    ratings: Annotated[list[details.Rating], Column(detail_columns.items(detail_columns.parse_rating))] | None = None
    verified_on: detail_columns.Day | None = None
    facts_source: detail_columns.ShortText | None = None
    facts_as_of: detail_columns.Day | None = None
    risk_of_reversal: detail_columns.ShortText | None = None
    risk_of_predicted_emissions: detail_columns.ShortText | None = None
    results: detail_columns.Texts | None = None
    un_sdg: Annotated[list[int], Column(detail_columns.parse_goals)] | None = None
    logo: Image | None = None
    media: Annotated[list[details.ProjectMedia], Column(detail_columns.items(detail_columns.parse_media))] | None = None
    offset_delivery: Annotated[str, Column(choice(*details.OffsetDelivery))] | None = None
    retirement_timeframe: Annotated[str, Column(choice(*details.RetirementTimeframe))] | None = None
    carbon_permanence: Annotated[str, Column(choice(*details.CarbonPermanence))] | None = None
    oxford_type: Annotated[int, Column(whole(1, 5))] | None = None
    quality_durability: detail_columns.Titled | None = None
    quality_additionality: detail_columns.Titled | None = None
    quality_measurement: detail_columns.Titled | None = None
    quality_risk_mitigation: detail_columns.Titled | None = None
    quality_cobenefits: detail_columns.Titled | None = None
    impact_summary: (
        Annotated[list[details.ImpactEntry], Column(detail_columns.items(detail_columns.parse_impact))] | None
    ) = None
    timeline: (
        Annotated[list[details.ProjectYear], Column(detail_columns.items(detail_columns.parse_milestone))] | None
    ) = None
    carbon_storage_over_time: (
        Annotated[list[details.CarbonStorageYear], Column(detail_columns.items(detail_columns.parse_storage))] | None
    ) = None
    datasets: Annotated[list[details.Dataset], Column(detail_columns.items(detail_columns.parse_dataset))] | None = None
    links: Annotated[list[details.ProjectLink], Column(detail_columns.items(detail_columns.parse_link))] | None = None
    news: Annotated[list[details.NewsArticle], Column(detail_columns.items(detail_columns.parse_news))] | None = None

    @property
    def is_issued(self) -> bool:
        """Whether its lots are credits that the registry has issued."""
        return self.offset_delivery in {None, details.OffsetDelivery.EX_POST}
