"""JSON of checkouts that the API creates."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.channels.checkout.links.model import MAX_URL
from tonne.channels.checkout.links.schemas import DecimalString
from tonne.channels.checkout.model import CheckoutStatus
from tonne.channels.checkout.store import ApiCheckout
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.http.client_fields import REFERENCE, IdempotencyKey, Metadata, Reference, read_idempotency_key
from tonne.platform.http.json_body import JsonNumber
from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.platform.values.context import Mode, Timestamp, same_named, to_wire
from tonne.platform.values.erased import ERASED
from tonne.selling.catalogue.schemas import BundleId, CurrencyCode, Money, Tonnes
from tonne.selling.estimates.schemas import MetadataOut
from tonne.selling.orders.model import BENEFICIARY, CustomerIn, OrderStatus
from tonne.selling.orders.schemas import BeneficiaryOut

_PAID = (OrderStatus.PAID, OrderStatus.RETIRING, OrderStatus.COMPLETE)
_CANCELLED = (OrderStatus.CANCELLED, OrderStatus.FAILED)


def _read_email(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, JsonNumber) or not is_mail_address(value):
        raise ValueError("expected an address such as you@example.com")
    return value


_LinkId = Annotated[str, Meta(description="Id of the offset link.", examples=["lnk_6s0h1v3m9k2qdb7t4n8cfj5gau"])]
_ExternalId = Annotated[
    str,
    read_idempotency_key,
    Meta(
        min_length=1,
        max_length=255,
        description="What you call the sale. Per link and external id, at most one checkout is paid.",
        examples=["A-4711"],
    ),
]
_QUANTITY = Meta(description="What to buy in tonnes, with at most 6 decimals.", examples=["1.5"])
_VALUE = Meta(description="What to spend in the account's currency, fee included.", examples=["25.00"])
_BUNDLES = Meta(
    description="Bundles of the link, in equal parts. Omit it for all available bundles with their percentages."
)
_REDIRECT_URL = Meta(
    description="Target of the button after the payment: an https URL on one of the organisation's redirect hosts.",
    examples=["https://shop.example.com/thanks?sale=A-4711"],
    extra_json_schema={"format": "uri"},
)
_REDIRECT_LABEL = Meta(description="Name on that button: “Back to …”.", examples=["Example Shop"])


_COMPANY = Meta(description="Name of the company, if a business buys.", examples=["Fjord Bakery AS"])
_NAME = Meta(description="Name of the buyer, if a private person buys.", examples=["Ann Weber"])
_STREET = Meta(description="Street and number.", examples=["12 rue de la Paix"])
_POSTCODE = Meta(description="Postcode, where the country has them.", examples=["75002"])
_CITY = Meta(description="City.", examples=["Paris"])
_COUNTRY = Meta(description="ISO 3166 code of two or three letters.", examples=["FR"])
_VAT_ID = Meta(description="VAT ID of a business, which must be valid for the country.", examples=["FR40303265045"])
_OWN = Meta(description="The buyer's own reference, such as a purchase order.", examples=["PO 17"])
_Text = Annotated[str, Meta(max_length=200)]


_BUYER = Meta(description="What you know of the buyer, for the invoice.")


class CheckoutBuyer(msgspec.Struct, forbid_unknown_fields=True):
    """What you know of the buyer. The customer can change it."""

    is_business: Annotated[bool, Meta(description="Whether a company buys, or a private person.", examples=[True])]
    name: Annotated[_Text | None, _NAME] = None
    company: Annotated[_Text | None, _COMPANY] = None
    street: Annotated[_Text | None, _STREET] = None
    postcode: Annotated[Annotated[str, Meta(max_length=20)] | None, _POSTCODE] = None
    city: Annotated[Annotated[str, Meta(max_length=100)] | None, _CITY] = None
    country: Annotated[Annotated[str, Meta(max_length=3)] | None, _COUNTRY] = None
    vat_id: Annotated[Annotated[str, Meta(max_length=50)] | None, _VAT_ID] = None
    reference: Annotated[Annotated[str, Meta(max_length=100)] | None, _OWN] = None


class CheckoutState(StrEnum):
    """What a client needs to know of a checkout and its order."""

    OPEN = "open"
    PAID = "paid"
    CLOSED = "closed"


class CheckoutIn(msgspec.Struct, forbid_unknown_fields=True):
    """At most one of `quantity` and `value`; without them, the preset of the link applies."""

    offset_link_id: _LinkId
    email: Annotated[
        str,
        _read_email,
        Meta(
            description="Address of the customer, who gets the certificate.",
            examples=["ann@example.com"],
            extra_json_schema={"format": "email"},
        ),
    ]
    quantity: Annotated[DecimalString, _QUANTITY] | None = None
    value: Annotated[DecimalString, _VALUE] | None = None
    bundle_ids: Annotated[list[BundleId], Meta(min_length=1, max_length=100), _BUNDLES] | None = None
    external_id: _ExternalId | None = None
    reference: Reference | None = None
    redirect_url: Annotated[str, Meta(extra_json_schema={"maxLength": MAX_URL}), _REDIRECT_URL] | None = None
    redirect_label: Annotated[str, Meta(min_length=1, max_length=100), _REDIRECT_LABEL] | None = None
    metadata: Metadata | None = None
    idempotency_key: IdempotencyKey | None = None
    beneficiary: Annotated[CustomerIn | None, BENEFICIARY] = None
    buyer: Annotated[CheckoutBuyer | None, _BUYER] = None


class CheckoutOut(msgspec.Struct):
    id: Annotated[str, Meta(description="Id of the checkout.", examples=["chk_06gtv6a2k5mt6mitjtjihcsfns"])]
    url: Annotated[
        str | None,
        Meta(
            description="Where the customer pays, and later sees the progress. Give it only to the customer. Null if "
            "the service cannot read it, because its secret key was lost.",
            examples=["https://offsets.example.com/checkout/pay_5t0n2r8k1v4qdb7t4n8cfj5gau"],
            extra_json_schema={"format": "uri"},
        ),
    ]
    status: Annotated[
        CheckoutState,
        Meta(
            description="`open`: can be paid. `paid`. `closed`: expired or cancelled; nothing was charged.",
            examples=["open"],
        ),
    ]
    offset_link_id: _LinkId
    order_id: Annotated[
        str | None,
        Meta(
            description="The order. Null until the customer first tries to pay.",
            examples=["ord_06gtv67pjgdsg50qjnffgu5fio"],
        ),
    ]
    requested_quantity: Annotated[Tonnes | None, Meta(description="The quantity that you asked for, or null.")]
    requested_value: Annotated[Money | None, Meta(description="The value that you asked for, or null.")]
    quantity: Annotated[Tonnes, Meta(description="What the customer gets, as offered first or as ordered.")]
    total_cost: Annotated[Money, Meta(description="The cost without tax, as offered first or as ordered.")]
    tax: Annotated[Money, Meta(description="Tax on `total_cost`.", examples=["0.00"])]
    amount_due: Annotated[Money, Meta(description="What the customer pays: `total_cost` + `tax`.")]
    currency: CurrencyCode
    bundle_ids: Annotated[list[BundleId], Meta(description="The bundles of the order.")]
    email: Annotated[
        str | None,
        Meta(
            description="Address of the customer. Null once the checkout was closed without an order, `erased` once "
            "the person was erased.",
            examples=["ann@example.com", ERASED],
        ),
    ]
    external_id: Annotated[str | None, Meta(description="What you call the sale, or null.", examples=["A-4711"])]
    reference: Annotated[str | None, REFERENCE]
    redirect_url: Annotated[str | None, _REDIRECT_URL]
    redirect_label: Annotated[str | None, _REDIRECT_LABEL]
    metadata: MetadataOut
    idempotency_key: Annotated[
        str, Meta(description="The key it was created with, or a generated one.", examples=["sale-A-4711"])
    ]
    account_type: Annotated[Mode, Meta(description="Mode of the account.", examples=["live"])]
    created_at: Annotated[Timestamp, Meta(description="When the checkout was created.")]
    expires_at: Annotated[Timestamp, Meta(description="Until when it can be paid.")]
    beneficiary: Annotated[
        BeneficiaryOut | None,
        Meta(
            description="In whose name the certificate is issued. Null: the account's, or the checkout was closed "
            "without an order."
        ),
    ]
    buyer: Annotated[
        CheckoutBuyer | None,
        Meta(
            description="What you sent of the buyer. Null: nothing, or it was erased.",
            examples=[None],
        ),
    ]


def checkout_out(found: ApiCheckout, url: str | None, now: datetime) -> CheckoutOut:
    checkout = found.checkout
    grams, minor = checkout.requested_quantity_grams, checkout.requested_value_minor
    return same_named(
        CheckoutOut,
        checkout,
        url=url,
        status=_status(found, now),
        requested_quantity=None if grams is None else format_tonnes(grams),
        requested_value=None if minor is None else format_money(minor, checkout.currency),
        quantity=format_tonnes(checkout.quantity_grams or 0),
        total_cost=format_money(checkout.total_cost_minor, checkout.currency),
        tax=format_money(checkout.tax_minor, checkout.currency),
        amount_due=format_money(checkout.amount_due_minor, checkout.currency),
        bundle_ids=[choice["bundle_id"] for choice in checkout.bundle_selection],
        email=checkout.email or None,
        **checkout.redirect.named(),
        metadata=msgspec.Raw((checkout.metadata or "{}").encode()),
        idempotency_key=found.idempotency_key,
        account_type=checkout.scope.mode,
        created_at=to_wire(checkout.created_at),
        expires_at=to_wire(checkout.expires_at),
        beneficiary=None if checkout.beneficiary is None else BeneficiaryOut(checkout.beneficiary.name),
        buyer=None if checkout.buyer is None else same_named(CheckoutBuyer, checkout.buyer),
    )


def _status(found: ApiCheckout, now: datetime) -> CheckoutState:
    if found.order_status in _PAID:
        return CheckoutState.PAID
    is_expired = found.checkout.status is CheckoutStatus.OPEN and now >= found.checkout.expires_at
    is_over = found.checkout.status is CheckoutStatus.CLOSED or found.order_status in _CANCELLED
    return CheckoutState.CLOSED if is_expired or is_over else CheckoutState.OPEN
