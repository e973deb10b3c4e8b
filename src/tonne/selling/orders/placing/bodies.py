"""Request bodies of orders and quotes."""

from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.platform.http.client_fields import ExternalId, IdempotencyKey, Metadata, Reference
from tonne.platform.http.json_body import Document, JsonNumber, read
from tonne.platform.values.amounts import DECIMAL_PATTERN, DECIMALS, MAX_GRAMS, parse_decimal, scaled, to_grams
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.accounts.model import MANUAL, Terms
from tonne.selling.catalogue.errors import QuantityInvalid, ValueInvalid
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit
from tonne.selling.catalogue.schemas import EstimateId
from tonne.selling.catalogue.selection import FIELD, MASSES_FIELD, BundleChoiceIn, BundleMass
from tonne.selling.estimates.schemas import MassIn
from tonne.selling.orders.model import BENEFICIARY, BeneficiaryIn


def _read_value(value: Any) -> str:
    """Only a string: JSON libraries may round a number."""
    if not isinstance(value, str) or isinstance(value, JsonNumber) or parse_decimal(value) is None:
        raise ValueError('expected a decimal string such as "250.00", at most 15 digits before the point and 12 after')
    return value


Selection = Annotated[
    list[BundleChoiceIn],
    Meta(
        description="The bundles to buy and their percentages; without percentages in equal parts. Omit it for the "
        "account's default selection.",
        min_length=1,
    ),
]
TRUNC = Meta(
    description="Cut the quantity down to whole grams, kilograms or tonnes before it is split over the bundles.",
    examples=["kg"],
)
REJECT = Meta(
    description="Refuse the order if supply does not cover it now (`insufficient_available_quantity`) or there is no "
    "price now (`price_unavailable`). Otherwise it waits.",
    examples=[False],
)
_QUOTE = Meta(
    max_length=100,
    description="Id of a locked quote, which fixes the price. The amount must be that of the quote; "
    "`bundle_selection` and `quantity_trunc` may be omitted.",
    examples=["quo_06gtv1alff3htg9thvlvj59t20"],
)
QuoteId = Annotated[str, _QUOTE]
MASS = Meta(description="The mass of CO2 equivalent to offset.")
MASSES = Meta(
    min_length=1,
    description="A mass for each bundle, instead of `mass` and `bundle_selection`. With `quantity_trunc`, each is cut.",
)
ESTIMATE = Meta(max_length=100, description="The estimate whose mass is offset.")
VALUE = Meta(
    description="The most that may be spent, including the fee and the tax, in the account's currency.",
    pattern=DECIMAL_PATTERN,
    examples=["250.00"],
)
Value = Annotated[str, _read_value, VALUE]


def _read_fulfil_after(value: Any) -> str:
    if isinstance(value, str) and not isinstance(value, JsonNumber):
        with suppress(ValueError, OverflowError):
            read_window(value)
            return value
    raise ValueError(f'expected a time such as "2026-11-16T10:00:00Z", or "{MANUAL}"')


FulfilAfter = Annotated[
    str,
    _read_fulfil_after,
    Meta(
        description="Allocate no credits before: until then the order can be cancelled and reduced once it is paid. A "
        "time at most 90 days ahead, or `manual`: until you release it, at most 90 days after the payment. Omit it for "
        "the account's setting.",
        examples=["2026-11-16T10:00:00Z"],
    ),
]


class BundleMassIn(msgspec.Struct, forbid_unknown_fields=True):
    bundle_id: Annotated[
        str, Meta(max_length=100, description="Id of a bundle on sale.", examples=["bun_06gtv168k5mt6mitjtjihcsfns"])
    ]
    mass: Annotated[MassIn, Meta(description="The mass of CO2 equivalent to offset with this bundle.")]


Masses = Annotated[list[BundleMassIn], MASSES]


class OrderByEstimateIn(msgspec.Struct, forbid_unknown_fields=True):
    estimate_id: Annotated[EstimateId, ESTIMATE]
    idempotency_key: IdempotencyKey | None = None
    bundle_selection: Selection | None = None
    metadata: Metadata | None = None
    beneficiary: Annotated[BeneficiaryIn | None, BENEFICIARY] = None
    quantity_trunc: Annotated[QuantityUnit | None, TRUNC] = None
    reject_if_short: Annotated[bool, REJECT] = False
    quote_id: QuoteId | None = None
    external_id: ExternalId | None = None
    reference: Reference | None = None
    fulfil_after: FulfilAfter | None = None


class OrderByMassIn(msgspec.Struct, forbid_unknown_fields=True):
    """Send either `mass` or `bundle_masses`."""

    mass: Annotated[MassIn | None, MASS] = None
    idempotency_key: IdempotencyKey | None = None
    bundle_selection: Selection | None = None
    metadata: Metadata | None = None
    beneficiary: Annotated[BeneficiaryIn | None, BENEFICIARY] = None
    bundle_masses: Masses | None = None
    quantity_trunc: Annotated[QuantityUnit | None, TRUNC] = None
    reject_if_short: Annotated[bool, REJECT] = False
    quote_id: QuoteId | None = None
    external_id: ExternalId | None = None
    reference: Reference | None = None
    fulfil_after: FulfilAfter | None = None


class OrderByValueIn(msgspec.Struct, forbid_unknown_fields=True):
    value: Value
    idempotency_key: IdempotencyKey | None = None
    bundle_selection: Selection | None = None
    metadata: Metadata | None = None
    beneficiary: Annotated[BeneficiaryIn | None, BENEFICIARY] = None
    quantity_trunc: Annotated[QuantityUnit | None, TRUNC] = None
    reject_if_short: Annotated[bool, REJECT] = False
    quote_id: QuoteId | None = None
    external_id: ExternalId | None = None
    reference: Reference | None = None
    fulfil_after: FulfilAfter | None = None


OrderIn = OrderByEstimateIn | OrderByMassIn | OrderByValueIn


def read_order(document: Document, shape: type[OrderIn]) -> OrderIn:
    """Validate the fields of a body. Raises Invalid with all errors."""
    faults = _mass_faults(document.members) if shape is OrderByMassIn else []
    try:
        body = read(document, shape)
    except Invalid as error:
        raise Invalid([*error.faults, *faults]) from error
    if faults:
        raise Invalid(faults)
    return body


def read_window(fulfil_after: str | None) -> tuple[datetime | None, bool]:
    """When an order may be fulfilled, and whether it waits for its client."""
    if fulfil_after is None or fulfil_after == MANUAL:
        return None, fulfil_after is not None
    moment = datetime.fromisoformat(fulfil_after)
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC), False


def _mass_faults(members: dict[str, Any]) -> list[Fault]:
    """JSON null is the same as omitting a member."""
    mass, masses, selection = (members.get(name) is not None for name in ("mass", MASSES_FIELD, FIELD))
    if not mass and not masses:
        return [Fault("validation_error", f"mass is required. Send it, or {MASSES_FIELD}.", "mass")]
    if members.get(MASSES_FIELD) == []:
        return [Fault("validation_error", f"{MASSES_FIELD} is empty. Name at least one bundle.", MASSES_FIELD)]
    if masses and (mass or selection):
        other = "mass" if mass else FIELD
        return [Fault("validation_error", f"Send either {other} or {MASSES_FIELD}, not both.", MASSES_FIELD)]
    return []


def price_request(
    *,
    mass: MassIn | None = None,
    masses: list[BundleMassIn] | None = None,
    value: str | None = None,
    choices: list[BundleChoiceIn] | None,
    unit: QuantityUnit | None,
    terms: Terms,
) -> PriceRequest:
    """Convert the amounts of a body to grams or minor units. Without any amount, an estimate has it."""
    if masses is not None:
        parts = tuple(
            BundleMass(each.bundle_id, _grams(each.mass, f"{MASSES_FIELD}[{i}].mass.amount"))
            for i, each in enumerate(masses)
        )
        total = sum(part.mass_grams for part in parts)
        if total > MAX_GRAMS:
            raise QuantityInvalid(field=MASSES_FIELD)
        return PriceRequest(mass_grams=total, masses=parts, unit=unit)
    mass_grams = None if mass is None else _grams(mass, "mass.amount")
    value_minor = None if value is None else _minor(value, terms.currency)
    return PriceRequest(mass_grams=mass_grams, value_minor=value_minor, choices=choices, unit=unit)


def _grams(mass: MassIn, field: str) -> int:
    mass_grams = to_grams(mass.amount, mass.unit)
    if not 1 <= mass_grams <= MAX_GRAMS:
        raise QuantityInvalid(field=field)
    return mass_grams


def _minor(value: str, currency: str) -> int:
    decimals = DECIMALS[currency]
    value_minor = scaled(Decimal(value), decimals)
    if value_minor is None:
        count = "1 decimal" if decimals == 1 else f"{decimals or 'no'} decimals"
        raise ValueInvalid(f"{currency} has {count}. Round the value to that.", field="value")
    if value_minor < 1:
        raise ValueInvalid("The value must be above zero.", field="value")
    return value_minor
