"""A monthly run: numbers, lines, tax, the orders' documents and the journal. PDFs and mails are measured apart."""

import asyncio
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.billing.month import Month
from bench.environment import cpu_s_by_process
from bench.pace import BillingPace
from bench.report import Goal, NotMeasured, Result
from tonne.money.accounting.books.post_entries import PostEntries
from tonne.money.accounting.journal.export import csv_entry, csv_head
from tonne.money.accounting.journal.invariants import INVARIANTS as JOURNAL_INVARIANTS
from tonne.money.accounting.journal.read_journal import read_entries_any_account
from tonne.money.invoices.document_numbers import find_by_references_any_account
from tonne.money.invoices.documents.pdf import invoice_pdf, load_annex
from tonne.money.invoices.invariants import INVARIANTS
from tonne.money.invoices.issuing.issue_invoices import IssueConsolidatedInvoices
from tonne.money.invoices.mail import InvoiceLetter, compose_invoice_mail
from tonne.platform.documents.mail.send_mail import Attachment

# For 100,000 orders of 1,000 accounts on two cores: documents, the stored journal, and its export.
MOST_SECONDS_EACH = 90 / 100_000
# Of each order of a consolidated invoice.
MOST_LEDGER_BYTES = 800
CORES = 2
MOST_GROWTH = 1.2
# Growth of the peak memory of this process from the smaller run to the larger one.
MOST_MEMORY_GROWTH = 1.2
PDF_ORDERS = 1_000


@dataclass(slots=True)
class Spent:
    """CPU time is that of this process and of its database connections."""

    wall_s: float = 0.0
    cpu_s: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.wall_s + other.wall_s, self.cpu_s + other.cpu_s)


@dataclass(frozen=True, slots=True)
class Run:
    issuing: Spent
    journal: Spent
    # The highest so far.
    memory_mb: float
    # What its entries take on disk, with their indexes.
    ledger_bytes: int

    @property
    def total(self) -> Spent:
        return self.issuing + self.journal


async def billing(month: Month, pace: BillingPace, names: AbstractSet[str]) -> Sequence[Result]:
    results = []
    await _run(month, pace.warm_up_each, pace)
    small = [await _run(month, pace.small_each, pace) for _ in range(pace.small_rounds)]
    large = await _run(month, pace.large_each, pace)
    most_s = pace.accounts * pace.large_each * MOST_SECONDS_EACH
    if "billing" in names:
        results += [
            Result("billing", large.total.wall_s, "s", most_s, Goal(reach=1.0, at_most=True)),
            Result("billing_cpu", large.total.cpu_s, "s", most_s * CORES),
            Result("billing_journal", large.journal.wall_s, "s", most_s),
            Result(
                "billing_ledger", large.ledger_bytes / (pace.accounts * pace.large_each), "bytes", MOST_LEDGER_BYTES
            ),
        ]
    times = pace.large_each / pace.small_each
    if "billing_growth" in names:
        small_cpu_s = statistics.median(run.total.cpu_s for run in small)
        small_wall_s = statistics.median(run.total.wall_s for run in small)
        goal = Goal(reach=MOST_GROWTH, at_most=True)
        results += [
            Result("billing_growth_cpu", large.total.cpu_s, "s", small_cpu_s * times, goal),
            Result("billing_growth_time", large.total.wall_s, "s", small_wall_s * times),
        ]
    if "billing_memory" in names:
        goal = Goal(reach=MOST_MEMORY_GROWTH, at_most=True)
        results.append(Result("billing_memory", large.memory_mb, "MB", small[-1].memory_mb, goal))
    if "billing_pdf" in names:
        results += await _render(month)
    return results


async def _run(month: Month, orders_each: int, pace: BillingPace) -> Run:
    """Bill this many orders of each account, and export the journal of the month."""
    count = pace.accounts * orders_each
    with _progress(f"{count:,} orders: filling the tables"):
        await month.fill(orders_each)
    with _progress(f"{count:,} orders: issuing invoices"):
        async with _spending(month) as issuing:
            await _bill(month)
    with _progress(f"{count:,} orders: completing the orders"):
        await month.complete()
    before = await _ledger_bytes(month)
    with _progress(f"{count:,} orders: booking and exporting the journal"):
        async with _spending(month) as journal:
            await _post(month)
            entries = await _export(month)
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    with _progress(f"{count:,} orders: checking the results"):
        await _check(month, count, entries)
    return Run(issuing, journal, memory_mb, await _ledger_bytes(month) - before)


@asynccontextmanager
async def _spending(month: Month) -> AsyncIterator[Spent]:
    spent, pids = Spent(), [*await month.environment.backends()]
    backends_s = sum(cpu_s_by_process(pids).values())
    started, cpu_s = time.perf_counter(), time.process_time()
    yield spent
    spent.wall_s = time.perf_counter() - started
    spent.cpu_s = time.process_time() - cpu_s + sum(cpu_s_by_process(pids).values()) - backends_s


class _progress:  # noqa: N801 - used like a function
    """Says on stderr what runs now, and how long it took: a full run takes minutes."""

    def __init__(self, text: str) -> None:
        self._text, self._started = text, time.perf_counter()

    def __enter__(self) -> None:
        print(f"{self._text} ...", end=" ", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        print(f"{time.perf_counter() - self._started:.1f} s", file=sys.stderr, flush=True)


async def _bill(month: Month) -> None:
    job = IssueConsolidatedInvoices(month.database, month.clock, month.settings)
    while await job.run_once():
        pass


async def _post(month: Month) -> None:
    """Store the entries of all that changed, as the worker does."""
    job = PostEntries(month.database, month.clock, month.settings)
    while await job.run_once():
        pass


LEDGER_BYTES = "SELECT pg_total_relation_size('ledger_entries') + pg_total_relation_size('ledger_postings')"


async def _ledger_bytes(month: Month) -> int:
    async with month.environment.connection() as connection:
        return int(await connection.fetchval(LEDGER_BYTES))


async def _export(month: Month) -> int:
    """Write the journal of the month as `tonne export journal` does. Returns the number of entries."""
    count = 0
    file = month.environment.folder / f"journal-{month.rounds}.csv"
    async with month.database.transaction() as tx:
        # Commands have no limit on the time of a statement.
        await tx.execute("SET LOCAL statement_timeout = 0")
        with file.open("x", encoding="utf-8", newline="") as stream:
            stream.write(csv_head())
            async for entry in read_entries_any_account(tx, month.period()):
                stream.write(csv_entry(entry))
                count += 1
    return count


COUNT_BILLED = "SELECT count(*), count(DISTINCT invoice_id) AS invoices FROM invoice_orders WHERE order_id LIKE $1"


async def _check(month: Month, count: int, entries: int) -> None:
    async with month.environment.connection() as connection:
        billed, invoices = await connection.fetchrow(COUNT_BILLED, month.order_ids()) or (0, 0)
        checks = (*INVARIANTS, *JOURNAL_INVARIANTS)
        breaches = [each.name for each in checks if await connection.fetch(each.sql)]
    if billed != count or breaches:
        raise NotMeasured(f"{billed} of {count} orders were billed. Breaches: {breaches}.")
    if entries != count + invoices:
        raise NotMeasured(f"The journal has {entries} entries for {count} orders and {invoices} invoices.")


async def _render(month: Month) -> list[Result]:
    """Seconds for the PDF of the largest invoice, annex included, and for the mail around it. For comparison only."""
    async with month.environment.connection() as connection:
        reference = await connection.fetchval("SELECT reference FROM invoices ORDER BY order_count DESC LIMIT 1")
        [invoice] = await find_by_references_any_account(connection, [reference])
        record, started = invoice.read_record(), time.perf_counter()
        annex = await load_annex(connection, invoice)
        pdf = await asyncio.to_thread(invoice_pdf, record, annex=annex)
        rendered = time.perf_counter()
        recipients = ["billing@example.com"]
        attached = [Attachment(f"{record.number}.pdf", pdf)]
        letter = InvoiceLetter(month.settings, recipients, record, attached, cancel_on=invoice.due_on)
        compose_invoice_mail(letter).as_bytes()
        mailed_s = time.perf_counter() - rendered
    limit_s = invoice.order_count / PDF_ORDERS
    return [
        Result("billing_pdf", rendered - started, "s", limit_s),
        Result("billing_mail", mailed_s, "s", limit_s),
    ]
