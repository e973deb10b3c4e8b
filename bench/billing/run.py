from collections.abc import Set as AbstractSet

from bench.billing.month import open_month
from bench.billing.throughput import billing
from bench.pace import QUICK_BILLING, BillingPace
from bench.report import Report

NAMES = ("billing", "billing_growth", "billing_memory", "billing_pdf")


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    pace = QUICK_BILLING if quick else BillingPace()
    async with open_month(pace) as month:
        for result in await billing(month, pace, names):
            report.add(result)
