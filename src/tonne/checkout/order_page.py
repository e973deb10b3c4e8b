"""The page of an order, which the links in mails lead to: what was bought, the payment, and where the order is now."""

from dataclasses import dataclass
from typing import Any

import msgspec

from tonne.base.clock import Clock
from tonne.base.errors import TonneError
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.base.tax import format_rate
from tonne.cards.charge_store import find_last_decline
from tonne.cards.confirm_charge import ConfirmCharge
from tonne.cards.declines import explain_decline
from tonne.cards.errors import NothingToConfirm
from tonne.cards.model import ChargeAttempt
from tonne.checkout.attempt_limit import AttemptLimit
from tonne.checkout.checkout_page import StateOut
from tonne.checkout.errors import OrderPageNotFound
from tonne.db.pool import Connection, Database
from tonne.http.route import Request, Response, json_response
from tonne.orders.load import load_orders
from tonne.orders.model import Order, OrderKey, OrderStatus, PaymentState
from tonne.receipts.expected_completion import expected_completion
from tonne.receipts.link_token import hash_link_token, is_link_token
from tonne.receipts.order_link_store import find_linked_order
from tonne.receipts.recipients import read_parties
from tonne.retirements.certificate_record import CertificateRecord
from tonne.retirements.certificates import find_certificate, find_withdrawal
from tonne.retirements.endpoints import pdf_answer
from tonne.retirements.render_certificate import render_certificate
from tonne.web.forms import FormGuard
from tonne.web.render import Renderer, see_other


@dataclass(frozen=True, slots=True)
class _OrderView:
    """Everything the page shows, read from one snapshot."""

    order: Order
    merchant: str
    expectation: str
    decline: str | None
    certificate: CertificateRecord | None
    # Why that certificate was withdrawn, if it was.
    withdrawn_reason: str | None

    @property
    def is_over(self) -> bool:
        return self.order.status in {OrderStatus.COMPLETE, OrderStatus.CANCELLED, OrderStatus.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPage:
    database: Database
    renderer: Renderer
    guard: FormGuard
    clock: Clock
    settings: Settings
    confirmation: ConfirmCharge
    confirm_limit: AttemptLimit
    certificate_limit: AttemptLimit

    async def show(self, request: Request) -> Response:
        (returned,) = request.query("confirmed")
        view = await self._view(request)
        if returned is not None and view.order.status is OrderStatus.PLACED:
            # The payer is back from the bank and waits for the result.
            await self.confirmation.look_up(view.order)
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
            if await self.confirmation.find(view.order) is None:
                raise NothingToConfirm
            return see_other(f"/o/{token}/bank")
        try:
            url = await self.confirmation.start(view.order, f"{self.settings.base_url}/o/{token}?confirmed=1")
        except NothingToConfirm:
            raise
        except TonneError as fault:
            return await self._show(request, view, fault=fault)
        if url is None:
            return see_other(f"/o/{token}?confirmed=1")
        # Not a redirect: `form-action` in the content security policy would block it.
        return self.renderer.page(request, "leaving.html", url=url, place="your bank")

    async def show_bank(self, request: Request) -> Response:
        """Test mode: the page of a simulated bank."""
        order, attempt = await self._require_simulated(request)
        token, headers = self.guard.issue(request)
        return self.renderer.page(
            request,
            "simulated_bank.html",
            headers=headers,
            test_mode=True,
            token=request.path("token"),
            form_token=token,
            order=order,
            charge=attempt.request,
        )

    async def answer_bank(self, request: Request) -> Response:
        fields = self.guard.check(request)
        order, _ = await self._require_simulated(request)
        succeeds = (fields.get("answer") or [""])[0] == "complete"
        await self.confirmation.answer_simulated_bank(order, succeeds=succeeds)
        return see_other(f"/o/{request.path('token')}?confirmed=1")

    async def certificate(self, request: Request) -> Response:
        """Limited: rendering a PDF costs CPU time."""
        self.certificate_limit.count(request)
        view = await self._view(request)
        if view.certificate is None:
            raise OrderPageNotFound("There is no certificate yet. Come back when the order is complete.")
        response = pdf_answer(view.certificate, await render_certificate(self.database, view.certificate, self.clock))
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _require_simulated(self, request: Request) -> tuple[Order, ChargeAttempt]:
        order = (await self._view(request)).order
        attempt = await self.confirmation.find(order)
        if order.scope.mode is not Mode.TEST or attempt is None:
            raise NothingToConfirm
        return order, attempt

    async def _view(self, request: Request) -> _OrderView:
        token = request.path("token")
        if not is_link_token(token):
            raise OrderPageNotFound
        async with self.database.snapshot() as connection:
            found = await find_linked_order(connection, hash_link_token(token))
            if found is None:
                raise OrderPageNotFound
            scope, order_id = found
            [order] = await load_orders(connection, [OrderKey(scope.account_id, order_id)])
            return await self._read(connection, order)

    async def _read(self, connection: Connection, order: Order) -> _OrderView:
        expectation = await expected_completion(connection, order, settings=self.settings, now=self.clock())
        record = await find_certificate(connection, order.scope, order.id)
        decline = await find_last_decline(connection, order)
        return _OrderView(
            order,
            (await read_parties(connection, [order]))[order.id].merchant,
            expectation.sentence,
            None if decline is None else explain_decline(decline.code),
            None if record is None else msgspec.json.decode(record, type=CertificateRecord),
            await find_withdrawal(connection, order.scope, order.id),
        )

    async def _state(self, view: _OrderView) -> str:
        """The script reloads the page when this changes."""
        is_waiting = await self.confirmation.find(view.order) is not None
        return "to_confirm" if is_waiting else f"{view.order.status}_{view.order.payment_state}"

    async def _show(
        self, request: Request, view: _OrderView, *, is_back: bool = False, fault: TonneError | None = None
    ) -> Response:
        order, token = view.order, request.path("token")
        form_token, headers = self.guard.issue(request)
        to_confirm = await self.confirmation.find(order)
        return self.renderer.page(
            request,
            "order.html",
            status=200 if fault is None else 503,
            headers=headers,
            test_mode=order.scope.mode is Mode.TEST,
            token=token,
            form_token=form_token,
            order=order,
            priced=order.priced,
            tax_name=_tax_name(order),
            merchant=view.merchant,
            expectation=view.expectation,
            decline=view.decline,
            certificate=view.certificate,
            withdrawn_reason=view.withdrawn_reason,
            state=await self._state(view),
            to_confirm=None if to_confirm is None else to_confirm.request,
            confirm_until=None if to_confirm is None else to_confirm.confirm_until,
            has_failed=is_back and to_confirm is not None,
            fault=None if fault is None else fault.faults[0],
            refresh_s=None if view.is_over else 10,
            **_seller(self.settings),
        )


def _tax_name(order: Order) -> str | None:
    if order.tax.tax_minor is None or order.tax.treatment == "none":
        return None
    names = {"reverse_charge": "Tax (reverse charge)", "exempt": "Tax (exempt)", "outside_scope": "Tax (outside scope)"}
    return names.get(order.tax.treatment, f"Tax ({format_rate(order.tax.rate)} %)")


def _seller(settings: Settings) -> dict[str, Any]:
    lines = [part.strip() for part in settings.seller_address.replace("\n", ";").split(";") if part.strip()]
    return {
        "seller_lines": lines,
        "seller_email": settings.seller_email,
        "payment_words": {
            PaymentState.UNPAID: "Not paid yet",
            PaymentState.PAID: "Paid",
            PaymentState.REFUNDED: "Refunded",
            PaymentState.DISPUTED: "Disputed with the bank",
        },
    }
