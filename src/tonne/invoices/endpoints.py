"""Invoices over HTTP: the PDF, and the test helper that settles one."""

import asyncio
from typing import Annotated, Any

import msgspec

from tonne.accounts.model import PaymentMethod
from tonne.base.clock import Clock
from tonne.base.settings import Settings
from tonne.db.pool import Connection, Database
from tonne.events.notify import Notifier
from tonne.http.errors import RouteNotFound, require_test_mode
from tonne.http.json_body import read
from tonne.http.route import Access, Request, Response, Route
from tonne.invoices import store as invoice_store
from tonne.invoices.cancel_order import cancel_order
from tonne.invoices.errors import InvoiceNotAvailable, InvoiceNotOpen, OrderPaidByCard
from tonne.invoices.issue_invoices import issue_invoices
from tonne.invoices.pdf import invoice_pdf
from tonne.invoices.settle_invoice import settle_invoice
from tonne.orders import store as order_store
from tonne.orders.errors import OrderNotFound, TransitionInvalid
from tonne.orders.model import Order, OrderStatus
from tonne.orders.queue import lock_order
from tonne.orders.schemas import OrderOut, order_document


class CancelIn(msgspec.Struct, forbid_unknown_fields=True):
    reason: Annotated[str, msgspec.Meta(max_length=500, description="For your records and ours.")] | None = None


class InvoiceEndpoints:
    def __init__(self, database: Database, *, clock: Clock, settings: Settings, notifier: Notifier) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self._notifier = notifier

    async def read_invoice(self, request: Request) -> Response:
        """Returns the invoice of an order as a PDF, as it was mailed to the organisation's admins."""
        order_id = request.path("order_id")
        async with self._database.connection() as connection:
            invoice = await invoice_store.find_invoice(connection, request.scope, order_id)
            if invoice is None:
                known = await order_store.find_by_id(connection, request.scope, order_id) is not None
                raise InvoiceNotAvailable if known else OrderNotFound
        pdf = await asyncio.to_thread(invoice_pdf, invoice.read_record())
        headers = {"Content-Disposition": f'inline; filename="{invoice.reference}.pdf"', "Cache-Control": "private"}
        return Response(pdf, 200, b"application/pdf", headers)

    async def cancel_order(self, request: Request) -> Response:
        """Cancels an order that is not yet allocated.

        If a payment races the cancellation, exactly one of them wins. A captured charge is refunded.
        """
        body = read(request.json_or_empty(), CancelIn)
        async with self._database.transaction() as tx:
            order = await lock_order(tx, request.scope, request.path("order_id"))
            if order is None:
                raise OrderNotFound
            reason = (body.reason or "").strip() or None
            cancelled = await cancel_order(
                tx, order, settings=self._settings, actor=request.actor, reason=reason, now=self._clock()
            )
        self._notifier.notify()
        return Response(order_document(cancelled))

    async def cancel_test_order(self, request: Request) -> Response:
        """Cancels a test order, like the endpoint for all orders. Test keys only."""
        require_test_mode(request.scope)
        return await self.cancel_order(request)

    async def settle_test_invoice(self, request: Request) -> Response:
        """Marks the invoice of a test order as paid, and issues it first if necessary. Test keys only."""
        require_test_mode(request.scope)
        async with self._database.transaction() as tx:
            order = await lock_order(tx, request.scope, request.path("order_id"))
            if order is None:
                raise OrderNotFound
            paid = await self._settle(tx, order, request.actor)
        self._notifier.notify()
        return Response(order_document(paid))

    async def _settle(self, tx: Connection, order: Order, actor: str) -> Order:
        """Issue the invoice where no worker has come to it yet; then its money is there."""
        if order.payment_method is not PaymentMethod.INVOICE:
            raise OrderPaidByCard
        if order.status is not OrderStatus.PLACED:
            raise InvoiceNotOpen(f"The order is {order.status}: only a placed one has an open invoice.")
        now = self._clock()
        await issue_invoices(tx, [order], self._settings, now)
        if order.priced is not None and order.priced.total_cost_minor == 0:
            # There was nothing to pay, and it is paid already.
            return await lock_order(tx, order.scope, order.id) or order
        return await settle_invoice(tx, order.scope, order.id, actor=actor, now=now)


_CANCEL: dict[str, Any] = {
    "method": "POST",
    "access": Access.API_KEY,
    "body": CancelIn,
    "body_required": False,
    "answers": {200: OrderOut},
}


def invoice_routes(endpoints: InvoiceEndpoints) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/v1/orders/{order_id}/invoice",
            endpoint=endpoints.read_invoice,
            access=Access.API_KEY,
            summary="Read an order's invoice as a PDF",
            tag="Orders",
            answers={200: None},
            errors=(OrderNotFound, InvoiceNotAvailable),
        ),
        Route(
            method="POST",
            path="/v1/test-helpers/orders/{order_id}/settle-invoice",
            endpoint=endpoints.settle_test_invoice,
            access=Access.API_KEY,
            summary="Settle a placed order's invoice now, as if its money had come",
            tag="Test helpers",
            answers={200: OrderOut},
            errors=(OrderNotFound, RouteNotFound, InvoiceNotOpen, OrderPaidByCard),
        ),
        Route(
            path="/v1/orders/{order_id}/cancel",
            endpoint=endpoints.cancel_order,
            summary="Cancel an order that is received or placed",
            tag="Orders",
            example={"reason": "Ordered twice"},
            errors=(OrderNotFound, TransitionInvalid),
            **_CANCEL,
        ),
        Route(
            path="/v1/test-helpers/orders/{order_id}/cancel",
            endpoint=endpoints.cancel_test_order,
            summary="Cancel an order that is received or placed, as the order's own endpoint does",
            tag="Test helpers",
            example={"reason": "Trying it out"},
            errors=(OrderNotFound, RouteNotFound, TransitionInvalid),
            **_CANCEL,
        ),
    ]
