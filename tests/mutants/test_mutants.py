"""The mutants fit the code and the suite. `make mutants` runs them."""

from collections import Counter

from tests.mutants.mutant import CHECKS, DoesNotApply, all_mutants

# How many may change what every order needs.
MOST_THAT_BREAK_ORDERS = 5


def test_every_mutant_changes_one_place_of_the_code() -> None:
    wrong = []
    for mutant in all_mutants():
        try:
            mutant.applied()
        except DoesNotApply as error:
            wrong.append(str(error))
    assert wrong == []


def test_every_mutant_names_a_check() -> None:
    assert [mutant.name for mutant in all_mutants() if mutant.check not in CHECKS] == []


def test_names_are_unique_and_there_are_enough_mutants() -> None:
    mutants = all_mutants()
    assert len(mutants) >= 150
    assert [name for name, count in Counter(mutant.name for mutant in mutants).items() if count > 1] == []
    assert sum(mutant.breaks_orders for mutant in mutants) <= MOST_THAT_BREAK_ORDERS
