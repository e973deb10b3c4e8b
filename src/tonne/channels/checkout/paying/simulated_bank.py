"""Test mode: the page on which a payer confirms a payment, as at the bank of the cardholder (3-D Secure)."""

from msgspec import Struct

from tonne.money.cards.errors import NothingToConfirm
from tonne.money.cards.stored_cards.confirm_charge import ConfirmCharge
from tonne.platform.http.route import Request, Response
from tonne.platform.web.render import FormGuard, Renderer, see_other
from tonne.selling.orders.model import Order


class SimulatedBank(Struct, frozen=True):
    """Its form leads to the address of the page itself."""

    renderer: Renderer
    guard: FormGuard
    confirmation: ConfirmCharge

    async def show(self, request: Request, order: Order | None) -> Response:
        if order is None:
            raise NothingToConfirm
        attempt = await self.confirmation.require_simulated(order)
        token, headers = self.guard.issue(request)
        return self.renderer.page(
            request,
            "simulated_bank.html",
            default_language=order.language,
            headers=headers,
            test_mode=True,
            action=request.location,
            form_token=token,
            order=order,
            charge=attempt.request,
        )

    async def answer(self, request: Request, order: Order | None, back: str) -> Response:
        fields = self.guard.check(request)
        if order is None:
            raise NothingToConfirm
        succeeds = (fields.get("answer") or [""])[0] == "complete"
        await self.confirmation.answer_simulated_bank(order, succeeds=succeeds)
        return see_other(back)
