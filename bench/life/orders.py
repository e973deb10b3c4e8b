"""The environment of the life benchmarks: accounts with a card, orders that wait, and a `tonne worker`."""

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from bench.environment import Environment, Worker, open_environment
from bench.report import NotMeasured
from tonne.money.cards.gateways.card import CardDetails
from tonne.money.cards.stored_cards.stored_card_store import store_card
from tonne.platform.db.database import Connection
from tonne.platform.events.notification import EVERYTHING, send
from tonne.platform.values.context import utc_now
from tonne.selling.orders.model import OrderKey

# All charges of this test card succeed.
CARD = "4242424242424242"
EVENT_TYPES = ["order.received", "order.placed", "order.paid", "order.retiring", "order.completed"]
_CONNECTIONS = 16
_PLACE_FOR_S = 1.0


@dataclass(frozen=True, slots=True)
class Orders:
    environment: Environment

    async def place(self, count: int) -> list[OrderKey]:
        """Place this many orders through the api. They wait until `complete`."""
        async with self.environment.connection() as connection:
            # The api re-reads the accounts before the first order: it has had no request for longer than it caches.
            await connection.execute("UPDATE accounts SET auto_advance = false")
        placed = 0
        while placed < count:
            requests = self.environment.create_requests()
            placed += self.environment.run_load(requests, connections=_CONNECTIONS, seconds=_PLACE_FOR_S).answered
        async with self.environment.connection() as connection:
            return [OrderKey(*row) for row in await connection.fetch(NEWEST_PLACED, count)]

    def worker(self) -> AbstractAsyncContextManager[Worker]:
        # With the port of the api, which is part of the addresses of certificates and images.
        return self.environment.worker(port=self.environment.port)

    async def complete(self, keys: Sequence[OrderKey]) -> float:
        """Returns the seconds it took."""
        took_s = await self.advance(keys)
        await self.require_complete(keys)
        return took_s

    async def advance(self, keys: Sequence[OrderKey]) -> float:
        """Make these orders due at once, and wait until nothing is left to do. Returns the seconds it took."""
        async with self.environment.connection() as connection:
            async with connection.transaction():
                await connection.execute("UPDATE accounts SET auto_advance = true")
                await make_due(connection, keys, in_s=0)
                started = time.perf_counter()
            await send(connection, EVERYTHING)
        return await self.environment.wait_while(LEFT_TO_DO) - started

    async def require_complete(self, keys: Sequence[OrderKey]) -> None:
        """All of them are complete, and each has its five events in order."""
        async with self.environment.connection() as connection:
            newest = max(_NEWEST_EVENTS, len(keys) * len(EVENT_TYPES))
            complete = await connection.fetchval(COUNT_COMPLETE, *_columns(keys), EVENT_TYPES, newest)
        if complete != len(keys):
            raise NotMeasured(f"Only {complete} of {len(keys)} orders are complete with all their events.")


# By the index of the newest orders of an account: there may be millions of others.
NEWEST_PLACED = """
SELECT placed.account_id, placed.id
FROM accounts
CROSS JOIN LATERAL (SELECT account_id, id FROM orders
                    WHERE account_id = accounts.id AND created_at > now() - interval '1 hour'
                      AND status = 'placed' AND next_attempt_at IS NULL
                    ORDER BY created_at DESC LIMIT $1) placed
ORDER BY placed.id DESC LIMIT $1
"""
# An order is not due while it is being charged; its charge is. Nor is it while a registry retires its credits. All
# three tables have an index of what is due.
LEFT_TO_DO = """
SELECT EXISTS (SELECT FROM orders WHERE next_attempt_at IS NOT NULL)
    OR EXISTS (SELECT FROM charges WHERE next_attempt_at IS NOT NULL)
    OR EXISTS (SELECT FROM parcels WHERE status = 'to_retire')
"""
# Reads only the newest events of each stream: reading all would replace what the database has in memory.
_NEWEST_EVENTS = 2_000
COUNT_COMPLETE = """
SELECT count(*) FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id AND orders.status = 'complete'
JOIN (SELECT account_id, subject_id
      FROM event_streams stream
      CROSS JOIN LATERAL (SELECT account_id, subject_id, event_type, position FROM events
                          WHERE organisation_id = stream.organisation_id AND mode = stream.mode
                            AND position > stream.last_position - $4) event
      GROUP BY account_id, subject_id
      HAVING array_agg(event_type ORDER BY position) = $3::text[]) finished
  ON finished.account_id = keys.account_id AND finished.subject_id = keys.id
"""
MAKE_DUE = """
UPDATE orders SET next_attempt_at = now() + $3::float * interval '1 s'
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
WHERE orders.account_id = keys.account_id AND orders.id = keys.id
"""


async def make_due(connection: Connection, keys: Sequence[OrderKey], *, in_s: float) -> None:
    await connection.execute(MAKE_DUE, *_columns(keys), in_s)


def _columns(keys: Sequence[OrderKey]) -> tuple[list[str], list[str]]:
    return [key.account_id for key in keys], [key.id for key in keys]


@contextlib.asynccontextmanager
async def open_life() -> AsyncIterator[Orders]:
    async with open_environment() as environment:
        await store_cards(environment)
        yield Orders(environment)


async def store_cards(environment: Environment) -> None:
    """From now on all tenants pay by card."""
    async with environment.connection() as tx, tx.transaction():
        await tx.execute("UPDATE accounts SET payment_method = 'card'")
        for number, tenant in enumerate(environment.tenants):
            customer = f"cus_bench{number}"
            card = CardDetails(customer, CARD, "visa", CARD[-4:], "2049-12", fingerprint=customer)
            await store_card(tx, tenant.scope, card, gateway="simulated", now=utc_now())
