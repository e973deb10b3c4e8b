"""Every kind of payment, refund, dispute and document at once, while workers, the api and the database are killed."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum

import aiohttp

from chaos.cluster import Cluster
from chaos.life.buyers import Buyers, Way, open_buyers, short_leases
from chaos.life.load import FAST
from chaos.model import Fault, NotAsExpected, Refused
from chaos.money.billing import BILL_TOGETHER, SETTLE
from chaos.money.documents import CHECKS, RENDER_ALL, count_documents
from chaos.money.refunds import ALLOW_REFUNDS, hastened_refunds
from chaos.scenario import scenario
from tests.support.world import ADDRESS, TESTER
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import new_id, utc_now
from tonne.selling.accounts.tax.tax_profile import set_tax_profile

ORDERS = int(os.environ.get("CHAOS_STORM_ORDERS") or 1_400)
CLIENTS, WORKERS = 20, 2
WORKER, API, DATABASE = "worker killed", "api killed", "PostgreSQL stopped hard"
KILLS = {WORKER: max(3, ORDERS // 70), API: 2, DATABASE: 1}
# Of the client between two requests, and until the next process is killed.
PAUSE_S, CALM_S = 2.0, 1.5
# Organisations: orders that are paid one by one, orders that a card or a transfer pays together, and small ones.
EACH = (
    *(Way.GOOD, Way.GOOD, Way.GOOD, Way.ANSWER_LOST, Way.DECLINED_TWICE, Way.REFUSED, Way.NEEDS_AUTHENTICATION),
    *(Way.REFUND_PENDS, Way.REFUND_FAILS_TWICE, Way.INVOICE, Way.HELPED),
)
TOGETHER = (Way.GOOD, Way.DECLINED_TWICE, Way.INVOICE)
SMALL = (Way.GOOD,)
SHOPS: Sequence[Sequence[Way]] = (EACH, EACH, TOGETHER, SMALL)
# An api that was killed may leave a dispute that only the gateway knows. It is polled every 15 minutes.
POLL = "UPDATE gateway_polls SET next_poll_at = $1"
POLLED = "SELECT bool_and(polled_until >= $1) FROM gateway_polls"
# What a helper has paid is fulfilled, too.
FULFIL = "UPDATE orders SET next_attempt_at = clock_timestamp() WHERE status = 'paid' AND next_attempt_at IS NULL"
STATUSES = """
SELECT string_agg(format('%s %s', count, status), ', ') FROM (SELECT status, count(*) FROM orders GROUP BY 1) AS each
"""
MOVED = """
SELECT format('%s charges captured, %s refunds, %s disputes',
              (SELECT count(*) FROM simulated_charges WHERE status = 'captured'),
              (SELECT count(*) FROM simulated_refunds WHERE status = 'refunded'),
              (SELECT count(*) FROM simulated_disputes))
"""


class _Step(Enum):
    """What a client does about an order after it has placed it."""

    NOTHING = "nothing"
    REFUND = "refunded in part"
    REFUND_ALL = "refunded"
    CANCEL = "cancelled"
    DISPUTE_LOST = "dispute lost"
    DISPUTE_WON = "dispute won"


# Most orders are too young, or cancelled already, for a refund in full and for a dispute.
_OFTEN = (_Step.REFUND, _Step.REFUND_ALL, _Step.CANCEL, _Step.DISPUTE_LOST, _Step.DISPUTE_WON)
_STEPS = [_Step.NOTHING] * 11 + [*_OFTEN] * 4


@scenario("money-storm", within_s=900, settings=FAST)
async def money_storm(cluster: Cluster) -> None:
    """At the end every cent that the gateway kept is on a document, its tax is booked, and every document is stored."""
    cluster.log_errors_expected = True
    kills = {name: cluster.announce(name, least) for name, least in KILLS.items()}
    steps = {step: cluster.announce(step.value, max(1, ORDERS // 350)) for step in _Step}
    shops = await _open_shops(cluster)
    await cluster.execute(RENDER_ALL)
    for _ in range(WORKERS):
        cluster.start_worker()
    orders_left = iter(range(ORDERS))

    async def order_and_act() -> None:
        for _ in orders_left:
            shop, ways = cluster.rng.choice(shops)
            way = cluster.rng.choice(ways)
            kilograms = cluster.rng.randint(1, 4) if ways is SMALL else None
            order_id = await cluster.place_one(shop.organisation, shop.scopes[way], kilograms)
            step = cluster.rng.choice(_STEPS)
            if way is Way.HELPED:
                await _attempt(shop, way, f"/v1/test-helpers/orders/{order_id}/pay")
            await asyncio.sleep(cluster.rng.uniform(0, PAUSE_S))
            if await _act(shop, way, order_id, step):
                steps[step]()

    async with short_leases(cluster):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_kill(cluster, kills))
            for _ in range(CLIENTS):
                tasks.create_task(order_and_act())
        # Also what the helpers alone advanced.
        await cluster.execute(SETTLE)
        await cluster.execute(FULFIL)
        await _poll(cluster)
        async with hastened_refunds(cluster):
            for shop, _ in shops:
                await shop.until_finished(200)
            await cluster.until_empty("every document is stored and booked", CHECKS["nothing waits"], 400)
    cluster.is_settled = True
    for sql in (STATUSES, MOVED):
        cluster.notes.append(await cluster.fetchval(sql))
    cluster.notes.append(await count_documents(cluster.fetch))


async def _open_shops(cluster: Cluster) -> list[tuple[Buyers, Sequence[Way]]]:
    """With tax, refunds by API, and one that is billed together."""
    shops = [
        (await open_buyers(cluster, [*dict.fromkeys(ways)], f"receiver-{n}"), ways) for n, ways in enumerate(SHOPS)
    ]
    profile = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19"), **ADDRESS}
    async with cluster.connection() as tx, tx.transaction():
        for shop, _ in shops:
            await set_tax_profile(tx, shop.organisation.id, profile, by=TESTER.at(utc_now()))
        await tx.execute(ALLOW_REFUNDS)
        billed_together = next(shop for shop, ways in shops if ways is TOGETHER)
        await tx.execute(f"{BILL_TOGETHER} WHERE organisation_id = $1", billed_together.organisation.id)
    return shops


async def _act(shop: Buyers, way: Way, order_id: str, step: _Step) -> bool:
    """Whether the service has done it: it may be too early, or too late."""
    one, helped, key = (
        f"/v1/orders/{order_id}",
        f"/v1/test-helpers/orders/{order_id}",
        {"idempotency_key": new_id("key")},
    )
    match step:
        case _Step.NOTHING:
            return True
        case _Step.REFUND:
            return await _attempt(shop, way, f"{one}/refunds", {"amount": "0.02", "reason": "chaos", **key})
        case _Step.REFUND_ALL:
            return await _attempt(shop, way, f"{one}/refunds", {"reason": "chaos", **key})
        case _Step.CANCEL:
            return await _attempt(shop, way, f"{one}/cancel", {"reason": "chaos", "refund": True})
        case _Step.DISPUTE_LOST:
            return await _attempt(shop, way, f"{helped}/dispute", {"outcome": "lost"})
        case _Step.DISPUTE_WON:
            return await _attempt(shop, way, f"{helped}/dispute", {"outcome": "won"})


async def _poll(cluster: Cluster) -> None:
    now = utc_now()
    async with cluster.connection() as connection:
        await connection.execute(POLL, now)
    await cluster.until_true("the gateway was polled", POLLED, now, within_s=60)


async def _attempt(shop: Buyers, way: Way, path: str, body: object = None) -> bool:
    """Repeat a request until there is a response. False if the service refuses it."""
    deadline = time.monotonic() + 60
    while True:
        try:
            await shop.post(path, way, body)
        except Refused as refused:
            if refused.status < 500:
                return False
        except (aiohttp.ClientError, TimeoutError):
            pass
        else:
            return True
        if time.monotonic() > deadline:
            raise NotAsExpected(f"{path} got no response within 60 s")
        await asyncio.sleep(0.2)


async def _kill(cluster: Cluster, kills: Mapping[str, Fault]) -> None:
    """One process after the other. Workers and api are replaced at once, the database after a moment."""
    victims = [name for name, times in KILLS.items() for _ in range(times)]
    cluster.rng.shuffle(victims)
    for name in victims:
        await asyncio.sleep(cluster.rng.uniform(0.5, 1.5) * CALM_S)
        if name == WORKER:
            cluster.workers[-WORKERS].kill()
            cluster.start_worker()
        elif name == API:
            assert cluster.api is not None
            cluster.api.kill()
            await cluster.start_api()
        else:
            await cluster.restart_postgres(0.5)
        kills[name]()
