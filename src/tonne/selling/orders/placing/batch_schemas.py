"""Request and response bodies of batches of orders."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tonne.platform.http.client_fields import IdempotencyKey, Metadata, read_idempotency_key
from tonne.platform.values.errors import Fault
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit
from tonne.selling.catalogue.schemas import EstimateId
from tonne.selling.estimates.schemas import MassIn
from tonne.selling.orders.beneficiary import BENEFICIARY, BeneficiaryIn
from tonne.selling.orders.placing import bodies
from tonne.selling.orders.schemas import OrderOut

MAX_ORDERS = 100
# With the number of the order appended, it is still a valid key.
MAX_BATCH_KEY = 250
MAX_BATCH_BYTES = 2 * 1024 * 1024


class OrderBatchItemIn(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an order by estimate, by mass or by value. Send exactly one amount."""

    estimate_id: Annotated[EstimateId, bodies.ESTIMATE] | None = None
    mass: Annotated[MassIn | None, bodies.MASS] = None
    bundle_masses: bodies.Masses | None = None
    value: bodies.Value | None = None
    idempotency_key: IdempotencyKey | None = None
    bundle_selection: bodies.Selection | None = None
    metadata: Metadata | None = None
    beneficiary: Annotated[BeneficiaryIn | None, BENEFICIARY] = None
    quantity_trunc: Annotated[QuantityUnit | None, bodies.TRUNC] = None
    reject_if_short: Annotated[bool, bodies.REJECT] = False
    quote_id: bodies.QuoteId | None = None


def _read_orders(value: Any) -> list[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_ORDERS:
        raise ValueError(f"expected a list of 1 to {MAX_ORDERS} orders")
    return value


def _read_batch_key(value: Any) -> str:
    key = read_idempotency_key(value)
    if len(key) > MAX_BATCH_KEY:
        raise ValueError(f"expected at most {MAX_BATCH_KEY} characters")
    return key


class OrderBatchIn(msgspec.Struct, forbid_unknown_fields=True):
    orders: Annotated[
        list[OrderBatchItemIn],
        _read_orders,
        Meta(description="The orders, each as you would send it alone.", min_length=1, max_length=MAX_ORDERS),
    ]
    idempotency_key: Annotated[
        Annotated[str, _read_batch_key, Meta(min_length=1, max_length=MAX_BATCH_KEY)] | None,
        _read_batch_key,
        Meta(
            description="Orders without a key of their own get this one, with a slash and their number from 0. Send "
            "it, or a key for every order, so that you can safely repeat the batch.",
            examples=["batch-2026-11-15"],
        ),
    ] = None


def shape_of(members: dict[str, Any]) -> type[bodies.OrderIn]:
    """Which kind of order an item of a batch is. An item without an amount is taken as an order by mass."""
    if members.get("estimate_id") is not None:
        return bodies.OrderByEstimateIn
    return bodies.OrderByMassIn if members.get("value") is None else bodies.OrderByValueIn


class OrderResultOut(msgspec.Struct):
    """Has either `order`, or `error` and `errors`."""

    status: Annotated[
        int, Meta(description="The status code that the order would have got alone.", examples=[201], ge=200, le=599)
    ]
    order: Annotated[OrderOut | UnsetType, Meta(description="The order, if `status` is 200 or 201.")] = UNSET
    idempotent_replayed: Annotated[
        bool | UnsetType,
        Meta(description="True if the `idempotency_key` was used before: then it is the original.", examples=[False]),
    ] = UNSET
    idempotency_mismatch: Annotated[
        bool | UnsetType,
        Meta(description="True if the original was placed with a different body.", examples=[False]),
    ] = UNSET
    error: Annotated[Fault | UnsetType, Meta(description="The first of `errors`.")] = UNSET
    errors: Annotated[
        list[Fault] | UnsetType,
        Meta(description="Everything that is wrong with this order. Fields are named as in the order alone."),
    ] = UNSET


class OrderBatchOut(msgspec.Struct):
    data: Annotated[list[OrderResultOut], Meta(description="The result of each order, in the order of the request.")]
