"""Many orders are paid in several steps of one transaction."""

import asyncio

import pytest

from tests.money.invoices.billing import Billing
from tests.support.world import TESTER, World, add_account
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.invoices import settle_invoice
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode

LINES = """booked_on,amount,currency,payer,reference
2026-03-02,13.95,EUR,Ada,TN-LIVE-000001
2026-03-02,13.95,EUR,Eve,TN-LIVE-000002
"""
LOCK = "SELECT FROM event_streams WHERE organisation_id = $1 AND mode = 'live' FOR UPDATE NOWAIT"


async def test_event_streams_are_locked_in_one_order_whatever_the_order_of_the_accounts(
    billing: Billing, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle_invoice, "CHUNK", 1)
    first, second = sorted((world.ours_live.scope.organisation_id, world.theirs_test.scope.organisation_id))
    async with billing.database.transaction() as tx:
        # Orders are paid by account: that of the second organisation comes first.
        accounts = [await add_account(tx, each, Mode.LIVE, now=billing.clock()) for each in (second, first)]
    for scope in accounts:
        await billing.place_order(scope)
    await billing.issue.run_once()

    async def import_lines() -> None:
        async with billing.database.transaction() as tx:
            file = SheetFile("march.csv", LINES.encode())
            await import_statement(tx, Mode.LIVE, file, settings=billing.settings, by=TESTER.at(billing.clock()))

    async with billing.database.transaction() as tx:
        await tx.execute(LOCK, first)
        importing = asyncio.create_task(import_lines())
        await billing.until_waiting_for_lock()
        # A transaction that has the first stream gets the second one: the import has locked neither.
        await tx.execute(LOCK, second)
    await importing
    assert await billing.fetchval("SELECT count(*) FROM orders WHERE status = 'paid'") == 2
    await billing.check_invariants()
