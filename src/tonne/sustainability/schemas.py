"""Sustainability pages on the wire."""

from typing import Annotated

import msgspec

from tonne.base.clock import to_wire
from tonne.catalog.schemas import Timestamp
from tonne.sustainability.model import (
    MAX_DESCRIPTION,
    MAX_SLUG,
    MAX_TITLE,
    MIN_SLUG,
    SLUG_PATTERN,
    Section,
    SustainabilityPage,
)

_SLUG = Annotated[
    str,
    msgspec.Meta(
        min_length=MIN_SLUG,
        max_length=MAX_SLUG,
        pattern=SLUG_PATTERN,
        description="The last part of the page's address. A slug that the page had before leads to it.",
        examples=["acme"],
    ),
]
_TITLE = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TITLE, examples=["Acme and the climate"])]
_DESCRIPTION = Annotated[str, msgspec.Meta(max_length=MAX_DESCRIPTION, description="Plain text; line ends are kept.")]
_SECTIONS = Annotated[
    list[Section],
    msgspec.Meta(
        max_length=len(Section),
        description="What the page shows below its total, each at most once.",
        extra_json_schema={"uniqueItems": True},
    ),
]


class LogoIn(msgspec.Struct, forbid_unknown_fields=True):
    media_type: Annotated[
        str,
        msgspec.Meta(max_length=50, extra_json_schema={"enum": ["image/png", "image/jpeg", "image/webp"]}),
    ]
    data: Annotated[
        str,
        msgspec.Meta(
            description="The image in base64: at most 96 KiB of it, and 4096 pixels a side.",
            extra_json_schema={"maxLength": 131_072, "contentEncoding": "base64"},
        ),
    ]


class SustainabilityPageIn(msgspec.Struct, forbid_unknown_fields=True):
    """What is left out stays as it is. A logo of null is removed."""

    enabled: bool | None = None
    slug: _SLUG | None = None
    title: _TITLE | None = None
    description: _DESCRIPTION | None = None
    sections: _SECTIONS | None = None
    logo: LogoIn | None = None


class SustainabilityPageOut(msgspec.Struct):
    enabled: bool
    slug: str
    title: str
    description: str
    sections: list[Section]
    logo_url: str | None
    url: Annotated[str, msgspec.Meta(description="Where the public finds the page, once it is enabled.")]
    account_type: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["live", "test"]})]
    updated_at: Annotated[Timestamp | None, msgspec.Meta(description="Null before the page is set up.")]


def page_out(page: SustainabilityPage, base_url: str) -> SustainabilityPageOut:
    return SustainabilityPageOut(
        enabled=page.enabled,
        slug=page.slug,
        title=page.title,
        description=page.description,
        sections=list(page.sections),
        logo_url=page.logo_address(base_url),
        url=page.address(base_url),
        account_type=page.scope.mode,
        updated_at=None if page.updated_at is None else to_wire(page.updated_at),
    )
