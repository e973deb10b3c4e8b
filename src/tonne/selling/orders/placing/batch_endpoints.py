"""The endpoint that places up to 100 orders at once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tonne.platform.http.client_fields import MAX_ITEMS_KEY, IdempotencyKey, Metadata, idempotency_of, read_items_key
from tonne.platform.http.errors import STATUS, FaultOut, documented
from tonne.platform.http.json_body import MAX_BATCH_VALUES, Document, read
from tonne.platform.http.refusals import refusal_of_item
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.process.cost import as_part, in_thread
from tonne.platform.values.context import Scope
from tonne.platform.values.errors import Fault, Invalid, TonneError
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit
from tonne.selling.catalogue.schemas import EstimateId
from tonne.selling.estimates.schemas import MassIn
from tonne.selling.orders.endpoints import read_request
from tonne.selling.orders.model import BENEFICIARY, BeneficiaryIn
from tonne.selling.orders.placing import bodies
from tonne.selling.orders.placing.place_orders import PlaceOrders
from tonne.selling.orders.schemas import OrderOut

MAX_ORDERS = 100
# Each takes a quarter of a millisecond until it waits for its transaction.
STARTED_AT_ONCE = 4
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


class OrderBatchIn(msgspec.Struct, forbid_unknown_fields=True):
    orders: Annotated[
        list[OrderBatchItemIn],
        _read_orders,
        Meta(description="The orders, each as you would send it alone.", min_length=1, max_length=MAX_ORDERS),
    ]
    idempotency_key: Annotated[
        Annotated[str, read_items_key, Meta(min_length=1, max_length=MAX_ITEMS_KEY)] | None,
        read_items_key,
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
    error: Annotated[FaultOut | UnsetType, Meta(description="The first of `errors`.")] = UNSET
    errors: Annotated[
        list[FaultOut] | UnsetType,
        Meta(description="Everything that is wrong with this order. Fields are named as in the order alone."),
    ] = UNSET


class OrderBatchOut(msgspec.Struct):
    data: Annotated[list[OrderResultOut], Meta(description="The result of each order, in the order of the request.")]


class _RawBatch(msgspec.Struct):
    orders: list[msgspec.Raw]


class BatchEndpoints(Struct, frozen=True):
    place_orders: PlaceOrders
    directory: AccountDirectory
    # Counts further requests against the rate limit of an API key.
    charge: Callable[[str, Scope, int], None]

    async def place_batch(self, request: Request) -> Response:
        """Place up to 100 orders at once.

        Takes orders by estimate, by mass and by value. Each is placed or refused on its own, and has its own result
        with the status code that it would have got alone. An order that is refused does not affect the others.

        Repeating a batch with the same keys returns the original orders in their current state, and tries again those
        that were refused. Every order counts as a request against the rate limit. The body has at most 2 MiB and 50,000
        JSON values.
        """
        # In a thread: this is up to 2 MiB, and others need the event loop.
        batch_key, items = await in_thread(_read_batch, request)
        self.charge(request.actor.key_id or "", request.scope, len(items) - 1)
        placing = [
            (bytes(raw), members, None if batch_key is None else f"{batch_key}/{number}")
            for number, (raw, members) in enumerate(items)
        ]
        if await self.directory.limits_of(request.scope, request.actor.key_id):
            # In their order, so that the first orders use up what is left of a limit.
            results = [await self._place(request, *each) for each in placing]
        else:
            results = await self._place_together(request, placing)
        return json_response(OrderBatchOut(results))

    async def _place_together(
        self, request: Request, placing: Sequence[tuple[bytes, object, str | None]]
    ) -> list[OrderResultOut]:
        """All may share transactions. Others get the event loop after every few orders that are read."""
        async with asyncio.TaskGroup() as tasks:
            started = []
            for number, each in enumerate(placing, 1):
                started.append(tasks.create_task(as_part(self._place(request, *each))))
                if number % STARTED_AT_ONCE == 0:
                    await asyncio.sleep(0)
        return [task.result() for task in started]

    async def _place(self, request: Request, raw: bytes, members: object, default_key: str | None) -> OrderResultOut:
        if not isinstance(members, dict):
            return _refused(Invalid([Fault("validation_error", "The order must be a JSON object.")]))
        item, shape = Document(raw, members), shape_of(members)
        item.add_default_key(default_key)
        idempotency = idempotency_of(shape.__name__, item)
        try:
            order, original_digest = await self.place_orders.place(
                request.scope,
                idempotency,
                lambda terms: read_request(request, item, shape, terms, idempotency),
                key_id=request.actor.key_id,
            )
        except Exception as error:  # noqa: BLE001 - the other orders of the batch are not affected
            return _refused(refusal_of_item(error, "order_of_batch_failed"))
        is_replayed = original_digest is not None
        return OrderResultOut(
            200 if is_replayed else 201,
            order=msgspec.Raw(order),  # type: ignore[arg-type] # the stored JSON of an OrderOut
            idempotent_replayed=is_replayed,
            idempotency_mismatch=is_replayed and original_digest != idempotency.digest,
        )


def _read_batch(request: Request) -> tuple[str | None, list[tuple[msgspec.Raw, object]]]:
    document = request.json(MAX_BATCH_VALUES)
    batch_key = read(document, OrderBatchIn).idempotency_key
    raw = msgspec.json.decode(document.raw, type=_RawBatch).orders
    return batch_key, list(zip(raw, document.members["orders"], strict=True))


def _refused(refusal: TonneError) -> OrderResultOut:
    faults = documented(refusal.faults)
    return OrderResultOut(STATUS[refusal.kind], error=faults[0], errors=faults)
