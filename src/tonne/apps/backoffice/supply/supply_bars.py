"""Lots and projects as bars: free, paused, reserved, allocated, retired, invalid."""

from collections.abc import Sequence

from msgspec import Struct

from tonne.platform.web.charts import Segment, stacked_bar
from tonne.supply.registries.registry_reads import RegistrySupply
from tonne.supply.stock.lots.lot_store import ListedLot
from tonne.supply.stock.supply_reads import ProjectSupply

LABELS = {
    "free": "Free",
    "paused": "Paused",
    "reserved": "Reserved",
    "allocated": "Allocated",
    "asked": "Asked",
    "doubt": "In doubt",
    "retired": "Retired",
    "invalid": "Invalid",
}


class SupplyBar(Struct, frozen=True):
    """Parts that are not empty, each with its name and grams, and where it is drawn."""

    parts: Sequence[tuple[str, int, Segment]]

    @property
    def total_grams(self) -> int:
        return sum(grams for _, grams, _ in self.parts)

    def grams(self, name: str) -> int:
        return next((grams for each, grams, _ in self.parts if each == name), 0)


def bar_of_project(supply: ProjectSupply) -> SupplyBar:
    return _bar(
        free=supply.free_grams - supply.reserved_grams,
        paused=supply.paused_grams,
        reserved=supply.reserved_grams,
        allocated=supply.held_grams,
        retired=supply.retired_grams,
        invalid=supply.invalid_grams,
    )


def bar_of_registry(supply: RegistrySupply) -> SupplyBar:
    return _bar(
        free=supply.free_grams,
        paused=supply.paused_grams,
        reserved=supply.reserved_grams,
        allocated=supply.allocated_grams,
        asked=supply.asked_grams,
        doubt=supply.doubt_grams,
        retired=supply.retired_grams,
        invalid=supply.invalid_grams,
    )


def bar_of_lot(lot: ListedLot) -> SupplyBar:
    """A checkout reserves credits of a project, not of a lot."""
    if lot.invalidated_at is not None:
        return _bar(retired=lot.retired_grams, invalid=lot.quantity_grams - lot.retired_grams)
    free = {"free" if lot.paused_at is None else "paused": lot.free_grams}
    return _bar(**free, allocated=lot.held_grams, retired=lot.retired_grams)


def _bar(**grams: int) -> SupplyBar:
    filled = {name: amount for name, amount in grams.items() if amount > 0}
    segments = stacked_bar(list(filled.values()))
    return SupplyBar(
        [(name, amount, segment) for (name, amount), segment in zip(filled.items(), segments, strict=True)]
    )
