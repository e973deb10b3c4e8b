"""An organisation whose orders advance by themselves, and the final status that each must reach."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import asyncpg

from chaos.cluster import Cluster
from chaos.model import NotAsExpected, Organisation, Payment, Refused
from tonne.accounts.store import add_admin
from tonne.base.clock import utc_now
from tonne.base.scope import Scope
from tonne.gateways.outbox import LEASE as MAIL_LEASE
from tonne.invoices.follow_up_invoices import LEASE as INVOICE_LEASE

INVOICE = "invoice"
# Paid by a valid card, and advanced only by the test helpers.
HELPED = "helped"
GOOD = "4242424242424242"
REFUSED = "4000000000000002"
NO_MONEY = "4000000000009995"
DECLINED_TWICE = "4000000000000341"
NEEDS_AUTHENTICATION = "4000002500003155"
ANSWER_LOST = "4000000000000259"
REQUEST_LOST = "4000000000000267"

# The final status of an order that is paid in this way, unless it is cancelled in time.
FINAL_STATUS: Mapping[str, str] = {
    INVOICE: "complete",
    HELPED: "complete",
    GOOD: "complete",
    REFUSED: "failed",
    NO_MONEY: "failed",
    DECLINED_TWICE: "complete",
    NEEDS_AUTHENTICATION: "failed",
    ANSWER_LOST: "complete",
    REQUEST_LOST: "cancelled",
}
PAYMENTS = {INVOICE: Payment(None, auto_advance=True), HELPED: Payment(GOOD)}


@dataclass(frozen=True, slots=True)
class Buyers:
    """`scopes` has an account for each way to pay: a card number, `INVOICE` or `HELPED`."""

    cluster: Cluster
    organisation: Organisation
    scopes: Mapping[str, Scope]

    async def order(self, ways: Sequence[str], at_once: int = 6) -> list[str]:
        """Place one order over HTTP for each of these ways to pay. Returns their ids."""
        slots = asyncio.Semaphore(at_once)

        async def order_one(way: str) -> str:
            async with slots:
                order_id = await self.cluster.place_one(self.organisation, self.scopes[way])
            self.cluster.final_statuses[order_id] = FINAL_STATUS[way]
            return order_id

        return await asyncio.gather(*map(order_one, ways))

    async def order_some(self, ways: Sequence[str], count: int) -> list[str]:
        """Orders whose way to pay is chosen at random."""
        return await self.order([self.cluster.rng.choice(ways) for _ in range(count)])

    async def cancel(self, order_id: str, way: str) -> bool:
        """Over HTTP. False if the payment came first."""
        try:
            await self._post(f"/v1/orders/{order_id}/cancel", way, {"reason": "chaos"})
        except Refused as refused:
            if refused.status != 409:
                raise
            return False
        self.cluster.final_statuses[order_id] = "cancelled"
        return True

    async def help(self, order_id: str, *verbs: str) -> None:
        for verb in verbs:
            await self._post(f"/v1/test-helpers/orders/{order_id}/{verb}", HELPED)

    async def _post(self, path: str, way: str, body: object = None) -> None:
        account_id = self.scopes[way].account_id
        await self.cluster.call(self.organisation, "POST", path, body, account_id=account_id)


async def open_buyers(cluster: Cluster, ways: Sequence[str]) -> Buyers:
    """With an administrator who gets the mail, and a receiver that gets every event."""
    payments = [PAYMENTS.get(way, Payment(way, auto_advance=True)) for way in ways]
    organisation = await cluster.open_organisation(payments)
    async with cluster.connection() as tx, tx.transaction():
        await add_admin(tx, organisation.id, "admin@buyer.example", utc_now())
    await cluster.register(organisation, await cluster.receiver("receiver"))
    return Buyers(cluster, organisation, dict(zip(ways, organisation.scopes, strict=True)))


UNFINISHED = """
SELECT format('order %s is %s', id, status) AS what FROM orders WHERE status NOT IN ('complete', 'failed', 'cancelled')
UNION ALL
SELECT format('charge %s of order %s is %s, last outcome: %s', id, order_id, status, coalesce(outcome, 'none'))
FROM charges WHERE status IN ('pending', 'refund_due')
UNION ALL
SELECT format('mail %s was not sent: %s', id, coalesce(last_error, 'not tried')) FROM mails WHERE sent_at IS NULL
"""


async def until_finished(cluster: Cluster, within_s: float = 30.0) -> None:
    """All orders have a final status, all charges and mails are done, and all events have arrived."""

    async def nothing_is_left() -> bool:
        return not await cluster.fetch(UNFINISHED)

    try:
        await cluster.until(nothing_is_left, "every order was finished", within_s, every_s=0.1)
    except NotAsExpected as error:
        left = [row["what"] for row in await cluster.fetch(UNFINISHED)]
        raise NotAsExpected(f"{error}: {len(left)} are left, such as {'; '.join(left[:4])}") from error
    await cluster.until_delivered()


COMPLETE = "SELECT count(*) = cardinality($1::text[]) FROM orders WHERE id = ANY ($1) AND status = 'complete'"


async def until_complete(cluster: Cluster, order_ids: Sequence[str]) -> None:
    await cluster.until_true(f"{len(order_ids)} orders are complete", COMPLETE, order_ids)


SHORTEN_INVOICE_LEASES = """
UPDATE invoices SET next_attempt_at = clock_timestamp()
WHERE status = 'open' AND next_attempt_at BETWEEN clock_timestamp() AND clock_timestamp() + $1::interval
"""
SHORTEN_MAIL_LEASES = """
UPDATE mails SET next_attempt_at = clock_timestamp()
WHERE sent_at IS NULL AND next_attempt_at BETWEEN clock_timestamp() AND clock_timestamp() + $1::interval
"""


@contextlib.asynccontextmanager
async def short_leases(cluster: Cluster, lease_s: float = 3.0) -> AsyncIterator[None]:
    """The leases of invoices and mails expire after this time instead of two minutes. No setting does that.

    If the worker still runs, two workers have the same task: the promises hold nevertheless.
    """
    shorter = timedelta(seconds=lease_s)

    async def shorten() -> None:
        while True:
            # Errors are expected while PostgreSQL is stopped.
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await cluster.fetch(SHORTEN_INVOICE_LEASES, INVOICE_LEASE - shorter)
                await cluster.fetch(SHORTEN_MAIL_LEASES, MAIL_LEASE - shorter)
            await asyncio.sleep(0.25)

    task = asyncio.create_task(shorten())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


WAITING_IN = """
SELECT (count(*) > 0) = $2 FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'tonne' AND wait_event_type = 'Lock' AND query LIKE $1
"""


async def until_waiting_in(cluster: Cluster, statement: str, *, waiting: bool = True) -> None:
    """A worker waits in this statement for a lock that we hold; or none waits there any more."""
    what = f"{'a' if waiting else 'no'} worker waits in {statement}"
    await cluster.until_true(what, WAITING_IN, f"%{statement}%", waiting)
