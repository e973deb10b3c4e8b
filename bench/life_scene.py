"""What the benchmarks of an order's life stand on: accounts with a card, orders that wait, and a `tonne worker`."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from bench.checks import NotMeasured
from bench.requests import creates
from bench.stage import Stage, set_stage
from bench.worker import Worker, working
from tonne.base.clock import utc_now
from tonne.cards.store import store_card
from tonne.db.pool import Connection
from tonne.events.notify import CHANNEL
from tonne.gateways.card import StoredCard
from tonne.orders.load_orders import OrderKey
from tonne.orders.model import EVENT_TYPES, OrderStatus

# The test card of which every charge succeeds.
CARD = "4242424242424242"
WALK = [
    EVENT_TYPES[status]
    for status in (
        OrderStatus.RECEIVED,
        OrderStatus.PLACED,
        OrderStatus.PAID,
        OrderStatus.RETIRING,
        OrderStatus.COMPLETE,
    )
]
_CONNECTIONS = 16
_PLACE_FOR_S = 1.0
_LOOK_EVERY_S = 0.03
_DONE_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Scene:
    stage: Stage

    async def place(self, count: int) -> list[OrderKey]:
        """So many new orders, placed through the api; they wait until `live`."""
        async with self.stage.connection() as connection:
            # The api learns of it in time: it was asked nothing since the last order was placed.
            await connection.execute(HOLD_BACK)
        placed = 0
        while placed < count:
            shots = creates(self.stage)
            outcome = self.stage.fire(shots, connections=_CONNECTIONS, warm_up_s=0, seconds=_PLACE_FOR_S)
            placed += outcome.answered
        async with self.stage.connection() as connection:
            return [OrderKey(*row) for row in await connection.fetch(NEWEST_PLACED, count)]

    def worker(self) -> AbstractAsyncContextManager[Worker]:
        """`tonne worker` with its defaults."""
        # The port stands in the addresses of certificates and images, as it does in those that the api writes.
        settings = {"TONNE_SECRET_KEY": secrets.token_urlsafe(32), "TONNE_PORT": str(self.stage.port)}
        return working(self.stage, settings)

    async def live(self, keys: Sequence[OrderKey]) -> float:
        """Let these orders go from placed to complete, all at once; the seconds until nothing is left to do."""
        async with self.stage.connection() as connection:
            async with connection.transaction():
                await connection.execute(LET_ADVANCE)
                await make_due(connection, keys, in_s=0)
                started = time.perf_counter()
            await connection.execute(f"NOTIFY {CHANNEL}")
            took_s = await _wait_until_done(connection) - started
        await self.require_lived(keys)
        return took_s

    async def require_lived(self, keys: Sequence[OrderKey]) -> None:
        """All of them are complete, and each has its five events in order."""
        async with self.stage.connection() as connection:
            lived = await connection.fetchval(
                COUNT_LIVED, [key.account_id for key in keys], [key.id for key in keys], WALK
            )
        if lived != len(keys):
            raise NotMeasured(f"Only {lived} of {len(keys)} orders are complete with all their events.")


HOLD_BACK = "UPDATE accounts SET auto_advance = false"
LET_ADVANCE = "UPDATE accounts SET auto_advance = true"
NEWEST_PLACED = """
SELECT account_id, id FROM orders WHERE status = 'placed' AND next_attempt_at IS NULL ORDER BY id DESC LIMIT $1
"""
MAKE_DUE = """
UPDATE orders SET next_attempt_at = now() + $3::float * interval '1 s'
FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
WHERE orders.account_id = wanted.account_id AND orders.id = wanted.id
"""
COUNT_LIVED = """
SELECT count(*) FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
JOIN orders ON orders.account_id = wanted.account_id AND orders.id = wanted.id AND orders.status = 'complete'
JOIN (SELECT account_id, subject_id FROM events GROUP BY account_id, subject_id
      HAVING array_agg(event_type ORDER BY position) = $3::text[]) walked
  ON walked.account_id = wanted.account_id AND walked.subject_id = wanted.id
"""


async def make_due(connection: Connection, keys: Sequence[OrderKey], *, in_s: float) -> None:
    await connection.execute(MAKE_DUE, [key.account_id for key in keys], [key.id for key in keys], in_s)


# An order whose charge is under way is not due itself: its charge is. Each of the two has an index of what is due.
LEFT_TO_DO = """
SELECT EXISTS (SELECT FROM orders WHERE next_attempt_at IS NOT NULL)
    OR EXISTS (SELECT FROM charges WHERE next_attempt_at IS NOT NULL)
"""


async def _wait_until_done(connection: Connection) -> float:
    """The time at which nothing was left to do."""
    # So that looking stays cheap, whatever the statistics say meanwhile.
    await connection.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
    look = await connection.prepare(LEFT_TO_DO)
    deadline = time.perf_counter() + _DONE_WITHIN_S
    while await look.fetchval():
        if time.perf_counter() > deadline:
            raise NotMeasured(f"After {_DONE_WITHIN_S:.0f} s there are still orders on their way.")
        await asyncio.sleep(_LOOK_EVERY_S)
    return time.perf_counter()


PAY_BY_CARD = "UPDATE accounts SET payment_method = 'card'"


@contextlib.asynccontextmanager
async def set_scene() -> AsyncIterator[Scene]:
    async with set_stage() as stage:
        async with stage.connection() as connection, connection.transaction():
            await connection.execute(PAY_BY_CARD)
            for number, tenant in enumerate(stage.tenants):
                card = StoredCard(f"cus_bench{number}", CARD, "visa", CARD[-4:], "2049-12")
                await store_card(connection, tenant.scope, card, gateway="simulated", now=utc_now())
        yield Scene(stage)
