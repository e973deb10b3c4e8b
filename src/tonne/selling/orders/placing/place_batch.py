"""Place a batch of orders of any accounts in one transaction."""

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import asyncpg
import msgspec
from msgspec import structs

from tonne.platform.db.database import Connection
from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.db.group_commit import LOCK_WITHIN_S, NotWritten
from tonne.platform.events.log import append_to_streams, list_unlocked_streams
from tonne.platform.events.notification import Stream
from tonne.platform.process.telemetry import tracing
from tonne.platform.values.context import Scope
from tonne.platform.values.errors import TonneError
from tonne.platform.values.spending_limit import SpendingLimit
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.estimates.store import EstimateKey, find_masses_grams
from tonne.selling.orders.model import Order
from tonne.selling.orders.placing.insert_store import KeyOfClient, find_by_keys, insert_orders
from tonne.selling.orders.placing.place_order import ComposedOrder, OrderRequest, compose_order

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
