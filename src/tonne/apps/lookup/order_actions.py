"""What people do to an order in the dashboard: the use cases of the API and the command line, with notifications."""

import hashlib
from collections.abc import Collection, Mapping
from enum import StrEnum

from msgspec import Struct

from tonne.channels.checkout.order_pages.resend_order import OrderMail, resend_order
from tonne.money.cards.charges import SimulatePayment
from tonne.money.cards.gateways.card import CardGateway
from tonne.money.cards.model import RetrySchedule
from tonne.money.invoices.card_payment.settle_card_invoice import simulate_card_invoice
from tonne.money.invoices.settle_invoice import settle_test_invoice
from tonne.money.invoices.store import have_invoices
from tonne.money.refunds.reduce_order import ReductionRequest, reduce_order
from tonne.money.refunds.request_refund import (
    Cancellation,
    RefundRequest,
    cancel_by_id,
    request_refund,
    require_permission,
)
from tonne.money.refunds.store import RefundKeyTaken
from tonne.platform.db.database import Database
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.events.notification import Notifier, WorkKind
from tonne.platform.http.errors import RouteNotFound
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, Clock, Mode, Scope
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.load import load_order
from tonne.selling.orders.model import Beneficiary, Order, OrderStatus, PaymentState
from tonne.selling.orders.release_order import release_order
from tonne.supply.registries.retire_test_order import RetireTestOrder
from tonne.supply.retirements.rename_order import rename_order


class HelperStep(StrEnum):
    """The test helpers of the API that move an order on."""

    PAY = "pay"
    SETTLE = "settle-invoice"
    RETIRE = "retire"
    COMPLETE = "complete"


class RefundForm(Struct, frozen=True):
    """`key` is in the form: sending the same form twice refunds once."""

    amount_minor: int | None
    reason: str
    key: str


class OrderActions(Struct, frozen=True):
    database: Database
    gateways: Mapping[str, CardGateway]
    clock: Clock
    settings: Settings
    notifier: Notifier
    retire_test_order: RetireTestOrder

    async def cancel(
        self, scope: Scope, order_id: str, *, reason: str, refund: bool, actor: Actor, is_operator: bool
    ) -> None:
        cancellation = Cancellation(reason=reason or None, with_refund=refund, by_member=not is_operator)
        async with self.database.transaction() as tx:
            await cancel_by_id(tx, scope, order_id, cancellation, settings=self.settings, by=actor.at(self.clock()))
        kinds = (WorkKind.EVENTS, WorkKind.REFUNDS, WorkKind.CREDIT_NOTES, WorkKind.ORDER_MAILS)
        self.notifier.notify(*kinds, scope=scope)

    async def reduce(self, scope: Scope, order_id: str, grams: int, reason: str, *, actor: Actor) -> None:
        """`grams` is the new quantity."""
        async with self.database.transaction() as tx:
            request = ReductionRequest(grams, reason)
            await reduce_order(tx, scope, order_id, request, settings=self.settings, by=actor.at(self.clock()))
        kinds = (WorkKind.EVENTS, WorkKind.REFUNDS, WorkKind.CREDIT_NOTES, WorkKind.ORDER_MAILS)
        self.notifier.notify(*kinds, scope=scope)

    async def release(self, scope: Scope, order_id: str, *, actor: Actor) -> None:
        await self.database.commit(release_order, scope, order_id, by=actor.at(self.clock()))
        self.notifier.notify(WorkKind.EVENTS, WorkKind.PAID_ORDERS, scope=scope)

    async def refund(self, scope: Scope, order_id: str, asked: RefundForm, *, actor: Actor, is_operator: bool) -> None:
        content = f"{order_id} {asked.amount_minor} {asked.reason}"
        idempotency = Idempotency(asked.key, hashlib.sha256(content.encode()).digest())
        request = RefundRequest(amount_minor=asked.amount_minor, reason=asked.reason, idempotency=idempotency)
        try:
            async with self.database.transaction() as tx:
                await require_permission(tx, scope, actor, is_operator=is_operator)
                await request_refund(tx, scope, order_id, request, settings=self.settings, by=actor.at(self.clock()))
        except RefundKeyTaken:
            return
        self.notifier.notify(WorkKind.EVENTS, WorkKind.REFUNDS, WorkKind.CREDIT_NOTES, scope=scope)

    async def resend(
        self, scope: Scope, order_id: str, mails: Collection[OrderMail], *, email: str | None, actor: Actor
    ) -> None:
        """Raises NothingToResend. With `email`, the order keeps the corrected address."""
        await self.database.commit(
            resend_order, scope, order_id, mails, email=email, settings=self.settings, by=actor.at(self.clock())
        )
        self.notifier.notify(WorkKind.CERTIFICATES, WorkKind.ORDER_MAILS)

    async def rename(self, scope: Scope, order_id: str, beneficiary: Beneficiary, *, reason: str, actor: Actor) -> None:
        """Correct the name on the certificate. Raises BeneficiaryRetired while only a part of the order is retired."""
        async with self.database.transaction() as tx:
            await rename_order(
                tx, scope, order_id, beneficiary, reason=reason, settings=self.settings, by=actor.at(self.clock())
            )
        self.notifier.notify(WorkKind.EVENTS, WorkKind.CERTIFICATES, WorkKind.MAILS, scope=scope)

    async def help(self, scope: Scope, order_id: str, step: HelperStep, *, actor: Actor) -> None:
        """Move an order of test mode on. Raises RouteNotFound in live mode."""
        if scope.mode is not Mode.TEST:
            raise RouteNotFound
        match step:
            case HelperStep.PAY:
                gateway, schedule = self.gateways["simulated"], RetrySchedule(self.settings)
                simulation = SimulatePayment(self.database, gateway, have_invoices, self.clock, schedule)
                await simulation.pay(scope, order_id)
            case HelperStep.SETTLE:
                await self._settle(scope, order_id, actor)
            case HelperStep.RETIRE:
                await self.retire_test_order.retire(scope, order_id)
            case HelperStep.COMPLETE:
                await self.retire_test_order.complete(scope, order_id)
        self.notifier.notify()

    async def _settle(self, scope: Scope, order_id: str, actor: Actor) -> None:
        order = await self.database.run(load_order, scope, order_id)
        if order is None:
            raise OrderNotFound
        if order.payment_method is PaymentMethod.CARD:
            await simulate_card_invoice(self.database, scope, order, clock=self.clock, settings=self.settings)
            return
        async with self.database.transaction() as tx:
            await settle_test_invoice(tx, scope, order_id, settings=self.settings, by=actor.at(self.clock()))


def helper_steps(order: Order, *, is_billed: bool) -> list[HelperStep]:
    """The test helpers that may work now. `is_billed`: an invoice is issued, or will be."""
    if order.scope.mode is not Mode.TEST:
        return []
    is_fulfilled = order.status in {OrderStatus.PAID, OrderStatus.RETIRING, OrderStatus.COMPLETE}
    steps = []
    if order.status is OrderStatus.PLACED and order.payment_method is PaymentMethod.CARD and not is_billed:
        steps.append(HelperStep.PAY)
    elif order.payment_state is PaymentState.UNPAID and (order.status is OrderStatus.PLACED or is_fulfilled):
        steps.append(HelperStep.SETTLE)
    if order.status in {OrderStatus.PAID, OrderStatus.RETIRING}:
        steps += [HelperStep.RETIRE, HelperStep.COMPLETE]
    return steps
