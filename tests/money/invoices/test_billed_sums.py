"""Sums of orders that are billed together: each is rounded once, and the shares of the orders sum to it."""

import random
from fractions import Fraction

import hypothesis.strategies as st
from hypothesis import given

from tests.support.rounds import ROUNDS
from tonne.money.invoices.documents.billed_sums import BilledSums, ExactOrder, SummedLine, sum_billed
from tonne.platform.values.amounts import NO_TAX, TaxTerms, TaxTreatment, ceil, half_up, tax_on

_GRAMS = (1, 999, 2_400, 1_000, 10_000, 333_333, 7_000_000)
_PRICES = ((1265, 1406), (1265, 1265), (690, 767), (1, 1), (3, 4), (1_234_567, 1_371_741))
_TERMS = (
    NO_TAX,
    TaxTerms(TaxTreatment.STANDARD, Fraction(19, 100)),
    TaxTerms(TaxTreatment.STANDARD, Fraction(81, 1000)),
    TaxTerms(TaxTreatment.REVERSE_CHARGE),
)
# Of each example: 100 examples are 10,000 groups with 100,000 sums, and ten times as many in `make test-random`.
GROUPS = 100 * ROUNDS


def _bill(orders: list[list[tuple[int, int, int]]], tax: TaxTerms = NO_TAX, charged: int = 1) -> BilledSums:
    """Orders as lines of grams and prices."""
    grams: dict[tuple[int, int], int] = {}
    for order in orders:
        for mass, unit, gross in order:
            grams[unit, gross] = grams.get((unit, gross), 0) + mass
    lines = [SummedLine(mass, unit, gross) for (unit, gross), mass in grams.items()]
    exact = [
        ExactOrder(
            sum(mass * gross for mass, _, gross in order), sum(mass * (gross - unit) for mass, unit, gross in order)
        )
        for order in orders
    ]
    return sum_billed(lines, exact, tax, unit=charged)


def test_orders_of_a_kilogram_are_not_rounded_one_by_one() -> None:
    many = _bill([[(1_000, 1265, 1406)]] * 400 + [[(7_000_000, 1265, 1406)]])
    assert (many.fee_minor, many.allowance_minor, many.net_minor) == (1043, 0, 10404)
    parcels = _bill([[(2_400, 1265, 1406)]] * 100)
    assert (parcels.fee_minor, parcels.net_minor, sum(share.net_minor for share in parcels.shares)) == (34, 338, 338)
    assert {share.net_minor for share in parcels.shares} == {3, 4}


def test_the_sum_costs_no_more_than_one_order_of_all() -> None:
    sums = _bill([[(500, 1000, 1100), (500, 1001, 1101), (500, 1002, 1102)]])
    assert (sums.fee_minor, sums.allowance_minor, sums.net_minor) == (0, 1, 2)


def test_what_a_card_pays_is_rounded_down_to_its_unit() -> None:
    """As the price of an order that a card pays alone: net amount and tax are both multiples of the unit."""
    orders = [[(1_000_000, 1265, 1406)], [(123_456, 1265, 1406)]]
    sums = _bill(orders, _TERMS[1], charged=10)
    assert (sums.allowance_minor, sums.net_minor, sums.tax_minor) == (9, 1570, 300)
    assert [share.net_minor for share in sums.shares] == [1401, 169]


def test_dust_costs_nothing() -> None:
    assert _bill([[(1, 1265, 1406)]] * 3, _TERMS[1]).net_minor == 0


def _faults(orders: list[list[tuple[int, int, int]]], tax: TaxTerms, charged: int) -> list[str]:
    sums = _bill(orders, tax, charged)
    exact = [sum(mass * gross for mass, _, gross in order) for order in orders]
    lines = {(unit, gross) for order in orders for _, unit, gross in order}
    costs = [ceil(each, 10**6) for each in exact]
    nets = [share.net_minor for share in sums.shares]
    holds = {
        "shares sum to the net amount": sum(nets) == sums.net_minor,
        "no share above the total cost of its order": all(map(int.__le__, nets, costs)),
        "no part is negative": all(min(each.offset_minor, each.fee_minor, each.tax_minor) >= 0 for each in sums.shares),
        "fees sum": sum(each.fee_minor for each in sums.shares) == min(sums.fee_minor, sums.net_minor),
        "tax once": sum(each.tax_minor for each in sums.shares)
        == sums.tax_minor
        == tax_on(sums.net_minor, tax.treatment, tax.rate, unit=charged),
        "a card can be charged": (sums.net_minor + sums.tax_minor) % charged == 0,
        "at most as one order": sums.net_minor <= ceil(sum(exact), 10**6),
        "close to the exact sum": -(len(lines) + 1) * 500_000
        <= sum(exact) - sums.net_minor * 10**6
        <= (len(lines) + 1) * 500_000 + (charged - 1) * 10**6,
        "fee rounded once": sums.fee_minor
        == half_up(sum(mass * (gross - unit) for order in orders for mass, unit, gross in order), 10**6),
    }
    return [f"{name}: {orders}" for name, is_held in holds.items() if not is_held]


@given(st.integers(0, 2**64))
def test_the_shares_of_any_orders_fit_the_sums(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    for _ in range(GROUPS):
        tax, most, charged = chance.choice(_TERMS), chance.choice((1, 3, 20)), chance.choice((1, 1, 10, 100))
        orders = [
            [
                (chance.choice(_GRAMS) * chance.randint(1, 9), *chance.choice(_PRICES))
                for _ in range(chance.choice((1, 1, 1, 2, 3)))
            ]
            for _ in range(chance.randint(1, most))
        ]
        assert _faults(orders, tax, charged) == []
