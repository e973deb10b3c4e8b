"""SIGKILL while orders get other credits instead of those of an invalid lot."""

from chaos.cluster import Cluster
from chaos.life.buyers import Way, open_buyers
from chaos.life.kills import IDLE, LOCK_CERTIFICATES, SETTINGS
from chaos.money.commands import LOCK_AUDIT, RECORD, kill_command, start_command, until_success
from chaos.scenario import scenario

ORDERS = 8
# The lot of which most orders hold credits.
HELD_LOT = """
SELECT parcel.lot_id, count(DISTINCT share.order_id) AS orders
FROM shares share JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
GROUP BY parcel.lot_id ORDER BY orders DESC, parcel.lot_id LIMIT 1
"""
# Everything that invalidating a lot and supplying its orders again writes.
WRITTEN = """
SELECT (SELECT count(*) FROM lots WHERE invalidated_at IS NOT NULL) AS lots,
       (SELECT sum(allocated_grams) FROM lots) AS lot_grams, (SELECT sum(allocated_grams) FROM parcels) AS parcel_grams,
       (SELECT count(*) FROM replaced_shares) AS replaced, (SELECT count(*) FROM certificates) AS certificates,
       (SELECT array_agg(state ORDER BY order_id) FROM lot_cases) AS cases
"""
OPEN_CASES = """
SELECT format('order %s with credits of an invalid lot is %s', order_id, state) FROM lot_cases WHERE done_at IS NULL
"""
# Orders without exactly one valid certificate.
WRONGLY_CERTIFIED = """
SELECT orders.id FROM orders
LEFT JOIN certificates ON certificates.account_id = orders.account_id AND certificates.order_id = orders.id
GROUP BY orders.id HAVING count(*) FILTER (WHERE certificates.state = 'valid') <> 1
"""
# Orders that do not hold as many grams as they ordered, or hold some of an invalid lot.
WRONGLY_SUPPLIED = """
SELECT orders.id FROM orders
JOIN shares share ON share.account_id = orders.account_id AND share.order_id = orders.id
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
GROUP BY orders.id, orders.quantity_grams
HAVING sum(share.quantity_grams) <> orders.quantity_grams OR bool_or(parcel.invalidated_at IS NOT NULL)
"""


@scenario("kill-while-resupplying", within_s=90, settings=SETTINGS)
async def kill_while_resupplying(cluster: Cluster) -> None:
    """Every order keeps its grams, of valid lots, and has one valid certificate."""
    invalidating = cluster.announce("invalidation of a lot killed")
    deciding = cluster.announce("decision about its orders killed")
    supplying = cluster.announce("killed with other credits taken")
    reissuing = cluster.announce("killed while the certificate was replaced")
    affected = cluster.announce("orders with credits of the lot", 3)
    buyers = await open_buyers(cluster, [Way.GOOD])
    order_ids = await buyers.order([Way.GOOD] * ORDERS)
    worker = cluster.start_worker()
    await buyers.until_complete(order_ids)
    worker.kill()
    ((lot_id, orders),) = await cluster.fetch(HELD_LOT)
    affected(orders)

    words: tuple[str, ...] = ("lot", "invalidate", lot_id, "--reason", "The registry cancelled the project.", "--yes")
    await kill_command(cluster, words, WRITTEN)
    invalidating()
    await until_success(start_command(cluster, *words))
    words = ("lot", "resolve", lot_id, "--all", "--resupply")
    await kill_command(cluster, words, WRITTEN)
    deciding()
    await until_success(start_command(cluster, *words))

    before = await cluster.fetch(WRITTEN)
    points = ((supplying, LOCK_AUDIT, RECORD), (reissuing, LOCK_CERTIFICATES, "UPDATE certificates"))
    for fired, lock, statement in points:
        async with cluster.holding(lock):
            worker = cluster.start_worker()
            await cluster.until_waiting_in(statement)
            worker.kill()
        await cluster.until_true("the killed worker's transactions have ended", IDLE)
        left = await cluster.fetch(WRITTEN) != before
        cluster.require(not left, "a killed worker left a part of its work")
        fired()

    cluster.start_worker()
    await cluster.until_empty("every order has other credits", OPEN_CASES, 30)
    await buyers.order([Way.GOOD] * 2)
    await buyers.until_finished()
    for query, what in ((WRONGLY_CERTIFIED, "one valid certificate"), (WRONGLY_SUPPLIED, "its grams of valid lots")):
        wrong = await cluster.fetch(query)
        cluster.require(not wrong, f"{len(wrong)} orders do not have {what}")
