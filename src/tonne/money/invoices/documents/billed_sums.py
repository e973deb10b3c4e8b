"""The sums of many orders that are billed together: each is rounded once, and divided over the orders. No I/O.

Exact amounts are integers in millionths of a minor unit: grams times a price per tonne.
"""

from collections.abc import Sequence

from msgspec import Struct

from tonne.platform.values.amounts import GRAMS_PER_TONNE, TaxTerms, apportion, ceil, half_up, tax_on


class SummedLine(Struct, frozen=True):
    """What all orders have of a bundle at one price. Prices are per tonne, the gross price with the fee."""

    quantity_grams: int
    unit_price_minor: int
    gross_unit_price_minor: int

    @property
    def amount_minor(self) -> int:
        return half_up(self.quantity_grams * self.unit_price_minor, GRAMS_PER_TONNE)

    @property
    def exact_cost(self) -> int:
        return self.quantity_grams * self.gross_unit_price_minor

    @property
    def exact_fee(self) -> int:
        return self.quantity_grams * (self.gross_unit_price_minor - self.unit_price_minor)


class ExactOrder(Struct, frozen=True):
    """What an order costs, and the fee in it, before rounding."""

    exact_cost: int
    exact_fee: int


class OrderShare(Struct, frozen=True):
    """What an order has of the sums."""

    offset_minor: int
    fee_minor: int
    tax_minor: int

    @property
    def net_minor(self) -> int:
        return self.offset_minor + self.fee_minor


class BilledSums(Struct, frozen=True):
    """The lines and the fee, less the allowance, are the net amount. The shares sum to the net amount and to the tax.

    The allowance keeps the net amount from exceeding what one order of all this would cost, and rounds it down to what
    cards are charged in.
    """

    fee_minor: int
    allowance_minor: int
    net_minor: int
    tax_minor: int
    shares: list[OrderShare]


def sum_billed(
    lines: Sequence[SummedLine], orders: Sequence[ExactOrder], tax: TaxTerms, *, unit: int = 1
) -> BilledSums:
    """The sums of all orders with one treatment and rate, and the shares in the order of `orders`.

    No share exceeds what its order costs alone, rounded up. Net amount and tax are multiples of `unit`, so that a card
    can be charged their sum.
    """
    exact_cost = sum(line.exact_cost for line in lines)
    if exact_cost != sum(order.exact_cost for order in orders):
        raise ValueError("the lines are not those of the orders")
    fee_minor = half_up(sum(line.exact_fee for line in lines), GRAMS_PER_TONNE)
    rounded_minor = sum(line.amount_minor for line in lines) + fee_minor
    net_minor = min(rounded_minor, ceil(exact_cost, GRAMS_PER_TONNE)) // unit * unit
    nets = _divide_net(net_minor, [order.exact_cost for order in orders])
    tax_minor = tax_on(net_minor, tax.treatment, tax.rate, unit=unit)
    taxes = apportion(tax_minor, nets) if net_minor else [0] * len(nets)
    fees = _divide_fee(min(fee_minor, net_minor), [order.exact_fee for order in orders], nets)
    return BilledSums(
        fee_minor=fee_minor,
        allowance_minor=rounded_minor - net_minor,
        net_minor=net_minor,
        tax_minor=tax_minor,
        shares=[OrderShare(net - fee, fee, tax_share) for net, fee, tax_share in zip(nets, fees, taxes, strict=True)],
    )


def _divide_net(net_minor: int, exact_costs: Sequence[int]) -> list[int]:
    """Whole units of each exact cost, and one more for those with the largest fractions."""
    parts = [exact // GRAMS_PER_TONNE for exact in exact_costs]
    left = net_minor - sum(parts)
    if left >= 0:
        by_fraction = sorted(range(len(parts)), key=lambda i: exact_costs[i] % GRAMS_PER_TONNE, reverse=True)
        for i in by_fraction[:left]:
            parts[i] += 1
        return parts
    by_size = sorted(range(len(parts)), key=parts.__getitem__, reverse=True)
    while left:
        by_size = [i for i in by_size if parts[i]]
        for i in by_size[:-left]:
            parts[i] -= 1
            left += 1
    return parts


def _divide_fee(fee_minor: int, exact_fees: Sequence[int], nets: Sequence[int]) -> list[int]:
    """By largest remainder, but none above the share of its order: what is above goes to those with room."""
    if not fee_minor:
        return [0] * len(nets)
    fees = [min(fee, net) for fee, net in zip(apportion(fee_minor, exact_fees), nets, strict=True)]
    left = fee_minor - sum(fees)
    for i in sorted(range(len(fees)), key=lambda i: nets[i] - fees[i], reverse=True):
        if not left:
            break
        more = min(left, nets[i] - fees[i])
        fees[i] += more
        left -= more
    return fees
