"""The endpoint that places up to 100 orders at once."""

import asyncio
from collections.abc import Callable

import msgspec
import structlog
from msgspec import Struct

from tonne.platform.http.client_fields import idempotency_of
from tonne.platform.http.errors import STATUS, InternalError, ServiceUnavailable
from tonne.platform.http.json_body import Document, read
from tonne.platform.http.refusals import refusal_for
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.values.errors import Fault, Invalid, TonneError
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.orders.endpoints import read_request
from tonne.selling.orders.placing.batch_schemas import OrderBatchIn, OrderBatchOut, OrderResultOut, shape_of
from tonne.selling.orders.placing.place_orders import PlaceOrders

_log = structlog.get_logger()


class _RawBatch(msgspec.Struct):
    orders: list[msgspec.Raw]


class BatchEndpoints(Struct, frozen=True):
    place_orders: PlaceOrders
    directory: AccountDirectory
    # Counts further requests against the rate limit of an API key.
    charge: Callable[[str, int], None]

    async def place_batch(self, request: Request) -> Response:
        """Place up to 100 orders at once.

        Takes orders by estimate, by mass and by value. Each is placed or refused on its own, and has its own result
        with the status code that it would have got alone. An order that is refused does not affect the others.

        Repeating a batch with the same keys returns the original orders in their current state, and tries again those
        that were refused. Every order counts as a request against the rate limit.
        """
        document = request.json()
        batch_key = read(document, OrderBatchIn).idempotency_key
        raw = msgspec.json.decode(document.raw, type=_RawBatch).orders
        items = list(zip(raw, document.members["orders"], strict=True))
        self.charge(request.actor.key_id or "", len(items) - 1)
        placing = [
            (bytes(raw), members, None if batch_key is None else f"{batch_key}/{number}")
            for number, (raw, members) in enumerate(items)
        ]
        if await self.directory.limits_of(request.scope, request.actor.key_id):
            # In their order, so that the first orders use up what is left of a limit.
            results = [await self._place(request, *each) for each in placing]
        else:
            results = await asyncio.gather(*(self._place(request, *each) for each in placing))
        return json_response(OrderBatchOut(results))

    async def _place(self, request: Request, raw: bytes, members: object, default_key: str | None) -> OrderResultOut:
        if not isinstance(members, dict):
            return _refused(Invalid([Fault("validation_error", "The order must be a JSON object.")]))
        item, shape = Document(raw, members), shape_of(members)
        if default_key is not None and members.get("idempotency_key") is None:
            item.add_idempotency_key(default_key)
        idempotency = idempotency_of(shape.__name__, item)
        try:
            order, original_digest = await self.place_orders.place(
                request.scope,
                idempotency,
                lambda terms: read_request(request, item, shape, terms, idempotency),
                key_id=request.actor.key_id,
            )
        except Exception as error:  # noqa: BLE001 - the other orders of the batch are not affected
            refusal = refusal_for(error)
            if isinstance(refusal, (InternalError, ServiceUnavailable)):
                _log.error("order_of_batch_failed", exc_info=error)
            return _refused(refusal)
        is_replayed = original_digest is not None
        return OrderResultOut(
            200 if is_replayed else 201,
            order=msgspec.Raw(order),  # type: ignore[arg-type] # the stored JSON of an OrderOut
            idempotent_replayed=is_replayed,
            idempotency_mismatch=is_replayed and original_digest != idempotency.digest,
        )


def _refused(refusal: TonneError) -> OrderResultOut:
    return OrderResultOut(STATUS[refusal.kind], error=refusal.faults[0], errors=list(refusal.faults))
