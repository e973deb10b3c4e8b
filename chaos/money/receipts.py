"""SIGKILL between a payment and its receipt, of stored cards that charge at once or that the payer has to confirm."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import aiohttp

from chaos.cluster import Cluster
from chaos.life.buyers import Buyers, Way, open_buyers, short_leases
from chaos.life.kills import IDLE, NOT_RECORDED, SETTINGS
from chaos.scenario import scenario
from tests.support.mail_server import Mailbox, mail_server

# In test mode only the organisation's own addresses get mail.
SEND_RECEIPTS = "UPDATE accounts SET receipt_email = 'admin@buyer.example'"
LOCK_ROWS = "LOCK TABLE order_mails IN SHARE MODE"
ADD_ROW = "INSERT INTO order_mails"
LOCK_MAILS = "LOCK TABLE mails IN SHARE MODE"
ENQUEUE = "INSERT INTO mails"
ORDERS = 4

ALL_CHARGED = f"SELECT ({NOT_RECORDED}) = cardinality($1::text[])"

TO_CONFIRM = """
SELECT count(*) = cardinality($1::text[]) FROM charges
WHERE order_id = ANY ($1) AND status = 'pending' AND confirm_until IS NOT NULL
"""
COUNT_RECEIPTS = """
SELECT orders.id, count(mails.id) AS receipts FROM orders
LEFT JOIN mails ON mails.subject_id = orders.id AND position('Your receipt'::bytea IN mails.message) > 0
GROUP BY orders.id HAVING count(mails.id) <> 1
"""


# Other jobs wait for the locks of this scenario, too: none of them may give up meanwhile.
@scenario("kill-while-confirming", within_s=90, settings={**SETTINGS, "lock_timeout_s": 30}, quick=True)
async def kill_while_confirming(cluster: Cluster) -> None:
    """The card is charged and the process is dead: a worker records the payment, with one receipt."""
    settling = cluster.announce("killed while the payment was recorded", ORDERS)
    receipting = cluster.announce("killed while the receipt was queued")
    confirming = cluster.announce("api killed between confirmation and record", ORDERS)
    buyers = await open_buyers(cluster, [Way.GOOD, Way.CONFIRMED])
    await cluster.execute(SEND_RECEIPTS)
    async with mail_server() as mailbox, short_leases(cluster, 1.5):
        cluster.settings["smtp_url"] = mailbox.url
        to_confirm = await buyers.order([Way.CONFIRMED] * ORDERS)
        worker = cluster.start_worker()
        await cluster.until_true("the charges wait for their payers", TO_CONFIRM, to_confirm)
        worker.kill()
        confirming(await _interrupt_confirmations(cluster, buyers, to_confirm))

        async with cluster.holding(LOCK_ROWS):
            order_ids = await buyers.order([Way.GOOD] * ORDERS)
            worker = cluster.start_worker()
            await cluster.until_true("the gateway has charged", ALL_CHARGED, order_ids)
            await cluster.until_waiting_in(ADD_ROW)
            worker.kill()
        await cluster.until_true("the killed worker's transactions have ended", IDLE)
        settling(await cluster.fetchval(NOT_RECORDED, order_ids))

        async with cluster.holding(LOCK_MAILS):
            worker = cluster.start_worker()
            await cluster.until_waiting_in(ENQUEUE)
            worker.kill()
        await cluster.until_true("the killed worker's transactions have ended", IDLE)
        receipting()

        cluster.start_worker()
        await buyers.until_finished(40)
    await _require_receipts(cluster, mailbox)


async def _interrupt_confirmations(cluster: Cluster, buyers: Buyers, order_ids: Sequence[str]) -> int:
    """Kill the api when payers have confirmed and it records that. Returns how many were charged and not recorded."""
    async with cluster.holding(LOCK_ROWS):
        path = "/v1/test-helpers/orders/{}/pay"
        requests = [asyncio.create_task(buyers.post(path.format(id_), Way.CONFIRMED)) for id_ in order_ids]
        await cluster.until_true("the gateway has charged", ALL_CHARGED, order_ids)
        await cluster.until_waiting_in(ADD_ROW)
        assert cluster.api is not None
        cluster.api.kill()
        results = await asyncio.gather(*requests, return_exceptions=True)
    cluster.require(all(isinstance(result, aiohttp.ClientError) for result in results), "a request was not cut off")
    await cluster.until_true("the killed api's transactions have ended", IDLE)
    await cluster.start_api()
    return int(await cluster.fetchval(NOT_RECORDED, order_ids))


async def _require_receipts(cluster: Cluster, mailbox: Mailbox) -> None:
    wrong = await cluster.fetch(COUNT_RECEIPTS)
    cluster.require(not wrong, f"{len(wrong)} orders have not exactly one receipt, such as {[*map(tuple, wrong[:3])]}")
    receipts = [mail for mail in mailbox.messages if "Your receipt" in mail["Subject"]]
    texts = [body.get_content() for mail in receipts if (body := mail.get_body(("plain",))) is not None]
    arrived = Counter(order_id for order_id in cluster.final_statuses for text in texts if order_id in text)
    missing = [order_id for order_id in cluster.final_statuses if order_id not in arrived]
    cluster.require(not missing, f"the receipts of {len(missing)} orders never arrived, such as {missing[:3]}")
    cluster.notes.append(f"{arrived.total()} receipts")
