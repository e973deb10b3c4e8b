"""The runner tells a mutant that the suite kills from one that survives."""

from pathlib import Path

import pytest

from tests.conftest import Server
from tests.mutants.mutant import DoesNotApply, Mutant, all_mutants
from tests.mutants.run import Fate, Trial, is_sharp, report, try_all
from tests.mutants.workshop import Workshop

LIMIT = "MAX_LIMIT = 100\n"
PAGING = "platform/values/paging.py"
REFUSED = "limits.a_limit_of_101_is_refused"


def _mutant(name: str, new: str) -> Mutant:
    return Mutant(name, PAGING, LIMIT, new, REFUSED)


def test_a_mutant_is_killed_and_one_that_changes_nothing_survives(server: Server, tmp_path: Path) -> None:
    workshop = Workshop(server, tmp_path)
    workshop.prepare()
    said: list[str] = []
    try:
        trials = try_all(
            workshop, [_mutant("killed", "MAX_LIMIT = 101\n"), _mutant("alive", f"{LIMIT}\n")], said.append
        )
    finally:
        workshop.close()
    assert [trial.fate for trial in trials] == [Fate.KILLED, Fate.SURVIVED]
    assert trials[0].reason in {check.id for check in trials[0].mutant.own_checks}
    lines = report(trials)
    assert "2 mutants, 1 not killed (50.0%)" in lines
    assert f"SURVIVED: alive ({PAGING})" in lines
    assert not is_sharp(trials)
    assert said[0].startswith("killed")
    assert (tmp_path / "src" / "tonne" / PAGING).read_text().count(LIMIT) == 1, "the copy is as it was"


def test_a_mutant_whose_text_is_not_there_exactly_once_does_not_apply() -> None:
    with pytest.raises(DoesNotApply, match="0 times, not once"):
        Mutant("gone", PAGING, "MAX_LIMIT = 7", "MAX_LIMIT = 8", REFUSED).applied()
    with pytest.raises(DoesNotApply, match="no Python"):
        _mutant("broken", "MAX_LIMIT = = 101\n").applied()


def test_two_survivors_of_a_hundred_are_few_enough() -> None:
    [mutant, *_] = all_mutants()

    def trials(survivors: int) -> list[Trial]:
        fates = [Fate.SURVIVED] * survivors + [Fate.KILLED] * (100 - survivors)
        return [Trial(mutant, fate, 1.0) for fate in fates]

    assert is_sharp(trials(2))
    assert not is_sharp(trials(3))
