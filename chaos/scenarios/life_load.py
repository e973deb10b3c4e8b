"""Many orders at once: through outages of the database, with four workers and cancellations, with a frozen worker."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from chaos.buyers import (
    ANSWER_LOST,
    DECLINED_TWICE,
    GOOD,
    INVOICE,
    NEEDS_AUTHENTICATION,
    NO_MONEY,
    REFUSED,
    REQUEST_LOST,
    Buyers,
    open_buyers,
    short_leases,
    until_ended,
    until_waiting_in,
)
from chaos.processes import Process
from chaos.scenarios.life_kills import (
    HOLD_STREAMS,
    LOCK_GATEWAY,
    NOT_RECORDED,
    WITHIN_S,
    charge_without,
    start_used_worker,
    until_complete,
)
from chaos.scenarios.life_kills import SETTINGS as KILLS
from chaos.scenarios.scenario import Scenario
from chaos.scene import QUICK, Scene

OUTAGES = 2
UNDER_WAY = "SELECT count(*) FROM orders WHERE status NOT IN ('complete', 'failed', 'cancelled')"


@contextlib.asynccontextmanager
async def _stream_of_orders(scene: Scene, buyers: Buyers, ways: Sequence[str]) -> AsyncIterator[None]:
    stop = asyncio.Event()

    async def keep_ordering() -> None:
        while not stop.is_set():
            await buyers.order([scene.rng.choice(ways) for _ in range(3)])
            await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as clients:
        clients.create_task(keep_ordering())
        try:
            yield
        finally:
            stop.set()


async def through_outages(scene: Scene) -> None:
    """Whatever was under way when PostgreSQL was stopped: every order that was answered with 2xx is completed."""
    scene.trouble_in_logs_is_meant = True
    fired = scene.faults.announce("PostgreSQL restarted hard", OUTAGES)
    under_way = scene.faults.announce("orders under way then", OUTAGES)
    sent_again = scene.faults.announce("order requests that failed and were sent again")
    ways = [GOOD, ANSWER_LOST, DECLINED_TWICE, INVOICE]
    buyers = await open_buyers(scene, ways)
    for _ in range(2):
        scene.start_worker()
    await until_complete(scene, await buyers.order([GOOD, INVOICE]))
    async with short_leases(scene):
        async with _stream_of_orders(scene, buyers, ways):
            for _ in range(OUTAGES):
                await asyncio.sleep(scene.rng.uniform(0.5, 1.5))
                await scene.postgres.stop_hard()
                await asyncio.sleep(scene.rng.uniform(0.0, 0.5))
                await scene.postgres.start()
                fired()
                for _ in range((await scene.fetch(UNDER_WAY))[0][0]):
                    under_way()
        for _ in range(scene.failed_requests):
            sent_again()
        scene.note(f"{len(scene.placed)} orders")
        await until_ended(scene, 40)


CHARGES_OPEN = "SELECT order_id FROM charges WHERE order_id = ANY ($1) AND status = 'pending'"
WAYS = (GOOD, REFUSED, NO_MONEY, DECLINED_TWICE, NEEDS_AUTHENTICATION, ANSWER_LOST, INVOICE)
# Not as it should go: written to the log of the worker that settled the charge.
SETTLED = '"event":"charge_not_as_hoped"'


async def burst_of_cards(scene: Scene) -> None:
    """Four workers charge all kinds of cards, while orders are cancelled: of payment and cancellation, one wins."""
    counters = [scene.faults.announce(f"settled by worker {number}") for number in range(1, 5)]
    while_charged = scene.faults.announce("cancelled while being charged", 4)
    in_time = scene.faults.announce("cancelled in a race with the payment")
    too_late = scene.faults.announce("paid in a race with the cancellation")
    buyers = await open_buyers(scene, [*WAYS, REQUEST_LOST])
    for _ in counters:
        scene.start_worker()
    await buyers.order(WAYS * 4)
    lost = await buyers.order([REQUEST_LOST] * 5)
    await _until_all_work(scene)
    async with scene.holding(LOCK_GATEWAY):
        order_ids = await buyers.order([GOOD] * 10)

        async def each_charges() -> bool:
            return len(await scene.fetch(CHARGES_OPEN, order_ids)) >= len(scene.workers)

        await scene.until(each_charges, "the workers have charges under way", 5, every_s=0.02)
        for row in await scene.fetch(CHARGES_OPEN, order_ids):
            cancelled = await buyers.cancel(row["order_id"], GOOD)
            scene.require(cancelled, "an order could not be cancelled although its charge had no outcome yet")
            while_charged()

    async def race(way: str) -> None:
        (order_id,) = await buyers.order([way])
        await asyncio.sleep(scene.rng.uniform(0, 0.4))
        (in_time if await buyers.cancel(order_id, way) else too_late)()

    for _ in range(4):
        await asyncio.gather(*(race(way) for way in (GOOD, DECLINED_TWICE, ANSWER_LOST, INVOICE, GOOD, INVOICE)))
    # Nothing else ends an order whose requests are all lost.
    await asyncio.gather(*(buyers.cancel(order_id, REQUEST_LOST) for order_id in lost))
    await until_ended(scene, 30)
    for number, counted in enumerate(counters):
        for _ in range(scene.workers[number].log.read_text().count(SETTLED)):
            counted()


async def _until_all_work(scene: Scene) -> None:
    async def holds() -> bool:
        return all(SETTLED in worker.log.read_text() for worker in scene.workers)

    await scene.until(holds, "every worker has settled a charge", WITHIN_S)


async def frozen_while_charging(scene: Scene) -> None:
    """Frozen with charges under way until another worker has asked about them and settled; then woken."""
    ways = [GOOD, ANSWER_LOST]
    asleep = scene.faults.announce("charged by a worker that slept", 2)
    not_sent = scene.faults.announce("frozen before the charge went out")
    buyers = await open_buyers(scene, ways)
    await start_used_worker(scene, buyers, ways)
    sleeper = scene.newest_worker
    charged, waiting = await charge_without(scene, buyers, ways, sleeper.freeze)
    for _ in range(charged):
        asleep()
    for _ in range(waiting):
        not_sent()
    other = scene.start_worker()
    await until_ended(scene, 30)
    sleeper.wake()
    await _freeze_while_settling(scene, buyers, sleeper=other, other=sleeper)
    await buyers.order(ways)
    await until_ended(scene, 30)


IDLE_IN_TRANSACTION = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'tonne' AND state = 'idle in transaction'
"""


async def _freeze_while_settling(scene: Scene, buyers: Buyers, *, sleeper: Process, other: Process) -> None:
    """Frozen with the orders and the stream of events locked: the database must end that by itself."""
    scene.trouble_in_logs_is_meant = True  # the sleeper's connection is cut
    fired = scene.faults.announce("frozen inside the settling")
    for worker in (sleeper, other):
        worker.freeze()
    order_ids = await buyers.order([GOOD] * 4)
    async with scene.holding(HOLD_STREAMS):
        sleeper.wake()
        await until_waiting_in(scene, "event_streams")
        sleeper.freeze()

    async def holds() -> bool:
        return bool((await scene.fetch(IDLE_IN_TRANSACTION))[0][0])

    await scene.until(holds, "the frozen worker holds its locks", WITHIN_S, every_s=0.02)
    if len(await scene.fetch(NOT_RECORDED, order_ids)) == len(order_ids):
        fired()
    other.wake()
    await until_ended(scene, 30)
    sleeper.wake()


# The database cuts a transaction off that nobody goes on with, after twice this time.
_FROZEN = {**KILLS, "TONNE_STATEMENT_TIMEOUT_S": "2"}
# The whole plan of a card that is declined again and again passes in five seconds.
_FAST = {**QUICK, "TONNE_PAYMENT_TIME_SCALE": "0.000015"}
SCENARIOS = (
    Scenario("orders-through-outages", through_outages, settings=_FAST),
    Scenario("burst-of-cards", burst_of_cards, settings=_FAST),
    Scenario("frozen-while-charging", frozen_while_charging, settings=_FROZEN),
)
