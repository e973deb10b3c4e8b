"""Issue invoices with the next numbers of the series of their mode.

Placed orders that are paid by invoice get one each; consolidated invoices bill groups of orders at the end of the month
(UTC), or when a group reaches its threshold.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import structlog
from msgspec import structs

from tonne.money.invoices import store as invoice_store
from tonne.money.invoices.card_payment.pay_by_card import pay_by_card
from tonne.money.invoices.documents.consolidated import (
    ConsolidatedDraft,
    DividedSums,
    compose_consolidated,
    divide_sums,
)
from tonne.money.invoices.documents.held_back import KnownFacts, held_back_by
from tonne.money.invoices.documents.home_tax import find_home_rates, lacks_rate, rate_key
from tonne.money.invoices.invoice_events import ISSUED, record_invoices
from tonne.money.invoices.issuing import billing_store
from tonne.money.invoices.issuing.billed_order_store import find_supplied_on, insert_billed_orders
from tonne.money.invoices.issuing.billing_store import BillingGroup, OrderToBill, find_billing_settings
from tonne.money.invoices.issuing.collect_orders import (
    GRACE,
    collect_orders,
    grant_credit,
    is_billed_together,
    join_collections,
    month_end_after,
    put_off,
    start_of_month,
)
from tonne.money.invoices.issuing.issue_each import issue_each, list_lacking, read_facts
from tonne.money.invoices.issuing.joining_store import list_to_join_any_account, set_joining
from tonne.money.invoices.issuing.small_orders import fulfil_first
from tonne.money.invoices.model import Invoice, InvoiceBilling
from tonne.money.invoices.tax_documents import DocumentKind, take_issue_numbers
from tonne.platform.db.batches import RETRY_AFTER, RowJobWithSettings, run_claimed, run_each
from tonne.platform.db.database import Connection
from tonne.platform.events.log import lock_streams
from tonne.platform.events.notification import Stream
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import charge_unit, minimum_charge
from tonne.platform.values.context import Mode
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.catalogue.prices.reference_rates import HomeRate
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import HoldReason, Order, OrderKey, OrderStatus, PaymentState
from tonne.selling.orders.move_order import BilledShare, Transitions, move_orders, show_billed, with_payment
from tonne.selling.orders.queue import lock_keys, postpone, run_due
from tonne.selling.users.guarded_settings import approved_settings

# Live orders whose invoices wait for settings of the seller are retried after this time.
HELD_BACK_RETRY = timedelta(minutes=1)
# Orders above the credit limit of their account are tried again after this time.
CREDIT_RETRY = timedelta(minutes=5)
# Small, because all workers wait for the locked row of the series.
BATCH = 20

_log = structlog.get_logger()


class IssueInvoices(RowJobWithSettings, frozen=True):
    async def run_once(self) -> bool:
        """Issue the invoices of a batch of due orders of each mode; false if none is due.

        Of the orders that are paid by card, those that are billed together: their tax is not known yet.
        """
        worked = [await self._run_once(mode, PaymentMethod.INVOICE) for mode in Mode]
        worked += [await self._run_once(mode, PaymentMethod.CARD, is_untaxed=True) for mode in Mode]
        return any(worked)

    async def _run_once(self, mode: Mode, payment_method: PaymentMethod, *, is_untaxed: bool | None = None) -> bool:
        return await run_due(
            self.database,
            self.clock,
            OrderStatus.PLACED,
            mode,
            self._issue,
            limit=BATCH,
            failure_event="invoice_not_issued",
            payment_method=payment_method,
            is_untaxed=is_untaxed,
        )

    async def _issue(self, tx: Connection, keys: Sequence[OrderKey], now: datetime) -> None:
        await issue_invoices(tx, await load_orders(tx, keys), self.settings, now)


async def issue_invoices(tx: Connection, orders: Sequence[Order], settings: Settings, now: datetime) -> None:
    """Issue invoices for locked placed orders of one mode. An order that has an invoice keeps it.

    Orders of accounts that are billed monthly or by threshold are collected for a consolidated invoice instead, and
    orders of accounts with credit are fulfilled within their limit. Live orders wait until the settings about the
    seller are given; no number is used for them meanwhile. Zero-total orders skip invoicing and are marked as paid.
    Call it last in the transaction: the row of the series is locked from here to the commit, which makes the numbers
    gapless.
    """
    keys = [order.key for order in orders]
    invoiced = await invoice_store.have_invoices(tx, keys)
    free = [order for order in orders if order.priced is not None and order.priced.total_cost_minor == 0]
    owed = [order for order in orders if order not in free]
    billing = await find_billing_settings(tx, owed)
    together = [order for order in owed if is_billed_together(order) and order.id not in invoiced]
    billed = [order for order in owed if order not in together and order.id not in invoiced]
    facts = await read_facts(tx, billed, settings, now)
    lacking = list_lacking(billed, facts, settings, now)
    held_back = [order for order in billed if order.id in lacking]
    if held_back:
        missing = sorted({name for lacks in lacking.values() for name in lacks.missing})
        count = len(held_back)
        _log.warning("invoices_held_back", missing=missing, orders=count, first_order_id=held_back[0].id)
        billed = [order for order in billed if order.id not in lacking]
    granted, above = await grant_credit(tx, [order for order in owed if order not in held_back], billing, now)
    fulfilled, pending = await fulfil_first(tx, together, billing, settings, now)
    await postpone(tx, keys, OrderStatus.PLACED, None)
    await postpone(tx, [order.key for order in held_back], OrderStatus.PLACED, now + HELD_BACK_RETRY)
    await postpone(tx, [order.key for order in (*above, *pending)], OrderStatus.PLACED, now + CREDIT_RETRY)
    waiting = [each.steps[-1] for each in fulfilled if each.steps[-1].is_in_window(now)]
    await put_off(tx, waiting)
    await collect_orders(tx, together, billing, now, service=settings)
    issued = await issue_each(tx, billed, facts, settings, now)
    if issued and await record_invoices(tx, issued, ISSUED, now):
        # The commit would lock the streams of the invoices after those of the orders that move.
        await lock_streams(tx, [Stream(order.scope.organisation_id, order.scope.mode) for order in orders])
    moves = [Transitions(order, [with_payment(order, now)], order.due_at(now)) for order in free]
    reasons = {id_: lacks.hold_reason for id_, lacks in lacking.items() if lacks.hold_reason}
    reasons |= {order.id: HoldReason.CREDIT_LIMIT_REACHED for order in above}
    reasons |= {order.id: HoldReason.COLLECTION_PENDING for order in pending}
    granted += fulfilled
    await move_orders(tx, [*moves, *granted], now, updated=_with_hold(owed, granted, reasons))


def _with_hold(owed: Sequence[Order], granted: Sequence[Transitions], reasons: Mapping[str, HoldReason]) -> list[Order]:
    """Those of the orders that stay placed and whose reason to wait has changed."""
    moved = {each.order.id for each in granted}
    return [
        structs.replace(order, hold_reason=reasons.get(order.id))
        for order in owed
        if order.id not in moved and order.hold_reason is not reasons.get(order.id)
    ]


# Groups that are claimed together.
GROUPS_AT_ONCE = 10
# Longer than any transaction of a batch takes.
LEASE = timedelta(minutes=10)
# Bounds the memory and the time of one transaction. A group with more orders gets several invoices.
MAX_ORDERS = 10_000
# Orders whose JSON is in memory at the same time, while their tax is stored.
CHUNK = 1_000


class IssueConsolidatedInvoices(RowJobWithSettings, frozen=True):
    async def run_once(self) -> bool:
        """Bill a batch of due groups; false if none is due. Each invoice is a transaction of its own.

        Before, orders join their group that could be cancelled until now.
        """
        has_joined = await run_claimed(
            self.database,
            self._find_joining,
            self._join,
            self._postpone,
            limit=BATCH,
            failure_event="order_not_collected",
            describe=lambda key: {"order_id": key.id},
        )
        now = self.clock()
        claimed = await self.database.run(billing_store.claim_groups, now, now + LEASE, GROUPS_AT_ONCE)
        has_billed = await run_each(
            claimed,
            self._bill,
            failure_event="consolidated_invoice_not_issued",
            describe=lambda group_id: {"billing_group_id": group_id},
        )
        return has_joined or has_billed

    async def _find_joining(self, tx: Connection, limit: int) -> list[OrderKey]:
        return await list_to_join_any_account(tx, self.clock(), limit)

    async def _join(self, tx: Connection, keys: Sequence[OrderKey]) -> None:
        await join_collections(tx, keys, self.clock(), service=self.settings)

    async def _postpone(self, tx: Connection, keys: Sequence[OrderKey]) -> None:
        await set_joining(tx, keys, self.clock() + RETRY_AFTER)

    async def _bill(self, group_id: str) -> None:
        await self.database.commit(bill_group, group_id, self.settings, self.clock())


async def bill_group(
    tx: Connection, group_id: str, settings: Settings, now: datetime, *, is_taken: bool = False
) -> Invoice | None:
    """Bill the orders of a group up to the end of the last month, or all of them if the threshold is reached.

    All of them, however little it is, if the charge of another order pays them, too: `is_taken`.

    None if there is nothing to bill: they were cancelled or billed meanwhile, a live invoice waits for settings about
    the seller or the address of the buyer, a card cannot be charged so little, or they round to nothing. Such orders
    are billed with those of the next month.
    """
    group = await billing_store.find_group_any_account(tx, group_id)
    before = None if group.is_full or group.closes_by_itself or is_taken else start_of_month(now)
    keys = await billing_store.list_keys_to_bill_any_account(tx, group_id, before, MAX_ORDERS)
    if group.mode is Mode.LIVE and await _is_group_held_back(tx, group, keys, settings, now):
        await billing_store.postpone_group_any_account(tx, group_id, now + HELD_BACK_RETRY)
        return None
    if keys and not is_taken and await _is_too_little(tx, group, keys):
        await billing_store.postpone_group_any_account(tx, group_id, month_end_after(now))
        return None
    return await _bill_orders(tx, group_id, keys, settings, now)


async def _is_too_little(tx: Connection, group: BillingGroup, keys: Sequence[OrderKey]) -> bool:
    """Whether a card cannot be charged so little. What was fulfilled first is billed all the same, with its tax."""
    if not group.is_paid_by_card:
        return False
    sum_minor = await billing_store.sum_unbilled(tx, keys)
    if group.closes_by_itself or sum_minor < charge_unit(group.currency):
        return sum_minor < charge_unit(group.currency)
    if sum_minor >= minimum_charge(group.currency):
        return False
    return group.billing is not InvoiceBilling.COLLECTED or not await billing_store.is_any_fulfilled(tx, keys)


async def _is_group_held_back(
    tx: Connection, group: BillingGroup, keys: Sequence[OrderKey], settings: Settings, now: datetime
) -> bool:
    organisation = await invoice_store.find_billed_organisation(tx, group.organisation_id)
    rate = await _find_rate(tx, group, keys, settings, now)
    facts = KnownFacts(now, organisation.vat_check, lacks_rate(group.currency, settings, rate))
    needs_bank = not group.is_paid_by_card
    found = [
        held_back_by(treatment, organisation.tax, settings, language, needs_bank=needs_bank, facts=facts)
        for treatment, language in await billing_store.find_treatments(tx, keys)
    ]
    missing = sorted({name for lacks in found for name in lacks.missing})
    if missing:
        _log.warning("consolidated_invoice_held_back", missing=missing, orders=group.order_count)
    reason = next((lacks.hold_reason for lacks in found if lacks.hold_reason), None)
    await billing_store.note_hold_any_account(tx, group.id, reason)
    return bool(missing)


async def _find_rate(
    tx: Connection, group: BillingGroup, keys: Sequence[OrderKey], settings: Settings, now: datetime
) -> HomeRate | None:
    supplied_on = await find_supplied_on(tx, keys) if settings.tax_point == "supply" else None
    key = rate_key(group.currency, settings, now, supplied_on=supplied_on)
    return (await find_home_rates(tx, {group.id: key}, settings)).get(group.id)


async def bill_alone(tx: Connection, order: Order, settings: Settings, now: datetime) -> Invoice | None:
    """Bill a locked order now that waits for a consolidated invoice. None if it does not, or rounds to nothing."""
    group_id = await billing_store.find_group_of(tx, order)
    return None if group_id is None else await _bill_orders(tx, group_id, [order.key], settings, now)


async def _bill_orders(
    tx: Connection, group_id: str, keys: Sequence[OrderKey], settings: Settings, now: datetime
) -> Invoice | None:
    # Orders are locked before their group. One that is cancelled meanwhile has left the group.
    await lock_keys(tx, keys)
    group = await billing_store.lock_group_any_account(tx, group_id)
    orders = await billing_store.list_unbilled(tx, keys)
    found = [order.key for order in orders]
    unit = charge_unit(group.currency) if group.is_paid_by_card else 1
    sums = divide_sums(orders, await billing_store.sum_lines(tx, found), unit=unit)
    invoice = None
    if orders and not sums.net_minor:
        await _close_or_postpone(tx, group, orders, sums, now)
    elif orders:
        await _store_shares(tx, orders, sums, group.currency, now)
        organisation = await invoice_store.find_billed_organisation(tx, group.organisation_id)
        rate = await _find_rate(tx, group, found, settings, now)
        clients = await invoice_store.find_client_names_any_account(tx, [orders[0].account_id])
        client_name = clients.get(orders[0].account_id) if len(orders) == 1 else None
        # As late as possible: all other invoices of the mode wait for the row of the series until the commit.
        number, issued_on = await take_issue_numbers(tx, DocumentKind.INVOICE, group.mode, 1, now)
        settings = await approved_settings(tx, settings)
        draft = ConsolidatedDraft(group, orders, sums, organisation, rate, client_name)
        invoice, billed = compose_consolidated(draft, settings, number=number, issued_on=issued_on)
        await invoice_store.insert_invoices(tx, [invoice], now)
        await insert_billed_orders(tx, billed)
        await billing_store.remove_billed(tx, found)
        await record_invoices(tx, [invoice], ISSUED, now)
        if group.is_paid_by_card:
            await pay_by_card(tx, invoice, group.account_id, now)
        await billing_store.refresh_group_any_account(tx, group_id, now, GRACE)
    return invoice


async def _close_or_postpone(
    tx: Connection, group: BillingGroup, orders: Sequence[OrderToBill], sums: DividedSums, now: datetime
) -> None:
    """Orders that round to nothing wait for others until the year is over. Then nobody pays for them."""
    if all(order.placed_at.astimezone(UTC).year == now.astimezone(UTC).year for order in orders):
        await billing_store.postpone_group_any_account(tx, group.id, month_end_after(now))
        return
    await _store_shares(tx, orders, sums, group.currency, now)
    keys = [order.key for order in orders]
    await billing_store.remove_billed(tx, keys)
    await billing_store.refresh_group_any_account(tx, group.id, now, GRACE)
    loaded = await load_orders(tx, keys)
    moves = [
        Transitions(order, [with_payment(order, now)], order.due_at(now))
        for order in loaded
        if order.status is OrderStatus.PLACED
    ]
    fulfilled = [order for order in loaded if order.status is not OrderStatus.PLACED]
    await move_orders(
        tx, moves, now, updated=[structs.replace(order, payment_state=PaymentState.PAID) for order in fulfilled]
    )


async def _store_shares(
    tx: Connection, orders: Sequence[OrderToBill], sums: DividedSums, currency: str, now: datetime
) -> None:
    """Now it is known what the orders cost."""
    shares = [
        BilledShare(
            order.key, currency, share.net_minor - order.total_minor, share.tax_minor, share.net_minor + share.tax_minor
        )
        for order, share in zip(orders, sums.shares, strict=True)
    ]
    for start in range(0, len(shares), CHUNK):
        await show_billed(tx, shares[start : start + CHUNK], now)
