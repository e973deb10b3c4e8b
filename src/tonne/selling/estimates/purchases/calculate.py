"""The emissions of a purchase: its value × the factor of the merchant's category."""

from decimal import Decimal
from functools import partial

from tonne.platform.values.errors import Fault, Invalid
from tonne.platform.values.replace import replace
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.estimates.calculated import Calculated, EstimateKind, emission_step, mass_out, plain, step, to_grams
from tonne.selling.estimates.calculated_schemas import ExplainStepOut
from tonne.selling.estimates.errors import MassInvalid
from tonne.selling.estimates.factors.model import Factor, FactorSet
from tonne.selling.estimates.factors.schemas import factor_out
from tonne.selling.estimates.purchases.errors import ExchangeRateNotFound, TransactionFactorNotFound
from tonne.selling.estimates.purchases.exchange import Conversion, conversion
from tonne.selling.estimates.purchases.factor_choice import by_category, by_search_term, in_region
from tonne.selling.estimates.purchases.schemas import MerchantIn, RegionFallback, TransactionIn, TransactionOut


def calculate_transaction(request: TransactionIn, factors: FactorSet, *, catalogue: Catalogue | None) -> Calculated:
    if catalogue is None:
        raise LookupError("exchange rates are read before a transaction is calculated")
    paid, merchant = request.value, request.merchant
    if not paid.value:
        raise MassInvalid("The value is 0. Send what was paid.", field="value.value")
    factor = in_region(
        _candidates(merchant, factors),
        merchant.country_code,
        falls_back=request.region_fallback is RegionFallback.ALWAYS,
    )
    rate = conversion(paid.currency, factor.unit, catalogue)
    value = paid.value if rate is None else paid.value * rate.rate
    total = factor.kg_per_unit + (factor.well_to_tank or 0)
    kilograms = value * total
    steps = [
        step(
            f"Factor for “{factor.activity}” ({factor.category}) in {factor.region}",
            f"{plain(total)} kg per {factor.unit}",
            total,
            f"kg/{factor.unit}",
            factor,
        ),
        *([] if rate is None else [_conversion_step(paid.value, paid.currency, factor, rate)]),
        emission_step("What the purchase causes", [f"{plain(value, 6)} {factor.unit}"], factor, total, kilograms),
        step("Rounded to the gram", f"{mass_out(to_grams(kilograms)).amount} kg", kilograms, "kg"),
    ]
    answer = {
        "emission_factor": factor_out(factor),
        "exchange_rate": None if rate is None else plain(rate.rate),
        "exchange_rate_date": None if rate is None else rate.day.isoformat(),
    }
    return Calculated(to_grams(kilograms), steps, [factor], answer)


def _candidates(merchant: MerchantIn, factors: FactorSet) -> list[Factor]:
    if (merchant.category_code is None) == (merchant.search_term is None):
        message = "merchant needs a category_code or a search_term, and not both."
        raise Invalid([Fault("validation_error", message, "merchant")])
    if merchant.category_code is not None:
        return by_category(factors, merchant.category_code)
    return by_search_term(factors, merchant.search_term or "")


def _conversion_step(value: Decimal, currency: str, factor: Factor, rate: Conversion) -> ExplainStepOut:
    converted = value * rate.rate
    formula = f"{plain(value)} {currency} × {plain(rate.rate)} = {plain(converted, 6)} {factor.unit}"
    return step(f"Exchange rate of {rate.day.isoformat()}", formula, converted, factor.unit)


TRANSACTIONS = EstimateKind(
    name="transactions",
    noun="a transaction",
    about="By the category of the merchant and the value of the purchase. Only if the operator imported factors for "
    "merchant categories: the package has none.",
    operation="TransactionEstimate",
    parameter="transaction_estimate_id",
    request=TransactionIn,
    answer=TransactionOut,
    calculate=partial(calculate_transaction, catalogue=None),
    errors=(TransactionFactorNotFound, ExchangeRateNotFound),
    example={
        "value": {"value": "42.50", "currency": "EUR"},
        "merchant": {"country_code": "DEU", "category_code": "5411", "name": "Corner shop"},
        "region_fallback": "always",
    },
)


def with_rates(catalogue: Catalogue) -> EstimateKind[TransactionIn]:
    """The kind, with the exchange rates of now."""
    return replace(TRANSACTIONS, calculate=partial(calculate_transaction, catalogue=catalogue))
