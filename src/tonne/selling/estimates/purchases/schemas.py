"""Request and response bodies of estimates for transactions."""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Timestamp
from tonne.selling.catalogue.schemas import DecimalText
from tonne.selling.estimates.calculated_schemas import AS_SENT, CalculatedOut, CommonIn, Moment
from tonne.selling.estimates.factors.schemas import EmissionFactorOut
from tonne.selling.estimates.geography.places import CountryCode

MAX_BATCH = 100


def _read_currency(value: Any) -> str:
    if not isinstance(value, str) or value not in DECIMALS:
        raise ValueError("expected an ISO 4217 code such as EUR")
    return value


class RegionFallback(StrEnum):
    NEVER = "never"
    ALWAYS = "always"


class Diet(StrEnum):
    HIGH_MEAT_EATER = "high_meat_eater"
    MEDIUM_MEAT_EATER = "medium_meat_eater"
    LOW_MEAT_EATER = "low_meat_eater"
    FISH_EATER = "fish_eater"
    VEGETARIAN = "vegetarian"
    VEGAN = "vegan"


class TransactionValueIn(msgspec.Struct, forbid_unknown_fields=True):
    value: Annotated[Decimal, Meta(description="What was paid, a decimal string.", examples=["42.50"])]
    currency: Annotated[str, _read_currency, Meta(description="ISO 4217 code.", examples=["EUR"])]


class MerchantIn(msgspec.Struct, forbid_unknown_fields=True):
    """With a `category_code`, or with a `search_term`."""

    country_code: CountryCode
    category_code: Annotated[
        Annotated[str, Meta(pattern="^[0-9]{4}$")] | None,
        Meta(description="Merchant category code (ISO 18245).", examples=["5411"]),
    ] = None
    search_term: Annotated[
        Annotated[str, Meta(min_length=1, max_length=200)] | None,
        Meta(description="Words of the name of a category.", examples=[None, "grocery"]),
    ] = None
    name: Annotated[
        Annotated[str, Meta(max_length=200)] | None,
        Meta(description="Name of the merchant. Not used.", examples=["Corner shop"]),
    ] = None


class TransactionIn(CommonIn, kw_only=True):
    value: Annotated[TransactionValueIn, Meta(description="What was paid.")]
    merchant: Annotated[MerchantIn, Meta(description="To whom.")]
    region_fallback: Annotated[
        RegionFallback | None,
        Meta(
            description="`always`: without a factor for the country, the one for the world is used. `never` if it is "
            "left out.",
            examples=["never"],
        ),
    ] = None
    is_transaction: Annotated[
        bool | None, Meta(description="Whether the purchase has really been made.", examples=[True])
    ] = None
    transaction_processed_at: Annotated[
        Moment | None,
        Meta(
            description="When the purchase was made; a day is midnight UTC.",
            examples=["2026-11-15T10:00:00Z"],
            extra_json_schema={"format": "date-time"},
        ),
    ] = None
    diet: Annotated[
        Diet | None,
        Meta(
            description="What the buyer eats. No imported factor depends on it: `methodology_notes` says that it was "
            "not used.",
            examples=["vegetarian"],
        ),
    ] = None


class TransactionOut(CalculatedOut, kw_only=True):
    request: Annotated[TransactionIn, AS_SENT]
    emission_factor: Annotated[EmissionFactorOut, Meta(description="The factor that was used.")]
    exchange_rate: Annotated[
        DecimalText | None,
        Meta(
            description="What one unit of the value costs in the currency of the factor. Null if it is the same.",
            examples=[None],
        ),
    ]
    exchange_rate_date: Annotated[
        str | None,
        Meta(description="The day of the rate, or null.", examples=[None], extra_json_schema={"format": "date"}),
    ]
    is_transaction: Annotated[bool, Meta(description="Whether the purchase has really been made.", examples=[True])]
    transaction_processed_at: Annotated[Timestamp | None, Meta(description="When it was made, or null.")]
    methodology_notes: Annotated[
        list[str], Meta(description="What the calculation left out of what was sent.", examples=[[]])
    ]
    search_term_match: Annotated[
        str | None,
        Meta(description="The name of the category that the `search_term` found, or null.", examples=[None]),
    ]
    search_term_match_score: Annotated[
        None,
        Meta(description="Always null: a category contains all words of the term, or is not found.", examples=[None]),
    ] = None
    semantic_matching_model: Annotated[
        None, Meta(description="Always null: terms are matched by their words.", examples=[None])
    ] = None
    diet_factor: Annotated[None, Meta(description="Always null: no factor depends on the diet.", examples=[None])] = (
        None
    )
    external_estimate_url: Annotated[None, Meta(description="Always null.", examples=[None])] = None
