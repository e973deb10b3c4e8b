"""What an order would cost now. Nothing is reserved."""

from msgspec import Struct

from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.price import PriceRequest, price
from tonne.selling.catalogue.prices.pricing import Priced
from tonne.selling.orders.model import OrderTax, tax_of
from tonne.selling.orders.quotes.offer_digest import digest_offer


class OrderQuote(Struct, frozen=True):
    priced: Priced
    tax: OrderTax
    catalogue: Catalogue

    @property
    def amount_due_minor(self) -> int | None:
        """None if the tax is computed later, for all orders of an invoice."""
        tax_minor = self.tax.tax_minor
        return None if tax_minor is None else self.priced.total_cost_minor + tax_minor

    @property
    def offer(self) -> bytes:
        """Identifies what is shown: see `OrderRequest.shown_offer`."""
        return digest_offer(self.priced, self.tax, self.catalogue)


def quote_order(requested: PriceRequest, terms: Terms, catalogue: Catalogue) -> OrderQuote:
    priced = price(requested, terms, catalogue)
    return OrderQuote(priced, tax_of(priced, terms), catalogue)
