"""The tax of an order, frozen when the order is priced."""

from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.prices.price import tax_minor_on
from tonne.selling.catalogue.prices.pricing import Priced
from tonne.selling.orders.model import OrderTax


def tax_of(priced: Priced, terms: Terms) -> OrderTax:
    """Treatment and rate of the terms. The amount is None if the order is billed together with others."""
    return OrderTax(terms.tax.treatment, terms.tax.rate, tax_minor_on(priced.total_cost_minor, terms))
