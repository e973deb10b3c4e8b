"""JSON of Sustainability page settings."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tonne.channels.public_pages import model
from tonne.channels.public_pages.model import DescriptionFormat, TitleFormat
from tonne.platform.values.context import Mode, Timestamp, same_named, to_wire
from tonne.selling.catalogue.catalogue_schemas import BundleOut
from tonne.selling.catalogue.schemas import DecimalText, Tonnes

_ENABLED = msgspec.Meta(description="Whether the page is public. A disabled page returns 404.", examples=[True])
_SLUG = msgspec.Meta(description="Last part of the page's address. Earlier slugs redirect to it.", examples=["acme"])
_TITLE = msgspec.Meta(description="Heading of the page.", examples=["Acme and the climate"])
_DESCRIPTION = msgspec.Meta(description="Plain text below the heading.", examples=["We offset every delivery."])
_SECTIONS = msgspec.Meta(
    description="The sections below the total. `history` lists what the account states about its orders of former "
    "providers, marked as not verified.",
    examples=[["timeline", "projects"]],
)


class LogoIn(msgspec.Struct, forbid_unknown_fields=True):
    media_type: Annotated[
        str,
        msgspec.Meta(
            max_length=50,
            description="Format of the image.",
            extra_json_schema={"enum": ["image/png", "image/jpeg", "image/webp"]},
        ),
    ]
    data: Annotated[
        str,
        msgspec.Meta(
            description="The image in base64, at most 96 KiB, 4096 pixels a side and 4 million in all.",
            examples=[
                "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
            ],
            extra_json_schema={"maxLength": 131_072, "contentEncoding": "base64"},
        ),
    ]


class SustainabilityPageIn(msgspec.Struct, forbid_unknown_fields=True):
    """Fields that are left out keep their value. A logo of null removes the logo."""

    enabled: Annotated[bool, _ENABLED] | None = None
    slug: (
        Annotated[
            str, msgspec.Meta(min_length=model.MIN_SLUG, max_length=model.MAX_SLUG, pattern=model.SLUG_PATTERN), _SLUG
        ]
        | None
    ) = None
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=model.MAX_TITLE), _TITLE] | None = None
    description: Annotated[str, msgspec.Meta(max_length=model.MAX_DESCRIPTION), _DESCRIPTION] | None = None
    sections: (
        Annotated[
            list[model.PageSection],
            msgspec.Meta(max_length=len(model.PageSection), extra_json_schema={"uniqueItems": True}),
            _SECTIONS,
        ]
        | None
    ) = None
    logo: Annotated[LogoIn | None, msgspec.Meta(description="New logo. Null removes the logo.")] = None


class SustainabilityPageOut(msgspec.Struct):
    enabled: Annotated[bool, _ENABLED]
    slug: Annotated[str, _SLUG]
    title: Annotated[str, _TITLE]
    description: Annotated[str, _DESCRIPTION]
    sections: Annotated[list[model.PageSection], _SECTIONS]
    logo_url: Annotated[
        str | None,
        msgspec.Meta(
            description="Address of the logo. Null if there is none.",
            examples=["https://offsets.example.com/sustainability/acme/logo?v=5f2b8c01d9e3"],
            extra_json_schema={"format": "uri"},
        ),
    ]
    url: Annotated[
        str,
        msgspec.Meta(
            description="Public address of the page.",
            examples=["https://offsets.example.com/sustainability/acme"],
            extra_json_schema={"format": "uri"},
        ),
    ]
    account_type: Annotated[Mode, msgspec.Meta(description="Mode of the account.", examples=["live"])]
    updated_at: Annotated[
        Timestamp | None, msgspec.Meta(description="Time of the last change. Null until the page is set up.")
    ]


def page_out(page: model.SustainabilityPage, base_url: str) -> SustainabilityPageOut:
    return same_named(
        SustainabilityPageOut,
        page,
        sections=list(page.sections),
        logo_url=page.logo_address(base_url),
        url=page.address(base_url),
        account_type=page.scope.mode,
        updated_at=None if page.updated_at is None else to_wire(page.updated_at),
    )


# The settings of a Sustainability page as `/v1/sustainability-pages` sends and receives them.


class PageStatus(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"


class ChosenSection(StrEnum):
    """The sections that these settings choose. The others are chosen with `/v1/sustainability-page`."""

    BUNDLES_BREAKDOWN = model.PageSection.BUNDLES_BREAKDOWN.value
    CERTIFICATES = model.PageSection.CERTIFICATES.value
    UNSDG = model.PageSection.UNSDG.value


_STATUS = Meta(description="Whether the page is public. A disabled page returns 404.", examples=["enabled"])
_PAGE_SLUG = Meta(description="Last part of the page's address. Earlier slugs redirect to it.", examples=["acme"])
_TITLE_FORMAT = Meta(description="Whether the total is in tonnes or in money.", examples=["by_volume"])
_CHOSEN_SECTIONS = Meta(
    description="Parts of the page. Its timeline and projects are chosen with `/v1/sustainability-page`.",
    examples=[["bundles_breakdown", "certificates"]],
)
_DESCRIPTION_FORMAT = Meta(
    description="What the text below the heading says: how many flights the total compares to, how many goals and "
    "projects it supports, or your own text.",
    examples=["by_custom_description"],
)
_CUSTOM = Meta(description="Your own text, plain, with line breaks.", examples=["We offset every delivery."])


class PageSettingsIn(msgspec.Struct, forbid_unknown_fields=True):
    """The complete settings: an optional field that is left out is removed."""

    status: Annotated[PageStatus, _STATUS]
    slug: Annotated[
        str, Meta(min_length=model.MIN_SLUG, max_length=model.MAX_SLUG, pattern=model.SLUG_PATTERN), _PAGE_SLUG
    ]
    title: Annotated[model.TitleFormat, _TITLE_FORMAT]
    sections: Annotated[
        list[ChosenSection],
        Meta(max_length=len(ChosenSection), extra_json_schema={"uniqueItems": True}),
        _CHOSEN_SECTIONS,
    ]
    description: Annotated[model.DescriptionFormat, _DESCRIPTION_FORMAT] | None = None
    custom_description: Annotated[str, Meta(max_length=model.MAX_DESCRIPTION), _CUSTOM] | None = None


class PageSettingsOut(msgspec.Struct):
    status: Annotated[PageStatus, _STATUS]
    slug: Annotated[str, _PAGE_SLUG]
    title: Annotated[model.TitleFormat, _TITLE_FORMAT]
    sections: Annotated[list[ChosenSection], _CHOSEN_SECTIONS]
    description: Annotated[model.DescriptionFormat | None, _DESCRIPTION_FORMAT]
    custom_description: Annotated[str | None, _CUSTOM]


def page_settings_out(page: model.SustainabilityPage) -> PageSettingsOut:
    chosen = page.description_format
    has_none = chosen is model.DescriptionFormat.BY_CUSTOM_DESCRIPTION and not page.description
    return PageSettingsOut(
        status=PageStatus.ENABLED if page.enabled else PageStatus.DISABLED,
        slug=page.slug,
        title=page.title_format,
        sections=[section for section in ChosenSection if section.value in page.sections],
        description=None if has_none else chosen,
        custom_description=page.description or None,
    )


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
