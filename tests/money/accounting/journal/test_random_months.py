"""Random months of business, some of which are closed: journal, bank, card gateway and doctor agree to the cent."""

import os
import random
from datetime import timedelta

import msgspec
import pytest
from beancount import loader

from tests.money.accounting.journal.month import Month
from tests.support.clock import MARCH, ManualClock
from tests.support.rounds import IS_LONG, ROUNDS
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.journal.export import beancount_entry, beancount_head
from tonne.money.accounting.journal.model import LedgerAccount
from tonne.money.accounting.journal.read_journal import Period, read_entries_any_account, sum_balances
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode

CHUNKS, MONTHS, STEPS = 3 * ROUNDS if IS_LONG else 1, 2, 80
# What the gateway has of ours, by its own records.
AT_GATEWAY = """
SELECT coalesce(sum(charge.amount_minor - charge.refunded_minor), 0)::bigint
     - coalesce((SELECT sum(amount_minor) FROM simulated_disputes WHERE status <> 'won'), 0)::bigint
FROM simulated_charges charge WHERE charge.status = 'captured'
"""
WITHDRAWN = "SELECT coalesce(sum(amount_minor), 0)::bigint FROM simulated_disputes WHERE status = 'opened'"
# What customers owe and are expected to pay, less what is on its way back to them.
OWED = """
SELECT coalesce(sum(invoice.total_minor - invoice.credited_minor), 0)::bigint
     - coalesce((SELECT sum(assignment.amount_minor) FROM transfer_assignments assignment
                 JOIN invoices paid ON paid.id = assignment.invoice_id
                 WHERE paid.mode = 'live'
                   AND NOT (paid.status = 'open' AND paid.written_off_at IS NOT NULL)), 0)::bigint
     + coalesce((SELECT sum(back.amount_minor) FROM transfer_returns back
                 WHERE back.status = 'returned' AND back.invoice_id IS NOT NULL), 0)::bigint
FROM invoices invoice
WHERE invoice.mode = 'live' AND NOT invoice.settled_by_hand
  AND NOT (invoice.status = 'open' AND invoice.written_off_at IS NOT NULL)
"""
# What is written off and was neither paid nor credited since.
WRITTEN_OFF = """
SELECT coalesce(sum(invoice.total_minor - invoice.credited_minor - coalesce(received.minor, 0)), 0)::bigint
FROM invoices invoice
LEFT JOIN (SELECT invoice_id, sum(amount_minor) AS minor FROM transfer_assignments GROUP BY invoice_id) AS received
  ON received.invoice_id = invoice.id
WHERE invoice.mode = 'live' AND invoice.status = 'open' AND invoice.written_off_at IS NOT NULL
"""
# What customers owe who pay by card, less what is on its way back to them. What a lost dispute took of orders that were
# not delivered is not returned to them.
OWED_BY_CARD = """
SELECT coalesce(sum(invoice.total_minor - invoice.credited_minor
                    - CASE WHEN invoice.is_prepaid THEN 0 ELSE coalesce(invoice.settled_minor, 0) END), 0)::bigint
     - coalesce((SELECT sum(least(charges.captured_minor, charges.amount_minor)) FROM charges
                 WHERE charges.order_id IS NOT NULL AND NOT charges.is_surplus
                   AND charges.status IN ('captured', 'refunded')), 0)::bigint
     + coalesce((SELECT sum(refunds.amount_minor) FROM refunds JOIN charges ON charges.id = refunds.charge_id
                 WHERE NOT charges.is_surplus AND refunds.state = 'succeeded'
                   AND refunds.purpose <> 'surplus'), 0)::bigint
     + coalesce((SELECT sum(posting.amount_minor) FROM ledger_entries entry
                 JOIN ledger_postings posting ON posting.entry_id = entry.id
                 WHERE entry.kind = 'dispute_closed' AND posting.account = 'Assets:Receivables'), 0)::bigint
FROM invoices invoice WHERE invoice.mode = 'test' AND invoice.payment_method = 'card'
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    tax_point = random.SystemRandom().choice(("invoice", "payment", "supply"))
    return msgspec.structs.replace(settings, tax_point=os.environ.get("MONTHS_TAX_POINT") or tax_point)


@pytest.mark.parametrize("chunk", range(CHUNKS))
async def test_the_books_agree_with_bank_gateway_and_doctor(
    services: Services, world: World, clock: ManualClock, chunk: int
) -> None:
    seed = int(os.environ.get("MONTHS_SEED") or random.SystemRandom().getrandbits(32))
    print(f"MONTHS_SEED={seed} MONTHS_TAX_POINT={services.settings.tax_point} chunk={chunk}")  # noqa: T201 - shown when the test fails
    month = Month(services, world, clock, random.Random(seed))  # noqa: S311 - repeatable on purpose
    await month.import_chart()
    await month.begin()
    files = dict[str, str]()
    for _ in range(MONTHS):
        for _ in range(STEPS):
            await month.step()
        await month.end_month()
        await check(month)
        now = await month.closed_files()
        assert {name: now[name] for name in files} == files, "the files of closed months do not change"
        files = now


async def check(month: Month) -> None:
    await month.post_entries()
    await month.check_invariants()
    test, live = await balances(month, Mode.TEST), await balances(month, Mode.LIVE)
    at_gateway = await month.fetchval(AT_GATEWAY)
    disputed = test.get(LedgerAccount.DISPUTED, 0)
    assert test.get(LedgerAccount.CARD_CLEARING, 0) == at_gateway - month.paid_out
    assert disputed == await month.fetchval(
        "SELECT coalesce(sum(withdrawn_minor), 0) FROM disputes WHERE state = 'opened'"
    )
    assert live.get(LedgerAccount.BANK, 0) == month.banked["received"] - month.banked["returned"]
    assert live.get(LedgerAccount.BAD_DEBTS, 0) == await month.fetchval(WRITTEN_OFF)
    if not await month.fetchval("SELECT count(*) FROM invoices WHERE settled_by_hand"):
        assert live.get(LedgerAccount.RECEIVABLES, 0) == await month.fetchval(OWED)
    assert test.get(LedgerAccount.RECEIVABLES, 0) == await month.fetchval(OWED_BY_CARD)
    for mode in Mode:
        assert await beancount_errors(month, mode) == []


async def balances(month: Month, mode: Mode) -> dict[LedgerAccount, int]:
    async with month.database.connection() as connection:
        found = await sum_balances(connection, period(month, mode))
    assert {posting.currency for posting in found} <= {"EUR"}
    assert sum(posting.amount_minor for posting in found) == 0
    return {posting.account: posting.amount_minor for posting in found}


def period(month: Month, mode: Mode) -> Period:
    return Period(mode, MARCH - timedelta(days=1), month.clock.now + timedelta(days=2))


async def beancount_errors(month: Month, mode: Mode) -> list[object]:
    async with month.database.transaction() as tx:
        entries = [each async for each in read_entries_any_account(tx, period(month, mode))]
    codes = {posting.tax_code for each in entries for posting in each.postings if posting.tax_code}
    head = beancount_head(MARCH.date() - timedelta(days=1), codes)
    _, errors, _ = loader.load_string(head + "".join(beancount_entry(each) for each in entries))
    assert entries
    return list(errors)
