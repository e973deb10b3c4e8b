"""A payer confirms a charge of a stored card (3-D Secure). The charge stays the same: no second one is made."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from tonne.money.cards.charge_store import find_pending
from tonne.money.cards.charges import settle_charges
from tonne.money.cards.errors import NothingToConfirm, PayerPageUnavailable
from tonne.money.cards.gateways.card import CardGateway, ChargeOutcome, ChargeResult, PayerPageFailed, PayerPages
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.model import ChargeAttempt, RetrySchedule
from tonne.platform.db.database import Connection, Database
from tonne.platform.events.notification import Notifier, WorkKind
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, replace
from tonne.selling.orders.model import Order, OrderStatus, PaymentState
from tonne.selling.orders.queue import charges_in


class SettleInvoiceCharge(Protocol):
    """Records the result of a charge for an invoice. `invoices` comes after this package, so it is passed in."""

    async def __call__(
        self,
        tx: Connection,
        attempt: ChargeAttempt,
        result: ChargeResult,
        now: datetime,
        schedule: RetrySchedule,
    ) -> None: ...


class ConfirmCharge(Struct, frozen=True):
    database: Database
    gateways: Mapping[str, CardGateway]
    clock: Clock
    settings: Settings
    notifier: Notifier
    settle_invoice: SettleInvoiceCharge

    async def find(self, order: Order) -> ChargeAttempt | None:
        """The charge of the order that waits for the payer's confirmation."""
        is_over = order.status in {OrderStatus.CANCELLED, OrderStatus.FAILED}
        if is_over or order.payment_state is not PaymentState.UNPAID:
            return None
        attempt = await self.database.run(find_pending, order)
        is_open = attempt is not None and attempt.confirm_until is not None and self.clock() < attempt.confirm_until
        return attempt if is_open else None

    async def start(self, order: Order, return_url: str) -> str | None:
        """Where the payer confirms at the bank; None if the charge has a result already, which is then settled."""
        attempt = await self._require(order)
        gateway = self.gateways.get(attempt.gateway)
        if gateway is None or not isinstance(gateway, PayerPages):
            raise PayerPageUnavailable
        try:
            confirmation = await gateway.confirm(attempt.request, return_url)
        except PayerPageFailed as error:
            raise PayerPageUnavailable from error
        if confirmation.result is not None:
            await self._settle(attempt, confirmation.result)
        return confirmation.url

    async def look_up(self, order: Order) -> None:
        """Ask the gateway now: the payer has come back and waits for the result."""
        attempt = await self.find(order)
        gateway = None if attempt is None else self.gateways.get(attempt.gateway)
        if attempt is not None and gateway is not None:
            await self._settle(attempt, await gateway.look_up(attempt.request))

    async def answer_simulated_bank(self, order: Order, *, succeeds: bool) -> None:
        """What the payer chose. At a checkout, one who declines can enter another card: the charge ends."""
        attempt = await self.require_simulated(order)
        gateway = SimulatedCardGateway(self.database)
        result = await gateway.authenticate(attempt.request, succeeds=succeeds)
        if order.is_paid_at_checkout and result.kind is ChargeOutcome.AUTHENTICATION_REQUIRED:
            ended = await gateway.cancel(attempt.request)
            result = replace(ended, code=result.code) if ended.kind is ChargeOutcome.REFUSED else ended
        await self._settle(attempt, result)

    async def require_simulated(self, order: Order) -> ChargeAttempt:
        """Test mode: the charge that the payer confirms at the simulated bank."""
        if order.scope.mode is not Mode.TEST:
            raise NothingToConfirm
        return await self._require(order)

    async def _require(self, order: Order) -> ChargeAttempt:
        attempt = await self.find(order)
        if attempt is None:
            raise NothingToConfirm
        return attempt

    async def _settle(self, attempt: ChargeAttempt, result: ChargeResult) -> None:
        schedule = RetrySchedule(self.settings)
        async with self.database.transaction() as tx:
            if attempt.request.invoice_id is not None:
                await self.settle_invoice(tx, attempt, result, self.clock(), schedule)
            else:
                await settle_charges(tx, [(attempt, result)], [], self.clock(), schedule)
        self.notifier.notify(
            WorkKind.EVENTS,
            WorkKind.PAID_ORDERS,
            WorkKind.CARD_PROBLEMS,
            WorkKind.REFUNDS,
            WorkKind.ORDER_MAILS,
            charges_in(attempt.request.mode),
        )
