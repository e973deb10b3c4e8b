"""A monthly run: numbers, lines, tax and the orders' documents. Rendering is measured apart."""

import asyncio
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import psutil

from bench.billing.month import Month
from bench.pace import BillingPace
from bench.report import Goal, NotMeasured, Result
from tonne.base.clock import utc_now
from tonne.invoices.annex import load_annex
from tonne.invoices.invariants import INVARIANTS
from tonne.invoices.issue_consolidated_invoices import IssueConsolidatedInvoices
from tonne.invoices.pdf import invoice_pdf
from tonne.invoices.store import find_by_references_any_account

# For 100,000 orders of 1,000 accounts on two cores.
MOST_SECONDS_EACH = 60 / 100_000
MOST_GROWTH = 1.2
# Of the worker's memory, from the smaller run to the larger one.
MOST_MEMORY_GROWTH = 1.2
PDF_ORDERS = 1_000


async def billing(month: Month, pace: BillingPace, names: AbstractSet[str]) -> Sequence[Result]:
    results = []
    await month.fill(pace.warm_up_each)
    await _bill(month)
    small_s, small_mb = await _run(month, pace.small_each, pace)
    small = pace.accounts * pace.small_each
    if "billing" in names:
        results.append(Result("billing", small_s, "s", small * MOST_SECONDS_EACH, Goal(reach=1.0, at_most=True)))
    if not names.isdisjoint({"billing_growth", "billing_memory"}):
        large_s, large_mb = await _run(month, pace.large_each, pace)
        times = pace.large_each / pace.small_each
        if "billing_growth" in names:
            goal = Goal(reach=MOST_GROWTH, at_most=True)
            results.append(Result("billing_growth", large_s, "s", small_s * times, goal))
        if "billing_memory" in names:
            goal = Goal(reach=MOST_MEMORY_GROWTH, at_most=True)
            results.append(Result("billing_memory", large_mb, "MB", small_mb, goal))
    if "billing_pdf" in names:
        results.append(await _render(month))
    return results


async def _run(month: Month, orders_each: int, pace: BillingPace) -> tuple[float, float]:
    """Seconds of a monthly run, and the memory of this process at its end."""
    await month.fill(orders_each)
    started = time.perf_counter()
    await _bill(month)
    took_s = time.perf_counter() - started
    async with month.environment.connection() as connection:
        billed = await connection.fetchval(
            "SELECT count(*) FROM invoice_orders WHERE order_id LIKE $1", f"ord_bench{month.rounds}\\_%"
        )
        breaches = [each.name for each in INVARIANTS if await connection.fetch(each.sql)]
    if billed != pace.accounts * orders_each or breaches:
        raise NotMeasured(f"{billed} of {pace.accounts * orders_each} orders were billed. Breaches: {breaches}.")
    return took_s, psutil.Process().memory_info().rss / 1e6


async def _bill(month: Month) -> None:
    job = IssueConsolidatedInvoices(month.database, utc_now, month.settings)
    while await job.run_once():
        pass


async def _render(month: Month) -> Result:
    """Seconds for the PDF of one invoice, annex included. For comparison only."""
    async with month.environment.connection() as connection:
        reference = await connection.fetchval("SELECT reference FROM invoices ORDER BY order_count DESC LIMIT 1")
        [invoice] = await find_by_references_any_account(connection, [reference])
        started = time.perf_counter()
        annex = await load_annex(connection, invoice)
        await asyncio.to_thread(invoice_pdf, invoice.read_record(), annex=annex)
    took_s = time.perf_counter() - started
    return Result("billing_pdf", took_s, "s", invoice.order_count / PDF_ORDERS)
