"""Who buys at checkout, for the tax document of the order: a private person or a business."""

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction

from msgspec import Struct

from tonne.platform.db.database import Connection, parameters_of, value_of, value_or_none
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTerms, TaxTreatment
from tonne.platform.values.context import Scope
from tonne.platform.values.countries import EU_COUNTRIES
from tonne.platform.values.tax_ids import is_eu_vat
from tonne.selling.accounts.tax.tax_rates import find_tax_rate


class BuyerDetails(Struct, frozen=True, kw_only=True):
    """What the customer stated. A business has a company and may have the other details; a person has a name."""

    is_business: bool = False
    name: str | None = None
    company: str | None = None
    street: str | None = None
    postcode: str | None = None
    city: str | None = None
    # ISO 3166, two letters.
    country: str | None = None
    vat_id: str | None = None
    # The buyer's own, such as the number of a purchase order.
    reference: str | None = None
    # The country whose tax the order has, if it is not that of the seller: set when it is placed.
    taxed_in: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """What may name a person."""
        return tuple(filter(None, (getattr(self, name) for name in TEXTS)))


REVERSE_CHARGE = TaxTerms(TaxTreatment.REVERSE_CHARGE)


def can_reverse_charge(settings: Settings) -> bool:
    """Whether the seller charges tax, and the invoice could state what one without it must."""
    is_in_eu = settings.seller_country in EU_COUNTRIES
    return settings.seller_tax.treatment is TaxTreatment.STANDARD and bool(settings.seller_vat_id) and is_in_eu


def owes_tax_itself(buyer: BuyerDetails | None, settings: Settings) -> bool:
    """Whether it is a business with a VAT ID of another country of the EU."""
    if buyer is None or not buyer.is_business or not can_reverse_charge(settings):
        return False
    return _is_abroad(buyer, settings) and buyer.vat_id is not None and is_eu_vat(buyer.vat_id)


def taxed_abroad(buyer: BuyerDetails | None, settings: Settings) -> str | None:
    """The country of the EU in which a private person is taxed instead of in that of the seller."""
    if buyer is None or buyer.is_business or settings.tax_by_country == "off":
        return None
    return buyer.country if _is_abroad(buyer, settings) else None


def _is_abroad(buyer: BuyerDetails, settings: Settings) -> bool:
    return buyer.country in EU_COUNTRIES and buyer.country != settings.seller_country


async def tax_at_checkout(
    connection: Connection, buyer: BuyerDetails | None, settings: Settings, now: datetime
) -> TaxTerms | None:
    """None: the seller's tax applies."""
    if country := taxed_abroad(buyer, settings):
        rate = await find_tax_rate(connection, country, now.astimezone(UTC).date())
        return TaxTerms(TaxTreatment.STANDARD, Fraction(rate))
    return REVERSE_CHARGE if owes_tax_itself(buyer, settings) else None


TEXTS = ("name", "company", "street", "postcode", "city", "vat_id", "reference")
COLUMNS = "is_business, name, company, street, postcode, city, country, vat_id, reference, taxed_in"
SAVE_BUYER = f"""
INSERT INTO order_buyers (account_id, order_id, {COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (account_id, order_id) DO UPDATE SET
    (is_business, name, company, street, postcode, city, country, vat_id, reference, taxed_in)
    = ($3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
"""  # noqa: S608 - columns above


async def save_buyer(tx: Connection, scope: Scope, order_id: str, buyer: BuyerDetails) -> None:
    """Of an order that is not paid yet, or of a person who is erased. Documents keep what they were issued with."""
    await tx.execute(SAVE_BUYER, scope.account_id, order_id, *parameters_of(buyer, COLUMNS))


FIND_BUYER = f"SELECT {COLUMNS} FROM order_buyers WHERE account_id = $1 AND order_id = $2"  # noqa: S608 - columns above


async def find_buyer(connection: Connection, scope: Scope, order_id: str) -> BuyerDetails | None:
    """None if the customer stated nothing, and for every order that was not placed at checkout."""
    return value_or_none(BuyerDetails, await connection.fetchrow(FIND_BUYER, scope.account_id, order_id))


LIST_BUYERS = f"""
SELECT order_id, {COLUMNS} FROM order_buyers WHERE account_id = $1 AND order_id = ANY ($2::text[])
"""  # noqa: S608 - columns above


async def list_buyers(connection: Connection, scope: Scope, order_ids: Sequence[str]) -> dict[str, BuyerDetails]:
    """By the id of the order."""
    rows = await connection.fetch(LIST_BUYERS, scope.account_id, order_ids)
    return {row["order_id"]: value_of(BuyerDetails, row) for row in rows}
