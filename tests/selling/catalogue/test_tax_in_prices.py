"""Tax on top of prices: what the payer pays never exceeds a requested value, and a card can be charged it."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.pricing_oracle import GRAMS, NOW, Case
from tonne.platform.values.amounts import NO_TAX, TaxTerms, TaxTreatment, apportion, charge_unit, minimum_charge, tax_on
from tonne.platform.values.context import Mode, replace
from tonne.selling.accounts.model import Billing, PaymentMethod, Terms
from tonne.selling.catalogue.errors import ChargeTooSmall, PriceRoundsToZero, QuantityInvalid, ValueInvalid
from tonne.selling.catalogue.model import Catalogue, ExchangeRate
from tonne.selling.catalogue.prices.price import PriceRequest, price, price_for_display, tax_minor_on
from tonne.selling.catalogue.prices.pricing import MAX_MINOR
from tonne.selling.catalogue.selection import BundleChoiceIn

RATES = st.integers(1, 100_000).map(lambda thousandths: Fraction(thousandths, 100_000))
PRICES = st.lists(st.integers(1, 10**6), min_size=1, max_size=4)
CURRENCIES = st.sampled_from(["EUR", "JPY", "KWD", "MGA", "ISK"])
METHODS = st.sampled_from(list(PaymentMethod))
BILLINGS = st.sampled_from([Billing.PER_ORDER, Billing.MONTHLY])
GERMAN = TaxTerms(TaxTreatment.STANDARD, Fraction(19, 100))


def terms_of(
    rate: Fraction, currency: str = "EUR", method: PaymentMethod = PaymentMethod.INVOICE, billing: Billing | None = None
) -> Terms:
    tax = TaxTerms(TaxTreatment.STANDARD, rate)
    return Terms(currency, method, Fraction(1, 10), None, "Ours", tax=tax, billing=billing or Billing.PER_ORDER)


def catalogue_of(prices: list[int]) -> Catalogue:
    shares = Case(tuple(prices), (1,) * len(prices)).shares()
    rates = {quote: ExchangeRate("EUR", quote, Decimal(1), "test", NOW) for quote in ("JPY", "KWD", "MGA", "ISK")}
    return Catalogue(Mode.TEST, "EUR", 1, None, {}, {share.bundle.id: share.bundle for share in shares}, rates)


def choices_of(catalogue: Catalogue) -> list[BundleChoiceIn]:
    return [BundleChoiceIn(bundle_id) for bundle_id in catalogue.bundles]


@given(PRICES, RATES, CURRENCIES, METHODS, st.integers(1, 10**11))
def test_a_value_is_never_exceeded_and_used_as_far_as_the_prices_allow(
    prices: list[int], rate: Fraction, currency: str, method: PaymentMethod, value: int
) -> None:
    catalogue, terms = catalogue_of(prices), terms_of(rate, currency, method)
    request = PriceRequest(value_minor=value, choices=choices_of(catalogue))
    try:
        priced = price(request, terms, catalogue)
    except (ValueInvalid, QuantityInvalid, ChargeTooSmall, PriceRoundsToZero):
        assume(False)
    tax = tax_minor_on(priced.total_cost_minor, terms)
    assert tax is not None
    due = priced.total_cost_minor + tax
    assert due <= value
    if method is PaymentMethod.CARD:
        assert due % charge_unit(currency) == 0
        assert due >= minimum_charge(currency)
    # One more gram of each bundle and one more unit of money would cost more than the value.
    unit = charge_unit(currency) if method is PaymentMethod.CARD else 1
    grams = Fraction(sum(line.gross_unit_price_minor for line in priced.lines), GRAMS)
    more = priced.total_cost_minor + -(-grams // unit) * unit + unit
    assert more + tax_on(int(more), TaxTreatment.STANDARD, rate, unit=unit) > value - value % unit


@given(PRICES, RATES, CURRENCIES, METHODS, st.integers(1, 10**9))
def test_tax_does_not_change_the_cost_of_a_quantity(
    prices: list[int], rate: Fraction, currency: str, method: PaymentMethod, grams: int
) -> None:
    catalogue, terms = catalogue_of(prices), terms_of(rate, currency, method)
    request = PriceRequest(mass_grams=grams, choices=choices_of(catalogue))
    taxed = price_for_display(request, terms, catalogue)
    assert taxed == price_for_display(request, replace(terms, tax=NO_TAX), catalogue)
    if taxed is not None:
        unit = charge_unit(currency) if method is PaymentMethod.CARD else 1
        tax = tax_minor_on(taxed.total_cost_minor, terms)
        assert tax == tax_on(taxed.total_cost_minor, TaxTreatment.STANDARD, rate, unit=unit)


@given(st.lists(st.integers(3, 10**6), min_size=1, max_size=20), RATES, CURRENCIES, METHODS)
def test_no_order_of_a_consolidated_invoice_exceeds_its_value(
    values: list[int], rate: Fraction, currency: str, method: PaymentMethod
) -> None:
    catalogue, terms = catalogue_of([1]), terms_of(rate, currency, method, Billing.MONTHLY)
    unit = charge_unit(currency) if method is PaymentMethod.CARD else 1
    nets = []
    for value in values:
        try:
            request = PriceRequest(value_minor=value, choices=choices_of(catalogue))
            nets.append((value, price(request, terms, catalogue).total_cost_minor))
        except (ValueInvalid, PriceRoundsToZero):
            continue
    assume(nets)
    tax_minor = tax_on(sum(net for _, net in nets), TaxTreatment.STANDARD, rate, unit=unit)
    taxes = apportion(tax_minor, [net for _, net in nets])
    for (value, net), tax in zip(nets, taxes, strict=True):
        assert net + tax <= value


def test_tax_of_orders_that_are_billed_together_is_not_known_yet() -> None:
    assert tax_minor_on(1000, terms_of(Fraction(19, 100), billing=Billing.THRESHOLD)) is None
    assert tax_minor_on(1000, terms_of(Fraction(19, 100), billing=Billing.THRESHOLD).at_checkout()) is not None


def test_the_minimum_of_a_card_payment_includes_tax() -> None:
    catalogue, terms = catalogue_of([1000]), terms_of(Fraction(19, 100), "EUR", PaymentMethod.CARD)
    choices = choices_of(catalogue)
    # 0.43 and 19 % are 0.51, of which a card can be charged 0.50 or more.
    assert price(PriceRequest(mass_grams=38_000, choices=choices), terms, catalogue).total_cost_minor == 43
    with pytest.raises(ChargeTooSmall, match=r"The total is 0\.49 EUR"):
        price(PriceRequest(mass_grams=36_500, choices=choices), terms, catalogue)


def test_small_card_orders_that_are_billed_together_have_no_minimum() -> None:
    catalogue = catalogue_of([1000])
    terms = terms_of(Fraction(19, 100), "EUR", PaymentMethod.CARD, Billing.THRESHOLD)
    assert price(PriceRequest(mass_grams=1, choices=choices_of(catalogue)), terms, catalogue).total_cost_minor == 1


def test_a_cost_that_only_tax_makes_too_large_is_refused() -> None:
    catalogue = catalogue_of([MAX_MINOR // 2])
    request = PriceRequest(mass_grams=1_700_000, choices=choices_of(catalogue))
    terms = replace(terms_of(Fraction(19, 100)), fee_rate=Fraction(0))
    assert price(request, replace(terms, tax=NO_TAX), catalogue).total_cost_minor <= MAX_MINOR
    with pytest.raises(QuantityInvalid, match="too large"):
        price(request, terms, catalogue)
