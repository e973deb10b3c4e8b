"""The name under which credits are retired at a registry."""

from tonne.orders.model import Order


def registry_beneficiary(order: Order) -> str:
    """The name that parcels, shares and the work list state for this order's grams.

    Use it for everything that a registry may publish. Certificates state `order.beneficiary` instead.
    """
    return order.beneficiary
