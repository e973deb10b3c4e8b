"""JSON of offset links."""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from tonne.channels.checkout.links.model import MAX_OVERLAP_S, MAX_URL, LinkBeneficiary, OffsetLink
from tonne.platform.http.json_body import JsonNumber
from tonne.platform.values.amounts import DECIMAL_PATTERN, format_money, format_tonnes, parse_decimal
from tonne.platform.values.context import Mode, Timestamp, same_named, to_wire
from tonne.platform.values.language import LanguageCode
from tonne.platform.web.fields import described
from tonne.selling.catalogue.schemas import Money, Tonnes
from tonne.selling.catalogue.selection import BundleChoiceIn


def _read_title(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, JsonNumber) or not value.strip() or len(value) > 200:
        raise ValueError("expected 1 to 200 characters, not all of them spaces")
    return value


def _read_decimal(value: Any) -> str:
    """A string only: as a JSON number, a client's library could round it."""
    if not isinstance(value, str) or isinstance(value, JsonNumber) or parse_decimal(value) is None:
        raise ValueError('expected a decimal string such as "2.5", at most 15 digits before the point and 12 after')
    return value


def _read_moment(value: Any) -> datetime:
    try:
        moment: datetime = msgspec.convert(value, Annotated[datetime, msgspec.Meta(tz=True)])
        moment = moment.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError) as error:
        raise ValueError('expected a time with its zone, such as "2026-12-31T23:59:59Z"') from error
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


DecimalString = Annotated[str, _read_decimal, msgspec.Meta(pattern=DECIMAL_PATTERN)]
# A part of the form.
AFTER_PAYMENT = "after_payment"
_PRESET_TONNES = described(
    "Preset amount in tonnes, with at most 6 decimals.", example="1.5", label="Preset amount", option="--quantity"
)
_PRESET_VALUE = described(
    "Preset total in the account's currency, fee included.", example="25.00", label="Preset amount", option="--value"
)
_MIN_TONNES = described("Smallest amount in tonnes.", example="0.1", label="Smallest amount")
_MAX_TONNES = described("Largest amount in tonnes.", example="100", label="Largest amount")
_MIN_VALUE = described(
    "Smallest total in the account's currency, fee included.", example="5.00", label="Smallest total"
)
_MAX_VALUE = described(
    "Largest total in the account's currency, fee included.", example="500.00", label="Largest total"
)
_TITLE = described("Headline of the page.", example="Retire credits for your flight", label="Title")
_MESSAGE = described("Plain text below the title.", example="Thank you for flying with us.", label="Message")
_EDITABLE = msgspec.Meta(description="Whether people can change the preset amount.", examples=[True])
_REDIRECT_URL = described(
    "Target of the button after the payment: an https URL on one of the organisation's redirect hosts.",
    example="https://shop.example.com/thanks",
    label="Address of the button",
    column="redirect URL",
)
_REDIRECT_LABEL = described(
    "Name on that button: “Back to …”.",
    example="Example Shop",
    label="Name on the button",
    hint="The button reads “Back to …”.",
    section=AFTER_PAYMENT,
)
_ENABLED = msgspec.Meta(description="Whether the link is open. A disabled link returns 404.", examples=[True])
_EXPIRES = described(
    "When the link closes. Null: never.",
    example="2030-12-31T23:59:59Z",
    label="Last day",
    option="--expires",
    column="expires",
)
_BENEFICIARY = described(
    "In whose name certificates are issued. `customer`: the page asks people for their name; without one, "
    "the account's applies.",
    example="account",
    label="Certificate in the name of",
    column="certificates for",
)
_LANGUAGE = described(
    "Language of the page for people whose browser asks for no language that we have. Null: the account's.",
    example="de",
    label="Language",
)
_BUNDLES = msgspec.Meta(
    description="The bundles on offer. Without percentages, the amount is split equally. Null: the account's default "
    "bundles.",
)


class OffsetLinkIn(msgspec.Struct, forbid_unknown_fields=True):
    """All settings of a link. Fields that are null or left out have their default."""

    title: Annotated[str, _read_title, msgspec.Meta(min_length=1, max_length=200), _TITLE]
    message: Annotated[str, msgspec.Meta(max_length=2000), _MESSAGE] = ""
    bundle_selection: Annotated[list[BundleChoiceIn], msgspec.Meta(min_length=1), _BUNDLES] | None = None
    preset_quantity: Annotated[DecimalString, _PRESET_TONNES] | None = None
    preset_value: Annotated[DecimalString, _PRESET_VALUE] | None = None
    amount_editable: Annotated[bool, _EDITABLE] = True
    min_quantity: Annotated[DecimalString, _MIN_TONNES] | None = None
    max_quantity: Annotated[DecimalString, _MAX_TONNES] | None = None
    min_value: Annotated[DecimalString, _MIN_VALUE] | None = None
    max_value: Annotated[DecimalString, _MAX_VALUE] | None = None
    redirect_url: (
        Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": MAX_URL, "format": "uri"}), _REDIRECT_URL] | None
    ) = None
    redirect_label: Annotated[str, msgspec.Meta(min_length=1, max_length=100), _REDIRECT_LABEL] | None = None
    enabled: Annotated[bool, _ENABLED] = True
    expires_at: Annotated[datetime, _read_moment, _EXPIRES] | None = None
    beneficiary: Annotated[LinkBeneficiary, _BENEFICIARY] = LinkBeneficiary.ACCOUNT
    language: Annotated[LanguageCode, _LANGUAGE] | None = None


class BundleChoiceOut(msgspec.Struct):
    bundle_id: Annotated[
        str, msgspec.Meta(description="A bundle on offer.", examples=["bun_06dq2k8v7p3h5n9s4t1w0x2y6z"])
    ]
    percentage: Annotated[str | None, msgspec.Meta(description="Its share, as it was sent.", examples=["60"])]


class OffsetLinkOut(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(description="Id of the link.", examples=["lnk_6s0h1v3m9k2qdb7t4n8cfj5gau"])]
    url: Annotated[
        str,
        msgspec.Meta(
            description="Public address of the page.",
            examples=["https://offsets.example.com/offset/lnk_6s0h1v3m9k2qdb7t4n8cfj5gau"],
            extra_json_schema={"format": "uri"},
        ),
    ]
    title: Annotated[str, _TITLE]
    message: Annotated[str, _MESSAGE]
    bundle_selection: Annotated[list[BundleChoiceOut] | None, _BUNDLES]
    preset_quantity: Annotated[Tonnes | None, _PRESET_TONNES]
    preset_value: Annotated[Money | None, _PRESET_VALUE]
    amount_editable: Annotated[bool, _EDITABLE]
    min_quantity: Annotated[Tonnes | None, _MIN_TONNES]
    max_quantity: Annotated[Tonnes | None, _MAX_TONNES]
    min_value: Annotated[Money | None, _MIN_VALUE]
    max_value: Annotated[Money | None, _MAX_VALUE]
    redirect_url: Annotated[str | None, msgspec.Meta(extra_json_schema={"format": "uri"}), _REDIRECT_URL]
    redirect_label: Annotated[str | None, _REDIRECT_LABEL]
    enabled: Annotated[bool, _ENABLED]
    expires_at: Annotated[Timestamp | None, _EXPIRES]
    beneficiary: Annotated[LinkBeneficiary, _BENEFICIARY]
    language: Annotated[LanguageCode | None, _LANGUAGE]
    currency: Annotated[str, msgspec.Meta(description="The account's currency.", examples=["EUR"])]
    account_type: Annotated[Mode, msgspec.Meta(description="Mode of the account.", examples=["live"])]
    created_at: Annotated[Timestamp, msgspec.Meta(description="When the link was created.")]


class OffsetLinkWithSecretOut(OffsetLinkOut):
    secret: Annotated[
        str | None,
        msgspec.Meta(
            description="Signs the link's queries. Shown only here: store it. Null in a repeat after 24 hours.",
            examples=["lsec_3q2-7wAAuVv8r5yq0T4m1kXo6bJd9fHs2LzEeGnPcRw"],
        ),
    ]


class LinkSecretRotateIn(msgspec.Struct, forbid_unknown_fields=True):
    overlap_s: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=MAX_OVERLAP_S,
            description="For how long queries signed with the old secret stay valid, at most 7 days.",
            examples=[86400],
        ),
    ] = 0


def offset_link_with_secret_out(link: OffsetLink, currency: str, base_url: str, secret: str) -> OffsetLinkWithSecretOut:
    return same_named(OffsetLinkWithSecretOut, offset_link_out(link, currency, base_url), secret=secret)


def offset_link_out(link: OffsetLink, currency: str, base_url: str) -> OffsetLinkOut:
    def tonnes(grams: int | None) -> str | None:
        return None if grams is None else format_tonnes(grams)

    def money(minor: int | None) -> str | None:
        return None if minor is None else format_money(minor, currency)

    selection = link.bundle_selection
    return same_named(
        OffsetLinkOut,
        link,
        url=link.address(base_url),
        bundle_selection=None
        if selection is None
        else [BundleChoiceOut(choice["bundle_id"], choice.get("percentage")) for choice in selection],
        preset_quantity=tonnes(link.preset_quantity_grams),
        preset_value=money(link.preset_value_minor),
        min_quantity=tonnes(link.min_quantity_grams),
        max_quantity=tonnes(link.max_quantity_grams),
        min_value=money(link.min_value_minor),
        max_value=money(link.max_value_minor),
        expires_at=None if link.expires_at is None else to_wire(link.expires_at),
        currency=currency,
        account_type=link.scope.mode,
        created_at=to_wire(link.created_at),
    )
