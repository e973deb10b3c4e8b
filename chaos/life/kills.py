"""SIGKILL of a worker at points of an order's life, each reached from outside by a lock that we hold."""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Sequence

import asyncpg

from chaos.cluster import Cluster
from chaos.delivery.kills import SHORT_LEASES
from chaos.life.buyers import Buyers, Way, open_buyers, short_leases
from chaos.model import NotAsExpected
from chaos.scenario import scenario
from tests.support.mail_server import Mailbox, mail_server

# The leases of a killed worker must expire: those of webhooks after 1.5 s, those of charges after 5 s.
SETTINGS = {**SHORT_LEASES, "payment_time_scale": "0.0001"}
# More than the service sends to its gateway at once: some requests have not been sent yet.
MANY = 20

# While we hold this, the gateway accepts no charge, but can be asked about existing ones.
LOCK_GATEWAY = "LOCK TABLE simulated_charges IN SHARE MODE"
CHARGE_AT_GATEWAY = "INSERT INTO simulated_charges"
HOLD_ORDERS = "SELECT id FROM orders WHERE id = ANY ($1) FOR UPDATE"
# Orders that are charged at the gateway and whose charge is not recorded.
NOT_RECORDED = """
SELECT count(*) FROM orders
JOIN charges ON charges.account_id = orders.account_id AND charges.order_id = orders.id
JOIN simulated_charges simulated ON simulated.id = charges.id AND simulated.status = 'captured'
WHERE orders.id = ANY ($1) AND orders.status = 'placed' AND charges.status = 'pending'
"""


async def interrupt_charges(
    cluster: Cluster, buyers: Buyers, ways: Sequence[Way], stop_worker: Callable[[], None]
) -> tuple[int, int]:
    """Let the newest worker charge many orders at once, and stop it when its requests have reached the gateway.

    The gateway executes those requests. Returns how many were charged and how many were not. The worker must have
    charged before: otherwise it first prepares its statements and has not sent them yet.
    """
    cluster.workers[-1].freeze()
    order_ids = await buyers.order_some(ways, MANY)
    async with cluster.holding(LOCK_GATEWAY):
        cluster.workers[-1].resume()
        await cluster.until_waiting_in(CHARGE_AT_GATEWAY)
        await asyncio.sleep(0.1)
        stop_worker()
    await cluster.until_waiting_in(CHARGE_AT_GATEWAY, waiting=False)
    charged: int = await cluster.fetchval(NOT_RECORDED, order_ids)
    return charged, len(order_ids) - charged


async def start_warm_worker(cluster: Cluster, buyers: Buyers, ways: Sequence[Way]) -> None:
    """A worker that has charged before."""
    order_ids = await buyers.order_some(ways, MANY)
    cluster.start_worker()
    await buyers.until_complete(order_ids)


async def _finish(buyers: Buyers, ways: Sequence[Way]) -> None:
    buyers.cluster.start_worker()
    await buyers.order_some(ways, 4)
    await buyers.until_finished()


@scenario("kill-after-charge", settings=SETTINGS)
async def kill_after_charge(cluster: Cluster) -> None:
    """The card is charged and the worker is dead: its successor asks the gateway, and does not charge again."""
    ways = [Way.GOOD, Way.ANSWER_LOST]
    recording = cluster.announce("killed between charge and record", 4)
    in_flight = cluster.announce("charged after the worker was killed", 2)
    not_sent = cluster.announce("killed before the charge was sent")
    buyers = await open_buyers(cluster, ways)
    order_ids = await buyers.order_some(ways, 8)
    async with contextlib.AsyncExitStack() as locks:
        async with cluster.holding(LOCK_GATEWAY):
            worker = cluster.start_worker()
            await cluster.until_waiting_in(CHARGE_AT_GATEWAY)
            await locks.enter_async_context(cluster.holding(HOLD_ORDERS, order_ids))
        all_charged = f"SELECT ({NOT_RECORDED}) = cardinality($1::text[])"
        await cluster.until_true("the gateway has charged, and nothing is recorded", all_charged, order_ids)
        await cluster.until_waiting_in("orders")
        worker.kill()
        recording(await cluster.fetchval(NOT_RECORDED, order_ids))
    await start_warm_worker(cluster, buyers, ways)
    charged, waiting = await interrupt_charges(cluster, buyers, ways, cluster.workers[-1].kill)
    in_flight(charged)
    not_sent(waiting)
    await _finish(buyers, ways)


LOCK_CERTIFICATES = "LOCK TABLE certificates IN SHARE MODE"
HOLD_STREAMS = "SELECT organisation_id FROM event_streams FOR UPDATE"
CERTIFY = "INSERT INTO certificates"
LOCK_SHARES = "LOCK TABLE shares IN SHARE MODE"
ALLOCATE = "INSERT INTO shares"
RETIRING = "SELECT id FROM orders WHERE status = 'retiring'"


@scenario("kill-while-allocating", settings=SETTINGS)
async def kill_while_allocating(cluster: Cluster) -> None:
    """Killed when orders are retired and have no certificate; then inside the transaction that allocates."""
    retired = cluster.announce("killed between retirement and certificate")
    allocating = cluster.announce("killed inside the allocation")
    buyers = await open_buyers(cluster, [Way.GOOD, Way.HELPED])
    order_ids = await _retired_orders(cluster, buyers)
    allocated = await cluster.fetch(ALLOCATED)
    async with cluster.holding(LOCK_CERTIFICATES):
        worker = cluster.start_worker()
        await cluster.until_waiting_in(CERTIFY)
        worker.kill()
    await _require_rolled_back(cluster, order_ids, "retiring", allocated)
    retired()

    worker = cluster.start_worker()
    await buyers.until_complete(order_ids)
    worker.freeze()
    order_ids = await buyers.order([Way.GOOD] * cluster.rng.randint(5, 10))
    allocated = await cluster.fetch(ALLOCATED)
    async with contextlib.AsyncExitStack() as locks:
        async with cluster.holding(LOCK_SHARES):
            worker.resume()
            await cluster.until_waiting_in(ALLOCATE)
            await locks.enter_async_context(cluster.holding(HOLD_STREAMS))
        await cluster.until_waiting_in("event_streams")
        worker.kill()
    await _require_rolled_back(cluster, order_ids, "paid", allocated)
    allocating()
    await _finish(buyers, [Way.GOOD])


async def _retired_orders(cluster: Cluster, buyers: Buyers) -> list[str]:
    """Orders that lack only their certificate. Orders that use earlier retirements are complete at once."""
    for _ in range(10):
        for order_id in await buyers.order([Way.HELPED] * 3):
            await buyers.help(order_id, "pay", "retire")
        if retired := await cluster.fetch(RETIRING):
            return [row["id"] for row in retired]
    raise NotAsExpected("no order had to wait for its retirement")


ALLOCATED = """
SELECT (SELECT sum(allocated_grams) FROM lots) AS grams, (SELECT count(*) FROM parcels) AS parcels,
       (SELECT count(*) FROM shares) AS shares, (SELECT count(*) FROM certificates) AS certificates
"""
STATUSES = "SELECT DISTINCT status FROM orders WHERE id = ANY ($1)"
IDLE = """
SELECT count(*) = 0 FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'tonne%' AND xact_start IS NOT NULL
"""


async def _require_rolled_back(
    cluster: Cluster, order_ids: Sequence[str], status: str, allocated: Sequence[asyncpg.Record]
) -> None:
    """The transaction of the killed worker was rolled back. The api is idle meanwhile."""
    await cluster.until_true("the killed worker's transactions have ended", IDLE)
    cluster.require(await cluster.fetch(ALLOCATED) == allocated, "a killed worker left a partial allocation")
    statuses = [row["status"] for row in await cluster.fetch(STATUSES, order_ids)]
    cluster.require(statuses == [status], f"orders are {' and '.join(statuses)} and should still be {status}")


# Inside the transaction that assigns the numbers, and inside the one that queues the mail.
INVOICE_LOCKS = {
    "killed with invoice numbers assigned": ("LOCK TABLE invoices IN SHARE MODE", "INSERT INTO invoices"),
    "killed while a mail was queued": ("LOCK TABLE mails IN SHARE MODE", "INSERT INTO mails"),
}
REFERENCES = "SELECT reference FROM invoices ORDER BY number"


@scenario("kill-while-mailing", settings=SETTINGS, quick=True)
async def kill_while_mailing(cluster: Cluster) -> None:
    """An assigned number is released, and a mail is sent again: no invoice is missing."""
    faults = {name: cluster.announce(name) for name in INVOICE_LOCKS}
    unacknowledged = cluster.announce("killed before the mail server acknowledged the mail")
    buyers = await open_buyers(cluster, [Way.INVOICE])
    # Creates the key that signs invoices. This takes longer than a statement waits for our locks.
    await cluster.status_of("GET", "/.well-known/tonne-issuer.json")
    async with mail_server() as mailbox, short_leases(cluster):
        cluster.settings["smtp_url"] = mailbox.url
        for name, (lock, statement) in INVOICE_LOCKS.items():
            await buyers.order([Way.INVOICE] * cluster.rng.randint(2, 4))
            async with cluster.holding(lock):
                worker = cluster.start_worker()
                await cluster.until_waiting_in(statement)
                worker.kill()
                faults[name]()
        mailbox.release.clear()
        worker = cluster.start_worker()
        await cluster.until(mailbox.holding.is_set, "the mail server gets a mail")
        worker.kill()
        unacknowledged()
        # The server may lose what it has not acknowledged.
        mailbox.drop_connections()
        mailbox.release.set()
        await _finish(buyers, [Way.INVOICE])
    references = [row["reference"] for row in await cluster.fetch(REFERENCES)]
    arrived = arrived_invoices(mailbox)
    missing = [reference for reference in references if reference not in arrived]
    cluster.require(not missing, f"{len(missing)} invoices were never mailed, such as {missing[:3]}")
    numbers = [int(reference.rsplit("-", 1)[1]) for reference in references]
    cluster.require(numbers == list(range(1, len(numbers) + 1)), f"the invoice numbers have a gap: {numbers}")
    cluster.notes.append(f"{len(references)} invoices, {arrived.total()} mails")


def arrived_invoices(mailbox: Mailbox) -> Counter[str]:
    """How often each invoice has arrived with its PDF, by reference."""
    found: Counter[str] = Counter()
    for mail in mailbox.messages:
        names = [part.get_filename() for part in mail.iter_attachments()]
        match = re.search(r"Invoice (TN-TEST-\d+):", mail["Subject"])
        if match and f"{match[1]}.pdf" in names:
            found[match[1]] += 1
    return found
