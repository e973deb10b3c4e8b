"""The price of a locked quote, with everything that an order with it must agree with."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope, to_wire
from tonne.selling.accounts.model import PaymentMethod, Terms
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.catalogue.prices.pricing import Priced, is_short
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit
from tonne.selling.orders.errors import QuoteExpired, QuoteMismatch, QuoteUnknown, QuoteUsed, SupplyInsufficient
from tonne.selling.orders.model import OrderTax
from tonne.selling.orders.quotes.store import StoredQuote, find_quote


class LockedPrice(msgspec.Struct, frozen=True, kw_only=True):
    """What was requested, and what it costs. Stored as JSON."""

    mass_grams: int | None
    value_minor: int | None
    selection: list[dict[str, Any]] | None
    unit: QuantityUnit | None
    estimate_id: str | None
    payment_method: PaymentMethod
    is_billed_together: bool
    priced: Priced
    tax: OrderTax

    @classmethod
    def of(
        cls, requested: PriceRequest, priced: Priced, tax: OrderTax, terms: Terms, *, estimate_id: str | None
    ) -> "LockedPrice":
        return cls(
            mass_grams=requested.mass_grams,
            value_minor=requested.value_minor,
            selection=requested.stored_selection,
            unit=requested.unit,
            estimate_id=estimate_id,
            payment_method=terms.payment_method,
            is_billed_together=terms.is_billed_together,
            priced=priced,
            tax=tax,
        )

    @property
    def requested(self) -> PriceRequest:
        request = PriceRequest(mass_grams=self.mass_grams, value_minor=self.value_minor, unit=self.unit)
        return request.with_stored_selection(self.selection)

    def is_payable_under(self, terms: Terms) -> bool:
        """The amounts were made for a currency and a way of paying: another one may round them differently."""
        return (self.priced.currency, self.payment_method, self.is_billed_together) == (
            terms.currency,
            terms.payment_method,
            terms.is_billed_together,
        )

    def difference(self, requested: PriceRequest, estimate_id: str | None) -> str | None:
        """The field in which an order differs from the quote. Bundles and unit may be omitted in the order."""
        if estimate_id != self.estimate_id:
            return "estimate_id"
        if estimate_id is None and (requested.mass_grams, requested.value_minor) != (self.mass_grams, self.value_minor):
            return "mass" if requested.value_minor is None else "value"
        sent = requested.stored_selection
        if sent is not None and (self.selection is None or _comparable(sent) != _comparable(self.selection)):
            return "bundle_masses" if requested.masses is not None else "bundle_selection"
        return "quantity_trunc" if requested.unit not in {None, self.unit} else None


def _comparable(selection: Sequence[dict[str, Any]]) -> dict[str, tuple[object, object]]:
    """The same for `50` and `50.00` per cent, and for any order of the bundles."""
    return {
        each["bundle_id"]: (
            None if each.get("percentage") is None else _number(each["percentage"]),
            each.get("mass_grams"),
        )
        for each in selection
    }


def _number(text: str) -> object:
    try:
        return Decimal(text)
    except ArithmeticError:
        return text


def encode_locked(locked: LockedPrice) -> bytes:
    return msgspec.json.encode(locked, enc_hook=str)


_DECODER = msgspec.json.Decoder(LockedPrice, dec_hook=lambda _, text: Fraction(text))


def decode_locked(stored: bytes) -> LockedPrice:
    return _DECODER.decode(stored)


# Checks that an order may be placed with its locked quote.

_FIELD = "quote_id"


class QuotedOrder(Struct, frozen=True):
    """What an order asks for, to compare it with the quote that it names."""

    quote_id: str
    requested: PriceRequest
    estimate_id: str | None
    reject_if_short: bool


async def require_open_quote(
    connection: Connection, scope: Scope, order: QuotedOrder, terms: Terms, catalogue: Catalogue, *, now: datetime
) -> LockedPrice:
    """The price that the order gets. Raises if the quote is unknown, used or expired, or for another order."""
    found = await find_quote(connection, scope, order.quote_id)
    if found is None:
        raise QuoteUnknown(field=_FIELD)
    if found.order_id is not None:
        raise QuoteUsed(f"The order {found.order_id} was placed with this quote. Request a new one.", field=_FIELD)
    if found.expires_at <= now:
        raise QuoteExpired(
            f"The quote expired at {to_wire(found.expires_at)}. Request a new one with POST /v1/quotes.", field=_FIELD
        )
    locked = decode_locked(found.locked)
    if not locked.is_payable_under(terms):
        raise QuoteExpired(
            "The account's currency or way of paying has changed since the quote. Request a new one.", field=_FIELD
        )
    different = locked.difference(order.requested, order.estimate_id)
    if different is not None:
        raise QuoteMismatch(
            f"The order differs from the quote in {different}. Send what was quoted, or request a new quote.",
            field=different,
        )
    if order.reject_if_short and _is_short(found, locked, terms, catalogue):
        raise SupplyInsufficient
    return locked


def _is_short(quote: StoredQuote, locked: LockedPrice, terms: Terms, catalogue: Catalogue) -> bool:
    if quote.held_grams:
        return False
    grams = locked.priced.quantity_grams
    return terms.available_grams(grams) < grams or is_short(locked.priced.lines, catalogue)
