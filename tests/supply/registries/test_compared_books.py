"""The comparison of the books in the kill test of registries finds what it is for: it is proved on broken books."""

import pytest

from chaos.registries.books import Books, compare_books
from tests.supply.registries.test_retire_units import buy
from tests.supply.retirements.shop import TONNE, Shop
from tests.support.postgres import undone

# Each is one statement on the books of the registry or of the service, and what must be found.
TAKE = """
INSERT INTO simulated_retirements (registry_account, key, reference, holding_id, units, beneficiary, state, created_at)
SELECT registry_account, 'other', reference, holding_id, {units}, beneficiary, state, created_at
FROM simulated_retirements
"""
MORE_UNITS = "int8multirange(int8range(upper(units), upper(units) + 1))"
BROKEN = {
    "retired twice at the registry": TAKE.format(units="units"),
    "retired at the registry only": TAKE.format(units=MORE_UNITS),
    "retired in the books only": "DELETE FROM simulated_retirements",
    "requests with other units than retired": "UPDATE registry_instructions SET unit_count = unit_count + 1",
    "lots with other units left than in the books": (
        "UPDATE simulated_holdings SET active = active - int8multirange(int8range(upper(active) - 1, upper(active)))"
    ),
    "sold more than retired, or nothing": "UPDATE shares SET quantity_grams = quantity_grams + 1",
}


@pytest.fixture
async def books(trial: Shop) -> Books:
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    await buy(trial, "Ada", 3 * TONNE)
    await trial.work()
    rows = await trial.fetch("SELECT lots.id, namespace FROM lots JOIN serial_blocks ON number = serial_block")
    namespaces = {row["id"]: row["namespace"] for row in rows}
    return Books("sim-key", "sim-key", namespaces.__getitem__)


async def test_books_that_agree_and_books_that_are_broken(trial: Shop, books: Books) -> None:
    async with trial.database.connection() as connection:
        assert await compare_books(books, connection, connection) == (3, [])
    for what, broken in BROKEN.items():
        async with undone(trial.database) as tx:
            await tx.execute("SET CONSTRAINTS ALL DEFERRED")
            await tx.execute(broken)
            _, problems = await compare_books(books, tx, tx)
            assert any(what in problem for problem in problems), (what, problems)
