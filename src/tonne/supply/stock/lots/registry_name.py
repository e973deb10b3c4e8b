"""The name under which credits are retired at a registry."""

from tonne.selling.orders.model import BeneficiaryKind, Order


def registry_beneficiary(order: Order) -> str:
    """The name that parcels, shares and the work list state for this order's grams.

    Use it for everything that a registry may publish: it is never the name of a person. Certificates state
    `order.beneficiary` instead.
    """
    if order.beneficiary_kind is BeneficiaryKind.PERSON:
        return f"customers of {order.account_beneficiary}"
    return order.beneficiary
