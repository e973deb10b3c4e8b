"""SIGKILL while money goes back: between refund and record, and in a race of cancellation and allocation."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import aiohttp

from chaos.cluster import Cluster
from chaos.life.buyers import Buyers, Way, open_buyers
from chaos.life.kills import ALLOCATE, HOLD_ORDERS, IDLE, LOCK_SHARES, SETTINGS
from chaos.money.commands import LOCK_AUDIT, RECORD
from chaos.scenario import scenario
from tests.support.processes import Process
from tonne.platform.values.context import new_id

ALLOW_REFUNDS = "UPDATE accounts SET refunds_by_api = true"
LOCK_REFUNDS_AT_GATEWAY = "LOCK TABLE simulated_refunds IN SHARE MODE"
REFUND_AT_GATEWAY = "INSERT INTO simulated_refunds"
# More than the service sends to its gateway at once.
MANY = 20
# In cents. Two of them are less than the cheapest order.
AMOUNT_MINOR = 10

# Refunds that the gateway has executed or accepted, and that are not recorded.
NOT_RECORDED = """
SELECT count(*) FROM refunds JOIN simulated_refunds simulated ON simulated.id = refunds.id
WHERE refunds.id = ANY ($1) AND refunds.state = 'due'
"""
STATES = "SELECT DISTINCT state FROM refunds WHERE id = ANY ($1)"
SUCCEEDED = "SELECT count(*) = cardinality($1::text[]) FROM refunds WHERE id = ANY ($1) AND state = 'succeeded'"
# Leases are shorter than this: only waits for the next look or attempt are.
HASTEN_REFUNDS = """
UPDATE refunds SET next_attempt_at = clock_timestamp()
WHERE state IN ('due', 'pending') AND next_attempt_at > clock_timestamp() + interval '1 minute'
"""


@scenario("kill-while-refunding", within_s=90, settings=SETTINGS)
async def kill_while_refunding(cluster: Cluster) -> None:
    """The gateway has refunded and the worker is dead: its successor repeats the refund under the same id."""
    recording = cluster.announce("killed between refund and record", 6)
    settling = cluster.announce("killed inside the settlement of a refund")
    in_flight = cluster.announce("refunded after the worker was killed")
    not_sent = cluster.announce("killed before the refund was sent")
    ways = [Way.GOOD, Way.REFUND_PENDS, Way.REFUND_FAILS_TWICE]
    buyers = await open_buyers(cluster, ways)
    await cluster.execute(ALLOW_REFUNDS)
    orders = [(way, order_id) for way in ways for order_id in await buyers.order([way] * 2)]
    many = [(Way.GOOD, order_id) for order_id in await buyers.order([Way.GOOD] * MANY)]
    worker = cluster.start_worker()
    await buyers.until_complete([order_id for _, order_id in (*orders, *many)])
    worker.kill()

    refund_ids = await _request_refunds(buyers, orders)
    async with cluster.holding(HOLD_ORDERS, [order_id for _, order_id in orders]):
        worker = cluster.start_worker()
        all_made = f"SELECT ({NOT_RECORDED}) = cardinality($1::text[])"
        await cluster.until_true("the gateway has refunded, and nothing is recorded", all_made, refund_ids)
        await cluster.until_waiting_in("orders")
        worker.kill()
        recording(await cluster.fetchval(NOT_RECORDED, refund_ids))

    refund_ids = await _request_refunds(buyers, orders)
    async with cluster.holding(LOCK_AUDIT):
        worker = cluster.start_worker()
        await cluster.until_waiting_in(RECORD)
        worker.kill()
    await cluster.until_true("the killed worker's transactions have ended", IDLE)
    states = [row["state"] for row in await cluster.fetch(STATES, refund_ids)]
    cluster.require(states == ["due"], f"refunds are {' and '.join(states)} and should still be due")
    settling()

    made, waiting = await _interrupt_refunds(cluster, buyers, many)
    in_flight(made)
    not_sent(waiting)

    cluster.start_worker()
    async with hastened_refunds(cluster):
        await buyers.until_finished()
    expected = dict.fromkeys([order_id for _, order_id in (*orders, *many)], 2 * AMOUNT_MINOR)
    await _require_refunded(cluster, expected)


async def _request_refunds(buyers: Buyers, orders: Sequence[tuple[Way, str]]) -> list[str]:
    """Request a partial refund of each order over HTTP. Returns the ids of the refunds."""

    async def request(way: Way, order_id: str) -> str:
        body = {"amount": f"{AMOUNT_MINOR / 100:.2f}", "reason": "chaos", "idempotency_key": new_id("key")}
        refund = await buyers.post(f"/v1/orders/{order_id}/refunds", way, body)
        return str(refund["id"])

    return await asyncio.gather(*(request(way, order_id) for way, order_id in orders))


async def _interrupt_refunds(cluster: Cluster, buyers: Buyers, orders: Sequence[tuple[Way, str]]) -> tuple[int, int]:
    """Kill a worker whose requests have reached the gateway. Returns how many refunds were made, and how many not.

    The worker has refunded these orders before: otherwise it would still prepare its statements.
    """
    worker = cluster.start_worker()
    warm = await _request_refunds(buyers, orders)
    await cluster.until_true("the refunds have succeeded", SUCCEEDED, warm)
    worker.freeze()
    refund_ids = await _request_refunds(buyers, orders)
    async with cluster.holding(LOCK_REFUNDS_AT_GATEWAY):
        worker.resume()
        await cluster.until_waiting_in(REFUND_AT_GATEWAY)
        await asyncio.sleep(0.1)
        worker.kill()
    await cluster.until_waiting_in(REFUND_AT_GATEWAY, waiting=False)
    made: int = await cluster.fetchval(NOT_RECORDED, refund_ids)
    return made, len(refund_ids) - made


@contextlib.asynccontextmanager
async def hastened_refunds(cluster: Cluster) -> AsyncIterator[None]:
    """Pending refunds are looked at, and failed ones repeated, at once instead of after minutes or hours."""

    async def hasten() -> None:
        while True:
            await cluster.execute(HASTEN_REFUNDS)
            await asyncio.sleep(0.1)

    task = asyncio.create_task(hasten())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


# What was refunded of each order: as the gateway, our refunds, and the order itself say.
REFUNDED = """
SELECT orders.id, orders.refunded_minor AS by_order,
       coalesce((SELECT sum(refunds.amount_minor) FROM refunds
                 WHERE refunds.order_id = orders.id AND refunds.state = 'succeeded'), 0) AS by_refunds,
       coalesce((SELECT sum(simulated.amount_minor) FROM charges
                 JOIN simulated_refunds simulated ON simulated.reference = charges.reference
                 WHERE charges.order_id = orders.id AND simulated.status = 'refunded'), 0) AS by_gateway
FROM orders
"""
# Each refund that the gateway made is one of ours, with the same outcome.
UNKNOWN_REFUNDS = """
SELECT simulated.id FROM simulated_refunds simulated LEFT JOIN refunds ON refunds.id = simulated.id
WHERE refunds.state IS DISTINCT FROM CASE simulated.status WHEN 'refunded' THEN 'succeeded' ELSE simulated.status END
"""


async def _require_refunded(cluster: Cluster, expected: dict[str, int]) -> None:
    """The gateway has refunded each order by this amount, no less and no more."""
    for row in await cluster.fetch(REFUNDED):
        amounts = (row["by_order"], row["by_refunds"], row["by_gateway"])
        requested = expected.get(row["id"], 0)
        cluster.require(
            set(amounts) == {requested},
            f"order {row['id']} should be refunded by {requested}, but order, refunds and gateway say {amounts}",
        )
    unknown = await cluster.fetch(UNKNOWN_REFUNDS)
    cluster.require(not unknown, f"{len(unknown)} refunds at the gateway are not recorded as they ended")
    cluster.notes.append(f"{await cluster.fetchval('SELECT count(*) FROM simulated_refunds')} refunds at the gateway")


LOCK_ORDER = "FOR NO KEY UPDATE OF orders"
LOCK_REFUNDS = "LOCK TABLE refunds IN SHARE MODE"
RACES = 2
PAID = "SELECT count(*) = cardinality($1::text[]) FROM orders WHERE id = ANY ($1) AND status = 'paid'"
# Cancelled orders without exactly one refund, and others with one.
WRONGLY_REFUNDED = """
SELECT orders.id FROM orders
LEFT JOIN refunds ON refunds.account_id = orders.account_id AND refunds.order_id = orders.id
GROUP BY orders.id, orders.status, orders.payment_state
HAVING count(refunds.id) FILTER (WHERE refunds.state = 'succeeded' AND refunds.purpose = 'cancellation')
       <> CASE WHEN orders.status = 'cancelled' AND orders.payment_state = 'refunded' THEN 1 ELSE 0 END
"""
CANCELLED_WITH_GRAMS = """
SELECT orders.id FROM orders JOIN shares ON shares.account_id = orders.account_id AND shares.order_id = orders.id
WHERE orders.status = 'cancelled'
"""


@scenario("kill-while-cancelling-paid", within_s=90, settings=SETTINGS)
async def kill_while_cancelling_paid(cluster: Cluster) -> None:
    """Cancellation with a refund against allocation: each order is cancelled with one refund, or allocated."""
    allocating = cluster.announce("allocation killed while the cancellation waited for it", 3)
    cancelling = cluster.announce("api killed inside the cancellation", 2)
    in_time = cluster.announce("cancelled in a race with the allocation")
    too_late = cluster.announce("allocated in a race with the cancellation")
    buyers = await open_buyers(cluster, [Way.GOOD])
    await cluster.execute(ALLOW_REFUNDS)
    order_ids = await buyers.order([Way.GOOD] * 6)
    async with cluster.holding(LOCK_SHARES):
        worker = cluster.start_worker()
        await cluster.until_waiting_in(ALLOCATE)
        cancelled = [asyncio.create_task(buyers.cancel(id_, Way.GOOD, refund=True)) for id_ in order_ids[:3]]
        await cluster.until_waiting_in(LOCK_ORDER)
        worker.kill()
    for outcome in await asyncio.gather(*cancelled):
        cluster.require(outcome, "an order could not be cancelled although its allocation was rolled back")
        allocating(outcome)
    await cluster.until_true("the other orders are paid", PAID, order_ids[3:])

    async with cluster.holding(LOCK_REFUNDS):
        cut_off = [asyncio.create_task(buyers.cancel(id_, Way.GOOD, refund=True)) for id_ in order_ids[4:]]
        await cluster.until_waiting_in("INSERT INTO refunds")
        assert cluster.api is not None
        cluster.api.kill()
        for result in await asyncio.gather(*cut_off, return_exceptions=True):
            cancelling(isinstance(result, aiohttp.ClientError))
    await cluster.until_true("the killed api's transactions have ended", IDLE)
    await cluster.until_true("the cancellations were rolled back", PAID, order_ids[3:])
    await cluster.start_api()

    for _ in range(RACES):
        worker = cluster.start_worker()
        await buyers.until_complete(await buyers.order([Way.GOOD]))
        worker.freeze()
        for is_cancelled in await _race(cluster, buyers, worker):
            (in_time if is_cancelled else too_late)()
        worker.kill()
    cluster.start_worker()
    async with hastened_refunds(cluster):
        await buyers.until_finished()
    wrong = await cluster.fetch(WRONGLY_REFUNDED)
    cluster.require(not wrong, f"{len(wrong)} orders have not the refund that their status requires")
    held = await cluster.fetch(CANCELLED_WITH_GRAMS)
    cluster.require(not held, f"{len(held)} cancelled orders hold credits")


async def _race(cluster: Cluster, buyers: Buyers, worker: Process) -> list[bool]:
    """Cancel paid orders one after the other while a worker begins to allocate them. Whether each was cancelled."""
    order_ids = await buyers.order([Way.GOOD] * 8)
    for order_id in order_ids:
        await buyers.post(f"/v1/test-helpers/orders/{order_id}/pay", Way.GOOD)

    async def cancel_later(number: int, order_id: str) -> bool:
        await asyncio.sleep(0.1 * number + cluster.rng.uniform(0, 0.1))
        return await buyers.cancel(order_id, Way.GOOD, refund=True)

    cancellations = [asyncio.create_task(cancel_later(*each)) for each in enumerate(order_ids)]
    await asyncio.sleep(0.25)
    worker.resume()
    return await asyncio.gather(*cancellations)
