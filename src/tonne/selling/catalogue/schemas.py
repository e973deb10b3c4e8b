"""Response bodies of quotes, and types of fields that other bodies share."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.values.amounts import format_money, format_scaled, format_tonnes
from tonne.platform.values.context import Timestamp, to_wire
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.prices.price import OrderType, PaymentPlan, PriceRequest, tax_minor_on
from tonne.selling.catalogue.prices.pricing import Priced, PricedLine

DecimalText = Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?$")]
Money = Annotated[DecimalText, Meta(description="With exactly the currency's decimals.", examples=["7176.00"])]
Tonnes = Annotated[
    DecimalText, Meta(description="In tonnes, at most 6 decimals, no trailing zeros.", examples=["1.105697"])
]
CurrencyCode = Annotated[str, Meta(description="ISO 4217 code of all amounts of money here.", examples=["EUR"])]
BundleId = Annotated[str, Meta(description="Id of the bundle.", examples=["bun_06gtv168k5mt6mitjtjihcsfns"])]
BundleName = Annotated[str, Meta(description="Name of the bundle.", examples=["Wind power"])]
ImageUrl = Annotated[
    str | None,
    Meta(
        description="Address of a picture, or null.",
        examples=["https://offsets.example.com/images/bundles/wind-power.svg"],
        extra_json_schema={"format": "uri"},
    ),
]
ProjectId = Annotated[str, Meta(description="Id of the project.", examples=["prj_06gtv168k1mt6nqbnbhk0fqhp4"])]
ProjectName = Annotated[str, Meta(description="Name of the project.", examples=["Sierra Wind Farm"])]
ProjectSlug = Annotated[str, Meta(description="Name for use in URLs.", examples=["sierra-wind-farm"])]
ProjectType = Annotated[str, Meta(description="What the project does.", examples=["Wind"])]
Country = Annotated[str, Meta(description="Where the credits come from.", examples=["Kenya"])]
Registry = Annotated[str, Meta(description="The registry that issued the credits.", examples=["Verra"])]
RegistryProjectId = Annotated[str, Meta(description="Id of the project at its registry.", examples=["VCS-1234"])]
Methodology = Annotated[
    str | None, Meta(description="How the registry calculates the credits, or null.", examples=["ACM0002"])
]
EstimateId = Annotated[str, Meta(examples=["est_06gtv168mimt7f59c5an0fgcj0"])]


class BundleItemOut(msgspec.Struct):
    """One bundle of an order or a quote. Prices are per tonne."""

    bundle_id: BundleId
    bundle_name: BundleName
    primary_image: ImageUrl
    quantity: Annotated[Tonnes, Meta(description="Tonnes of this bundle.", examples=["1040"])]
    unit_price: Annotated[Money, Meta(description="Price without the fee.", examples=["6.90"])]
    gross_unit_price: Annotated[Money, Meta(description="Price including the fee.", examples=["7.67"])]
    offset_cost: Annotated[Money, Meta(description="Cost of this bundle without the fee.", examples=["7176.00"])]
    insufficient_available_quantity: Annotated[
        bool,
        Meta(description="True if less was available when the price was made: the order may wait.", examples=[False]),
    ]


class ExchangeRateOut(msgspec.Struct):
    base: Annotated[str, Meta(description="Currency of the catalogue.", examples=["EUR"])]
    quote: Annotated[str, Meta(description="Currency of the account.", examples=["USD"])]
    rate: Annotated[DecimalText, Meta(description="Units of `quote` for one unit of `base`.", examples=["1.0843"])]
    source: Annotated[str, Meta(description="Where the rate comes from.", examples=["ECB"])]
    as_of: Annotated[Timestamp, Meta(description="When the rate was set.")]


PLAN = Meta(
    description="`collected`: billed and paid together with other orders, as its account is billed, or because it is "
    "too small for a card payment. `tax` and `amount_due` are then null until it is billed.",
    examples=["now"],
)


class QuoteOut(msgspec.Struct):
    """What an order would cost now. A quote reserves nothing."""

    type: Annotated[OrderType, Meta(description="Whether a quantity or a value was requested.", examples=["quantity"])]
    payment_plan: Annotated[PaymentPlan, PLAN]
    currency: CurrencyCode
    quantity: Annotated[Tonnes, Meta(description="Tonnes that would be retired.", examples=["1040"])]
    offset_cost: Annotated[Money, Meta(description="Cost without the fee.", examples=["7176.00"])]
    commission: Annotated[Money, Meta(description="The whole fee: there is no other.", examples=["800.80"])]
    total_cost: Annotated[Money, Meta(description="`offset_cost` + `commission`, without tax.", examples=["7976.80"])]
    tax: Annotated[
        Money | None,
        Meta(
            description="Tax on `total_cost`. Null if orders are billed together: it is then computed per invoice.",
            examples=["0.00"],
        ),
    ]
    amount_due: Annotated[
        Money | None,
        Meta(description="What the payer pays: `total_cost` + `tax`. Null if the tax is.", examples=["7976.80"]),
    ]
    estimated_quantity: Annotated[Tonnes, Meta(description="Same as `quantity`.", examples=["1040"])]
    estimated_offset_cost: Annotated[Money, Meta(description="Same as `offset_cost`.", examples=["7176.00"])]
    estimated_commission: Annotated[Money, Meta(description="Same as `commission`.", examples=["800.80"])]
    estimated_total_cost: Annotated[Money, Meta(description="Same as `total_cost`.", examples=["7976.80"])]
    fee_rate: Annotated[DecimalText, Meta(description="Share of the fee in the total.", examples=["0.1"])]
    exchange_rate: Annotated[
        ExchangeRateOut | None, Meta(description="Null if the account has the currency of the catalogue.")
    ]
    bundles: Annotated[list[BundleItemOut], Meta(description="The bundles and their prices.")]
    estimate_id: Annotated[EstimateId | None, Meta(description="The estimate that is quoted, or null.")]
    requested_quantity: Annotated[
        Tonnes | None, Meta(description="Tonnes that were requested. Null for a value.", examples=["1040"])
    ]
    requested_value: Annotated[
        Money | None, Meta(description="Value that was requested. Null for a quantity.", examples=[None, "250.00"])
    ]


def bundle_item_out(line: PricedLine, currency: str) -> BundleItemOut:
    return BundleItemOut(
        bundle_id=line.bundle_id,
        bundle_name=line.bundle_name,
        primary_image=line.primary_image,
        quantity=format_tonnes(line.quantity_grams),
        unit_price=format_money(line.unit_price_minor, currency),
        gross_unit_price=format_money(line.gross_unit_price_minor, currency),
        offset_cost=format_money(line.offset_cost_minor, currency),
        insufficient_available_quantity=line.insufficient_available_quantity,
    )


def quote_out(priced: Priced, request: PriceRequest, terms: Terms, *, estimate_id: str | None) -> QuoteOut:
    exchange, mass_grams, value_minor = priced.exchange, request.mass_grams, request.value_minor
    fee_rate = priced.fee_rate
    quantity = format_tonnes(priced.quantity_grams)
    offset_cost = format_money(priced.offset_cost_minor, priced.currency)
    commission = format_money(priced.commission_minor, priced.currency)
    total_cost = format_money(priced.total_cost_minor, priced.currency)
    tax_minor = tax_minor_on(priced.total_cost_minor, terms)
    return QuoteOut(
        type=OrderType.QUANTITY if value_minor is None else OrderType.VALUE,
        payment_plan=PaymentPlan.COLLECTED if tax_minor is None else PaymentPlan.NOW,
        currency=priced.currency,
        quantity=quantity,
        offset_cost=offset_cost,
        commission=commission,
        total_cost=total_cost,
        tax=None if tax_minor is None else format_money(tax_minor, priced.currency),
        amount_due=None if tax_minor is None else format_money(priced.total_cost_minor + tax_minor, priced.currency),
        estimated_quantity=quantity,
        estimated_offset_cost=offset_cost,
        estimated_commission=commission,
        estimated_total_cost=total_cost,
        fee_rate=_plain(format_scaled(fee_rate.numerator * 100_000 // fee_rate.denominator, 5)),
        exchange_rate=None
        if exchange is None
        else ExchangeRateOut(
            exchange.base, exchange.quote, _plain(f"{exchange.rate:f}"), exchange.source, to_wire(exchange.as_of)
        ),
        bundles=[bundle_item_out(line, priced.currency) for line in priced.lines],
        estimate_id=estimate_id,
        requested_quantity=None if mass_grams is None else format_tonnes(mass_grams),
        requested_value=None if value_minor is None else format_money(value_minor, priced.currency),
    )


def _plain(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
