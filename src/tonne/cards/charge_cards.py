"""The cards of placed orders are charged: claim, ask the gateway outside any transaction, settle."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from tonne.accounts.model import PaymentMethod
from tonne.base.clock import Clock
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.cards.model import Attempt, Pace
from tonne.cards.open_charges import NO_CARD, Opened, open_charges
from tonne.cards.settle_charges import settle_charges
from tonne.cards.store import claim_pending_any_account, read_to_charge
from tonne.db.batches import run_leased
from tonne.db.pool import Connection, Database
from tonne.gateways.card import CardGateway, Charged, ChargeOutcome
from tonne.gateways.payment_page import is_paid_on_page
from tonne.orders.model import OrderKey, OrderStatus
from tonne.orders.queue import run_due_any_account

BATCH = 400
AT_ONCE = 16

_log = structlog.get_logger()

Answers = Sequence[tuple[Attempt, Charged]]


@dataclass(frozen=True, slots=True)
class Batch:
    """What a worker has claimed: charges to ask about, and orders that cost nothing."""

    attempts: Sequence[Attempt]
    free: Sequence[OrderKey]

    def __bool__(self) -> bool:
        return bool(self.attempts or self.free)


class ChargeCards:
    """Runs in a worker, one for each mode, so that a gateway that hangs does not hold up the other mode's orders.

    A crash after any step loses nothing and charges nobody twice: the charge is on record before the gateway hears of
    it, and one that is on record is asked about, not made anew. Any number of these may run at once.
    """

    def __init__(
        self, database: Database, gateways: Mapping[str, CardGateway], mode: Mode, clock: Clock, settings: Settings
    ) -> None:
        self._database = database
        self._gateways = gateways
        self._mode = mode
        self._clock = clock
        self._pace = Pace(settings)

    async def run_once(self) -> bool:
        """One batch; false when nothing is due."""
        batch = await self.claim()
        if not batch:
            return False
        await self.settle(await self.ask(batch), batch.free)
        return True

    async def claim(self) -> Batch:
        """Pending charges whose turn it is, and orders that are due, each with a new charge. Waits for no lock."""
        now = self._clock()
        async with self._database.transaction() as tx:
            unclear = await claim_pending_any_account(tx, self._mode, now, now + self._pace.lease(), limit=BATCH)
        opened: list[Opened] = []
        await run_due_any_account(
            self._database,
            self._clock,
            OrderStatus.PLACED,
            self._mode,
            self._open,
            limit=BATCH,
            failure_event="charge_not_opened",
            payment_method=PaymentMethod.CARD,
            on_commit=opened.append,
        )
        attempts = [attempt for each in opened for attempt in each.attempts]
        return Batch([*unclear, *attempts], [key for each in opened for key in each.free])

    async def _open(self, tx: Connection, keys: Sequence[OrderKey], now: datetime) -> Opened:
        return await open_charges(tx, await read_to_charge(tx, keys), now, now + self._pace.lease())

    async def ask(self, batch: Batch) -> Answers:
        """What the gateway says to each, several at once. Nothing it does is raised: it is unclear, then."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def ask_one(attempt: Attempt) -> tuple[Attempt, Charged]:
            async with slots:
                try:
                    return await self._ask(attempt)
                except Exception:  # noqa: BLE001 - whatever it is, nobody knows whether the charge was made
                    _log.exception("card_gateway_failed", charge_id=attempt.request.id, gateway=attempt.gateway)
                    return attempt, Charged(ChargeOutcome.UNKNOWN, code="gateway_failed")

        return await asyncio.gather(*(ask_one(attempt) for attempt in batch.attempts))

    async def settle(self, answers: Answers, free: Sequence[OrderKey] = ()) -> None:
        """Record the answers, and mark free orders as paid. What fails alone is due again when its lease expires."""
        rows: list[tuple[Attempt, Charged] | OrderKey] = [*answers, *free]
        await run_leased(
            rows,
            self._settle,
            failure_event="charge_not_settled",
            describe=lambda row: {"order_id": row.id if isinstance(row, OrderKey) else row[0].request.order_id},
        )

    async def _settle(self, rows: Sequence[tuple[Attempt, Charged] | OrderKey]) -> None:
        answers = [row for row in rows if not isinstance(row, OrderKey)]
        free = [row for row in rows if isinstance(row, OrderKey)]
        async with self._database.transaction() as tx:
            await settle_charges(tx, answers, free, self._clock(), self._pace)

    async def _ask(self, attempt: Attempt) -> tuple[Attempt, Charged]:
        request = attempt.request
        if request.card == NO_CARD:
            message = "The account has no card: store one with `tonne card set`."
            return attempt, Charged(ChargeOutcome.REFUSED, code="no_card", message=message)
        gateway = self._gateways.get(attempt.gateway)
        # One that is paid on the gateway's page is never sent from here, only asked about.
        is_unsent = attempt.is_new and not is_paid_on_page(request.card)
        if gateway is None:
            _log.error("card_gateway_not_set_up", gateway=attempt.gateway, charge_id=request.id)
            kind = ChargeOutcome.UNAVAILABLE if is_unsent else ChargeOutcome.UNKNOWN
            return attempt, Charged(kind, code="gateway_not_set_up")
        if is_unsent:
            return attempt, await gateway.charge(request)
        found = await gateway.look_up(request)
        if found.kind is ChargeOutcome.NOT_FOUND and self._may_send_again(attempt):
            _log.warning("charge_sent_again", charge_id=request.id, order_id=request.order_id)
            sent = await gateway.charge(request)
            if sent.kind is ChargeOutcome.UNAVAILABLE:
                # That is said of this request alone: the first one may still turn up, so its id stays the only one.
                return attempt, found
            return replace(attempt, missing_since=None), sent
        return attempt, found

    def _may_send_again(self, attempt: Attempt) -> bool:
        """Under the same id, and only for an order that still wants it. See `RESEND_AFTER`."""
        if is_paid_on_page(attempt.request.card):
            return False
        since = attempt.missing_since
        return attempt.is_wanted and since is not None and self._clock() >= self._pace.resend_at(since)
