"""The rows of projects.csv."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from tonne.platform.documents.sheets.columns import CellError, Column, Image, Label, Slug, WebUrl, choice, text, whole
from tonne.platform.documents.sheets.read_sheet import Row
from tonne.platform.values.amounts import GRAMS_PER_TONNE
from tonne.selling.catalogue import details
from tonne.selling.catalogue.imports.detail_columns import (
    Day,
    ShortText,
    Texts,
    Titled,
    items,
    parse_coordinate,
    parse_dataset,
    parse_goals,
    parse_impact,
    parse_link,
    parse_media,
    parse_milestone,
    parse_news,
    parse_storage,
    parse_tonnes,
)

ProjectKey = tuple[str, str]


def _granularity(cell: str) -> int:
    grams = whole(1, GRAMS_PER_TONNE)(cell)
    if GRAMS_PER_TONNE % grams:
        # Lots are whole tonnes: the remainder of other units could never be retired.
        raise CellError("the grams do not divide a tonne evenly: write 1000000 for 1 t or 1000 for 1 kg.")
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
    region: Label | None = None
    latitude: Annotated[float, Column(parse_coordinate(90))] | None = None
    longitude: Annotated[float, Column(parse_coordinate(180))] | None = None
    protocol: Texts | None = None
    additional_standards_met: Texts | None = None
    verifying_body: Label | None = None
    registration_date: Day | None = None
    crediting_start_date: Day | None = None
    crediting_end_date: Day | None = None
    avg_annual_emission_reductions: Annotated[str, Column(parse_tonnes)] | None = None
    durability: ShortText | None = None
    risk_of_reversal: ShortText | None = None
    risk_of_predicted_emissions: ShortText | None = None
    results: Texts | None = None
    un_sdg: Annotated[list[int], Column(parse_goals)] | None = None
    logo: Image | None = None
    media: Annotated[list[details.ProjectMedia], Column(items(parse_media))] | None = None
    offset_delivery: Annotated[str, Column(choice(*details.OffsetDelivery))] | None = None
    retirement_timeframe: Annotated[str, Column(choice(*details.RetirementTimeframe))] | None = None
    carbon_permanence: Annotated[str, Column(choice(*details.CarbonPermanence))] | None = None
    oxford_type: Annotated[int, Column(whole(1, 5))] | None = None
    quality_durability: Titled | None = None
    quality_additionality: Titled | None = None
    quality_measurement: Titled | None = None
    quality_risk_mitigation: Titled | None = None
    quality_cobenefits: Titled | None = None
    impact_summary: Annotated[list[details.ImpactEntry], Column(items(parse_impact))] | None = None
    timeline: Annotated[list[details.ProjectYear], Column(items(parse_milestone))] | None = None
    carbon_storage_over_time: Annotated[list[details.CarbonStorageYear], Column(items(parse_storage))] | None = None
    datasets: Annotated[list[details.Dataset], Column(items(parse_dataset))] | None = None
    links: Annotated[list[details.ProjectLink], Column(items(parse_link))] | None = None
    news: Annotated[list[details.NewsArticle], Column(items(parse_news))] | None = None
