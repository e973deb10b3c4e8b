"""What a person saw before paying. Nothing else is charged: a changed price, quantity, fee, line or project is shown
first."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tonne.channels.checkout.model import Checkout
from tonne.selling.catalogue.prices.pricing import Priced
from tonne.selling.orders.model import OrderTax

_MAX_TOTAL_DIGITS = 19


class ShownOffer(Struct, frozen=True):
    """As a payment form repeats it. `digest` covers everything that `digest_offer` names."""

    total_minor: int
    digest: bytes


class PricedOffer(Struct, frozen=True):
    """`tax` always has an amount: checkouts are paid at once."""

    priced: Priced
    tax: OrderTax
    digest: bytes

    @property
    def tax_minor(self) -> int:
        return self.tax.tax_minor or 0

    @property
    def amount_due_minor(self) -> int:
        return self.priced.total_cost_minor + self.tax_minor

    @property
    def shown(self) -> ShownOffer:
        return ShownOffer(self.amount_due_minor, self.digest)


class OfferChange(Struct, frozen=True):
    """How the offer differs from the one that the checkout began with. None: that part is the same, or unknown."""

    old_total_minor: int | None
    old_quantity_grams: int | None


def read_shown_offer(fields: Mapping[str, Sequence[str]]) -> ShownOffer:
    """From the fields of a form. Values that no page of ours contains match no offer."""
    total, digest = ((fields.get(name) or [""])[0] for name in ("total", "offer"))
    is_total = total.isascii() and total.isdigit() and len(total) <= _MAX_TOTAL_DIGITS
    try:
        return ShownOffer(int(total) if is_total else -1, bytes.fromhex(digest))
    except ValueError:
        return ShownOffer(-1, b"")


def compare_with_start(checkout: Checkout, offer: PricedOffer) -> OfferChange | None:
    """None if the offer is the one that the checkout began with."""
    priced = offer.priced
    total = None if checkout.amount_due_minor == offer.amount_due_minor else checkout.amount_due_minor
    quantity = None if checkout.quantity_grams == priced.quantity_grams else checkout.quantity_grams
    return None if offer.digest == checkout.offer_digest else OfferChange(total, quantity)
