"""The pricing rules, one by one. The oracle in tests/support/pricing_oracle.py checks whole orders."""

import dataclasses
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from msgspec import structs

from tests.support.pricing_oracle import GRAMS, NOW, TEN_PER_CENT, Case, check_price, supplied
from tonne.platform.values.amounts import DECIMALS, MAX_GRAMS, charge_unit, format_money, format_tonnes, minimum_charge
from tonne.platform.values.context import Mode, replace
from tonne.platform.values.errors import TonneError
from tonne.selling.catalogue.errors import PriceRoundsToZero, PriceUnavailable, QuantityInvalid, ValueInvalid
from tonne.selling.catalogue.model import Catalogue, ExchangeRate
from tonne.selling.catalogue.prices.pricing import BundleShare, PriceList, price_quantity

MANUAL = (Path(__file__).parents[3] / "docs" / "pricing.md").read_text(encoding="utf-8")
VECTORS = [
    ("1040 x 6.90", "7.67", "7176.00", "7976.80", "800.80"),
    ("0.1 x 250.00", "277.78", "25.00", "27.78", "2.78"),
    ("0.000001 x 6.90", "7.67", "0.00", "0.01", "0.01"),
    ("0.95 x 12.65 and 0.05 x 250.00", "14.06 and 277.78", "24.52", "27.25", "2.73"),
]


@pytest.mark.parametrize(("lines", "gross", "offset_cost", "total_cost", "commission"), VECTORS)
def test_the_vectors_come_out_to_the_cent(
    lines: str, gross: str, offset_cost: str, total_cost: str, commission: str
) -> None:
    tonnes, net = zip(*(line.split(" x ") for line in lines.split(" and ")), strict=True)
    grams = [int(Decimal(quantity) * GRAMS) for quantity in tonnes]
    case = Case(tuple(int(Decimal(price) * 100) for price in net), tuple(grams))
    priced = case.by_quantity(sum(grams))
    assert [format_tonnes(line.quantity_grams) for line in priced.lines] == list(tonnes)
    assert [format_money(line.unit_price_minor, "EUR") for line in priced.lines] == list(net)
    assert [format_money(line.gross_unit_price_minor, "EUR") for line in priced.lines] == gross.split(" and ")
    costs = (priced.offset_cost_minor, priced.total_cost_minor, priced.commission_minor)
    assert [format_money(cost, "EUR") for cost in costs] == [offset_cost, total_cost, commission]
    check_price(case, priced, grams)


def test_the_manual_shows_exactly_these_vectors() -> None:
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in MANUAL.splitlines()]
    assert [row for row in rows if " x " in row[0] and len(row) == 5] == VECTORS


def test_the_manuals_example_by_value_is_true() -> None:
    priced = Case((1265, 940), (60, 40)).by_value(5000)
    assert [line.gross_unit_price_minor for line in priced.lines] == [1406, 1044]
    assert [line.quantity_grams for line in priced.lines] == [2_378_686, 1_585_791]
    assert [line.offset_cost_minor for line in priced.lines] == [3009, 1491]
    assert (priced.offset_cost_minor, priced.commission_minor, priced.total_cost_minor) == (4500, 500, 5000)
    example = MANUAL.partition("## An example by value")[2].partition("##")[0]
    shown = (
        "14.06",
        "10.44",
        "12.612",
        "2.378686 t",
        "1.585791 t",
        "3.964477 t",
        "30.09 and 14.91",
        "45.00",
        "50.00",
        "5.00",
    )
    assert [figure for figure in shown if figure not in example] == []


@pytest.mark.parametrize(
    ("net_minor", "currency", "rate", "converted_minor"),
    [
        (1265, "USD", "1.08", 1366),  # 13.662
        (690, "USD", "1.5", 1035),
        (1, "USD", "0.5", 1),  # exactly half a cent goes up
        (1, "USD", "0.499999999999", 0),
        (3, "USD", "0.5", 2),
        (1265, "JPY", "162", 2049),  # 2049.3
        (50, "JPY", "1", 1),  # 0.50
        (49, "JPY", "1", 0),
        (25000, "ISK", "149.5", 37375),
        (1265, "KWD", "0.332", 4200),  # 4.1998
        (1, "KWD", "0.05", 1),  # 0.0005
        (1, "KWD", "0.049999999999", 0),
    ],
)
def test_a_price_is_converted_once_and_rounded_half_up(
    net_minor: int, currency: str, rate: str, converted_minor: int
) -> None:
    case = Case((net_minor,), (1,), currency=currency, rate=Decimal(rate))
    assert case.prices().net_minor(case.shares()[0].bundle) == converted_minor


def test_every_later_sum_uses_the_rounded_price() -> None:
    # 6.90 EUR are 7.452 USD, so 7.45; a thousand tonnes cost a thousand times that, not 7452.00.
    priced = Case((690,), (1,), currency="USD", rate=Decimal("1.08")).by_quantity(1000 * GRAMS)
    assert priced.lines[0].unit_price_minor == 745
    assert priced.offset_cost_minor == 745_000
    assert priced.lines[0].gross_unit_price_minor == 828
    assert priced.total_cost_minor == 828_000


def test_the_exchange_rate_used_stays_with_the_price() -> None:
    priced = Case((690,), (1,), currency="USD", rate=Decimal("1.08")).by_quantity(GRAMS)
    assert priced.exchange == ExchangeRate("EUR", "USD", Decimal("1.08"), "test", NOW)
    assert Case((690,), (1,)).by_quantity(GRAMS).exchange is None


def test_without_an_exchange_rate_there_is_no_price() -> None:
    with pytest.raises(PriceUnavailable, match="from EUR to USD"):
        PriceList(Catalogue(Mode.TEST, "EUR", 1, None, {}, {}, {}), "USD", TEN_PER_CENT)


@pytest.mark.parametrize(
    ("net_minor", "fee_rate", "gross_minor"),
    [
        (690, "0.10", 767),
        (690, "0", 690),
        (690, "0.5", 1380),
        (1000, "0.99999", 100_000_000),
        (1, "0.33333", 1),
        (2, "0.2", 3),
    ],
)
def test_the_fee_is_that_part_of_what_the_customer_pays(net_minor: int, fee_rate: str, gross_minor: int) -> None:
    case = Case((net_minor,), (1,), fee_rate=Fraction(fee_rate))
    assert case.prices().gross_minor(case.shares()[0].bundle) == gross_minor


def test_money_22_without_a_fee_there_is_no_commission() -> None:
    case = Case((690, 1265), (1, 2), fee_rate=Fraction(0))
    assert case.by_quantity(3 * GRAMS).commission_minor == 0
    # Less than half a cent: the total is rounded up, and the offset cost follows it.
    priced = case.by_quantity(1)
    assert (priced.offset_cost_minor, priced.total_cost_minor, priced.commission_minor) == (1, 1, 0)
    assert [line.offset_cost_minor for line in priced.lines] == [1]


def test_grams_left_over_go_to_the_largest_remainder_and_ties_to_the_first() -> None:
    thirds = Case((690, 690, 690), (1, 1, 1))
    assert [line.quantity_grams for line in thirds.by_quantity(100).lines] == [34, 33, 33]
    assert [line.quantity_grams for line in thirds.by_quantity(101).lines] == [34, 34, 33]
    uneven = Case((690, 690, 690), (3333, 3333, 3334))
    assert [line.quantity_grams for line in uneven.by_quantity(100).lines] == [33, 33, 34]


def test_a_bundle_whose_part_is_below_a_gram_has_no_line() -> None:
    priced = Case((690, 25_000), (1, 1)).by_quantity(1)
    assert [(line.bundle_id, line.quantity_grams) for line in priced.lines] == [("bun_0", 1)]
    priced = Case((690, 25_000), (9999, 1)).by_value(1)
    assert [line.bundle_id for line in priced.lines] == ["bun_0"]


@pytest.mark.parametrize("mass_grams", [0, -1, MAX_GRAMS + 1])
def test_a_quantity_out_of_bounds_is_refused(mass_grams: int) -> None:
    with pytest.raises(QuantityInvalid):
        Case((690,), (1,)).by_quantity(mass_grams)


def test_the_bounds_themselves_can_be_bought() -> None:
    case = Case((690,), (1,))
    assert case.by_quantity(1).quantity_grams == 1
    assert case.by_quantity(MAX_GRAMS).total_cost_minor == 767 * 100_000_000


@pytest.mark.parametrize("value_minor", [0, -1])
def test_a_value_below_one_minor_unit_is_refused(value_minor: int) -> None:
    with pytest.raises(ValueInvalid):
        Case((690,), (1,)).by_value(value_minor)


def test_a_value_that_buys_less_than_a_gram_is_refused() -> None:
    # A gram costs exactly one cent at 10,000.00 with the fee: 9,000.00 net.
    assert Case((900_000,), (1,)).by_value(1).quantity_grams == 1
    with pytest.raises(ValueInvalid):
        Case((900_001,), (1,)).by_value(1)
    with pytest.raises(ValueInvalid):
        # Two lines that each fall below a gram, although both together would make one.
        Case((900_000, 900_000), (1, 1)).by_value(1)


def test_a_value_that_buys_more_than_the_largest_quantity_is_refused() -> None:
    case = Case((690,), (1,))
    assert case.by_value(767 * 100_000_000).quantity_grams == MAX_GRAMS
    with pytest.raises(QuantityInvalid):
        case.by_value(767 * 100_000_000 + 1)


@pytest.mark.parametrize(
    ("net_minor", "rate", "mass_grams"),
    [
        (100_000, "1000000", 100_000_000 * GRAMS),  # a dear bundle in a weak currency
        (10**11, "1", 100_000_000 * GRAMS),
        (10**11, "999999999999", 1),  # the largest price and rate that a catalogue takes
    ],
)
def test_an_amount_that_no_column_could_hold_is_refused_and_not_left_to_crash(
    net_minor: int, rate: str, mass_grams: int
) -> None:
    case = Case((net_minor,), (1,), currency="USD", rate=Decimal(rate))
    with pytest.raises(TonneError):
        case.by_quantity(mass_grams)


def test_money_11_a_price_that_rounds_to_zero_is_refused() -> None:
    case = Case((5000, 49), (1, 1), currency="JPY")
    with pytest.raises(PriceRoundsToZero, match="Bundle 1 rounds to zero in JPY"):
        case.by_quantity(5 * GRAMS)
    with pytest.raises(PriceRoundsToZero):
        case.by_value(1000)
    # Also if the value is below what a card can be charged.
    with pytest.raises(PriceRoundsToZero):
        dataclasses.replace(case, total_unit=100).by_value(99)


def test_money_11_a_rate_that_is_too_old_gives_no_price() -> None:
    rates = {"USD": ExchangeRate("EUR", "USD", Decimal("1.08"), "test", NOW)}
    catalogue = Catalogue(Mode.LIVE, "EUR", 1, None, {}, {}, rates, rates_since=NOW)
    assert PriceList(catalogue, "USD", TEN_PER_CENT).exchange == rates["USD"]
    with pytest.raises(PriceUnavailable, match="too old: it is of 2026-11-01"):
        PriceList(replace(catalogue, rates_since=NOW + timedelta(seconds=1)), "USD", TEN_PER_CENT)


def test_prices_are_kept_until_the_catalogue_changes() -> None:
    rates = {"USD": ExchangeRate("EUR", "USD", Decimal("1.08"), "test", NOW)}
    catalogue = Catalogue(Mode.LIVE, "EUR", 1, None, {}, {}, rates)
    kept = PriceList.kept(catalogue, "USD", TEN_PER_CENT)
    assert PriceList.kept(catalogue, "USD", Fraction(1, 10)) is kept
    for different in (
        PriceList.kept(catalogue, "EUR", TEN_PER_CENT),
        PriceList.kept(catalogue, "USD", Fraction(1, 5)),
        PriceList.kept(catalogue, "USD", TEN_PER_CENT, total_unit=10),
    ):
        assert different is not kept
    with pytest.raises(PriceUnavailable):
        PriceList.kept(replace(catalogue, rates={}), "USD", TEN_PER_CENT)


@pytest.mark.parametrize(
    ("currency", "rate", "unit", "mass_grams", "total_minor"),
    [
        # 4.200 KWD net, 4.667 gross: 1.5 t cost 7.0005.
        ("KWD", "0.332", 10, 1_500_000, 7_010),
        ("KWD", "0.332", 1, 1_500_000, 7_001),
        ("BHD", "0.332", 10, 1, 10),
        # 63,250.00 MGA net, 70,277.78 gross: Stripe charges whole ariary.
        ("MGA", "5000", 100, 1_000_000, 7_027_800),
        ("EUR", "1", 1, 1_000_000, 1_406),
    ],
)
def test_money_10_totals_are_rounded_up_to_what_a_card_can_be_charged(
    currency: str, rate: str, unit: int, mass_grams: int, total_minor: int
) -> None:
    case = Case((1265,), (1,), currency=currency, rate=Decimal(rate), total_unit=unit)
    priced = case.by_quantity(mass_grams)
    assert priced.total_cost_minor == total_minor
    assert priced.offset_cost_minor == dataclasses.replace(case, total_unit=1).by_quantity(mass_grams).offset_cost_minor
    check_price(case, priced, [mass_grams])


def test_money_10_a_value_is_first_rounded_down_to_what_a_card_can_be_charged() -> None:
    case = Case((1265,), (1,), currency="KWD", rate=Decimal("0.332"), total_unit=10)
    priced = case.by_value(10_009)
    assert priced == case.by_value(10_000)
    assert priced.total_cost_minor == 10_000
    with pytest.raises(ValueInvalid):
        case.by_value(9)


def test_short_supply_is_said_and_does_not_change_the_price() -> None:
    case = Case((690, 940), (1, 1))
    shares = [
        BundleShare(replace(share.bundle, projects=(supplied(f"prj_{i}", 500_000),)), share.weight)
        for i, share in enumerate(case.shares())
    ]
    enough = price_quantity(case.prices(), shares, 1_000_000)
    short = price_quantity(case.prices(), shares, 1_000_001)
    assert [line.insufficient_available_quantity for line in enough.lines] == [False, False]
    assert [line.insufficient_available_quantity for line in short.lines] == [True, False]
    assert short == structs.replace(case.by_quantity(1_000_001), lines=short.lines)


def test_the_manual_lists_the_minimum_charges() -> None:
    table = MANUAL.partition("<!-- minimum charges -->")[2].partition("<!-- /minimum charges -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")[3:-1]]
    listed = {currency: least for least, currencies in rows for currency in currencies.split(", ")}
    above = {code for code in DECIMALS if minimum_charge(code) > charge_unit(code)}
    assert listed == {code: format_money(minimum_charge(code), code) for code in above}
