"""The emissions of a purchase: its value × the factor of the merchant's category."""

import re
from collections.abc import Sequence
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from functools import partial

from msgspec import Struct

from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import replace
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.estimates.calculated import (
    Annotations,
    Calculated,
    EstimateKind,
    emission_step,
    mass_out,
    plain,
    step,
    to_grams,
)
from tonne.selling.estimates.calculated_schemas import ExplainStepOut
from tonne.selling.estimates.errors import MassInvalid
from tonne.selling.estimates.factors.model import WORLD, Factor, FactorSet
from tonne.selling.estimates.factors.schemas import factor_out
from tonne.selling.estimates.geography.countries import alpha_3, find_country
from tonne.selling.estimates.purchases.errors import ExchangeRateNotFound, TransactionFactorNotFound
from tonne.selling.estimates.purchases.schemas import MerchantIn, RegionFallback, TransactionIn, TransactionOut

CATEGORY = "Merchant category"
_CATEGORY = re.compile(rf"{CATEGORY} ([0-9]{{4}})", re.ASCII)


_DIET_NOT_USED = "The diet was not used: no emission factor depends on it."
_ALWAYS_NULL = ("search_term_match_score", "semantic_matching_model", "diet_factor", "external_estimate_url")


def transaction_factors(factors: FactorSet) -> list[Factor]:
    return [factor for factor in factors.all if factor.unit in DECIMALS and _CATEGORY.fullmatch(factor.category)]


def by_category(factors: FactorSet, category_code: str) -> list[Factor]:
    """Raises TransactionFactorNotFound."""
    known = _require_any(factors)
    found = [factor for factor in known if factor.category == f"{CATEGORY} {category_code}"]
    if not found:
        codes = sorted({factor.category.removeprefix(f"{CATEGORY} ") for factor in known})
        shown = f"{', '.join(codes[:20])}{' and more' if len(codes) > 20 else ''}"
        message = (
            f"There is no emission factor for the merchant category {category_code}. There are factors for {shown}."
        )
        raise TransactionFactorNotFound(message, field="merchant.category_code")
    return found


def by_search_term(factors: FactorSet, term: str) -> list[Factor]:
    """Chooses the best category: the one with the shortest name that contains all words of the term."""
    words = term.casefold().split()
    matches = [
        factor
        for factor in _require_any(factors)
        if words and all(word in factor.activity.casefold() for word in words)
    ]
    if not matches:
        raise TransactionFactorNotFound(
            "No emission factor for transactions matches the search_term. Use fewer words, or send category_code.",
            field="merchant.search_term",
        )
    best = min(matches, key=lambda factor: (len(factor.activity), factor.category))
    return [factor for factor in matches if factor.category == best.category]


def in_region(found: Sequence[Factor], country_code: str, *, falls_back: bool) -> Factor:
    """The latest factor of the country, or of the world if that is allowed."""
    country = find_country(country_code)
    if country is None:
        message = "There is no country with this code. Send an ISO 3166-1 code such as DEU."
        raise TransactionFactorNotFound(message, field="merchant.country_code")
    regions = [country.iso3, WORLD] if falls_back else [country.iso3]
    for region in regions:
        local = [factor for factor in found if factor.region == region]
        if local:
            return max(local, key=lambda factor: (factor.year, factor.id))
    have = ", ".join(sorted({factor.region for factor in found}))
    advice = (
        "" if falls_back or WORLD not in have else " Send region_fallback always to use the one of the world (WLD)."
    )
    raise TransactionFactorNotFound(
        f"There is no emission factor for {alpha_3(country_code)} in this merchant category, only for {have}.{advice}",
        field="merchant.country_code",
    )


def _require_any(factors: FactorSet) -> list[Factor]:
    known = transaction_factors(factors)
    if not known:
        raise TransactionFactorNotFound
    return known


class Conversion(Struct, frozen=True):
    """One unit of the value's currency costs `rate` units of the factor's. `day` is that of the older of two rates."""

    rate: Decimal
    day: date


def conversion(currency: str, to: str, catalogue: Catalogue) -> Conversion | None:
    """None if nothing has to be converted. Raises ExchangeRateNotFound."""
    if currency == to:
        return None
    (base, base_day), (quote, quote_day) = (_per_catalogue_unit(each, catalogue) for each in (currency, to))
    days = [day for day in (base_day, quote_day) if day is not None]
    return Conversion((quote / base).quantize(Decimal("0.00000001"), ROUND_HALF_UP), min(days))


def _per_catalogue_unit(currency: str, catalogue: Catalogue) -> tuple[Decimal, date | None]:
    """Units of the currency for one unit of the catalogue's, and the day of that rate."""
    if currency == catalogue.currency:
        return Decimal(1), None
    rate = catalogue.rates.get(currency)
    if rate is None:
        raise ExchangeRateNotFound(
            f"There is no exchange rate from {catalogue.currency} to {currency}. Send the value in another currency.",
            field="value.currency",
        )
    if catalogue.rates_since is not None and rate.as_of < catalogue.rates_since:
        raise ExchangeRateNotFound(
            f"The exchange rate from {catalogue.currency} to {currency} is too old: it is of {rate.as_of:%Y-%m-%d}. "
            "Send the value in another currency, or try again when there is a new one.",
            field="value.currency",
        )
    return rate.rate, rate.as_of.date()


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
        "methodology_notes": [] if request.diet is None else [_DIET_NOT_USED],
        "search_term_match": None if merchant.search_term is None else factor.activity,
        **dict.fromkeys(_ALWAYS_NULL),
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
    annotations=Annotations("is_transaction", "transaction_processed_at"),
)


def with_rates(catalogue: Catalogue) -> EstimateKind[TransactionIn]:
    """The kind, with the exchange rates of now."""
    return replace(TRANSACTIONS, calculate=partial(calculate_transaction, catalogue=catalogue))
