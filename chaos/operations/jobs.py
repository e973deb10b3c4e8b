"""A job that always fails, and rows that always fail, in every queue that an order passes: the others go on."""

import asyncio
from collections.abc import Sequence

from chaos.cluster import Cluster
from chaos.life.buyers import Buyers, Way, open_buyers, short_leases
from chaos.life.load import FAST
from chaos.model import Hook
from chaos.scenario import scenario
from tonne.platform.values.context import utc_now
from tonne.selling.accounts.store import add_admin

WATCHED_S = 6.0
# The pauses double from 0.4 s. Without them, a job that is woken by every order would fail hundreds of times.
MAX_FAILURES = 10
ORDERS_MEANWHILE = 60
FAIL = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'poisoned'; END $$"
# To drop the triggers would need locks of their tables, in another order than the jobs take them.
STOP_FAILING = "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$"


@scenario("failing-job", settings=FAST)
async def failing_job(cluster: Cluster) -> None:
    """No mail can be claimed, so the job that sends mail always fails: it neither spins nor stops the other jobs."""
    cluster.log_errors_expected = True
    failed = cluster.announce("job failed", 2)
    buyers = await open_buyers(cluster, [Way.GOOD, Way.INVOICE])
    await cluster.execute(FAIL)
    await cluster.execute("CREATE TRIGGER fault BEFORE UPDATE ON mails EXECUTE FUNCTION fail()")
    worker = cluster.start_worker()
    watched = asyncio.create_task(asyncio.sleep(WATCHED_S))
    order_ids = await buyers.order([Way.GOOD, Way.INVOICE] * (ORDERS_MEANWHILE // 2))
    await buyers.until_complete(order_ids)
    await watched
    failures = worker.log.read_text().count('"job":"send_mails"')
    failed(failures)
    cluster.require(failures <= MAX_FAILURES, f"the failing job ran {failures} times: its back-off has no effect")
    await cluster.execute(STOP_FAILING)
    async with short_leases(cluster):
        await buyers.until_finished(40)


# A condition of a trigger may call a function, but have no query.
IS_FOR_ORDER = """
CREATE FUNCTION is_for_order(invoice text, of_order text) RETURNS boolean LANGUAGE sql
RETURN EXISTS (SELECT FROM invoice_orders WHERE invoice_id = invoice AND order_id = of_order)
"""
# In each queue, the write that fails for the order in `{id}`.
CARD_FAULTS = (
    "INSERT ON charges FOR EACH ROW WHEN (NEW.order_id = '{id}')",
    "UPDATE ON charges FOR EACH ROW WHEN (NEW.order_id = '{id}' AND NEW.status = 'captured')",
    "INSERT ON order_projects FOR EACH ROW WHEN (NEW.order_id = '{id}')",
    "INSERT ON certificates FOR EACH ROW WHEN (NEW.order_id = '{id}')",
)
INVOICE_FAULTS = (
    "INSERT ON invoice_orders FOR EACH ROW WHEN (NEW.order_id = '{id}')",
    "UPDATE ON invoices FOR EACH ROW WHEN (is_for_order(NEW.id, '{id}') AND NEW.mailed_at IS NOT NULL)",
)
MAIL_FAULT = "UPDATE ON mails FOR EACH ROW WHEN (NEW.recipients[1] = '{id}' AND NEW.sent_at IS NOT NULL)"
WEBHOOK_FAULT = "UPDATE ON webhooks FOR EACH ROW WHEN (NEW.id = '{id}' AND NEW.cursor_position <> OLD.cursor_position)"
DONE = "SELECT count(*) = cardinality($1::text[]) FROM orders WHERE id = ANY ($1) AND status = 'complete'"
UNFINISHED = "SELECT count(*) FROM orders WHERE id = ANY ($1) AND status <> 'complete'"
# A row that failed alone is postponed by a minute.
MAKE_DUE = (
    "UPDATE orders SET next_attempt_at = now() WHERE next_attempt_at > now()",
    "UPDATE charges SET next_attempt_at = now() WHERE next_attempt_at > now()",
    "UPDATE invoices SET next_attempt_at = now() WHERE next_attempt_at > now()",
    "UPDATE mails SET next_attempt_at = now() WHERE next_attempt_at > now() AND sent_at IS NULL",
)


@scenario("poison-rows", within_s=90, settings=FAST)
async def poison_rows(cluster: Cluster) -> None:
    """One row fails in each queue. All other rows are processed, and those too once they no longer fail."""
    cluster.log_errors_expected = True
    poisoned_rows = cluster.announce("orders that always fail", len(CARD_FAULTS) + len(INVOICE_FAULTS))
    poisoned_mail = cluster.announce("mail that always fails")
    poisoned_webhook = cluster.announce("webhook that always fails")
    buyers = await open_buyers(cluster, [Way.GOOD, Way.INVOICE])
    hook, recipient = await _open_poisoned(cluster)
    cards = await buyers.order([Way.GOOD] * 10)
    invoices = await buyers.order([Way.INVOICE] * 10)
    await cluster.execute(FAIL)
    await cluster.execute(IS_FOR_ORDER)
    poisoned = [
        *await _poison(cluster, CARD_FAULTS, cards),
        *await _poison(cluster, INVOICE_FAULTS, invoices),
    ]
    await _poison(cluster, [MAIL_FAULT], [recipient])
    await _poison(cluster, [WEBHOOK_FAULT], [hook.id])
    for order_id in await cluster.place(hook.organisation, 2):
        cluster.final_statuses[order_id] = "complete"
    cluster.start_worker()
    sound = [order_id for order_id in (*cards, *invoices) if order_id not in poisoned]
    await cluster.until_true("the sound orders are complete", DONE, sound, within_s=30)
    await cluster.until_true("the sound mails are sent", SENT, recipient, within_s=30)
    poisoned_rows(await _unfinished(buyers, poisoned))
    poisoned_mail(await cluster.fetchval("SELECT count(*) FROM mails WHERE recipients[1] = $1", recipient) > 0)
    poisoned_webhook(len(hook.receiver.exchanges) > 0)
    await cluster.execute(STOP_FAILING)
    for statement in MAKE_DUE:
        await cluster.execute(statement)
    async with short_leases(cluster):
        await buyers.until_finished(30)


SENT = "SELECT NOT EXISTS (SELECT FROM mails WHERE sent_at IS NULL AND recipients[1] <> $1)"


async def _open_poisoned(cluster: Cluster) -> tuple[Hook, str]:
    """An organisation whose webhook and whose mail will fail."""
    recipient = "poisoned@buyer.example"
    hook = await cluster.open_hook("poisoned", accounts=1)
    async with cluster.connection() as tx, tx.transaction():
        await add_admin(tx, hook.organisation.id, recipient, utc_now())
        await tx.execute("UPDATE accounts SET auto_advance = true WHERE organisation_id = $1", hook.organisation.id)
    return hook, recipient


async def _poison(cluster: Cluster, faults: Sequence[str], ids: Sequence[str]) -> list[str]:
    """A fault for each of the first ids."""
    poisoned = list(ids[: len(faults)])
    for fault, poisoned_id in zip(faults, poisoned, strict=True):
        name = f"fault_{poisoned_id.replace('-', '_').replace('@', '_').replace('.', '_')}"
        await cluster.execute(f"CREATE TRIGGER {name} BEFORE {fault.format(id=poisoned_id)} EXECUTE FUNCTION fail()")
    return poisoned


async def _unfinished(buyers: Buyers, order_ids: Sequence[str]) -> int:
    return int(await buyers.cluster.fetchval(UNFINISHED, order_ids))
