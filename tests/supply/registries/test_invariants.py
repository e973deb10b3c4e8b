"""`tonne doctor` finds parcels and requests that contradict each other, or the registry."""

from tests.supply.registries.test_retire_units import buy
from tests.supply.retirements.shop import TONNE, Shop
from tests.support.postgres import undone
from tonne.apps.cli.operations.doctor import find_breaches
from tonne.supply.registries.invariants import INVARIANTS

SERVED = "parcels are retired by the requests that registries have served"
EXISTS = "every recorded retirement exists at the simulated registry"

_CLOSE = "UPDATE registry_instructions SET state = '{}', closed_at = now(), next_attempt_at = NULL WHERE state = '{}'"
# No account is live yet: without foreign keys.
_OF_LIVE = """
SET LOCAL session_replication_role = replica;
UPDATE registry_instructions SET mode = 'live', registry_account = 'registry' WHERE state = 'retired'
"""
# The invariant, the statement that violates it, and the other invariants that it violates.
VIOLATIONS: list[tuple[str, str, set[str]]] = [
    (SERVED, _CLOSE.format("declined", "pending"), set()),
    (SERVED, _CLOSE.format("retired", "pending"), {EXISTS}),
    (SERVED, _OF_LIVE, set()),
    (EXISTS, "DELETE FROM simulated_retirements WHERE state = 'retired'", set()),
    (EXISTS, "UPDATE simulated_retirements SET state = 'declined' WHERE state = 'retired'", set()),
    (EXISTS, _CLOSE.format("declined", "retired"), {SERVED}),
]


def test_every_invariant_is_violated_in_a_test() -> None:
    assert {name for name, _, _ in VIOLATIONS} == {invariant.name for invariant in INVARIANTS}


async def test_a_violation_is_found_and_located(trial: Shop) -> None:
    await trial.sell("wind", {"A": 1})
    for vintage in (2020, 2021):
        await trial.supply("A", vintage, 1)
    orders = [await buy(trial, "Ada", TONNE), await buy(trial, "Registry Pending", TONNE)]
    await trial.work()
    assert await trial.statuses(*orders) == ["complete", "retiring"]
    await trial.check_invariants()
    rows = await trial.fetch("SELECT id FROM registry_instructions")
    for name, statement, also in VIOLATIONS:
        async with undone(trial.database) as tx:
            await tx.execute(statement)
            violations = await find_breaches(tx)
        assert set(violations) == {name} | also, statement
        [place] = violations[name]
        assert any(row["id"] in place for row in rows), statement
        assert "None" not in place
