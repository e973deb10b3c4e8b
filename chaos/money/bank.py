"""SIGKILL of the commands that an operator runs with bank statements, each repeated until it succeeds."""

from collections.abc import Sequence
from pathlib import Path

import asyncpg

from chaos.cluster import Cluster
from chaos.life.buyers import Buyers, Way, open_buyers, short_leases
from chaos.life.kills import HOLD_STREAMS, SETTINGS
from chaos.money.billing import KEEP_OPEN, NOT_MAILED, SETTLE
from chaos.money.commands import kill_command, start_command, until_success
from chaos.scenario import scenario
from tonne.platform.values.context import utc_now

INVOICES = 6
OWN_IBAN, PAYER_IBAN = "DE89370400440532013000", "DE75512108001245126199"
SURPLUS_MINOR = 500
LOCK_ASSIGNMENTS = "LOCK TABLE transfer_assignments IN SHARE MODE"

OPEN_INVOICES = "SELECT reference, total_minor FROM invoices WHERE status = 'open' ORDER BY number"
COUNT_INVOICES = "SELECT count(*) = $1 FROM invoices"
# Everything that an import or a decision about a transfer writes.
WRITTEN = """
SELECT (SELECT count(*) FROM bank_transfers) AS transfers, (SELECT count(*) FROM transfer_assignments) AS assignments,
       (SELECT count(*) FROM transfer_returns) AS returns, (SELECT count(*) FROM return_batches) AS batches,
       (SELECT count(*) FROM invoices WHERE status = 'paid') AS paid_invoices,
       (SELECT count(*) FROM orders WHERE payment_state = 'paid') AS paid_orders,
       (SELECT count(*) FROM audit_log WHERE action LIKE 'transfer.%' OR action LIKE 'bank_statement.%') AS entries
"""
IN_STATE = "SELECT id FROM bank_transfers WHERE state = $1"


@scenario("kill-while-importing-statement", within_s=90, settings={**SETTINGS, "bank_iban": OWN_IBAN})
async def kill_while_importing_statement(cluster: Cluster) -> None:
    """A killed command has done nothing; repeated, it does everything once."""
    importing = cluster.announce("import killed with its transfers stored")
    paying = cluster.announce("import killed when it had paid the orders")
    assigning = cluster.announce("assignment killed")
    returning = cluster.announce("return killed")
    exporting = cluster.announce("export of returns killed")
    together = cluster.announce("two imports of one statement at once")
    buyers = await open_buyers(cluster, [Way.INVOICE])
    invoices = await _open_invoices(cluster, buyers)
    statement = _write_statement(cluster.folder / "statement.csv", invoices)
    words: tuple[str, ...] = ("invoice", "import-statement", str(statement), "--mode", "test")

    await kill_command(cluster, words, WRITTEN, lock=LOCK_ASSIGNMENTS, statement="INSERT INTO transfer_assignments")
    importing()
    await kill_command(cluster, words, WRITTEN, lock=HOLD_STREAMS, statement="event_streams")
    paying()
    await until_success(*(start_command(cluster, *words) for _ in range(2)))
    together()
    lines = len(invoices) + 1
    written = await _written(cluster)
    cluster.require(written["transfers"] == lines, f"{written['transfers']} of {lines} lines are stored")
    cluster.require(written["paid_invoices"] == INVOICES - 1, f"{written['paid_invoices']} invoices are paid")

    unmatched = str(await cluster.fetchval(IN_STATE, "unmatched"))
    words = ("transfer", "assign", unmatched, invoices[-1]["reference"])
    await kill_command(cluster, words, WRITTEN, lock=HOLD_STREAMS, statement="event_streams")
    assigning()
    await until_success(start_command(cluster, *words))
    overpaid = str(await cluster.fetchval(IN_STATE, "overpaid"))
    words = ("transfer", "return", overpaid, "--reason", "chaos")
    await kill_command(cluster, words, WRITTEN)
    returning()
    await until_success(start_command(cluster, *words))
    file = cluster.folder / "returns.xml"
    words = ("transfer", "export-returns", "--mode", "test", "-o", str(file))
    await kill_command(cluster, words, WRITTEN)
    exporting()
    cluster.require(not file.exists(), "a killed export left a file that pays returns")
    await until_success(start_command(cluster, *words))
    cluster.require(file.read_text().count("<CdtTrfTxInf>") == 1, "the file for the bank has not exactly one payment")

    await _require_written_once(cluster, lines)
    cluster.start_worker()
    async with short_leases(cluster):
        await buyers.until_finished()


async def _open_invoices(cluster: Cluster, buyers: Buyers) -> list[asyncpg.Record]:
    """Invoices that are mailed and wait for their money. No worker runs afterwards."""
    await buyers.order([Way.INVOICE] * INVOICES)
    await cluster.execute(KEEP_OPEN)
    worker = cluster.start_worker()
    async with short_leases(cluster):
        await cluster.until_true("the invoices are issued", COUNT_INVOICES, INVOICES)
        await cluster.until_empty("every invoice was mailed", NOT_MAILED, 20)
    worker.kill()
    await cluster.execute(SETTLE)
    return await cluster.fetch(OPEN_INVOICES)


def _write_statement(path: Path, invoices: Sequence[asyncpg.Record]) -> Path:
    """The first invoice is paid in two parts, the second is overpaid, and the line of the last one does not name it."""
    first, second, *others, last = ((row["reference"], row["total_minor"]) for row in invoices)
    half = first[1] // 2
    lines = [(first[0], half), (first[0], first[1] - half), (second[0], second[1] + SURPLUS_MINOR), *others]
    lines.append(("thank you", last[1]))
    today = utc_now().date()
    rows = [f"{today},{minor / 100:.2f},EUR,Buyer,{reference},{PAYER_IBAN}" for reference, minor in lines]
    path.write_text("\n".join(["booked_on,amount,currency,payer,reference,payer_iban", *rows, ""]))
    return path


async def _written(cluster: Cluster) -> asyncpg.Record:
    (row,) = await cluster.fetch(WRITTEN)
    return row


async def _require_written_once(cluster: Cluster, lines: int) -> None:
    written = await _written(cluster)
    expected = {"transfers": lines, "assignments": lines, "returns": 1, "batches": 1, "paid_invoices": INVOICES}
    for what, count in expected.items():
        cluster.require(written[what] == count, f"{written[what]} {what.replace('_', ' ')} instead of {count}")
    cluster.notes.append(f"{lines} transfers")
