"""Checks that an order may be placed with its locked quote."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope, to_wire
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.catalogue.prices.pricing import is_short
from tonne.selling.orders.errors import QuoteExpired, QuoteMismatch, QuoteUnknown, QuoteUsed, SupplyInsufficient
from tonne.selling.orders.quotes.locked_price import LockedPrice, decode_locked
from tonne.selling.orders.quotes.store import StoredQuote, find_quote

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
