"""`tonne doctor` finds books that do not balance."""

import random

import pytest

from tests.money.accounting.journal.month import Month
from tests.support.clock import ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.journal.invariants import INVARIANTS

BALANCED, BAD_DEBTS, DEFERRED = (invariant.name for invariant in INVARIANTS)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("UPDATE invoices SET total_minor = total_minor + 1", BALANCED),
        ("UPDATE charges SET amount_minor = amount_minor + 1, captured_minor = captured_minor + 2", BALANCED),
        ("UPDATE invoices SET written_off_at = created_at", BAD_DEBTS),
        ("UPDATE invoice_orders SET fee_minor = fee_minor + 1, total_minor = total_minor + 1", DEFERRED),
    ],
)
async def test_books_that_contradict_each_other_are_reported(
    services: Services, world: World, clock: ManualClock, statement: str, name: str
) -> None:
    month = Month(services, world, clock, random.Random(1))  # noqa: S311 - repeatable on purpose
    await month.begin()
    await month.work()
    assert await month.breaches() == {}
    await month.execute(statement)
    assert name in await month.breaches()
