"""No unit is retired twice, and the books equal the registry, in every history of faults: 20,000 with ROUNDS=10."""

from collections import Counter

import pytest

from tests.supply.registries import broken_clients
from tests.supply.registries.histories import Client, run_history
from tests.support.rounds import ROUNDS
from tonne.supply.registries.gateway import Repeat

HISTORIES = 1_000 * ROUNDS
KINDS = {"lost", "late", "doubled", "answer lost", "slow worker", "unavailable", "kill", "held up", "settled"}
BROKEN = (
    (broken_clients.SentBeforeCommit, Repeat.KEY),
    (broken_clients.EveryRefusalIsFinal, Repeat.HOLDING),
    (broken_clients.PendingIsAskedAgain, Repeat.KEY),
    (broken_clients.SettledUnseen, Repeat.KEY),
    (broken_clients.SettledUnseen, Repeat.HOLDING),
    (broken_clients.SentHoweverLate, Repeat.KEY),
    (broken_clients.SentHoweverLate, Repeat.HOLDING),
    (broken_clients.PendingIsClosedInDoubt, Repeat.HOLDING),
    (broken_clients.NewKeyAfterTimeout, Repeat.KEY),
    (broken_clients.NewKeyAfterTimeout, Repeat.HOLDING),
    (broken_clients.OldestCredits, Repeat.HOLDING),
)


@pytest.mark.parametrize("repeat", list(Repeat))
def test_nothing_is_retired_twice(repeat: Repeat) -> None:
    faults: Counter[str] = Counter()
    for seed in range(HISTORIES):
        found, of_history = run_history(seed, repeat)
        assert not found, f"seed {seed}: {found}"
        faults += of_history
    assert {kind for kind, count in faults.items() if count > HISTORIES / 10} == KINDS, faults


@pytest.mark.parametrize(("client", "repeat"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_without_a_rule_units_are_lost_or_retired_twice(client: type[Client], repeat: Repeat) -> None:
    """Otherwise the model would prove nothing."""
    assert any(run_history(seed, repeat, client)[0] for seed in range(HISTORIES)), "no history fails"
