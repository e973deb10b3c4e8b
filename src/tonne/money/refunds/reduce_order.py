"""Cancel a part of a paid order while it waits until it is fulfilled, and send back what was paid for the part."""

from typing import NamedTuple

from msgspec import Struct, structs

from tonne.money.invoices.credit_notes import store as credit_note_store
from tonne.money.invoices.credit_notes.credit_note import CreditCause, CreditedOrder, credit_in_part, without
from tonne.money.invoices.credit_notes.issue_credit_note import issue_credit_note
from tonne.money.invoices.issuing.billed_order_store import find_billed_order
from tonne.money.invoices.issuing.billing_store import reduce_unbilled
from tonne.money.invoices.issuing.due_document_store import lock_due_document
from tonne.money.invoices.issuing.reduced_share import share_of_reduced
from tonne.money.invoices.model import BilledOrder, Invoice, InvoiceBilling
from tonne.money.invoices.store import find_invoice, lock_invoices_any_account
from tonne.money.refunds.model import Refund, RefundPurpose
from tonne.money.refunds.order_money import OrderMoney, lock_money
from tonne.money.refunds.request_refund import RefundRequest, plan_refund
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.events.log import note_rewritten
from tonne.platform.events.notification import Stream
from tonne.platform.events.optional_events import OptionalEvent, record_optional
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import charge_unit, format_money, format_tonnes, tax_on
from tonne.platform.values.context import By, Scope, new_id, replace
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.catalogue.prices.pricing import reduce_priced
from tonne.selling.orders.errors import OrderFulfilled, OrderNotFound, ReductionInvalid, TransitionInvalid
from tonne.selling.orders.model import REDUCED, Order, OrderStatus, PaymentState
from tonne.selling.orders.release_order import FULFILLED, NOT_PAID
from tonne.selling.orders.schemas import order_document
from tonne.selling.orders.window_store import Reduction, store_reduction
from tonne.supply.stock.holds.holds import shrink_hold

_OF_CUSTOMER = "A customer paid this order at checkout. It can be cancelled as a whole only."
_DISPUTED = "The payer disputes the payment: the order is held until that is decided."


class ReductionRequest(Struct, frozen=True):
    """`grams` is the new quantity of the order."""

    grams: int
    reason: str | None = None


class _OrderCost(NamedTuple):
    """What an order costs without and with tax, as it is billed. Without tax if it waits for an invoice."""

    net_minor: int
    tax_minor: int | None


class _Change(NamedTuple):
    """An order before and after its reduction, and what goes back."""

    before: Order
    after: Order
    refund: Refund | None


async def reduce_order(
    tx: Connection, scope: Scope, order_id: str, request: ReductionRequest, *, settings: Settings, by: By
) -> Order:
    """Call it last in the transaction. Raises OrderFulfilled if its credits are allocated, or are about to be."""
    money = await lock_money(tx, scope, order_id)
    if money is None:
        raise OrderNotFound
    order = money.order
    _check(money, request, by)
    invoice = None
    # Until the commit: a document that is issued meanwhile would have other amounts than the order.
    if not await lock_due_document(tx, order.key):
        found = await find_invoice(tx, order.scope, order.id)
        if found is not None:
            [invoice] = await lock_invoices_any_account(tx, [found.id])
    reduced = await _reprice(tx, money, invoice, request.grams)
    if reduced.amount_due_minor is not None:
        # As after any refund: no more is shown than it costs.
        shown = min(order.refunded_minor, reduced.amount_due_minor)
        reduced = structs.replace(reduced, refunded_minor=shown)
    await reduce_unbilled(tx, reduced)
    off = _taken_off(order, reduced)
    refund = await _refund(tx, money, off, request, settings=settings, by=by)
    reduction = Reduction(
        scope=scope,
        id=new_id("red"),
        order_id=order.id,
        before_grams=_grams(order),
        after_grams=request.grams,
        net_minor=off.net_minor,
        tax_minor=off.tax_minor,
        was_billed=invoice is not None,
        was_paid=order.payment_state is not PaymentState.UNPAID,
        refund_id=None if refund is None else refund.id,
        actor=str(by.actor),
        created_at=by.at,
    )
    await store_reduction(tx, reduced, reduction)
    await note_rewritten(tx, {Stream(scope.organisation_id, scope.mode)})
    await shrink_hold(tx, reduced)
    if invoice is not None:
        await _credit(tx, invoice, _Change(order, reduced, refund), reason=request.reason, by=by)
    await _record(tx, order, reduced, refund, reason=request.reason, by=by)
    return reduced


def _grams(order: Order) -> int:
    return 0 if order.priced is None else order.priced.quantity_grams


def _check(money: OrderMoney, request: ReductionRequest, by: By) -> None:
    order = money.order
    if order.status in FULFILLED or (order.status is OrderStatus.PAID and not order.is_in_window(by.at)):
        raise OrderFulfilled
    if order.status is not OrderStatus.PAID:
        raise TransitionInvalid(NOT_PAID.format("reduced", order.status))
    if order.is_paid_at_checkout:
        raise TransitionInvalid(_OF_CUSTOMER)
    if money.has_open_dispute:
        raise TransitionInvalid(_DISPUTED)
    if not 0 < request.grams < _grams(order):
        raise ReductionInvalid(
            f"The order has {format_tonnes(_grams(order))} t. Send a smaller quantity above zero, or cancel the order.",
            field="quantity",
        )


async def _reprice(tx: Connection, money: OrderMoney, invoice: Invoice | None, grams: int) -> Order:
    """The smaller quantity at the same prices. No amount is larger than before."""
    order = money.order
    if order.priced is None:
        raise LookupError(f"order {order.id} has no price")
    is_charged = order.payment_method is PaymentMethod.CARD and not money.is_billed
    unit = charge_unit(order.currency) if is_charged else 1
    priced = reduce_priced(order.priced, grams, total_unit=unit)
    reduced = structs.replace(order, priced=priced)
    if order.tax.tax_minor is None:
        return reduced
    if invoice is None or invoice.billing is InvoiceBilling.PER_ORDER:
        tax = tax_on(priced.total_cost_minor, order.tax.treatment, order.tax.rate, unit=unit)
        return structs.replace(reduced, tax=replace(order.tax, tax_minor=tax))
    share = await share_of_reduced(tx, invoice, reduced)
    net = min(share.net_minor, order.priced.total_cost_minor + order.billing_adjustment_minor)
    return structs.replace(
        reduced,
        tax=replace(order.tax, tax_minor=min(share.tax_minor, order.tax.tax_minor)),
        billing_adjustment_minor=net - priced.total_cost_minor,
    )


def _amounts(order: Order) -> _OrderCost:
    total_minor = 0 if order.priced is None else order.priced.total_cost_minor
    return _OrderCost(total_minor + order.billing_adjustment_minor, order.tax.tax_minor)


def _taken_off(order: Order, reduced: Order) -> _OrderCost:
    before, after = _amounts(order), _amounts(reduced)
    is_taxed = before.tax_minor is not None and after.tax_minor is not None
    return _OrderCost(
        before.net_minor - after.net_minor, (before.tax_minor or 0) - (after.tax_minor or 0) if is_taxed else None
    )


async def _refund(
    tx: Connection, money: OrderMoney, off: _OrderCost, request: ReductionRequest, *, settings: Settings, by: By
) -> Refund | None:
    """What was paid for the part: never more than is left of the payment."""
    minor = min(off.net_minor + (off.tax_minor or 0), money.refundable_minor)
    if money.is_by_card:
        minor -= minor % charge_unit(money.order.currency)
    if not minor:
        return None
    asked = RefundRequest(amount_minor=minor, reason=request.reason or "The order was reduced")
    return await plan_refund(tx, money, asked, RefundPurpose.REDUCTION, settings=settings, by=by)


async def _credit(tx: Connection, invoice: Invoice, change: _Change, *, reason: str | None, by: By) -> None:
    """What goes back, or of an order that is not paid what it lost."""
    order, refund = change.before, change.refund
    billed = await find_billed_order(tx, invoice, order.key)
    if billed is None or billed.cancelled:
        return
    left = without(billed, (await credit_note_store.sum_credited(tx, invoice)).get(order.id))
    off = _taken_off(order, change.after)
    total_minor = off.net_minor + (off.tax_minor or 0)
    if order.payment_state is not PaymentState.UNPAID:
        total_minor = 0 if refund is None else refund.amount_minor
    total_minor = min(total_minor, left.total_minor)
    if total_minor:
        part = credit_in_part(left, total_minor)
        if total_minor == off.net_minor + (off.tax_minor or 0):
            part = _exactly(part, left, change)
        refund_id = None if refund is None else refund.id
        cause = CreditCause.REDUCTION
        await issue_credit_note(tx, invoice, [part], cause=cause, reason=reason, by=by, refund_id=refund_id)


def _exactly(part: CreditedOrder, left: BilledOrder, change: _Change) -> CreditedOrder:
    """With the tax that the order lost, and of the rest what it lost without the fee, if that much is left."""
    off = _taken_off(change.before, change.after)
    if (off.tax_minor or 0) > (left.tax_minor or 0) or off.net_minor > left.offset_minor + left.fee_minor:
        return part
    before, after = change.before.priced, change.after.priced
    offset_minor = 0 if before is None or after is None else before.offset_cost_minor - after.offset_cost_minor
    offset_minor = min(max(offset_minor, off.net_minor - left.fee_minor), off.net_minor, left.offset_minor)
    tax_minor = None if left.tax_minor is None else off.tax_minor
    return replace(part, offset_minor=offset_minor, fee_minor=off.net_minor - offset_minor, tax_minor=tax_minor)


async def _record(
    tx: Connection, order: Order, reduced: Order, refund: Refund | None, *, reason: str | None, by: By
) -> None:
    shown = None if refund is None else f"{format_money(refund.amount_minor, order.currency)} {order.currency}"
    await audit.record(
        tx,
        order.scope,
        "order.reduced",
        by=by,
        subject_id=order.id,
        before={"quantity": format_tonnes(_grams(order))},
        after={"quantity": format_tonnes(_grams(reduced))},
        reason=reason,
        refund=shown,
    )
    event = OptionalEvent(REDUCED, order.id, order_document(reduced))
    await record_optional(tx, [(order.scope, event)], by.at)
