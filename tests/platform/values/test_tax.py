from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tonne.platform.values.amounts import TaxTreatment, format_rate, largest_net, tax_on
from tonne.platform.values.tax_codes import code_of

RATES = st.integers(0, 100_000).map(lambda thousandths: Fraction(thousandths, 100_000))
AMOUNTS = st.integers(0, 10**18)
UNITS = st.sampled_from([1, 10, 100])
UNTAXED = [treatment for treatment in TaxTreatment if treatment is not TaxTreatment.STANDARD]
STANDARD = TaxTreatment.STANDARD


@given(AMOUNTS, RATES)
def test_tax_is_rounded_half_up(net: int, rate: Fraction) -> None:
    exact = Decimal(net) * rate.numerator / 1
    expected = (exact / rate.denominator).quantize(Decimal(1), ROUND_HALF_UP) if net < 10**12 else None
    tax = tax_on(net, STANDARD, rate)
    assert abs(tax - net * rate) <= Fraction(1, 2)
    if expected is not None:
        assert tax == expected


@given(AMOUNTS, RATES, UNITS)
def test_tax_is_a_multiple_of_the_unit(net: int, rate: Fraction, unit: int) -> None:
    tax = tax_on(net, STANDARD, rate, unit=unit)
    assert tax % unit == 0
    assert abs(tax - net * rate) <= Fraction(unit, 2)


@given(AMOUNTS, RATES, UNITS, st.sampled_from(UNTAXED))
def test_only_the_standard_treatment_adds_tax(net: int, rate: Fraction, unit: int, treatment: TaxTreatment) -> None:
    assert tax_on(net, treatment, rate, unit=unit) == 0
    assert largest_net(net, treatment, rate, unit=unit) == net - net % unit


@given(AMOUNTS, RATES, UNITS)
def test_the_largest_net_never_exceeds_the_gross_and_one_unit_more_does(gross: int, rate: Fraction, unit: int) -> None:
    net = largest_net(gross, STANDARD, rate, unit=unit)
    assert net % unit == 0
    assert net + tax_on(net, STANDARD, rate, unit=unit) <= gross
    more = net + unit
    assert more + tax_on(more, STANDARD, rate, unit=unit) > gross


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20), RATES)
def test_tax_is_monotonic(amounts: list[int], rate: Fraction) -> None:
    taxes = [tax_on(amount, STANDARD, rate) for amount in sorted(amounts)]
    assert taxes == sorted(taxes)


def test_rates_are_spelled_in_per_cent() -> None:
    spelled = {format_rate(Fraction(rate)) for rate in ("0.19", "0.081", "0", "0.00125", "1")}
    assert spelled == {"19", "8.1", "0", "0.125", "100"}


def test_codes_name_the_tax_in_the_characters_of_ledger_accounts() -> None:
    cases = {
        "DE-S-19": ("DE", TaxTreatment.STANDARD, Fraction(19, 100), False),
        "FI-S-25-5-OSS": ("FI", TaxTreatment.STANDARD, Fraction(255, 1000), True),
        "S-8-1": (None, TaxTreatment.STANDARD, Fraction(81, 1000), False),
        "DE-AE": ("DE", TaxTreatment.REVERSE_CHARGE, Fraction(0), False),
        "E": ("DE", TaxTreatment.EXEMPT, Fraction(0), False),
        "O": ("DE", TaxTreatment.OUTSIDE_SCOPE, Fraction(0), False),
        "N": ("DE", TaxTreatment.NONE, Fraction(0), False),
    }
    for code, (country, treatment, rate, oss) in cases.items():
        assert code_of(country, treatment, rate, oss=oss) == code
