"""The unit of a registry is the unit of all lots of a project: parcels consist of whole units."""

import pytest

from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.selling.catalogue.imports.plan import FileKind

HEADS = "registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams"


def project(granularity: int, name: str = "Project A") -> dict[FileKind, list[str]]:
    return {FileKind.PROJECTS: [HEADS, f"Kilogram Registry,A,{name},Kenya,Wind,ACM2,avoidance,{granularity}"]}


async def test_money_16_the_granularity_is_fixed_once_there_are_lots(live: Shop) -> None:
    await live.sell("mix", {"A": 1}, granularity=KILOGRAM)
    # Nothing counts units yet.
    await live.import_files(project(TONNE))
    await live.import_files(project(KILOGRAM))
    await live.supply("A", 2020, 10)
    with pytest.raises(SheetInvalid) as raised:
        await live.import_files(project(TONNE))
    (error,) = raised.value.errors
    assert str(error) == (
        "projects.csv, line 2, column granularity_grams: the project has lots in units of 1000 g: write 1000, or "
        "withdraw them."
    )
    # Everything else may change.
    await live.import_files(project(KILOGRAM, "Another name"))
    await live.check_invariants()
