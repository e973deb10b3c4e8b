"""The settings of a Sustainability page as `/v1/sustainability-pages` sends and receives them."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.channels.public_pages import model


class PageStatus(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"


class ChosenSection(StrEnum):
    """The sections that these settings choose. The others are chosen with `/v1/sustainability-page`."""

    BUNDLES_BREAKDOWN = model.PageSection.BUNDLES_BREAKDOWN.value
    CERTIFICATES = model.PageSection.CERTIFICATES.value
    UNSDG = model.PageSection.UNSDG.value


_STATUS = Meta(description="Whether the page is public. A disabled page returns 404.", examples=["enabled"])
_SLUG = Meta(description="Last part of the page's address. Earlier slugs redirect to it.", examples=["acme"])
_TITLE = Meta(description="Whether the total is in tonnes or in money.", examples=["by_volume"])
_SECTIONS = Meta(
    description="Parts of the page. Its timeline and projects are chosen with `/v1/sustainability-page`.",
    examples=[["bundles_breakdown", "certificates"]],
)
_DESCRIPTION = Meta(
    description="What the text below the heading says: how many flights the total compares to, how many goals and "
    "projects it supports, or your own text.",
    examples=["by_custom_description"],
)
_CUSTOM = Meta(description="Your own text, plain, with line breaks.", examples=["We offset every delivery."])


class PageSettingsIn(msgspec.Struct, forbid_unknown_fields=True):
    """The complete settings: an optional field that is left out is removed."""

    status: Annotated[PageStatus, _STATUS]
    slug: Annotated[str, Meta(min_length=model.MIN_SLUG, max_length=model.MAX_SLUG, pattern=model.SLUG_PATTERN), _SLUG]
    title: Annotated[model.TitleFormat, _TITLE]
    sections: Annotated[
        list[ChosenSection],
        Meta(max_length=len(ChosenSection), extra_json_schema={"uniqueItems": True}),
        _SECTIONS,
    ]
    description: Annotated[model.DescriptionFormat, _DESCRIPTION] | None = None
    custom_description: Annotated[str, Meta(max_length=model.MAX_DESCRIPTION), _CUSTOM] | None = None


class PageSettingsOut(msgspec.Struct):
    status: Annotated[PageStatus, _STATUS]
    slug: Annotated[str, _SLUG]
    title: Annotated[model.TitleFormat, _TITLE]
    sections: Annotated[list[ChosenSection], _SECTIONS]
    description: Annotated[model.DescriptionFormat | None, _DESCRIPTION]
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
