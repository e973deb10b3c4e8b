"""Many orders at once: through outages of the database, with four workers and cancellations, with a frozen worker."""

import asyncio

from chaos.cluster import SHORT_TIMES, Cluster
from chaos.life.buyers import Buyers, Way, open_buyers, short_leases
from chaos.life.kills import (
    HOLD_STREAMS,
    LOCK_GATEWAY,
    NOT_RECORDED,
    SETTINGS,
    interrupt_charges,
    start_warm_worker,
)
from chaos.scenario import scenario
from tests.support.processes import Process

OUTAGES = 2
# All attempts for a card that is always declined take five seconds.
FAST = {**SHORT_TIMES, "payment_time_scale": "0.000015"}
UNFINISHED = "SELECT count(*) FROM orders WHERE status NOT IN ('complete', 'failed', 'cancelled')"


@scenario("orders-through-outages", settings=FAST)
async def orders_through_outages(cluster: Cluster) -> None:
    """All confirmed orders are completed, also those that were in progress when PostgreSQL was stopped."""
    cluster.log_errors_expected = True
    fired = cluster.announce("PostgreSQL stopped hard and restarted", OUTAGES)
    in_progress = cluster.announce("orders in progress then", OUTAGES)
    repeated = cluster.announce("order requests that failed and were sent again")
    ways = [Way.GOOD, Way.ANSWER_LOST, Way.DECLINED_TWICE, Way.INVOICE]
    buyers = await open_buyers(cluster, ways)
    for _ in range(2):
        cluster.start_worker()
    await buyers.until_complete(await buyers.order([Way.GOOD, Way.INVOICE]))
    stop = asyncio.Event()

    async def place_orders() -> None:
        while not stop.is_set():
            await buyers.order_some(ways, 3)
            await asyncio.sleep(0.05)

    async with short_leases(cluster):
        async with asyncio.TaskGroup() as clients:
            clients.create_task(place_orders())
            for _ in range(OUTAGES):
                await asyncio.sleep(cluster.rng.uniform(0.5, 1.5))
                await cluster.restart_postgres(0.5)
                fired()
                in_progress(await cluster.fetchval(UNFINISHED))
            stop.set()
        repeated(cluster.failed_requests)
        cluster.notes.append(f"{len(cluster.placed)} orders")
        await buyers.until_finished(40)


OPEN_CHARGES = "SELECT order_id FROM charges WHERE order_id = ANY ($1) AND status = 'pending'"
WAYS = (Way.GOOD, Way.REFUSED, Way.NO_MONEY, Way.DECLINED_TWICE, Way.NEEDS_AUTHENTICATION, Way.ANSWER_LOST, Way.INVOICE)
# In the log of the worker that settled a charge without success.
SETTLED = '"event":"charge_not_captured"'


@scenario("burst-of-cards", settings=FAST)
async def burst_of_cards(cluster: Cluster) -> None:
    """Four workers charge all kinds of cards while orders are cancelled: either payment or cancellation wins."""
    settled = [cluster.announce(f"settled by worker {number}") for number in range(1, 5)]
    while_charged = cluster.announce("cancelled while being charged", 4)
    in_time = cluster.announce("cancelled in a race with the payment")
    too_late = cluster.announce("paid in a race with the cancellation")
    buyers = await open_buyers(cluster, [*WAYS, Way.REQUEST_LOST])
    for _ in settled:
        cluster.start_worker()
    await buyers.order(WAYS * 4)
    lost = await buyers.order([Way.REQUEST_LOST] * 5)
    await cluster.until(
        lambda: all(SETTLED in worker.log.read_text() for worker in cluster.workers),
        "every worker has settled a charge",
    )
    async with cluster.holding(LOCK_GATEWAY):
        order_ids = await buyers.order([Way.GOOD] * 10)
        each_charges = f"SELECT count(*) >= $2 FROM ({OPEN_CHARGES}) AS open_charges"
        await cluster.until_true("the workers have open charges", each_charges, order_ids, len(settled), within_s=5)
        for row in await cluster.fetch(OPEN_CHARGES, order_ids):
            cancelled = await buyers.cancel(row["order_id"], Way.GOOD)
            cluster.require(cancelled, "an order could not be cancelled although its charge had no outcome yet")
            while_charged()

    async def race(way: Way) -> None:
        (order_id,) = await buyers.order([way])
        await asyncio.sleep(cluster.rng.uniform(0, 0.4))
        (in_time if await buyers.cancel(order_id, way) else too_late)()

    for _ in range(4):
        await asyncio.gather(
            *(race(way) for way in (Way.GOOD, Way.DECLINED_TWICE, Way.ANSWER_LOST, Way.INVOICE, Way.GOOD, Way.INVOICE))
        )
    # Nothing else ends an order whose requests are all lost.
    await asyncio.gather(*(buyers.cancel(order_id, Way.REQUEST_LOST) for order_id in lost))
    await buyers.until_finished()
    for fault, worker in zip(settled, cluster.workers, strict=True):
        fault(worker.log.read_text().count(SETTLED))


# The database ends a transaction that is idle for twice this time.
@scenario("frozen-while-charging", settings={**SETTINGS, "statement_timeout_s": "2"})
async def frozen_while_charging(cluster: Cluster) -> None:
    """Frozen with open charges until another worker has looked them up and settled them; then resumed."""
    ways = [Way.GOOD, Way.ANSWER_LOST]
    while_frozen = cluster.announce("charged by a frozen worker", 2)
    not_sent = cluster.announce("frozen before the charge was sent")
    buyers = await open_buyers(cluster, ways)
    await start_warm_worker(cluster, buyers, ways)
    frozen = cluster.workers[-1]
    charged, waiting = await interrupt_charges(cluster, buyers, ways, frozen.freeze)
    while_frozen(charged)
    not_sent(waiting)
    other = cluster.start_worker()
    await buyers.until_finished()
    frozen.resume()
    await _freeze_while_settling(cluster, buyers, frozen=other, other=frozen)
    await buyers.order(ways)
    await buyers.until_finished()


IDLE_IN_TRANSACTION = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'tonne' AND state = 'idle in transaction'
"""


async def _freeze_while_settling(cluster: Cluster, buyers: Buyers, *, frozen: Process, other: Process) -> None:
    """Frozen with locks on the orders and the stream of events: the database must end the transaction."""
    cluster.log_errors_expected = True  # the database closes the connection of the frozen worker
    fired = cluster.announce("frozen inside the settlement")
    for worker in (frozen, other):
        worker.freeze()
    order_ids = await buyers.order([Way.GOOD] * 4)
    async with cluster.holding(HOLD_STREAMS):
        frozen.resume()
        await cluster.until_waiting_in("event_streams")
        frozen.freeze()
    await cluster.until_true("the frozen worker holds its locks", IDLE_IN_TRANSACTION)
    fired(await cluster.fetchval(NOT_RECORDED, order_ids) == len(order_ids))
    other.resume()
    await buyers.until_finished()
    frozen.resume()
