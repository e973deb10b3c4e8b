"""`tonne doctor` finds books that do not balance."""

import random

import asyncpg
import pytest

from tests.money.accounting.journal.month import Month
from tests.support.clock import ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.journal.invariants import INVARIANTS
from tonne.money.accounting.journal.model import LedgerAccount
from tonne.money.accounting.journal.sources import SOURCES, TABLE_OF_KIND
from tonne.platform.db.database import Database

REOPENED, TAXED, _BALANCED, POSTED, TOTALS, HOME, BAD_DEBTS, DEFERRED = (invariant.name for invariant in INVARIANTS)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("UPDATE tax_documents SET tax_minor = tax_minor - 1 WHERE tax_minor > 0", TAXED),
        ("UPDATE tax_documents SET tax_lines = jsonb_build_object('FR-S-20', tax_minor) WHERE tax_minor > 0", TAXED),
        ("UPDATE invoices SET written_off_at = created_at", BAD_DEBTS),
        ("UPDATE tax_documents SET total_minor = total_minor + 1 WHERE kind = 'invoice'", DEFERRED),
    ],
)
async def test_books_that_contradict_each_other_are_reported(
    services: Services, world: World, clock: ManualClock, statement: str, name: str
) -> None:
    month = Month(services, world, clock, random.Random(1))  # noqa: S311 - repeatable on purpose
    await month.begin()
    await month.work()
    await month.post_entries()
    assert await month.breaches() == {}
    await month.tamper(statement)
    assert name in await month.breaches()


# By a command line, which needs two approvals.
REOPEN = """
INSERT INTO closed_months (id, mode, month, closed_at, closed_by, known_until, balances, number_ranges, oss_rates,
                           reopen_reason, reopen_requested_by, reopen_requested_at, reopened_at)
VALUES ('mon_1', 'live', '2025-01-01', now(), 'user:usr_1', now(), '[]', '[]', '{}', 'x', 'cli:root@host', now(), now())
"""
APPROVE = """
INSERT INTO approvals (kind, subject_id, digest, requested_by, approved_by, session_id, factor, at)
VALUES ('reopening', 'mon_1', sha256('x'), 'cli:root@host', $1, 's', 'token', now())
"""


async def test_a_month_that_was_reopened_without_approvals_is_reported(
    services: Services, world: World, clock: ManualClock
) -> None:
    month = Month(services, world, clock, random.Random(1))  # noqa: S311 - repeatable on purpose
    await month.execute(REOPEN)
    for user in ("user:usr_1", "user:usr_2"):
        assert await month.breaches() == {REOPENED: ["live 2025-01, requested by cli:root@host"]}
        await month.execute(APPROVE, user)
    assert await month.breaches() == {}


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("UPDATE ledger_postings SET amount_minor = amount_minor + 1 WHERE account = 'Assets:Receivables'", "posted"),
        ("DELETE FROM ledger_entries WHERE kind = 'invoiced'", "posted totals"),
        ("UPDATE ledger_totals SET debit_minor = debit_minor + 1", "totals"),
        ("UPDATE tax_documents SET total_minor = total_minor + 1 WHERE kind = 'invoice'", "posted"),
    ],
)
async def test_books_that_differ_from_the_records_are_reported(
    services: Services, world: World, clock: ManualClock, statement: str, names: str
) -> None:
    month = Month(services, world, clock, random.Random(1))  # noqa: S311 - repeatable on purpose
    await month.begin()
    await month.work()
    await month.post_entries()
    await month.tamper(statement)
    found = await month.breaches()
    assert (POSTED in found, TOTALS in found) == ("posted" in names, "totals" in names or "postings" in statement)


@pytest.mark.parametrize(
    ("table", "column"),
    [("ledger_entries", "subject"), ("ledger_postings", "home_minor"), ("tax_documents", "corrects")],
)
async def test_entries_and_documents_cannot_be_changed(db: Database, table: str, column: str) -> None:
    for statement in (f"UPDATE {table} SET {column} = NULL", f"DELETE FROM {table}", f"TRUNCATE {table} CASCADE"):  # noqa: S608
        with pytest.raises(asyncpg.RaiseError, match="is append-only"):
            async with db.transaction() as tx:
                await tx.execute(statement)


async def test_every_account_and_kind_can_be_stored(db: Database) -> None:
    async with db.connection() as connection:
        assert await connection.fetchval("SELECT enum_range(NULL::ledger_account)::text[]") == [*LedgerAccount]
    assert {source.kind for source in SOURCES} == TABLE_OF_KIND.keys()
