"""HTTP endpoints: the invoice as a PDF, and the test helper that settles it."""

from typing import Annotated

from msgspec import Meta, Struct

from tonne.money.cards.errors import ChargeUnderWay
from tonne.money.invoices import store as invoice_store
from tonne.money.invoices.card_payment.collect_test_orders import collect_test_orders
from tonne.money.invoices.card_payment.settle_card_invoice import simulate_card_invoice
from tonne.money.invoices.errors import InvoiceNotAvailable, InvoiceNotOpen, OrderPaidByCard
from tonne.money.invoices.issuing.billed_order_store import bills_others
from tonne.money.invoices.issuing.billing_store import find_waiting
from tonne.money.invoices.issuing.due_document_store import HeldBy, find_due_document
from tonne.money.invoices.issuing.issue_each import find_held_back
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.originals.respond import FORMAT, ORIGINAL, original_response
from tonne.money.invoices.settle_invoice import settle_test_invoice
from tonne.platform.db.database import Database
from tonne.platform.events.notification import Notifier, WorkKind
from tonne.platform.http.errors import AccountNotFound, RouteNotFound, require_test_mode
from tonne.platform.http.json_body import read
from tonne.platform.http.route import Request, Response, Route, RouteMaker, json_response
from tonne.platform.keys.signing.errors import SigningUnavailable
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Clock
from tonne.selling.accounts.keys.store import find_key_kind
from tonne.selling.accounts.lookup import require_account
from tonne.selling.accounts.model import AccountKind, PaymentMethod
from tonne.selling.catalogue.schemas import CurrencyCode, Money
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.load import load_order, require_order
from tonne.selling.orders.model import HoldReason, OrderStatus
from tonne.selling.orders.queue import work_after
from tonne.selling.orders.schemas import OrderOut, order_document

HELD_BACK = (
    "The invoice of this order is not issued yet: it waits until the seller has set its name, address, tax id and bank "
    "account. It is then issued automatically."
)

NEEDS_DETAILS = (
    "The invoice of this order is not issued yet: it needs the address of the buyer, and an electronic invoice more. "
    "Enter that of your organisation in the dashboard, on the page Tax; a customer at checkout states their own before "
    "they pay."
)
NEEDS_CHECK = (
    "The invoice of this order is not issued yet: it needs a check of the VAT id of your organisation, which the "
    "seller sees to."
)
NEEDS_RATE = (
    "The invoice of this order is not issued yet: it needs the exchange rate for its tax, which the seller sees to."
)
ISSUED_SOON = "The invoice of this order is issued within a minute after the payment. Read it again in a moment."
_WAITS = {
    None: ISSUED_SOON,
    HeldBy.SELLER_DETAILS_MISSING: HELD_BACK,
    HeldBy.BUYER_DETAILS_MISSING: NEEDS_DETAILS,
    HeldBy.VAT_CHECK_MISSING: NEEDS_CHECK,
    HeldBy.EXCHANGE_RATE_MISSING: NEEDS_RATE,
}
_HELD_BACK = {
    None: HELD_BACK,
    HoldReason.BUYER_DETAILS_MISSING: NEEDS_DETAILS,
    HoldReason.VAT_CHECK_MISSING: NEEDS_CHECK,
    HoldReason.EXCHANGE_RATE_MISSING: NEEDS_RATE,
}
BILLED_LATER = (
    "This order is billed together with others, at the end of the month or when they reach the account's threshold. "
    "Its invoice is not issued yet."
)
BILLED_WITH_OTHERS = (
    "The invoice of this order also bills other accounts of the organisation. Only keys of the organisation's own "
    "accounts can read it."
)


class CollectIn(Struct, forbid_unknown_fields=True):
    respect_minimum: Annotated[
        bool,
        Meta(description="Do not charge less than a card can be charged: it waits for later orders.", examples=[False]),
    ] = False


class CollectOut(Struct):
    """The documents of small orders that were not paid yet."""

    invoices: Annotated[list[str], Meta(description="Their numbers.", examples=[["TN-TEST-000017"]])]
    currency: CurrencyCode
    amount_due: Annotated[Money, Meta(description="The sum of what they ask for.", examples=["0.24"])]
    paid: Annotated[bool, Meta(description="Whether the card has paid them.", examples=[True])]


class InvoiceEndpoints(Struct, frozen=True):
    database: Database
    originals: Originals
    clock: Clock
    settings: Settings
    notifier: Notifier

    async def read_invoice(self, request: Request) -> Response:
        """Read the invoice of an order as a PDF, or as an electronic invoice.

        Every paid order has one, unless it costs nothing: after a card payment within a minute, and for small amounts
        perhaps a simplified one. The PDF is the one that was mailed, byte for byte, whatever became of it since.
        """
        order_id = request.path("order_id")
        async with self.database.connection() as connection:
            invoice = await invoice_store.find_invoice(connection, request.scope, order_id)
            if invoice is None:
                order = await require_order(connection, request.scope, order_id)
                if due := await find_due_document(connection, request.scope, order_id):
                    raise InvoiceNotAvailable(_WAITS[due.held_by])
                if lacks := await find_held_back(connection, order, self.settings, self.clock()):
                    raise InvoiceNotAvailable(_HELD_BACK[lacks.hold_reason])
                is_waiting = order.id in await find_waiting(connection, [order.key])
                raise InvoiceNotAvailable(BILLED_LATER if is_waiting else None)
            if await bills_others(connection, request.scope, invoice):
                # A client account, or a key for some accounts, must not see what other accounts ordered.
                kind = await find_key_kind(connection, request.scope.organisation_id, request.actor.name)
                if kind is not AccountKind.ACCOUNT or request.accounts is not None:
                    raise InvoiceNotAvailable(BILLED_WITH_OTHERS)
        return await original_response(request, self.originals, invoice)

    async def settle_test_invoice(self, request: Request) -> Response:
        """Settle the invoice of a test order.

        Issues the invoice if necessary, and marks it and its order as paid. Orders billed together are charged to a
        test card that works, if a card pays. Test keys only.
        """
        require_test_mode(request.scope)
        order = await self.database.run(load_order, request.scope, request.path("order_id"))
        if order is not None and order.payment_method is PaymentMethod.CARD:
            charged = await simulate_card_invoice(
                self.database, request.scope, order, clock=self.clock, settings=self.settings
            )
            self.notifier.notify()
            return Response(order_document(charged))
        paid = await self.database.commit(
            settle_test_invoice,
            request.scope,
            request.path("order_id"),
            settings=self.settings,
            by=request.actor.at(self.clock()),
        )
        self.notifier.notify(*work_after(paid), WorkKind.INVOICES, WorkKind.MAILS, scope=request.scope)
        return Response(order_document(paid))

    async def collect_test_orders(self, request: Request) -> Response:
        """Close the collection of a test account.

        Bills the small orders that it collects and charges its test card for them. Test keys only, of this account.
        """
        require_test_mode(request.scope)
        body = read(request.json_or_empty(), CollectIn)
        account = await self.database.run(require_account, request.scope)
        if request.path("account_id") != account.scope.account_id:
            raise AccountNotFound
        collected = await collect_test_orders(
            self.database, account.scope, clock=self.clock, settings=self.settings, has_minimum=body.respect_minimum
        )
        self.notifier.notify()
        return json_response(
            CollectOut(
                invoices=[invoice.reference for invoice in collected.invoices],
                currency=account.currency,
                amount_due=format_money(sum(each.due_minor for each in collected.invoices), account.currency),
                paid=collected.is_paid,
            )
        )


def invoice_routes(endpoints: InvoiceEndpoints) -> list[Route]:
    order, helper = RouteMaker("Orders"), RouteMaker("Test helpers")
    one, helped = "/v1/orders/{order_id}", "/v1/test-helpers/orders/{order_id}"
    settling = (OrderNotFound, RouteNotFound, InvoiceNotOpen, OrderPaidByCard, ChargeUnderWay)
    return [
        order(
            f"GET {one}/invoice",
            endpoints.read_invoice,
            {200: ORIGINAL, 304: None},
            OrderNotFound,
            InvoiceNotAvailable,
            SigningUnavailable,
            operation_id="downloadInvoice",
            query=(FORMAT,),
        ),
        helper(
            f"POST {helped}/settle-invoice",
            endpoints.settle_test_invoice,
            OrderOut,
            *settling,
            operation_id="settleTestInvoice",
            shows={"status": OrderStatus.PAID},
        ),
        RouteMaker("Test helpers", body_required=False)(
            "POST /v1/test-helpers/accounts/{account_id}/collect",
            endpoints.collect_test_orders,
            CollectOut,
            AccountNotFound,
            RouteNotFound,
            operation_id="collectTestOrders",
            body=CollectIn,
        ),
    ]
