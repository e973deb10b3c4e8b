"""A digest of what a person is offered, to order exactly that."""

import hashlib
from typing import Any

import msgspec
from msgspec import structs

from tonne.platform.values.amounts import TaxTreatment
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.pricing import Priced
from tonne.selling.orders.model import OrderTax


def digest_offer(priced: Priced, tax: OrderTax, catalogue: Catalogue | None) -> bytes:
    """Equal only for offers with the same quantity, costs, fee, tax, lines, and projects of the bundles."""
    compared = _without(structs.asdict(priced), "exchange", "lines")
    compared["lines"] = [
        _without(structs.asdict(line), "primary_image", "insufficient_available_quantity") for line in priced.lines
    ]
    if tax.treatment is not TaxTreatment.NONE:
        compared["tax"] = structs.asdict(tax)
    bundles = {} if catalogue is None else catalogue.bundles
    compared["projects"] = [
        [line.bundle_id, each.project.id, each.weight]
        for line in priced.lines
        if line.bundle_id in bundles
        for each in bundles[line.bundle_id].projects
    ]
    return hashlib.sha256(msgspec.json.encode(compared, enc_hook=str, order="sorted")).digest()


def _without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}
