"""A Sustainability page as JSON, for everyone."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tonne.channels.public_pages.model import DescriptionFormat, TitleFormat
from tonne.selling.catalogue.catalogue_schemas import BundleOut
from tonne.selling.catalogue.schemas import DecimalText, Tonnes

_LOGO = "https://offsets.example.com/sustainability/acme/logo?v=5f2b8c01d9e3"


class PageTotalOut(msgspec.Struct):
    format: Annotated[TitleFormat, Meta(description="Whether the total is in tonnes or in money.")]
    quantity: Annotated[
        Tonnes | UnsetType, Meta(description="Tonnes retired; with `by_volume`.", examples=["12.5"])
    ] = UNSET
    value: Annotated[
        DecimalText | UnsetType,
        Meta(
            description="What the complete orders cost before tax, less refunds; with `by_price`.", examples=["312.50"]
        ),
    ] = UNSET
    currency: Annotated[
        str | UnsetType, Meta(description="Currency of the value; with `by_price`.", examples=["EUR"])
    ] = UNSET


class PageTextOut(msgspec.Struct):
    format: Annotated[DescriptionFormat, Meta(description="What the text is about.", examples=["by_supported_goals"])]
    flights_nyc_to_london: Annotated[
        DecimalText | UnsetType,
        Meta(
            description="How many flights in economy class from New York to London cause the same emissions; with "
            "`by_equivalent`.",
            examples=["15"],
        ),
    ] = UNSET
    number_of_un_sdgs: Annotated[
        int | UnsetType,
        Meta(description="How many goals the projects contribute to; with `by_supported_goals`.", examples=[5]),
    ] = UNSET
    number_of_projects: Annotated[
        int | UnsetType,
        Meta(description="How many projects the credits come from; with `by_supported_goals`.", examples=[3]),
    ] = UNSET
    custom_description: Annotated[
        str | UnsetType,
        Meta(description="The account's own text; with `by_custom_description`.", examples=["We offset it."]),
    ] = UNSET


class PageBundleOut(msgspec.Struct):
    bundle: Annotated[BundleOut, Meta(description="The bundle, with prices in the account's currency.")]
    quantity: Annotated[Tonnes, Meta(description="Tonnes retired from the bundle.")]
    percent_of_total: Annotated[
        float, Meta(description="Share of the bundle, with one decimal. Shares add up to 100.", examples=[62.5])
    ]


class PageGoalOut(msgspec.Struct):
    un_sdg_number: Annotated[int, Meta(description="Number of the goal.", ge=1, le=17, examples=[13])]
    occurrences: Annotated[int, Meta(description="How many of the projects contribute to it.", examples=[2])]


class PublishedPageOut(msgspec.Struct):
    account_name: Annotated[str, Meta(description="Name of the account.", examples=["Acme"])]
    logo: Annotated[
        str | None,
        Meta(
            description="Address of the account's logo, or null.", examples=[_LOGO], extra_json_schema={"format": "uri"}
        ),
    ]
    organisation_logo: Annotated[
        str | None,
        Meta(
            description="Address of the logo of the organisation's first account that has one, or null.",
            examples=["https://offsets.example.com/logo/acc_06dq2k8v7p3h5n9s4t1w0x2y6z/5f2b8c01d9e3"],
            extra_json_schema={"format": "uri"},
        ),
    ]
    title: Annotated[PageTotalOut, Meta(description="The total.")]
    description: Annotated[PageTextOut | None, Meta(description="The text below the heading, or null.")]
    bundles: Annotated[
        list[PageBundleOut] | None,
        Meta(description="The bundles, largest first. Null if the page does not show them."),
    ]
    un_sdg: Annotated[
        list[PageGoalOut] | None,
        Meta(
            description="The UN Sustainable Development Goals that the projects contribute to, by number. Null if the "
            "page does not show them."
        ),
    ]
    include_certificates: Annotated[
        bool, Meta(description="Whether the page lists certificates, and they have public pages.", examples=[True])
    ]
