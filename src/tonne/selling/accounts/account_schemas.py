"""The wire format of accounts and client accounts."""

import re
from datetime import date
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.platform.http.client_fields import MAX_REFERENCE, IdempotencyKey, read_reference
from tonne.platform.http.json_body import JsonNumber
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Mode, Timestamp, to_wire
from tonne.platform.values.language import LanguageCode
from tonne.platform.web.fields import described
from tonne.selling.accounts.model import Account, AccountKind, PagesVisibility, PaymentMethod

HANDLE_PATTERN = "^[A-Za-z0-9]([A-Za-z0-9_-]{0,98}[A-Za-z0-9])?$"
_HANDLE = re.compile(HANDLE_PATTERN.removeprefix("^").removesuffix("$"), re.ASCII)
_ID = "acc_06dq2k8v7p3h5n9s4t1w0x2y6z"


class OrganisationType(StrEnum):
    SHIPPER = "shipper"
    SUPPLIER = "supplier"


def is_handle(text: str) -> bool:
    return _HANDLE.fullmatch(text) is not None


def _read_handle(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, JsonNumber) or not is_handle(value):
        raise ValueError("expected 1 to 100 letters, digits, hyphens and underscores, a letter or digit at both ends")
    return value


def _read_ignored(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        raise ValueError("expected a string")  # noqa: TRY004 - an error of the body, not of our code
    return value


NAME = described("Name of the account.", example="Fjord Bakery", label="Name", is_required=True)
BENEFICIARY = described(
    "The name that credits are retired for, on certificates. Null: the name of the account.",
    example="Fjord Bakery AS",
    label="Beneficiary",
    hint="The name that credits are retired for. Orders keep the name they were placed with.",
    is_required=True,
)
HANDLE = described(
    "Part of addresses, unique in the organisation and mode, whether in capitals or not.",
    example="fjord-bakery",
    label="Handle",
    hint="Part of addresses, such as fjord-bakery. No other account may have it.",
    option="",
)
VISIBILITY = described(
    "Of the Sustainability page and public certificates. `hidden`: not to be listed by search engines; `private`: 404.",
    example="public",
    label="Public pages",
    hint="The Sustainability page, its badge and public certificates. Search engines are asked not to list "
    "hidden pages.",
    option="",
    is_required=True,
)
LANGUAGE = described(
    "Language of mails, PDFs and pages, unless a customer chose another.",
    example="en",
    label="Language",
    hint="Of mails, certificates and invoices, and of pages for visitors whose browser asks for none of these "
    "languages. Customers at checkout get the language that they see there.",
    is_required=True,
)
METHOD = described("How the account pays for its orders.", example="invoice", label="Pays by", is_required=True)
REFERENCE = described(
    "What your records call this client.",
    example="Customer 20817",
    label="Your reference",
    hint="Such as the number of the customer in your own system.",
    option="",
)
_Name = Annotated[str, Meta(min_length=1, max_length=200), NAME]
_Currency = Annotated[
    str,
    Meta(
        max_length=3,
        description="ISO 4217 code of the currency of its orders. It cannot be changed later.",
        examples=["EUR"],
    ),
]
_Handle = Annotated[str, _read_handle, Meta(extra_json_schema={"pattern": HANDLE_PATTERN}), HANDLE]
_Reference = Annotated[str, read_reference, Meta(min_length=1, max_length=MAX_REFERENCE), REFERENCE]
_Portfolio = Annotated[
    str, _read_ignored, Meta(description="Accepted and ignored. Portfolios do not exist here.", examples=["portfolio"])
]


class _ProfileIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    beneficiary: Annotated[Annotated[str, Meta(max_length=200)] | None, BENEFICIARY] = None
    handle: _Handle | None = None
    external_pages_visibility: Annotated[PagesVisibility, VISIBILITY] | None = None
    language: Annotated[LanguageCode, LANGUAGE] | None = None
    bundle_portfolio_id: _Portfolio | None = None


class _ClientProfileIn(_ProfileIn, forbid_unknown_fields=True, kw_only=True):
    payment_method: Annotated[PaymentMethod, METHOD] | None = None
    reference: _Reference | None = None


class AccountIn(_ProfileIn, forbid_unknown_fields=True, kw_only=True):
    name: _Name
    currency: _Currency


class AccountPutIn(_ProfileIn, forbid_unknown_fields=True, kw_only=True):
    """Fields that are left out keep their value. Null removes the beneficiary and the handle."""

    name: _Name
    # Not named `idempotency_key`: a header with that name must not change the account.
    ignored_key: Annotated[
        IdempotencyKey | None,
        Meta(description="Accepted and ignored: only client accounts have one.", examples=["client-20817"]),
    ] = msgspec.field(default=None, name="idempotency_key")


class AccountPatchIn(AccountPutIn, forbid_unknown_fields=True, kw_only=True):
    """Fields that are left out keep their value. Null removes the beneficiary and the handle."""

    name: _Name | None = None  # type: ignore[assignment] # optional here


class ClientAccountIn(_ClientProfileIn, forbid_unknown_fields=True, kw_only=True):
    name: _Name
    currency: _Currency
    idempotency_key: (
        Annotated[
            IdempotencyKey,
            Meta(description="A repeated request with the same key and name returns the client account."),
        ]
        | None
    ) = None


class ClientAccountPutIn(_ClientProfileIn, forbid_unknown_fields=True, kw_only=True):
    """Fields that are left out keep their value. Null removes the beneficiary, handle, key and reference."""

    name: _Name
    # Not named `idempotency_key`: a header with that name must not change the account.
    new_key: (
        Annotated[IdempotencyKey, Meta(description="Another key for the client account.", examples=["client-20817"])]
        | None
    ) = msgspec.field(default=None, name="idempotency_key")


class ClientAccountPatchIn(ClientAccountPutIn, forbid_unknown_fields=True, kw_only=True):
    """Fields that are left out keep their value. Null removes the beneficiary, handle, key and reference."""

    name: _Name | None = None  # type: ignore[assignment] # optional here


class _ProfileOut(msgspec.Struct, kw_only=True):
    id: Annotated[str, Meta(description="Id of the account.", examples=[_ID])]
    organisation_id: Annotated[
        str, Meta(description="The account's organisation.", examples=["org_06dq2k8v7p3h5n9s4t1w0x2y6z"])
    ]
    organisation_type: Annotated[
        OrganisationType, Meta(description="Always `shipper`: the organisation buys offsets.", examples=["shipper"])
    ]
    name: Annotated[str, Meta(description="Name of the account.", examples=["Fjord Bakery"])]
    type: Annotated[Mode, Meta(description="Mode of the account.", examples=["live"])]
    scope: Annotated[
        AccountKind,
        Meta(description="A client account belongs to a customer of the organisation.", examples=["account"]),
    ]
    currency: Annotated[str, Meta(description="Currency of its orders.", examples=["EUR"])]
    beneficiary: Annotated[str | None, BENEFICIARY]
    handle: Annotated[str | None, Meta(description="Part of addresses, or null.", examples=["fjord-bakery"])]
    logo: Annotated[
        str | None,
        Meta(
            description="Address of the logo, or null.",
            examples=[f"https://offsets.example.com/logo/{_ID}/5f2b8c01d9e3"],
            extra_json_schema={"format": "uri"},
        ),
    ]
    bundle_portfolio_id: Annotated[str | None, Meta(description="Always null.", examples=[None])]
    external_pages_visibility: Annotated[PagesVisibility, VISIBILITY]
    language: Annotated[str, LANGUAGE]
    payment_method: Annotated[PaymentMethod, METHOD]
    created_at: Annotated[Timestamp, Meta(description="When the account was created.")]


class OwnAccountOut(_ProfileOut, kw_only=True):
    sibling_id: Annotated[
        str | None,
        Meta(
            description="The account of the other mode that was created together with this one. Null if there is none, "
            "and for test keys.",
            examples=["acc_06gtv6a2k5mt6mitjtjihcsfns"],
        ),
    ]


class AccountPairOut(msgspec.Struct):
    live: Annotated[OwnAccountOut, Meta(description="The account in live mode.")]
    test: Annotated[OwnAccountOut, Meta(description="The account in test mode.")]


class ClientAccountOut(_ProfileOut, kw_only=True):
    idempotency_key: Annotated[
        str | None, Meta(description="The key it was created with, or null.", examples=["client-20817"])
    ]
    reference: Annotated[
        str | None, Meta(description="What your records call this client, or null.", examples=["Customer 20817"])
    ]
    archived_at: Annotated[
        Timestamp | None,
        Meta(description="Since when nothing can be ordered for the account, or null.", examples=[None]),
    ]


class ListedClientAccountOut(ClientAccountOut, kw_only=True):
    last_active_date: Annotated[
        str | None,
        Meta(
            description="The day (UTC) of its latest order or estimate, or null.",
            examples=["2026-11-15"],
            extra_json_schema={"format": "date"},
        ),
    ]
    number_of_estimates: Annotated[int, Meta(description="How many estimates it has.", examples=[42])]
    total_emissions: Annotated[str, Meta(description="The sum of its estimates in tonnes.", examples=["1.105697"])]


def logo_path(account_id: str, version: str) -> str:
    """Contains the logo's version, so that browsers may cache the image."""
    return f"/logo/{account_id}/{version}"


def _profile(account: Account, base_url: str) -> dict[str, Any]:
    version = account.logo_version
    return {
        "id": account.scope.account_id,
        "organisation_id": account.scope.organisation_id,
        "organisation_type": OrganisationType.SHIPPER,
        "name": account.name,
        "type": account.scope.mode,
        "scope": account.kind,
        "currency": account.currency,
        "beneficiary": account.beneficiary if account.has_own_beneficiary else None,
        "handle": account.handle,
        "logo": None if version is None else f"{base_url}{logo_path(account.scope.account_id, version)}",
        "bundle_portfolio_id": None,
        "external_pages_visibility": account.external_pages_visibility,
        "language": account.language,
        "payment_method": account.payment_method,
        "created_at": to_wire(account.created_at),
    }


def own_account_out(account: Account, base_url: str, reader: Mode) -> OwnAccountOut:
    """`reader` is the mode of the API key: test keys do not learn the ids of live accounts."""
    sibling_id = account.sibling_id if reader is Mode.LIVE else None
    return OwnAccountOut(**_profile(account, base_url), sibling_id=sibling_id)


def client_account_out(account: Account, base_url: str) -> ClientAccountOut:
    return ClientAccountOut(**_client_profile(account, base_url))


def listed_client_account_out(
    account: Account, base_url: str, *, last_active: date | None, estimates: int, emission_grams: int
) -> ListedClientAccountOut:
    return ListedClientAccountOut(
        **_client_profile(account, base_url),
        last_active_date=None if last_active is None else last_active.isoformat(),
        number_of_estimates=estimates,
        total_emissions=format_tonnes(emission_grams),
    )


def _client_profile(account: Account, base_url: str) -> dict[str, Any]:
    return {
        **_profile(account, base_url),
        "idempotency_key": account.idempotency_key,
        "reference": account.reference,
        "archived_at": None if account.archived_at is None else to_wire(account.archived_at),
    }
