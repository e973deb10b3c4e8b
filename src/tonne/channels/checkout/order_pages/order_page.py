"""The page of an order, which the links in mails lead to: what was bought, the payment, progress and receipt."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from msgspec import Struct

from tonne.channels.checkout.checkout_page import StateOut
from tonne.channels.checkout.errors import OrderPageNotFound
from tonne.channels.checkout.order_pages.order_summary import OrderSummary, read_order_summary, summary_values
from tonne.channels.checkout.paying.attempt_limit import AttemptLimit
from tonne.channels.checkout.paying.simulated_bank import SimulatedBank
from tonne.money.cards.charge_store import Decline, find_last_decline
from tonne.money.cards.charges import explain_decline
from tonne.money.cards.errors import NothingToConfirm
from tonne.money.invoices.issuing.collect_orders import GRACE, joins_at, month_end_after
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.originals.respond import original_response
from tonne.money.invoices.store import find_invoice
from tonne.money.invoices.tax_documents import find_document
from tonne.money.receipts.order_documents import OrderDocument, invoice_of, list_order_documents
from tonne.money.receipts.receipt import ReceiptFacts, read_receipt, receipt_pdf, write_receipt
from tonne.money.refunds.errors import NothingToRefund
from tonne.money.refunds.request_refund import can_payer_cancel, cancel_by_payer
from tonne.platform.db.database import Connection, Database
from tonne.platform.documents.mail.link_token import hash_link_token, is_link_token
from tonne.platform.events.notification import Notifier, WorkKind
from tonne.platform.http.errors import STATUS
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode
from tonne.platform.values.errors import TonneError
from tonne.platform.values.language import N_
from tonne.platform.web.render import FormGuard, Renderer, see_other
from tonne.platform.web.shown_errors import shown
from tonne.platform.web.visitor import visitor_language
from tonne.platform.web.wording import LocalWording, wording_in
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.catalogue.prices.price import PaymentPlan
from tonne.selling.orders.errors import TransitionInvalid
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.mails.order_links import find_linked_order
from tonne.selling.orders.model import Order, OrderKey, OrderStatus, PaymentState
from tonne.supply.certificates.credentials.issue_credential import PDF, RenderCertificate


async def load_linked_order(connection: Connection, token: str) -> Order:
    """Knowing the token is the permission to see the order. Raises OrderPageNotFound."""
    found = await find_linked_order(connection, hash_link_token(token)) if is_link_token(token) else None
    if found is None:
        raise OrderPageNotFound
    scope, order_id = found
    [order] = await load_orders(connection, [OrderKey(scope.account_id, order_id)])
    return order


class _OrderView(Struct, frozen=True):
    """Everything the page shows, read from one snapshot."""

    summary: OrderSummary
    # The code of the last declined charge.
    decline: Decline | None
    # The number of its invoice if the card was declined for the last time, and a transfer may pay.
    owed_on: str | None

    @property
    def order(self) -> Order:
        return self.summary.order

    @property
    def is_over(self) -> bool:
        return self.order.status in {OrderStatus.COMPLETE, OrderStatus.CANCELLED, OrderStatus.FAILED}


class OrderPage(Struct, frozen=True, kw_only=True):
    database: Database
    renderer: Renderer
    guard: FormGuard
    clock: Clock
    settings: Settings
    bank: SimulatedBank
    confirm_limit: AttemptLimit
    certificate_limit: AttemptLimit
    certificates: RenderCertificate
    notifier: Notifier

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return self.confirm_limit.buckets, self.certificate_limit.buckets

    async def show(self, request: Request) -> Response:
        (returned,) = request.query("confirmed")
        view = await self._view(request)
        if returned is not None and view.order.status is OrderStatus.PLACED:
            # The payer is back from the bank and waits for the result.
            await self.bank.confirmation.look_up(view.order)
            view = await self._view(request)
        return await self._show(request, view, is_back=returned is not None)

    async def state(self, request: Request) -> Response:
        view = await self._view(request)
        response = json_response(StateOut(await self._state(view)))
        response.headers["Cache-Control"] = "no-store"
        return response

    async def confirm(self, request: Request) -> Response:
        """Send the payer to the bank, in test mode to a simulated one."""
        self.guard.check(request)
        self.confirm_limit.count(request)
        view, token = await self._view(request), request.path("token")
        if view.order.scope.mode is Mode.TEST:
            await self.bank.confirmation.require_simulated(view.order)
            return see_other(f"/o/{token}/bank")
        try:
            url = await self.bank.confirmation.start(view.order, f"{self.settings.base_url}/o/{token}?confirmed=1")
        except NothingToConfirm:
            raise
        except TonneError as fault:
            return await self._show(request, view, fault=fault)
        if url is None:
            return see_other(f"/o/{token}?confirmed=1")
        # Not a redirect: `form-action` in the content security policy would block it.
        return self.renderer.page(request, "leaving.html", url=url, place="bank")

    async def cancel(self, request: Request) -> Response:
        """For the customer: cancel the order and refund all of it, until credits are allocated."""
        self.guard.check(request)
        self.confirm_limit.count(request)
        order = (await self._view(request)).order
        try:
            await self.database.commit(cancel_by_payer, order.scope, order.id, settings=self.settings, now=self.clock())
        except (TransitionInvalid, NothingToRefund) as fault:
            return await self._show(request, await self._view(request), fault=fault)
        self.notifier.notify(WorkKind.EVENTS, WorkKind.REFUNDS, WorkKind.ORDER_MAILS, scope=order.scope)
        return see_other(f"/o/{request.path('token')}")

    async def show_bank(self, request: Request) -> Response:
        """Test mode: the page of a simulated bank."""
        return await self.bank.show(request, (await self._view(request)).order)

    async def answer_bank(self, request: Request) -> Response:
        back = f"/o/{request.path('token')}?confirmed=1"
        return await self.bank.answer(request, (await self._view(request)).order, back)

    async def certificate(self, request: Request) -> Response:
        """Limited: rendering a PDF costs CPU time."""
        self.certificate_limit.count(request)
        view = await self._view(request)
        record = view.summary.certificate
        if record is None:
            raise OrderPageNotFound(N_("There is no certificate yet. Come back when the order is complete."))
        response = await self.certificates.answer(record)
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _view(self, request: Request) -> _OrderView:
        async with self.database.snapshot() as connection:
            return await self._read(connection, await load_linked_order(connection, request.path("token")))

    async def _read(self, connection: Connection, order: Order) -> _OrderView:
        summary = await read_order_summary(connection, order, settings=self.settings, now=self.clock())
        owed_on = None
        if order.payment_plan is PaymentPlan.COLLECTED and order.payment_state is PaymentState.UNPAID:
            invoice = await find_invoice(connection, order.scope, order.id)
            is_owed = invoice is not None and invoice.payment_method is PaymentMethod.INVOICE
            owed_on = invoice.reference if invoice is not None and is_owed else None
        return _OrderView(summary, await find_last_decline(connection, order), owed_on)

    async def _state(self, view: _OrderView) -> str:
        """The script reloads the page when this changes."""
        is_waiting = await self.bank.confirmation.find(view.order) is not None
        owed = "_owed" if view.owed_on else ""
        return "to_confirm" if is_waiting else f"{view.order.status}_{view.order.payment_state}{owed}"

    async def _show(
        self, request: Request, view: _OrderView, *, is_back: bool = False, fault: TonneError | None = None
    ) -> Response:
        order, token = view.order, request.path("token")
        language = visitor_language(request, order.language)
        wording = LocalWording(language.translator, language.locale)
        form_token, headers = self.guard.issue(request)
        to_confirm = await self.bank.confirmation.find(order)
        _, decline = wording.translate, view.decline
        return self.renderer.page(
            request,
            "order.html",
            default_language=order.language,
            status=200 if fault is None else STATUS[fault.kind],
            headers=headers,
            test_mode=order.scope.mode is Mode.TEST,
            token=token,
            form_token=form_token,
            decline=None if decline is None else _.text(explain_decline(decline.code)),
            state=await self._state(view),
            to_confirm=None if to_confirm is None else to_confirm.request,
            confirm_until=None if to_confirm is None else to_confirm.confirm_until,
            has_failed=is_back and to_confirm is not None,
            fault=None if fault is None else shown(fault, _),
            can_cancel=can_payer_cancel(order),
            owed_on=view.owed_on,
            billed_by=month_end_after(joins_at(order)) - GRACE - timedelta(days=1),
            refresh_s=None if view.is_over else 10,
            **summary_values(view.summary, wording, self.settings),
        )


# The payment confirmation of an order, as a page to print and as a PDF, and its tax documents.


class ReceiptPage(Struct, frozen=True, kw_only=True):
    database: Database
    renderer: Renderer
    settings: Settings
    pdf_limit: AttemptLimit
    originals: Originals

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return (self.pdf_limit.buckets,)

    async def show(self, request: Request) -> Response:
        found = await self._find(request)
        language = visitor_language(request, found.order.language)
        wording = LocalWording(language.translator, language.locale)
        return self.renderer.page(
            request,
            "receipt.html",
            default_language=found.order.language,
            test_mode=found.order.scope.mode is Mode.TEST,
            token=request.path("token"),
            merchant=found.merchant,
            receipt=write_receipt(found, wording, self.settings),
        )

    async def pdf(self, request: Request) -> Response:
        """In the language of the order. Limited: rendering a PDF costs CPU time."""
        self.pdf_limit.count(request)
        found = await self._find(request)
        pdf = await receipt_pdf(found, wording_in(found.order.language), self.settings)
        name = f'inline; filename="receipt-{found.order.id}.pdf"'
        return Response(pdf, media_type=PDF, headers={"content-disposition": name, "Cache-Control": "no-store"})

    async def invoice(self, request: Request) -> Response:
        """The original that counts now."""
        return await self._original(request, invoice_of)

    async def document(self, request: Request) -> Response:
        number = request.path("number")

        def choose(documents: Sequence[OrderDocument]) -> OrderDocument | None:
            return next((each for each in documents if each.reference == number and each.is_readable), None)

        return await self._original(request, choose)

    async def _original(
        self, request: Request, choose: Callable[[Sequence[OrderDocument]], OrderDocument | None]
    ) -> Response:
        self.pdf_limit.count(request)
        async with self.database.snapshot() as connection:
            order = await load_linked_order(connection, request.path("token"))
            chosen = choose(await list_order_documents(connection, order))
            found = None if chosen is None else await find_document(connection, order.scope.tenant, chosen.reference)
        if found is None:
            raise OrderPageNotFound(N_("There is no such document. It is on the page of your order once it is issued."))
        response = await original_response(request, self.originals, found)
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _find(self, request: Request) -> ReceiptFacts:
        async with self.database.snapshot() as connection:
            order = await load_linked_order(connection, request.path("token"))
            found = await read_receipt(connection, order)
        if found is None:
            raise OrderPageNotFound(N_("There is no receipt yet, because the order is not paid."))
        return found
