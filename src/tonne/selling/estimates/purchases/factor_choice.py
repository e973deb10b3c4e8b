"""Which imported factor applies to a purchase.

Factors for transactions are imported like all others. Their category is `Merchant category` with the four digits of the
merchant category code (ISO 18245), their unit is a currency: `Merchant category 5411`, `EUR`.
"""

import re
from collections.abc import Sequence

from tonne.platform.values.amounts import DECIMALS
from tonne.selling.estimates.factors.model import WORLD, Factor, FactorSet
from tonne.selling.estimates.geography.countries import alpha_3, find_country
from tonne.selling.estimates.purchases.errors import TransactionFactorNotFound

CATEGORY = "Merchant category"
_CATEGORY = re.compile(rf"{CATEGORY} ([0-9]{{4}})", re.ASCII)


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
