"""Importing emission factors: versions, and estimates that keep theirs."""

import pytest

from tests.support.api_client import ApiClient
from tests.support.world import TESTER
from tonne.apps.wiring.app import Services
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.selling.estimates.factors.import_rows import import_factors, read_factors, shipped_factors
from tonne.selling.estimates.factors.model import FactorSet

HEADER = (
    "id,category,activity,unit,kg_co2e_per_unit,well_to_tank_kg_co2e_per_unit,region,year,source,licence,source_code\n"
)
GRID = "owid-2023/electricity-deu/kwh"
CHANGED = f'{GRID},Electricity,"Germany grid, lifecycle average",kWh,0.4,,DEU,2023,Corrected data (Ember),CC-BY-4.0,\n'
NEWER = 'own-2026/deu,Electricity,"Germany grid, lifecycle average",kWh,0.3,,DEU,2026,Own,CC0-1.0,own\n'
NIGHT = "own-2026/hotel-aut,Hotel stay,Hotel stay / Austria,room*night,9.5,,AUT,2026,Own,CC0-1.0,own\n"
KWH = {"consumption": {"amount": "1000", "unit": "kWh"}, "country_code": "DEU"}


def test_the_factors_of_the_package_are_complete() -> None:
    factors = shipped_factors()
    assert len(factors) == len(FactorSet(factors).all) == 743
    assert {each.licence for each in factors} == {"OGL-UK-3.0", "CC-BY-4.0"}
    assert {each.source_code for each in factors} == {"beis", "ember"}
    assert {each.version for each in factors} == {1}


async def run_import(services: Services, rows: str, *, apply: bool = True) -> tuple[int, int, int]:
    """How many rows are new, changed and unchanged."""
    file = SheetFile("factors.csv", (HEADER + rows).encode())
    async with services.database.transaction() as tx:
        done = await import_factors(tx, file, by=TESTER.now(), apply=apply)
    services.factors.forget()
    return len(done.changes.new), len(done.changes.changed), done.changes.unchanged_count


async def test_an_import_adds_versions_and_leaves_estimates_as_they_are(api: ApiClient, services: Services) -> None:
    before = (await api.post("/v1/estimates/electricity", KWH)).json()
    assert before["mass"]["amount"] == "380.95"
    assert await run_import(services, CHANGED, apply=False) == (0, 1, 0)
    assert (await api.get(f"/v1/emission-factors/{GRID}")).json()["version"] == 1
    assert await run_import(services, CHANGED) == (0, 1, 0)
    after = (await api.post("/v1/estimates/electricity", KWH)).json()
    # 1,000 kWh x 0.4 = 400 kg by version 2 of the same factor.
    assert (after["mass"]["amount"], after["emission_factor"]["version"]) == ("400", 2)
    stored = (await api.get(f"/v1/estimates/electricity/{before['id']}")).json()
    assert stored | {"quote": None} == before | {"quote": None}
    # A later year is used instead, without touching the other factor. 1,000 x 0.3 = 300 kg.
    assert await run_import(services, CHANGED + NEWER + NIGHT) == (2, 0, 1)
    assert await run_import(services, CHANGED + NEWER + NIGHT) == (0, 0, 3)
    again = await api.http.put(f"/v1/estimates/electricity/{before['id']}", json=KWH, headers=api._headers({}))
    assert (again.json()["version"], again.json()["mass"]["amount"]) == (2, "300")
    hotel = (await api.post("/v1/estimates/hotel", {"country_code": "AUT", "nights": 2})).json()
    assert (hotel["mass"]["amount"], hotel["emission_factor"]["source"]) == ("19", "own")
    first = (await api.get(f"/v1/estimates/electricity/{before['id']}?version=1")).json()
    assert (first["mass"], first["emission_factor"]) == (before["mass"], before["emission_factor"])


@pytest.mark.parametrize(
    ("old", "new", "column"),
    [
        ("kWh", "furlong", "unit"),
        ("0.4", "-1", "kg_co2e_per_unit"),
        ("0.4", "0", "kg_co2e_per_unit"),
        ("DEU", "Germany", "region"),
        ("2023,C", "23,C", "year"),
        (GRID, "../etc", "id"),
        ("CC-BY-4.0", "", "licence"),
    ],
)
def test_every_invalid_cell_is_reported(old: str, new: str, column: str) -> None:
    sheet = read_factors(SheetFile("factors.csv", (HEADER + CHANGED.replace(old, new)).encode()))
    assert [(each.line, each.column) for each in sheet.errors] == [(2, column)]
