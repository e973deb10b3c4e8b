"""SIGKILL while orders are collected, billed together, credited and mailed about."""

import asyncio
import re
from collections.abc import Sequence

import aiohttp

from chaos.cluster import Cluster
from chaos.life.buyers import Buyers, Way, open_buyers, short_leases
from chaos.life.kills import IDLE, REFERENCES, SETTINGS, arrived_invoices
from chaos.scenario import scenario
from tests.support.mail_server import Mailbox, mail_server

# Every group of orders reaches its threshold with the first order: all that wait together get one invoice.
BILL_TOGETHER = "UPDATE accounts SET billing = 'threshold', billing_threshold_minor = 1"
# Invoices stay open after they are mailed, and later settle themselves.
KEEP_OPEN = "UPDATE accounts SET auto_advance = false"
SETTLE = "UPDATE accounts SET auto_advance = true"
MAKE_INVOICES_DUE = "UPDATE invoices SET next_attempt_at = clock_timestamp() WHERE status = 'open'"

# Each is inside a transaction, and shows that what came before in it is rolled back.
BILLING_LOCKS = {
    "killed while orders were collected": ("unbilled_orders", "INSERT INTO unbilled_orders"),
    "killed with the number of a consolidated invoice assigned": ("invoice_orders", "INSERT INTO invoice_orders"),
}
ORDERS = 5

NOT_MAILED = "SELECT format('invoice %s is not mailed', reference) FROM invoices WHERE mailed_at IS NULL"
NOTES_NOT_MAILED = "SELECT format('credit note %s is not mailed', reference) FROM credit_notes WHERE mailed_at IS NULL"
UNBILLED = "SELECT format('order %s is not billed', order_id) FROM unbilled_orders"
NOTES = "SELECT count(*) FROM credit_notes"
NOTE_REFERENCES = "SELECT reference FROM credit_notes ORDER BY number"
WRONGLY_BILLED = """
SELECT orders.id FROM orders LEFT JOIN invoice_orders billed
    ON billed.account_id = orders.account_id AND billed.order_id = orders.id
GROUP BY orders.id HAVING count(billed.invoice_id) <> 1
"""
LARGEST_INVOICE = (
    "SELECT max(orders) FROM (SELECT count(*) AS orders FROM invoice_orders GROUP BY invoice_id) AS billed"
)


@scenario("kill-while-billing", within_s=90, settings=SETTINGS)
async def kill_while_billing(cluster: Cluster) -> None:
    """Every order is on one invoice, numbers have no gap, and every invoice and credit note is mailed."""
    faults = {name: cluster.announce(name) for name in BILLING_LOCKS}
    crediting = cluster.announce("api killed with the number of a credit note assigned", 2)
    mailing = cluster.announce("killed while the mail of a credit note was queued")
    buyers = await open_buyers(cluster, [Way.INVOICE])
    await cluster.execute(BILL_TOGETHER)
    async with mail_server() as mailbox, short_leases(cluster, 1.5):
        cluster.settings["smtp_url"] = mailbox.url
        order_ids: list[str] = []
        for name, (table, statement) in BILLING_LOCKS.items():
            order_ids += await buyers.order([Way.INVOICE] * ORDERS)
            async with cluster.holding(f"LOCK TABLE {table} IN SHARE MODE"):
                worker = cluster.start_worker()
                await cluster.until_waiting_in(statement)
                worker.kill()
                faults[name]()
        await cluster.execute(KEEP_OPEN)
        worker = cluster.start_worker()
        await cluster.until_empty("every order was billed", UNBILLED, 30)
        await cluster.until_empty("every invoice was mailed", NOT_MAILED, 30)
        worker.kill()

        crediting(await _interrupt_cancellations(cluster, buyers, order_ids[:2]))
        for order_id in order_ids[:2]:
            cluster.require(await buyers.cancel(order_id, Way.INVOICE), "an unpaid order could not be cancelled")
        async with cluster.holding("LOCK TABLE mails IN SHARE MODE"):
            worker = cluster.start_worker()
            await cluster.until_waiting_in("INSERT INTO mails")
            worker.kill()
            mailing()
        await cluster.execute(SETTLE)
        await cluster.execute(MAKE_INVOICES_DUE)
        cluster.start_worker()
        await buyers.order([Way.INVOICE] * 2)
        await buyers.until_finished(40)
        await cluster.until_empty("every credit note was mailed", NOTES_NOT_MAILED, 20)
        await buyers.until_finished()
    await _require_documents(cluster, mailbox)


async def _interrupt_cancellations(cluster: Cluster, buyers: Buyers, order_ids: Sequence[str]) -> int:
    """Kill the api when it has assigned the number of a credit note. Returns how many requests were cut off."""
    async with cluster.holding("LOCK TABLE credit_note_orders IN SHARE MODE"):
        requests = [asyncio.create_task(buyers.cancel(order_id, Way.INVOICE)) for order_id in order_ids]
        await cluster.until_waiting_in("INSERT INTO credit_note_orders")
        assert cluster.api is not None
        cluster.api.kill()
        results = await asyncio.gather(*requests, return_exceptions=True)
    await cluster.until_true("the killed api's transactions have ended", IDLE)
    cluster.require(await cluster.fetchval(NOTES) == 0, "a killed api left a credit note")
    await cluster.start_api()
    return sum(isinstance(result, aiohttp.ClientError) for result in results)


async def _require_documents(cluster: Cluster, mailbox: Mailbox) -> None:
    wrong = await cluster.fetch(WRONGLY_BILLED)
    cluster.require(not wrong, f"{len(wrong)} orders are not on exactly one invoice")
    cluster.require(await cluster.fetchval(LARGEST_INVOICE) >= ORDERS, "no invoice has several orders")
    invoices = [row["reference"] for row in await cluster.fetch(REFERENCES)]
    notes = [row["reference"] for row in await cluster.fetch(NOTE_REFERENCES)]
    cluster.require(len(notes) == 2, f"there are {len(notes)} credit notes for two cancelled orders")
    for references in (invoices, notes):
        numbers = [int(reference.rsplit("-", 1)[1]) for reference in references]
        cluster.require(numbers == list(range(1, len(numbers) + 1)), f"the numbers have a gap: {numbers}")
    arrived = arrived_invoices(mailbox)
    mailed_notes = {found[1] for mail in mailbox.messages if (found := re.search(r"(CN-TEST-\d+):", mail["Subject"]))}
    missing = [reference for reference in invoices if reference not in arrived] + [*{*notes} - mailed_notes]
    cluster.require(not missing, f"{len(missing)} documents were never mailed, such as {missing[:3]}")
    cluster.notes.append(f"{len(invoices)} invoices, {len(notes)} credit notes, {len(mailbox.messages)} mails")
