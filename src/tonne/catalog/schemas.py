"""The catalogue and quotes on the wire."""

from typing import Annotated, Any

import msgspec

from tonne.base.clock import to_wire
from tonne.base.decimals import spell
from tonne.base.mass import format_tonnes
from tonne.base.money import format_money
from tonne.catalog.errors import PriceUnavailable
from tonne.catalog.model import Bundle, Catalogue, Project
from tonne.catalog.price import PriceRequest
from tonne.catalog.pricing import Priced, PricedLine, PriceList

DecimalText = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+(\.[0-9]+)?$")]
Money = Annotated[DecimalText, msgspec.Meta(description="With exactly the currency's decimals.", examples=["7176.00"])]
Tonnes = Annotated[
    DecimalText, msgspec.Meta(description="In tonnes, at most 6 decimals, no trailing zeros.", examples=["1.105697"])
]
Timestamp = Annotated[
    str, msgspec.Meta(examples=["2026-11-15T10:00:00.123Z"], extra_json_schema={"format": "date-time"})
]


class ProjectOut(msgspec.Struct):
    id: str
    name: str
    slug: str
    type: str
    mechanism: str
    country: str
    registry: str
    registry_project_id: str
    registry_url: str | None
    methodology: str | None
    description: str | None
    image: str | None
    created_at: Timestamp


class BundleProjectOut(msgspec.Struct):
    project_id: str
    project_name: str
    project_slug: str
    weight: int


class BundleOut(msgspec.Struct):
    """Prices are in the account's currency: `unit_price` net, `gross_unit_price` with the fee."""

    id: str
    name: str
    slug: str
    description: str
    primary_image: str | None
    enabled: bool
    currency: str
    unit_price: Money | None
    gross_unit_price: Money | None
    available_quantity: Tonnes
    projects: list[BundleProjectOut]
    created_at: Timestamp


class BundleItemOut(msgspec.Struct):
    """One bundle of an order or a quote."""

    bundle_id: str
    bundle_name: str
    primary_image: str | None
    quantity: Tonnes
    unit_price: Money
    gross_unit_price: Money
    offset_cost: Money
    insufficient_available_quantity: bool


class ExchangeRateOut(msgspec.Struct):
    base: str
    quote: str
    rate: DecimalText
    source: str
    as_of: Timestamp


class QuoteOut(msgspec.Struct):
    """What an order would cost now. `commission` is the whole fee: there is no other."""

    type: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["quantity", "value"]})]
    currency: str
    quantity: Tonnes
    offset_cost: Money
    commission: Money
    total_cost: Money
    fee_rate: Annotated[DecimalText, msgspec.Meta(examples=["0.1"])]
    exchange_rate: ExchangeRateOut | None
    bundles: list[BundleItemOut]
    estimate_id: str | None
    requested_quantity: Tonnes | None
    requested_value: Money | None


def project_out(project: Project) -> ProjectOut:
    return ProjectOut(
        id=project.id,
        name=project.name,
        slug=project.slug,
        type=project.type,
        mechanism=project.mechanism,
        country=project.country,
        registry=project.registry,
        registry_project_id=project.registry_project_id,
        registry_url=project.registry_url,
        methodology=project.methodology,
        description=project.description,
        image=project.image,
        created_at=to_wire(project.created_at),
    )


def bundle_out(bundle: Bundle, catalogue: Catalogue, currency: str, fee_rate: Any) -> BundleOut:
    """Without prices when there is no exchange rate for the account's currency."""
    try:
        prices: PriceList | None = PriceList(catalogue, currency, fee_rate)
    except PriceUnavailable:
        prices = None
    return BundleOut(
        id=bundle.id,
        name=bundle.name,
        slug=bundle.slug,
        description=bundle.description,
        primary_image=bundle.primary_image,
        enabled=bundle.enabled,
        currency=currency,
        unit_price=None if prices is None else format_money(prices.net_minor(bundle), currency),
        gross_unit_price=None if prices is None else format_money(prices.gross_minor(bundle), currency),
        available_quantity=format_tonnes(bundle.free_grams),
        projects=[
            BundleProjectOut(share.project.id, share.project.name, share.project.slug, share.weight)
            for share in bundle.projects
        ],
        created_at=to_wire(bundle.created_at),
    )


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


def quote_out(priced: Priced, request: PriceRequest, *, estimate_id: str | None) -> QuoteOut:
    exchange, mass_grams, value_minor = priced.exchange, request.mass_grams, request.value_minor
    return QuoteOut(
        type="quantity" if value_minor is None else "value",
        currency=priced.currency,
        quantity=format_tonnes(priced.quantity_grams),
        offset_cost=format_money(priced.offset_cost_minor, priced.currency),
        commission=format_money(priced.commission_minor, priced.currency),
        total_cost=format_money(priced.total_cost_minor, priced.currency),
        fee_rate=_plain(spell(int(priced.fee_rate * 100_000), 5)),
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
