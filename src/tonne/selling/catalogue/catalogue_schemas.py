"""Response bodies of bundles and projects."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.values.context import Timestamp
from tonne.selling.catalogue import details, schemas

_DATE = {"format": "date"}
_REGISTRY_URL = Meta(
    description="The project's page at its registry, or null.",
    examples=["https://registry.example/VCS-1234"],
    extra_json_schema={"format": "uri"},
)
_OPTIONAL_TEXT = Meta(description="As the project describes it, or null.", examples=["100 years, with a buffer pool"])


class ProjectSummaryOut(msgspec.Struct, kw_only=True):
    """A project of the catalogue. Details that the operator has not entered are null."""

    id: schemas.ProjectId
    name: schemas.ProjectName
    slug: schemas.ProjectSlug
    type: schemas.ProjectType
    mechanism: Annotated[str, Meta(description="`avoidance` or `removal` of emissions.", examples=["avoidance"])]
    country: schemas.Country
    registry: schemas.Registry
    registry_project_id: schemas.RegistryProjectId
    registry_url: Annotated[str | None, _REGISTRY_URL]
    methodology: schemas.Methodology
    description: Annotated[str | None, Meta(description="About the project, or null.", examples=["28 wind turbines."])]
    image: schemas.ImageUrl
    created_at: Annotated[Timestamp, Meta(description="When the project was first imported.")]
    short_name: Annotated[str, Meta(description="A short name, or the name.", examples=["Sierra Wind"])]
    project_type: Annotated[str, Meta(description="Same as `type`.", examples=["Wind"])]
    country_code: Annotated[
        str, Meta(description="ISO 3166 code of three letters; empty if the country is not known.", examples=["KEN"])
    ]
    country_name: Annotated[str, Meta(description="English name of the country.", examples=["Kenya"])]
    region: Annotated[str | None, Meta(description="Part of the country, or null.", examples=["Rift Valley"])]
    latitude: Annotated[
        float, Meta(description="Degrees north. Without a place in the catalogue: of the country.", examples=[-1.29])
    ]
    longitude: Annotated[
        float, Meta(description="Degrees east. Without a place in the catalogue: of the country.", examples=[36.82])
    ]
    registry_name: Annotated[
        str, Meta(description="Usual name of a well-known registry; empty for others.", examples=["Verra"])
    ]
    registry_link: Annotated[str | None, _REGISTRY_URL]
    protocol: Annotated[
        list[str] | None, Meta(description="Protocols that the project follows, or null.", examples=[["VCS v4.5"]])
    ]
    additional_standards_met: Annotated[
        list[str] | None, Meta(description="Further standards that it meets, or null.", examples=[["CCB Gold"]])
    ]
    verifying_body: Annotated[str | None, Meta(description="Who verified it, or null.", examples=["Example Audit Ltd"])]
    registration_date: Annotated[
        str | None,
        Meta(description="When it was registered, or null.", examples=["2019-05-02"], extra_json_schema=_DATE),
    ]
    crediting_start_date: Annotated[
        str | None,
        Meta(description="Start of its crediting period, or null.", examples=["2018-01-01"], extra_json_schema=_DATE),
    ]
    crediting_end_date: Annotated[
        str | None,
        Meta(description="End of its crediting period, or null.", examples=["2037-12-31"], extra_json_schema=_DATE),
    ]
    avg_annual_emission_reductions: Annotated[
        schemas.DecimalText | None, Meta(description="Average tonnes a year, or null.", examples=["42000"])
    ]
    durability: Annotated[str | None, _OPTIONAL_TEXT]
    risk_of_reversal: Annotated[str | None, _OPTIONAL_TEXT]
    risk_of_predicted_emissions: Annotated[str | None, _OPTIONAL_TEXT]
    results: Annotated[list[str] | None, Meta(description="What it achieved, or null.", examples=[["28 turbines run"]])]
    un_sdg: Annotated[
        list[int] | None,
        Meta(
            description="Numbers of the Sustainable Development Goals it contributes to, or null.", examples=[[7, 13]]
        ),
    ]
    disabled: Annotated[bool, Meta(description="True if no bundle on sale contains the project.", examples=[False])]
    logo: schemas.ImageUrl
    primary_image: schemas.ImageUrl
    thumbnail_image: schemas.ImageUrl
    media: Annotated[list[details.ProjectMedia], Meta(description="Pictures and films.")]
    offset_type: Annotated[
        details.OffsetType,
        Meta(description="Whether it reduces emissions or removes carbon.", examples=["emissions_reduction"]),
    ]
    carbon_permanence: Annotated[
        details.CarbonPermanence, Meta(description="How long carbon stays stored.", examples=["no_storage"])
    ]
    oxford_type: Annotated[
        int, Meta(description="Type by the Oxford offsetting principles, 1 to 5.", examples=[1], ge=1, le=5)
    ]


class BundleSummaryOut(msgspec.Struct, kw_only=True):
    """Prices are per tonne, in the account's currency. They are null while there is no usable exchange rate."""

    id: schemas.BundleId
    name: schemas.BundleName
    slug: Annotated[str, Meta(description="Name for use in URLs.", examples=["wind-power"])]
    description: Annotated[str, Meta(description="About the bundle.", examples=["Wind farms in Kenya and India."])]
    primary_image: schemas.ImageUrl
    enabled: Annotated[bool, Meta(description="False if the bundle is no longer on sale.", examples=[True])]
    currency: schemas.CurrencyCode
    unit_price: Annotated[schemas.Money | None, Meta(description="Price without the fee.", examples=["6.90"])]
    gross_unit_price: Annotated[schemas.Money | None, Meta(description="Price including the fee.", examples=["7.67"])]
    available_quantity: Annotated[
        schemas.Tonnes, Meta(description="Tonnes that are neither allocated nor held.", examples=["52000"])
    ]
    created_at: Annotated[Timestamp, Meta(description="When the bundle was first imported.")]
    disabled: Annotated[bool, Meta(description="The opposite of `enabled`.", examples=[False])]
    offset_type: Annotated[
        details.OffsetType | None,
        Meta(description="Type of its projects. Null if they are of both types.", examples=["emissions_reduction"]),
    ]
    approach: Annotated[
        details.Approach | None, Meta(description="Kind of projects, or null.", examples=["traditional"])
    ]
    carbon_permanence: Annotated[
        details.CarbonPermanence, Meta(description="How long carbon stays stored at least.", examples=["no_storage"])
    ]
    background_colour: Annotated[str, Meta(description="A colour that suits the bundle.", examples=["#4a86a8"])]
    primary_image_hires: schemas.ImageUrl
    small_thumbnail: schemas.ImageUrl


class BundleProjectOut(ProjectSummaryOut, kw_only=True):
    """A project of a bundle, with its share."""

    project_id: schemas.ProjectId
    project_name: schemas.ProjectName
    project_slug: schemas.ProjectSlug
    weight: Annotated[
        int, Meta(description="Share of the project in the bundle, relative to the others.", examples=[1])
    ]


class BundleOut(BundleSummaryOut, kw_only=True):
    """Prices are per tonne, in the account's currency. They are null while there is no usable exchange rate."""

    projects: Annotated[list[BundleProjectOut], Meta(description="The projects that the credits come from.")]


class PriceOut(msgspec.Struct):
    value: Annotated[schemas.Money, Meta(description="Price of a tonne without the fee.", examples=["6.90"])]
    currency: schemas.CurrencyCode


class InventoryOut(msgspec.Struct):
    """Credits of one vintage that are on sale."""

    vintage: Annotated[str, Meta(description="Year in which the reductions happened.", examples=["2021"])]
    quantity: Annotated[float, Meta(description="Tonnes that are neither allocated nor held.", examples=[52000])]
    price: Annotated[PriceOut, Meta(description="In the cheapest bundle on sale that contains the project.")]


class CarbonCreditsOut(msgspec.Struct):
    offset_delivery: Annotated[
        details.OffsetDelivery, Meta(description="Whether the reductions have happened already.", examples=["ex_post"])
    ]
    retirement_timeframe: Annotated[
        details.RetirementTimeframe, Meta(description="When credits are retired.", examples=["near_term"])
    ]
    inventory: Annotated[
        list[InventoryOut] | None,
        Meta(description="What is on sale, newest vintage first. Null if no bundle on sale contains the project."),
    ]


class QualityAssessmentOut(msgspec.Struct):
    durability: Annotated[details.TitledText, Meta(description="How long the effect lasts.")]
    additionality: Annotated[details.TitledText, Meta(description="Whether it happened because of the credits.")]
    measurement: Annotated[details.TitledText, Meta(description="How the effect is measured.")]
    risk_mitigation: Annotated[details.TitledText, Meta(description="What reduces the risk that it is undone.")]
    cobenefits: Annotated[details.TitledText, Meta(description="Other benefits.")]


class LinksAndNewsOut(msgspec.Struct):
    links: Annotated[list[details.ProjectLink], Meta(description="Pages about the project.")]
    news: Annotated[list[details.NewsArticle], Meta(description="Articles about the project.")]


class ProjectOut(ProjectSummaryOut, kw_only=True):
    """A project of the catalogue with everything that is known about it. What is not known is null."""

    bundles: Annotated[list[BundleSummaryOut], Meta(description="The bundles that contain it, on sale or not.")]
    carbon_credits: Annotated[CarbonCreditsOut | None, Meta(description="Its credits, or null.")]
    quality_assessment: Annotated[QualityAssessmentOut | None, Meta(description="How good it is, or null.")]
    timeline: Annotated[list[details.ProjectYear] | None, Meta(description="Its history, newest first, or null.")]
    impact_summary: Annotated[list[details.ImpactEntry] | None, Meta(description="What it achieves, or null.")]
    carbon_storage_over_time: Annotated[
        list[details.CarbonStorageYear] | None, Meta(description="By year, oldest first, or null.")
    ]
    datasets: Annotated[list[details.Dataset] | None, Meta(description="Data about the project, or null.")]
    links_and_news: Annotated[LinksAndNewsOut | None, Meta(description="Pages and articles about it, or null.")]
