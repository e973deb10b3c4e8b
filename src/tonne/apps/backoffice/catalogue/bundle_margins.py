"""What the bundles cost the operator, from the costs of the lots that supply them, and the margins of their prices."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.model import Bundle, Catalogue


class KnownCost(Struct, frozen=True):
    """The average cost of a tonne of the free credits of a project, in minor units of the currency that was paid."""

    project_id: str
    currency: str
    grams: int
    minor: Fraction


# Free credits count: they are what the next orders get.
READ_COSTS = """
SELECT project_id, cost_currency AS currency, sum(quantity_grams - allocated_grams)::bigint AS grams,
       sum((quantity_grams - allocated_grams)::numeric * unit_cost_minor)::text AS total
FROM lots
WHERE mode = $1 AND invalidated_at IS NULL AND unit_cost_minor IS NOT NULL AND allocated_grams < quantity_grams
GROUP BY project_id, cost_currency
"""


async def read_costs(connection: Connection, mode: Mode) -> list[KnownCost]:
    rows = await connection.fetch(READ_COSTS, mode)
    return [
        KnownCost(row["project_id"], row["currency"], row["grams"], Fraction(row["total"]) / row["grams"])
        for row in rows
    ]


class BundleMargin(Struct, frozen=True):
    """Per tonne, in minor units of the catalogue's currency. None if the cost of a project is not known."""

    bundle: Bundle
    # The projects with their shares in per cent, in the order of the catalogue.
    shares: Sequence[tuple[str, str, float]]
    cost_minor: int | None
    unknown_count: int

    @property
    def margin_minor(self) -> int | None:
        return None if self.cost_minor is None else self.bundle.unit_price_minor - self.cost_minor

    def margin_percent(self, price_minor: int | None = None) -> int | None:
        price = price_minor or self.bundle.unit_price_minor
        return None if self.cost_minor is None else round(100 * (price - self.cost_minor) / price)


def margin_of(bundle: Bundle, catalogue: Catalogue, costs: Sequence[KnownCost]) -> BundleMargin:
    by_project = _in_currency(catalogue, costs)
    weights = sum(share.weight for share in bundle.projects)
    known = [(share.weight, by_project.get(share.project.id)) for share in bundle.projects]
    unknown = sum(cost is None for _, cost in known)
    cost = None if unknown or not known else sum(weight * (cost or 0) for weight, cost in known) / weights
    return BundleMargin(
        bundle,
        [(share.project.id, share.project.name, 100 * share.weight / weights) for share in bundle.projects],
        None if cost is None else round(cost),
        unknown,
    )


def _in_currency(catalogue: Catalogue, costs: Sequence[KnownCost]) -> Mapping[str, Fraction]:
    """By project, in minor units of the catalogue's currency. Costs without an exchange rate are left out."""
    sums: dict[str, tuple[int, Fraction]] = {}
    for cost in costs:
        if cost.currency == catalogue.currency:
            minor = cost.minor
        elif rate := catalogue.rates.get(cost.currency):
            decimals = DECIMALS[catalogue.currency] - DECIMALS[cost.currency]
            minor = cost.minor / Fraction(rate.rate) * Fraction(10) ** decimals
        else:
            continue
        grams, total = sums.get(cost.project_id, (0, Fraction(0)))
        sums[cost.project_id] = (grams + cost.grams, total + minor * cost.grams)
    return {project_id: total / grams for project_id, (grams, total) in sums.items()}
