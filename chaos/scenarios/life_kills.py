"""kill -9 of a worker in the midst of an order's life, each point reached from outside by a lock that we hold."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import asyncpg

from chaos.buyers import (
    ANSWER_LOST,
    GOOD,
    HELPED,
    INVOICE,
    Buyers,
    open_buyers,
    short_leases,
    until_ended,
    until_none_waits_in,
    until_waiting_in,
)
from chaos.mail_server import Mailbox
from chaos.scenarios.scenario import Scenario
from chaos.scene import QUICK, Scene, Trouble

# A killed worker leaves its leases to run out: those of webhooks after a second, those of charges after five.
SETTINGS = {
    **QUICK,
    "TONNE_WEBHOOK_TIMEOUT_S": "1",
    "TONNE_WEBHOOK_LEASE_S": "1.5",
    "TONNE_PAYMENT_TIME_SCALE": "0.0001",
}
WITHIN_S = 20.0
# More than the service has under way at its gateway at once: some requests have not gone out yet.
MANY = 20

# The gateway takes no charge while we hold this, and tells of those that it has.
LOCK_GATEWAY = "LOCK TABLE simulated_charges IN SHARE MODE"
CHARGE_AT_GATEWAY = "INSERT INTO simulated_charges"
HOLD_ORDERS = "SELECT id FROM orders WHERE id = ANY ($1) FOR UPDATE"
NOT_RECORDED = """
SELECT orders.id FROM orders JOIN charges ON charges.account_id = orders.account_id AND charges.order_id = orders.id
JOIN simulated_charges simulated ON simulated.id = charges.id AND simulated.status = 'captured'
WHERE orders.id = ANY ($1) AND orders.status = 'placed' AND charges.status = 'pending'
"""


async def _until_charged(scene: Scene, order_ids: Sequence[str], at_least: int) -> None:
    """So many of these are charged at the gateway, and we have no record of it."""

    async def holds() -> bool:
        return len(await scene.fetch(NOT_RECORDED, order_ids)) >= at_least

    await scene.until(holds, "the gateway has charged, and nothing is recorded", WITHIN_S, every_s=0.02)


COMPLETE = "SELECT id FROM orders WHERE id = ANY ($1) AND status = 'complete'"


async def charge_without(
    scene: Scene, buyers: Buyers, ways: Sequence[str], stop_worker: Callable[[], None]
) -> tuple[int, int]:
    """Have the newest worker begin to charge many orders at once, and stop it when its requests are at the gateway.

    What got there is carried out, although nobody hears of it: how many did, and how many did not. The worker must have
    charged before: else it is about to explain its statements to the database, and has not sent them yet.
    """
    scene.newest_worker.freeze()
    order_ids = await buyers.order([scene.rng.choice(ways) for _ in range(MANY)])
    async with scene.holding(LOCK_GATEWAY):
        scene.newest_worker.wake()
        await until_waiting_in(scene, CHARGE_AT_GATEWAY)
        await asyncio.sleep(0.1)
        stop_worker()
    await until_none_waits_in(scene, CHARGE_AT_GATEWAY)
    charged = len(await scene.fetch(NOT_RECORDED, order_ids))
    return charged, len(order_ids) - charged


async def until_complete(scene: Scene, order_ids: Sequence[str]) -> None:
    async def holds() -> bool:
        return len(await scene.fetch(COMPLETE, order_ids)) == len(order_ids)

    await scene.until(holds, f"{len(order_ids)} orders are complete", WITHIN_S)


async def start_used_worker(scene: Scene, buyers: Buyers, ways: Sequence[str]) -> None:
    order_ids = await buyers.order([scene.rng.choice(ways) for _ in range(MANY)])
    scene.start_worker()
    await until_complete(scene, order_ids)


async def after_the_charge(scene: Scene) -> None:
    """The money is taken, and whoever took it has died: it is found by asking, and not taken again."""
    ways = [GOOD, ANSWER_LOST]
    recording = scene.faults.announce("killed between charge and record", 4)
    under_way = scene.faults.announce("charged after the death of who asked", 2)
    not_sent = scene.faults.announce("killed before the charge went out")
    buyers = await open_buyers(scene, ways)
    order_ids = await buyers.order([scene.rng.choice(ways) for _ in range(8)])
    async with contextlib.AsyncExitStack() as locks:
        async with scene.holding(LOCK_GATEWAY):
            worker = scene.start_worker()
            await until_waiting_in(scene, CHARGE_AT_GATEWAY)
            await locks.enter_async_context(scene.holding(HOLD_ORDERS, order_ids))
        await _until_charged(scene, order_ids, len(order_ids))
        await until_waiting_in(scene, "orders")
        worker.kill()
        for _ in await scene.fetch(NOT_RECORDED, order_ids):
            recording()
    await start_used_worker(scene, buyers, ways)
    charged, waiting = await charge_without(scene, buyers, ways, scene.newest_worker.kill)
    for _ in range(charged):
        under_way()
    for _ in range(waiting):
        not_sent()
    await _finish(scene, buyers, ways)


LOCK_CERTIFICATES = "LOCK TABLE certificates IN SHARE MODE"
HOLD_STREAMS = "SELECT organisation_id FROM event_streams FOR UPDATE"
CERTIFY = "INSERT INTO certificates"
TAKEN = """
SELECT (SELECT sum(allocated_grams) FROM lots) AS grams, (SELECT count(*) FROM parcels) AS parcels,
       (SELECT count(*) FROM shares) AS shares, (SELECT count(*) FROM certificates) AS certificates
"""
STATUSES = "SELECT DISTINCT status FROM orders WHERE id = ANY ($1)"
RETIRED = "SELECT id FROM orders WHERE status = 'retiring'"


async def while_allocating(scene: Scene) -> None:
    """Retired and not yet certified; then, with all of it in one transaction, certified and not yet announced."""
    retired = scene.faults.announce("killed between retirement and certificate")
    allocating = scene.faults.announce("killed inside the allocation")
    buyers = await open_buyers(scene, [GOOD, HELPED])
    order_ids = await _retired_orders(scene, buyers)
    taken = await scene.fetch(TAKEN)
    async with scene.holding(LOCK_CERTIFICATES):
        worker = scene.start_worker()
        await until_waiting_in(scene, CERTIFY)
        worker.kill()
    await _require_nothing_done(scene, order_ids, "retiring", taken)
    retired()

    worker = scene.start_worker()
    await until_complete(scene, order_ids)
    worker.freeze()
    order_ids = await buyers.order([GOOD] * scene.rng.randint(5, 10))
    taken = await scene.fetch(TAKEN)
    async with contextlib.AsyncExitStack() as locks:
        async with scene.holding(LOCK_CERTIFICATES):
            worker.wake()
            await until_waiting_in(scene, CERTIFY)
            await locks.enter_async_context(scene.holding(HOLD_STREAMS))
        await until_waiting_in(scene, "event_streams")
        worker.kill()
    await _require_nothing_done(scene, order_ids, "paid", taken)
    allocating()
    await _finish(scene, buyers, [GOOD])


async def _retired_orders(scene: Scene, buyers: Buyers) -> list[str]:
    """Orders that lack nothing but their certificate. Those that find what was retired before are complete at once."""
    for _ in range(10):
        for order_id in await buyers.order([HELPED] * 3):
            await buyers.help(order_id, "pay", "retire")
        if retired := await scene.fetch(RETIRED):
            return [row["id"] for row in retired]
    raise Trouble("no order had to wait for its retirement")


async def _require_nothing_done(
    scene: Scene, order_ids: Sequence[str], status: str, taken: Sequence[asyncpg.Record]
) -> None:
    """What the killed worker had begun is gone with it, whole."""
    await _until_idle(scene)
    scene.require(await scene.fetch(TAKEN) == taken, "a killed worker left something half done")
    statuses = [row["status"] for row in await scene.fetch(STATUSES, order_ids)]
    scene.require(statuses == [status], f"orders are {' and '.join(statuses)} that should still be {status}")


OPEN_TRANSACTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'tonne' AND xact_start IS NOT NULL
"""


async def _until_idle(scene: Scene) -> None:
    """The database has noticed that the killed worker is gone; the api has nothing to do meanwhile."""

    async def holds() -> bool:
        return not (await scene.fetch(OPEN_TRANSACTIONS))[0][0]

    await scene.until(holds, "the killed worker's transactions have ended", WITHIN_S, every_s=0.02)


# Within the transaction that takes the numbers; within the one that queues the mail.
INVOICE_LOCKS = {
    "killed with invoice numbers taken": ("LOCK TABLE invoices IN SHARE MODE", "INSERT INTO invoices"),
    "killed while a mail was queued": ("LOCK TABLE mails IN SHARE MODE", "INSERT INTO mails"),
}
REFERENCES = "SELECT reference FROM invoices ORDER BY number"


async def while_mailing(scene: Scene) -> None:
    """A number that was taken is given back, a mail goes out once more: none is ever missing."""
    counters = {name: scene.faults.announce(name) for name in INVOICE_LOCKS}
    unanswered = scene.faults.announce("killed when the mail server had the mail and had not said so")
    buyers = await open_buyers(scene, [INVOICE])
    async with Mailbox() as mailbox, short_leases(scene):
        scene.environment["TONNE_SMTP_URL"] = mailbox.url
        for name, (lock, statement) in INVOICE_LOCKS.items():
            await buyers.order([INVOICE] * scene.rng.randint(2, 4))
            async with scene.holding(lock):
                worker = scene.start_worker()
                await until_waiting_in(scene, statement)
                worker.kill()
                counters[name]()

        async def kill() -> None:
            mailbox.instead_of_answer = None
            scene.newest_worker.kill()
            unanswered()

        mailbox.instead_of_answer = kill
        scene.start_worker()

        async def killed() -> bool:
            return not scene.faults.missing()

        await scene.until(killed, "the mail server gets a mail", WITHIN_S)
        await _finish(scene, buyers, [INVOICE])
    references = [row["reference"] for row in await scene.fetch(REFERENCES)]
    arrived = mailbox.invoices()
    missing = [reference for reference in references if reference not in arrived]
    scene.require(not missing, f"{len(missing)} invoices were never mailed, such as {missing[:3]}")
    numbers = [int(reference.rsplit("-", 1)[1]) for reference in references]
    scene.require(numbers == list(range(1, len(numbers) + 1)), f"the invoice numbers have a gap: {numbers}")
    scene.note(f"{len(references)} invoices, {arrived.total()} mails")


async def _finish(scene: Scene, buyers: Buyers, ways: Sequence[str]) -> None:
    scene.start_worker()
    await buyers.order([scene.rng.choice(ways) for _ in range(4)])
    await until_ended(scene, 30)


SCENARIOS = (
    Scenario("kill-after-charge", after_the_charge, settings=SETTINGS),
    Scenario("kill-while-allocating", while_allocating, settings=SETTINGS),
    Scenario("kill-while-mailing", while_mailing, settings=SETTINGS),
)
