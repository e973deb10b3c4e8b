"""Invoices over HTTP: the PDF, and the test helper that settles one."""

import asyncio

from tonne.accounts.model import PaymentMethod
from tonne.base.clock import Clock
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.db.pool import Connection, Database
from tonne.events.hint import Hints
from tonne.http.errors import RouteNotFound
from tonne.http.route import Access, Answer, Call, Route
from tonne.orders import store as order_store
from tonne.orders.errors import OrderNotFound
from tonne.orders.load_orders import lock_order
from tonne.orders.model import Order, OrderStatus
from tonne.orders.schemas import OrderOut, order_document
from tonne.payments import invoice_store
from tonne.payments.invoice_errors import InvoiceNotAvailable, InvoiceNotOpen, OrderPaidByCard
from tonne.payments.invoice_pdf import invoice_pdf
from tonne.payments.issue_invoices import issue_invoices
from tonne.payments.settle_invoice import settle_invoice


class InvoiceEndpoints:
    def __init__(self, database: Database, *, clock: Clock, settings: Settings, hints: Hints) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self._hints = hints

    async def read_invoice(self, call: Call) -> Answer:
        order_id = call.path("order_id")
        async with self._database.connection() as connection:
            invoice = await invoice_store.find_invoice(connection, call.scope, order_id)
            if invoice is None:
                known = await order_store.find_by_id(connection, call.scope, order_id) is not None
                raise InvoiceNotAvailable if known else OrderNotFound
        pdf = await asyncio.to_thread(invoice_pdf, invoice.read_record())
        headers = {"Content-Disposition": f'inline; filename="{invoice.reference}.pdf"', "Cache-Control": "private"}
        return Answer(pdf, 200, b"application/pdf", headers)

    async def settle_test_invoice(self, call: Call) -> Answer:
        # In live mode there is no such address.
        if call.scope.mode is not Mode.TEST:
            raise RouteNotFound
        async with self._database.transaction() as tx:
            order = await lock_order(tx, call.scope, call.path("order_id"))
            if order is None:
                raise OrderNotFound
            paid = await self._settle(tx, order, call.actor)
        self._hints.give()
        return Answer(order_document(paid))

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


def invoice_routes(endpoints: InvoiceEndpoints) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/v1/orders/{order_id:str}/invoice",
            endpoint=endpoints.read_invoice,
            access=Access.API_KEY,
            summary="Read an order's invoice as a PDF",
            description="As it was mailed to the organisation's admins.",
            tag="Orders",
            answers={200: None},
            errors=(OrderNotFound, InvoiceNotAvailable),
        ),
        Route(
            method="POST",
            path="/v1/test-helpers/orders/{order_id:str}/settle-invoice",
            endpoint=endpoints.settle_test_invoice,
            access=Access.API_KEY,
            summary="Settle a placed order's invoice now, as if its money had come",
            description="The invoice is issued first when it has not been yet. Test keys only.",
            tag="Test helpers",
            answers={200: OrderOut},
            errors=(OrderNotFound, RouteNotFound, InvoiceNotOpen, OrderPaidByCard),
        ),
    ]
