"""SIGKILL between the issue of an invoice that a card pays, its charge, and its settlement."""

from chaos.cluster import Cluster
from chaos.life.buyers import Way, open_buyers, short_leases
from chaos.life.kills import CHARGE_AT_GATEWAY, IDLE, LOCK_GATEWAY, SETTINGS
from chaos.money.billing import BILL_TOGETHER, LARGEST_INVOICE, WRONGLY_BILLED
from chaos.money.commands import LOCK_AUDIT, RECORD
from chaos.scenario import scenario

# Where the worker waits for us when it is killed, in the order of an invoice's life.
LOCKS = {
    "killed with the invoice issued and not yet committed": (
        "LOCK TABLE card_invoices IN SHARE MODE",
        "INSERT INTO card_invoices",
    ),
    "killed between the record of the charge and its answer": (LOCK_GATEWAY, CHARGE_AT_GATEWAY),
    "killed while the invoice was settled": (LOCK_AUDIT, RECORD),
}
ORDERS = 5

UNSETTLED = "SELECT format('invoice %s is %s', reference, status) FROM invoices WHERE status <> 'paid'"
WRONGLY_CHARGED = """
SELECT invoices.reference FROM invoices
LEFT JOIN charges ON charges.invoice_id = invoices.id AND charges.status = 'captured'
LEFT JOIN simulated_charges simulated ON simulated.id = charges.id AND simulated.status = 'captured'
GROUP BY invoices.id HAVING sum(simulated.amount_minor) IS DISTINCT FROM invoices.settled_minor
"""
AT_GATEWAY = "SELECT count(*) FROM simulated_charges WHERE status = 'captured'"
RECEIPTS = """
SELECT invoices.reference FROM invoices
LEFT JOIN mails ON mails.subject_id = invoices.id AND position('Your receipt'::bytea IN mails.message) > 0
GROUP BY invoices.id HAVING count(mails.id) <> 1
"""
INVOICES = "SELECT count(*) FROM invoices"


@scenario("kill-while-billing-cards", within_s=90, settings=SETTINGS)
async def kill_while_billing_cards(cluster: Cluster) -> None:
    """Every order is on one invoice, every invoice is charged once, and all its orders are paid together."""
    faults = {name: cluster.announce(name) for name in LOCKS}
    buyers = await open_buyers(cluster, [Way.GOOD])
    await cluster.execute(BILL_TOGETHER)
    async with short_leases(cluster, 1.5):
        for name, (lock, statement) in LOCKS.items():
            await buyers.order([Way.GOOD] * ORDERS)
            async with cluster.holding(lock):
                worker = cluster.start_worker()
                await cluster.until_waiting_in(statement)
                worker.kill()
                faults[name]()
            await cluster.until_true("the killed worker's transactions have ended", IDLE)
        cluster.start_worker()
        await buyers.order([Way.GOOD] * 2)
        await buyers.until_finished(40)
        await cluster.until_empty("every invoice was settled", UNSETTLED, 20)
    await _require_charges(cluster)


async def _require_charges(cluster: Cluster) -> None:
    wrong = await cluster.fetch(WRONGLY_BILLED)
    cluster.require(not wrong, f"{len(wrong)} orders are not on exactly one invoice")
    cluster.require(await cluster.fetchval(LARGEST_INVOICE) >= ORDERS, "no invoice has several orders")
    charged = [row["reference"] for row in await cluster.fetch(WRONGLY_CHARGED)]
    cluster.require(not charged, f"invoices were not charged exactly once: {charged}")
    invoices, captured = await cluster.fetchval(INVOICES), await cluster.fetchval(AT_GATEWAY)
    cluster.require(invoices == captured, f"the gateway captured {captured} charges for {invoices} invoices")
    receipts = [row["reference"] for row in await cluster.fetch(RECEIPTS)]
    cluster.require(not receipts, f"invoices without exactly one receipt: {receipts}")
    cluster.notes.append(f"{invoices} invoices, {captured} charges")
