"""Makes the history of the demo: the use cases of a year, one day after the other, at the time at which they happen.

Nothing is written in any other way. Every step can be repeated: after a kill, the next start repeats the last day and
goes on.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import msgspec

from tonne.apps.cli.database import ACTOR
from tonne.apps.cli.demo.customers import EMPTY_CARD, GOOD_CARD, first_day, simulated_card
from tonne.apps.cli.demo.story import ADMIN, CUSTOMERS, DAYS, HAPPENINGS, Deed, Happening, PlannedOrder, planned_orders
from tonne.apps.wiring.app import Services
from tonne.channels.webhooks.model import WebhookRequest
from tonne.channels.webhooks.register import register_webhook
from tonne.channels.webhooks.registration_store import list_webhooks
from tonne.money.accounting.books.close_month import close_month
from tonne.money.accounting.books.month_store import find_closed
from tonne.money.accounting.books.post_entries import PostEntries
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.accounting.reports.organisation_documents import list_open_invoices_of, sum_received_of
from tonne.money.cards.gateways.card import DisputeState
from tonne.money.cards.stored_cards.stored_cards import store_card
from tonne.money.invoices.model import Invoice
from tonne.money.refunds.disputes.check_payments import simulate_dispute
from tonne.money.refunds.errors import NothingToDispute
from tonne.money.refunds.request_refund import RefundRequest, request_refund
from tonne.money.refunds.store import RefundKeyTaken
from tonne.platform.db.database import Database
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.process.progress import progress
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import MassUnit, format_money
from tonne.platform.values.context import By, Mode, Scope, replace, set_time
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.accounts.organisations.change_organisation import add_admin
from tonne.selling.accounts.set_target import YearlyTarget, set_target
from tonne.selling.accounts.store import find_terms
from tonne.selling.catalogue.demo import demo_rates
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.catalogue.selection import BundleChoiceIn
from tonne.selling.estimates.record_estimate import new_estimate, record_estimate_once
from tonne.selling.orders.errors import TransitionInvalid
from tonne.selling.orders.model import EVENT_TYPES, Beneficiary, BeneficiaryKind
from tonne.selling.orders.placing.place_order import OrderRequest, place_order
from tonne.selling.orders.store import find_by_key
from tonne.supply.stock.lots.import_lots import import_files
from tonne.supply.stock.simulate_supply import simulate_supply

TARGET = YearlyTarget(700_000_000, 900_000, "EUR")
# More than the invoices that are open at any time.
_MANY = 500
_NO_DIGEST = bytes(32)
PAID_AFTER, LATE_AFTER, PART_PAID = 16, 80, 3

RunOnce = Callable[[], Awaitable[bool | None]]


class History:
    """`scopes` are the accounts of the customers by name. `mails_to` gets the mails of the last days."""

    def __init__(self, services: Services, scopes: Mapping[str, Scope], mails_to: str) -> None:
        self._services = services
        self._database = services.database
        self._scopes = scopes
        self._mails_to = mails_to
        self._first = first_day()
        # Prices depend on its exchange rates, which must be the same in every run.
        self._catalogue: Catalogue | None = None
        self._orders = planned_orders()
        parts, cards = services, services.charge_cards[Mode.TEST]
        supply = (parts.allocate_orders.run_once, parts.retire_units.run_once, parts.allocate_orders.run_once)
        self._daily: tuple[RunOnce, ...] = (cards.run_once, cards.drain, parts.issue_invoices.run_once)
        self._weekly: tuple[RunOnce, ...] = (
            parts.issue_documents.run_once,
            parts.issue_consolidated_invoices.run_once,
            parts.follow_up_invoices.run_once,
            parts.refund_jobs["check_payments"],
            parts.refund_jobs["make_refunds"],
            parts.mail_credit_notes.run_once,
            parts.mail_orders.run_once,
            parts.close_units.run_once,
            *supply,
            PostEntries(parts.database, parts.clock, parts.settings).run_once,
        )

    async def play(self) -> None:
        """Repeats the last day that has begun, and goes on until today."""
        try:
            first = await self._find_day()
            with progress("Demo: the orders of twelve months", DAYS - first) as advance:
                for day in range(first, DAYS):
                    await self._play_day(day)
                    advance(1)
        finally:
            set_time(None)
        for mode in Mode:
            await self._import_rates(mode, DAYS)
        await _run((*self._weekly, self._services.fold_totals.run_once))

    async def _find_day(self) -> int:
        """The last day with an order that was placed."""
        days = sorted((day for day, orders in self._orders.items() if orders), reverse=True)
        async with self._database.connection() as connection:
            for day in days:
                order = self._orders[day][0]
                if await find_by_key(connection, self._scopes[order.customer.name], order.key) is not None:
                    return day
        return 0

    async def _play_day(self, day: int) -> None:
        today = self._first + timedelta(days=day)
        # The rates of the end of a month value what is owed then.
        if day == 0 or today.day == 1 or (today + timedelta(days=1)).day == 1:
            self._set(today, 7 * 60)
            await self._import_rates(Mode.TEST, day)
        for order in self._orders[day]:
            self._set(today, order.at)
            await self._place(order)
        if self._orders[day]:
            await _run(self._daily)
        for order in self._orders[day]:
            if order.customer.method is PaymentMethod.INVOICE:
                await self._complete(order)
        for happening in HAPPENINGS:
            if happening.day == day:
                self._set(today, 12 * 60)
                await self._happen(happening)
        if day % 7 == 0 or today.day == 1:
            self._set(today, 13 * 60)
            await _run(self._weekly)
            await self._receive_transfers(today)
        if today.day == 5:
            await self._close_month(today)

    def _set(self, day: date, minutes: int) -> None:
        set_time(datetime.combine(day, time(), UTC) + timedelta(minutes=minutes))

    @property
    def _by(self) -> By:
        return ACTOR.unbound.at(self._services.clock())

    async def _import_rates(self, mode: Mode, day: int) -> None:
        await self._database.commit(import_files, mode, demo_rates(self._by.at, day), by=self._by)
        self._catalogue = await self._services.catalogues.current(Mode.TEST)

    async def _place(self, order: PlannedOrder) -> None:
        customer, scope, now = order.customer, self._scopes[order.customer.name], self._services.clock()
        catalogue = self._catalogue or await self._services.catalogues.current(Mode.TEST)
        bundles = {bundle.slug: bundle.id for bundle in catalogue.bundles.values()}
        choices = [BundleChoiceIn(bundles[order.bundle], "100")]
        estimate_id = await self._estimate(order) if customer.by_estimate else None
        grams = order.amount if not customer.by_value and estimate_id is None else None
        request = OrderRequest(
            requested=PriceRequest(
                mass_grams=grams, value_minor=order.amount if customer.by_value else None, choices=choices
            ),
            idempotency=Idempotency(order.key, _NO_DIGEST),
            metadata=msgspec.json.encode(order.metadata).decode(),
            estimate_id=estimate_id,
            beneficiary=None if order.person is None else Beneficiary(order.person, BeneficiaryKind.PERSON),
            reference=order.reference,
        )
        async with self._database.transaction() as tx:
            terms = await find_terms(tx, scope, self._services.settings.seller_tax)
            # Test invoices of accounts that advance pay themselves. Those of the customers wait for money.
            terms = replace(terms.at_service(self._services.settings), auto_advance=True)
            # None if it was placed before a kill.
            await place_order(tx, scope, request, terms, catalogue, now=now, retry_after=timedelta(minutes=1))

    async def _complete(self, order: PlannedOrder) -> None:
        """On credit. Orders of accounts that do not advance wait for this."""
        scope = self._scopes[order.customer.name]
        # It is complete if its day is repeated.
        with contextlib.suppress(TransitionInvalid):
            await self._services.retire_test_order.complete(scope, await self._id_of(scope, order))

    async def _estimate(self, order: PlannedOrder) -> str:
        scope, now = self._scopes[order.customer.name], self._services.clock()
        [(_, place)] = order.metadata.items()
        text = order.customer.by_estimate.format(place)
        async with self._database.connection() as connection:
            estimate, _ = await record_estimate_once(
                connection,
                scope,
                Idempotency(order.key, _NO_DIGEST),
                lambda: new_estimate(
                    scope, Decimal(order.amount) / 1000, MassUnit.KG, text, now=now, idempotency_key=order.key
                ),
            )
        return estimate.id

    async def _happen(self, happening: Happening) -> None:
        scope = self._scopes[happening.customer]
        match happening.deed:
            case Deed.REFUND:
                await self._refund(scope, self._last_order(happening))
            case Deed.DISPUTE:
                await self._dispute(scope, self._last_order(happening), DisputeState.OPENED)
            case Deed.WIN:
                await self._dispute(scope, self._last_order(_opened(happening)), DisputeState.WON)
            case Deed.GOOD_CARD | Deed.DECLINED_CARD:
                number = GOOD_CARD if happening.deed is Deed.GOOD_CARD else EMPTY_CARD
                await self._database.commit(store_card, scope, simulated_card(number), by=self._by)
            case Deed.SHORT_SUPPLY:
                await self._database.commit(simulate_supply, scope, 0, by=self._by)
            case Deed.MAIL:
                await self._begin_mails()

    def _last_order(self, happening: Happening) -> PlannedOrder:
        """Of the customer, when it happens."""
        earlier = (order for day in range(happening.day, -1, -1) for order in reversed(self._orders[day]))
        return next(order for order in earlier if order.customer.name == happening.customer)

    async def _refund(self, scope: Scope, order: PlannedOrder) -> None:
        request = RefundRequest(
            amount_minor=None,
            reason="The booking was cancelled",
            idempotency=Idempotency(f"{order.key}-refund", _NO_DIGEST),
        )
        order_id = await self._id_of(scope, order)
        with contextlib.suppress(RefundKeyTaken):
            await self._database.commit(
                request_refund, scope, order_id, request, settings=self._services.settings, by=self._by
            )
        await _run(self._weekly)

    async def _dispute(self, scope: Scope, order: PlannedOrder, state: DisputeState) -> None:
        with contextlib.suppress(NothingToDispute):
            await simulate_dispute(self._database, scope, await self._id_of(scope, order), state, self._by.at)

    async def _id_of(self, scope: Scope, order: PlannedOrder) -> str:
        async with self._database.connection() as connection:
            found = await find_by_key(connection, scope, order.key)
        if found is None:
            raise LookupError(f"There is no order {order.key}.")
        order_id: str = msgspec.json.decode(found[0])["id"]
        return order_id

    async def _begin_mails(self) -> None:
        """Mails and webhooks begin now: those of the months before would have been sent long ago, so none exist."""
        await _run(self._weekly)
        demo = self._scopes["Hotel Seeblick"].organisation_id
        await self._database.commit(add_admin, demo, self._mails_to, by=self._by)
        webhook = WebhookRequest("https://hooks.hotel-seeblick.example/tonne", event_types=tuple(EVENT_TYPES.values()))
        box, tenant = self._services.box, self._scopes["Hotel Seeblick"]
        if not await self._database.run(list_webhooks, tenant):
            await self._database.commit(register_webhook, tenant, webhook, box=box, by=self._by)
        await self._database.commit(set_target, tenant.tenant, TARGET, by=self._by)
        for scope in self._scopes.values():
            receipts = AccountChange(receipt_email=self._mails_to)
            await self._database.commit(change_account, scope, receipts, by=self._by)

    async def _receive_transfers(self, today: date) -> None:
        """The statement of the bank of a week: what customers have paid since the last one."""
        lines = ["booked_on,amount,currency,payer,reference"]
        tenants = {scope.tenant: name for name, scope in self._scopes.items() if _pays_invoices(name)}
        async with self._database.connection() as connection:
            for tenant, name in tenants.items():
                invoices = await list_open_invoices_of(connection, tenant, None, _MANY)
                received = await sum_received_of(connection, tenant.organisation_id, invoices)
                for invoice in invoices:
                    minor = _arriving(invoice, received.get(invoice.id, 0), today)
                    if minor > 0:
                        amount = format_money(minor, invoice.currency)
                        lines.append(f"{today},{amount},{invoice.currency},{name},Invoice {invoice.reference}")
        if lines[1:]:
            file = SheetFile(f"statement-{today}.csv", "\n".join(lines).encode())
            await self._database.commit(
                import_statement, Mode.TEST, file, settings=self._services.settings, by=self._by
            )

    async def _close_month(self, today: date) -> None:
        month = (today.replace(day=1) - timedelta(days=1)).replace(day=1)
        if await self._database.run(find_closed, Mode.TEST, month) is None:
            await self._database.commit(close_month, Mode.TEST, month, settings=self._services.settings, by=self._by)


async def _run(jobs: Sequence[RunOnce]) -> None:
    """Once each: a batch of every job is larger than what a week brings."""
    for job in jobs:
        await job()


def _opened(won: Happening) -> Happening:
    return next(each for each in HAPPENINGS if (each.deed, each.customer) == (Deed.DISPUTE, won.customer))


def _pays_invoices(name: str) -> bool:
    return any(each.name == name and each.method is PaymentMethod.INVOICE for each in CUSTOMERS)


def _arriving(invoice: Invoice, received_minor: int, today: date) -> int:
    """Most invoices are paid after some weeks, one in seven in two parts, and one in six only months later."""
    age = (today - invoice.issued_on).days
    left = invoice.due_minor - received_minor
    if invoice.number % 7 == PART_PAID:
        return left // 2 if received_minor == 0 and age >= PAID_AFTER else left if age >= LATE_AFTER else 0
    return left if age >= (LATE_AFTER if invoice.number % 6 == 0 else PAID_AFTER) else 0


async def play_history(url: str, settings: Settings, customers: Mapping[str, Scope]) -> None:
    """No commit waits for the disk: what a crash of the machine loses is played again."""
    unsafe = f"{url}{'&' if '?' in url else '?'}synchronous_commit=off"
    database = await Database(unsafe, settings).open()
    services = Services(database, replace(settings, catalogue_refresh_s=0), process="worker")
    try:
        await History(services, customers, ADMIN).play()
    finally:
        await services.close()
