"""HTTP endpoints: cancelling and refunding orders, and the test helper for disputes."""

from decimal import Decimal
from functools import partial

import msgspec

from tonne.money.refunds import store
from tonne.money.refunds.disputes.check_payments import simulate_dispute
from tonne.money.refunds.model import Refund
from tonne.money.refunds.reduce_order import ReductionRequest, reduce_order
from tonne.money.refunds.request_refund import (
    Cancellation,
    RefundRequest,
    cancel_by_id,
    parse_amount,
    request_refund,
    require_permission,
)
from tonne.money.refunds.schemas import CancelIn, DisputeIn, ReduceIn, RefundIn, refund_out
from tonne.platform.db.database import Database
from tonne.platform.db.idempotency import create_once
from tonne.platform.events.notification import Notifier, WorkKind
from tonne.platform.http.client_fields import idempotency_of, replay
from tonne.platform.http.errors import require_test_mode
from tonne.platform.http.json_body import read
from tonne.platform.http.lists import Paging, list_response
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import MassUnit, to_grams
from tonne.platform.values.context import Clock, Scope
from tonne.selling.orders.load import require_order
from tonne.selling.orders.schemas import order_document

REASON = "Requested by the client"
_AFTER_CANCELLATION = (WorkKind.EVENTS, WorkKind.REFUNDS, WorkKind.CREDIT_NOTES, WorkKind.ORDER_MAILS)


class RefundEndpoints(msgspec.Struct, frozen=True):
    database: Database
    clock: Clock
    settings: Settings
    notifier: Notifier

    async def cancel_order(self, request: Request) -> Response:
        """Cancel an order.

        Orders with the status `received` or `placed` can be cancelled. If a payment races the cancellation, exactly one
        of them wins. A captured charge is refunded.

        With `refund`, also an order that is `paid` can be cancelled: what was paid is refunded. Before its
        `fulfil_after` every account may do so, later only one that may refund by API. From `retiring` on, no order can
        be cancelled.
        """
        body = read(request.json_or_empty(), CancelIn)
        cancelled = await self.database.commit(
            cancel_by_id,
            request.scope,
            request.path("order_id"),
            Cancellation(reason=body.reason, with_refund=body.refund),
            settings=self.settings,
            by=request.actor.at(self.clock()),
        )
        self.notifier.notify(*_AFTER_CANCELLATION, scope=request.scope)
        return Response(order_document(cancelled))

    async def cancel_test_order(self, request: Request) -> Response:
        """Cancel a test order.

        Works like the endpoint for all orders. Test keys only.
        """
        require_test_mode(request.scope)
        return await self.cancel_order(request)

    async def reduce_order(self, request: Request) -> Response:
        """Reduce an order that waits until it is fulfilled.

        Takes a part off a `paid` order before its `fulfil_after`: `quantity` is what is left of it, at the same prices.
        What was paid for the part is refunded, whether or not the account may refund by API.
        """
        body = read(request.json(), ReduceIn)
        reduced = await self.database.commit(
            reduce_order,
            request.scope,
            request.path("order_id"),
            ReductionRequest(to_grams(Decimal(body.quantity), MassUnit.T), (body.reason or "").strip() or None),
            settings=self.settings,
            by=request.actor.at(self.clock()),
        )
        self.notifier.notify(*_AFTER_CANCELLATION, scope=request.scope)
        return Response(order_document(reduced))

    async def refund_order(self, request: Request) -> Response:
        """Refund an order.

        Refunds a paid order, wholly or in part. Its status and its quantity do not change; `refunded_amount` grows when
        the refund has succeeded. The account must be allowed to refund by API.
        """
        document = request.json_or_empty()
        order_id = request.path("order_id")
        # The path is part of the request: a key that was used for another order is a mismatch.
        idempotency = idempotency_of(f"refund {order_id}", document)
        body = read(document, RefundIn)
        async with self.database.connection() as connection:
            order = await require_order(connection, request.scope, order_id)
            await require_permission(connection, request.scope, request.actor)
        amount = None if body.amount is None else parse_amount(body.amount, order.currency)
        asked = RefundRequest(
            amount_minor=amount, reason=(body.reason or "").strip() or REASON, idempotency=idempotency
        )
        refund, original_digest = await create_once(
            idempotency.key, lambda: self._request(request, order_id, asked), partial(self._find, request.scope)
        )
        if original_digest is not None:
            return replay(msgspec.json.encode(refund_out(refund)), original_digest, idempotency.digest)
        self.notifier.notify(WorkKind.REFUNDS)
        return json_response(refund_out(refund), 201)

    async def _request(self, request: Request, order_id: str, asked: RefundRequest) -> Refund | None:
        """None if the idempotency key is taken."""
        try:
            return await self.database.commit(
                request_refund,
                request.scope,
                order_id,
                asked,
                settings=self.settings,
                by=request.actor.at(self.clock()),
            )
        except store.RefundKeyTaken:
            return None

    async def _find(self, scope: Scope, key: str) -> tuple[Refund, bytes] | None:
        found = await self.database.run(store.find_by_key, scope, key)
        return None if found is None else (found, found.request_digest or b"")

    async def list_refunds(self, request: Request) -> Response:
        """List the refunds of an order.

        Newest first, with those that failed. The account must be allowed to refund by API.
        """
        order_id = request.path("order_id")
        paging = Paging.of(request, f"refunds of {order_id}")
        async with self.database.connection() as connection:
            order = await require_order(connection, request.scope, order_id)
            await require_permission(connection, request.scope, request.actor)
            found = await store.list_of_order(connection, order)
        start = paging.start
        rest = [each for each in reversed(found) if (each.created_at, each.id) < (start.created_at, start.id)]
        page, cursor = paging.cut(rest)
        return list_response([refund_out(each) for each in page], cursor)

    async def dispute_test_order(self, request: Request) -> Response:
        """Dispute the payment of a test order.

        Simulates a payer who disputes a card payment at their bank, and the bank's decision. Without an open dispute,
        `won` and `lost` open one first. Test keys only.
        """
        require_test_mode(request.scope)
        body = read(request.json_or_empty(), DisputeIn)
        order_id, now = request.path("order_id"), self.clock()
        document = await simulate_dispute(self.database, request.scope, order_id, body.outcome, now)
        self.notifier.notify(WorkKind.EVENTS, WorkKind.REFUNDS, WorkKind.ORDER_MAILS, scope=request.scope)
        return Response(document)
