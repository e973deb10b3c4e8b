"""Place orders for clients. Requests that arrive while a transaction commits share the next one."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import asyncpg
import msgspec
from msgspec import structs

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.db.group_commit import LOCK_WITHIN_S, GroupCommit, NotWritten, QueueFull
from tonne.platform.db.idempotency import Idempotency, create_once
from tonne.platform.events.log import append_to_streams, list_unlocked_streams
from tonne.platform.events.notification import Notifier, Stream
from tonne.platform.http.limits.fair_share import FairShare
from tonne.platform.http.limits.rate_limit import Quota, rate_limited
from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.instruments import Metric
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Scope
from tonne.platform.values.errors import TonneError
from tonne.platform.values.spending_limit import SpendingLimit
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.estimates.store import EstimateKey, find_masses_grams
from tonne.selling.orders import store
from tonne.selling.orders.model import Order
from tonne.selling.orders.placing.insert_store import KeyOfClient, find_by_keys, insert_orders
from tonne.selling.orders.placing.place_order import ComposedOrder, OrderRequest, compose_order, place_order
from tonne.selling.orders.queue import work_after

# The document of the new order and None; or of the original with the key, and the digest of the original request.
Placed = tuple[bytes, bytes | None]
Outcome = Placed | NotWritten


class WantedOrder(msgspec.Struct, frozen=True):
    """A valid request, with everything that is needed to price it."""

    scope: Scope
    request: OrderRequest
    terms: Terms
    catalogue: Catalogue
    limits: Sequence[SpendingLimit]
    # The trace of the request, for the events of the order.
    trace: str | None = msgspec.field(default_factory=tracing.sampled_context)

    @property
    def stream(self) -> Stream:
        return Stream(self.scope.organisation_id, self.scope.mode)


async def place_batch(
    connection: Connection,
    batch: Sequence[WantedOrder],
    on_commit: Callable[[Order], None],
    *,
    now: datetime,
    retry_after: timedelta,
) -> list[Outcome]:
    """The outcome of each order. Those that were not written must be placed alone, which also reports their errors.

    If a stream of events stays locked, its orders are left out, and the others are placed. `on_commit` gets each new
    order.
    """
    composed = await _compose(connection, batch, now, retry_after)
    outcomes: dict[int, Outcome] = dict.fromkeys(range(len(batch)), NotWritten.NEEDS_OWN_ATTEMPT)
    try:
        outcomes |= await _write(connection, composed, on_commit, now)
    except asyncpg.LockNotAvailableError:
        outcomes |= dict.fromkeys(composed, NotWritten.LOCKED)
        streams = {batch[number].stream for number in composed}
        unlocked = await list_unlocked_streams(connection, list(streams))
        # If all are unlocked, the lock was another one, and it is not known whose.
        if unlocked != streams:
            rest = {number: each for number, each in composed.items() if batch[number].stream in unlocked}
            with contextlib.suppress(asyncpg.LockNotAvailableError):
                outcomes |= await _write(connection, rest, on_commit, now)
    return [outcomes[number] for number in range(len(batch))]


async def _compose(
    connection: Connection, batch: Sequence[WantedOrder], now: datetime, retry_after: timedelta
) -> dict[int, ComposedOrder]:
    """The orders that can be placed, by their number in the batch."""
    named = {
        number: EstimateKey(requested.scope.account_id, requested.request.estimate_id)
        for number, requested in enumerate(batch)
        if requested.request.estimate_id is not None
    }
    masses = await find_masses_grams(connection, list(set(named.values()))) if named else {}
    composed: dict[int, ComposedOrder] = {}
    for number, order in enumerate(batch):
        amount = order.request.requested
        if number in named:
            if named[number] not in masses:
                continue
            amount = structs.replace(amount, mass_grams=masses[named[number]])
        if not order.terms.takes_orders:
            continue
        try:
            with tracing.attached(order.trace):
                composed[number] = compose_order(
                    order.scope, order.request, amount, order.terms, order.catalogue, now=now, retry_after=retry_after
                )
        except TonneError:
            continue
    return composed


SET_LOCK_TIMEOUT = f"SET LOCAL lock_timeout = {int(LOCK_WITHIN_S * 1000)}"


async def _write(
    connection: Connection, composed: dict[int, ComposedOrder], on_commit: Callable[[Order], None], now: datetime
) -> dict[int, Outcome]:
    """Write the orders, and read the originals of those whose keys are taken."""
    if not composed:
        return {}
    async with connection.transaction():
        await connection.execute(SET_LOCK_TIMEOUT)
        inserted = await insert_orders(connection, [each.new for each in composed.values()])
        events = [
            (each.new.order.scope, event)
            for each in composed.values()
            if each.new.order.id in inserted
            for event in each.events
        ]
        if events:
            await append_to_streams(connection, events, now)
    for each in composed.values():
        if each.new.order.id in inserted:
            on_commit(each.new.order)
    replayed = {
        number: KeyOfClient(each.new.order.scope.account_id, each.new.order.idempotency_key)
        for number, each in composed.items()
        if each.new.order.id not in inserted
    }
    outcomes: dict[int, Outcome] = {number: (each.new.document, None) for number, each in composed.items()}
    if replayed:
        try:
            originals = await find_by_keys(connection, list(set(replayed.values())))
        except DATABASE_ERRORS:
            # The new orders are committed, so they must not get this error.
            originals = {}
        outcomes |= {number: originals.get(key, NotWritten.NEEDS_OWN_ATTEMPT) for number, key in replayed.items()}
    return outcomes


# A transaction that the database ended to resolve a deadlock is tried again: it has changed nothing.
_DEADLOCK_RETRIES = 2
_DEADLOCK_PAUSE_MS = 50
_RETRY_AFTER_S = 2
_TOO_MANY = "Too many orders of your organisation wait to be placed. Wait for the number of seconds in Retry-After."


class PlaceOrders:
    """Limits itself what one organisation uses at a time: a request that waits for its batch uses no connection."""

    def __init__(
        self,
        database: Database,
        catalogues: Catalogues,
        directory: AccountDirectory,
        *,
        clock: Clock,
        settings: Settings,
        notifier: Notifier,
        shares: FairShare,
    ) -> None:
        self._database = database
        self._catalogues = catalogues
        self._directory = directory
        self._clock = clock
        self._retry_after = timedelta(seconds=settings.pricing_retry_s)
        self._notifier = notifier
        self._shares = shares
        self._group: GroupCommit[WantedOrder, Placed] = GroupCommit(
            self._place_batch, self._place_alone, wait_s=settings.statement_timeout_s
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return self._group.metrics

    async def place(
        self,
        scope: Scope,
        idempotency: Idempotency,
        read: Callable[[Terms], OrderRequest],
        *,
        key_id: str | None = None,
    ) -> Placed:
        """The document of the new order; or of the original with this key, and the digest of the original request."""
        await self._shares.enter(scope.organisation_id)
        try:
            terms, catalogue = await self._directory.terms_of(scope), await self._catalogues.current(scope.mode)
            limits = await self._directory.limits_of(scope, key_id)
            try:
                request = read(terms)
            except TonneError:
                original = None if idempotency.key is None else await self._find(scope, idempotency.key)
                if original is None:
                    raise
                return original
        finally:
            self._shares.leave(scope.organisation_id)
        requested = WantedOrder(scope, request, terms, catalogue, limits)
        if limits or request.user is not None or request.quote_id is not None:
            # Limits are counted, audit entries written and quotes used with each order alone.
            return await self._group.write_apart(requested)
        try:
            return await self._group.write(f"{scope.organisation_id} {scope.mode}", requested)
        except QueueFull:
            raise rate_limited(Quota(allowed=False, remaining=0, retry_after_s=_RETRY_AFTER_S), _TOO_MANY) from None

    async def drain(self) -> None:
        """Until all orders that were accepted are placed."""
        await self._group.drain()

    async def _find(self, scope: Scope, idempotency_key: str) -> tuple[bytes, bytes] | None:
        return await self._database.run(store.find_by_key, scope, idempotency_key)

    async def _place_batch(self, batch: Sequence[WantedOrder]) -> list[Outcome]:
        return await self._database.run(
            place_batch, batch, self._notify, now=self._clock(), retry_after=self._retry_after
        )

    def _notify(self, order: Order) -> None:
        self._notifier.notify(*work_after(order), scope=order.scope)

    async def _place_alone(self, requested: WantedOrder) -> Placed:
        organisation_id = requested.scope.organisation_id
        await self._shares.enter(organisation_id)
        try:
            for _ in range(_DEADLOCK_RETRIES):
                with contextlib.suppress(asyncpg.DeadlockDetectedError):
                    return await self._place_once(requested)
                # The other transaction goes first, or both would wait for each other again.
                await asyncio.sleep(_DEADLOCK_PAUSE_MS / 1000)
            return await self._place_once(requested)
        finally:
            self._shares.leave(organisation_id)

    async def _place_once(self, requested: WantedOrder) -> Placed:
        scope, request = requested.scope, requested.request
        async with self._database.connection() as connection:

            async def create() -> bytes | None:
                async with connection.transaction():
                    placed = await place_order(
                        connection,
                        scope,
                        request,
                        requested.terms,
                        requested.catalogue,
                        now=self._clock(),
                        retry_after=self._retry_after,
                        limits=requested.limits,
                    )
                if placed is None:
                    return None
                self._notify(placed.order)
                return placed.document

            return await create_once(
                request.idempotency.key, create, lambda key: store.find_by_key(connection, scope, key)
            )
