"""The tables of audit packs say what the certificates state, and "not recorded" otherwise."""

import csv
import io
from typing import Any

from tonne.platform.values.countries import EU_COUNTRIES
from tonne.selling.catalogue import countries
from tonne_verify.pack import is_in_eu
from tonne_verify.pack_tables import PackTables, PlannedOrder, old_months

SOURCE = {"source": "Registry", "as_of": "2026-02-03"}
MIXED = {
    "mechanism": {"value": "mixed"},
    "removal_percent": {"value": 40},
    "sink": {"value": "biogenic"},
    "labels": [{"code": "icvcm_ccp", **SOURCE}, {"code": "ccb", **SOURCE}],
    "article_6": {"value": "authorised", "uses": ["other"], **SOURCE},
    "verifier": {"value": "Example Audit", "as_of": "2025-12-01"},
}
ADJUSTED = {"mechanism": {"value": "removal"}, "article_6": {"value": "adjusted"}, "durability_years": {"value": 1000}}
ABOUT = {
    "format": "tonne-pack/1",
    "mode": "live",
    "made_on": "2027-01-05",
    "first_day": "2026-01-01",
    "last_day": "2026-12-31",
    "previous_first_day": "2025-01-01",
    "previous_last_day": "2025-12-31",
}


def certificate(*lines: dict[str, Any]) -> dict[str, Any]:
    line = {
        "registry": "Verra",
        "project_id": "A",
        "project_name": "A",
        "country": "Czech Republic",
        "project_type": "X",
        "methodology": "VM1",
        "vintage": "2020",
        "serial_range": "S",
        "quantity": "10",
        "retired_on": "2026-01-01",
        "retirement_url": None,
        "shared": None,
        "facts": None,
    }
    head = {
        "number": "N",
        "mode": "live",
        "order_id": "o",
        "issued_at": "2026-05-01",
        "beneficiary": "B",
        "issuer": "I",
    }
    return {**head, "lines": [{**line, **each} for each in lines]}


def files_of(*certificates: dict[str, Any], previous: tuple[dict[str, Any], ...] = ()) -> dict[str, bytes]:
    tables = PackTables(is_in_eu)
    for each in certificates:
        tables.add(each)
    for each in previous:
        tables.add_previous(each)
    return tables.files(ABOUT, [PlannedOrder("o1", "paid", "1.5"), PlannedOrder("o2", "retiring", "2")])


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_packs_report_what_the_certificates_state() -> None:
    current = certificate({"facts": MIXED}, {"facts": ADJUSTED}, {"country": "Kenya"})
    files = files_of(current, previous=(certificate({"facts": {"mechanism": {"value": "avoidance"}}}),))
    esrs = {row["carbon_credits_cancelled"]: list(row.values())[1:] for row in rows_of(files["esrs-e1-7.csv"])}
    unknown = ["not recorded", "not recorded"]
    assert esrs == {
        "Total (tCO2eq)": ["30", "", "10", ""],
        "From removal projects": ["14", "46.67", "0", "0.00"],
        "of which biogenic sinks": ["4", "13.33", "0", "0.00"],
        "of which technological sinks": ["0", "0.00", "0", "0.00"],
        "of which hybrid sinks": ["0", "0.00", "0", "0.00"],
        "of which sinks that are not recorded": ["10", "33.33", "0", "0.00"],
        "From reduction projects": ["6", "20.00", "10", "100.00"],
        "Removal or reduction not recorded": ["10", "33.33", "0", "0.00"],
        "Programme: Verra": ["30", "100.00", "10", "100.00"],
        "Quality standard: ccb": ["10", "33.33", "0", "0.00"],
        "Quality standard: icvcm_ccp": ["10", "33.33", "0", "0.00"],
        "Quality standard not recorded": ["20", "66.67", "10", "100.00"],
        "From projects in the European Union": ["20", "66.67", "10", "100.00"],
        "With a corresponding adjustment": ["10", "33.33", *unknown],
        "Corresponding adjustment not recorded": ["10", "33.33", "10", "100.00"],
    }
    assert files["planned-cancellations.csv"].decode().splitlines()[1:] == [
        "o1,paid,1.5",
        "o2,retiring,2",
        "Total (tCO2eq),,3.5",
    ]
    seen = "Values that are not recorded: 1 in serial-numbers.csv, 10 in california-ab-1305.csv, 2 in esrs-e1-7.csv"
    assert seen in " ".join(files["README.txt"].decode().split()), files["README.txt"].decode()


def test_projects_are_disclosed_apart_if_facts_differ() -> None:
    [mixed, plain] = rows_of(
        files_of(certificate({"facts": MIXED}, {"facts": MIXED, "vintage": "2021"}, {}))["california-ab-1305.csv"]
    )
    stated = ("tonnes_co2e", "vintages", "verifier_of_the_credits", "verified_on", "removal_percent", "standards_met")
    assert [mixed[name] for name in stated] == ["20", "2020 2021", "Example Audit", "2025-12-01", "40", "ccb icvcm_ccp"]
    assert {plain[name] for name in stated[2:]} == {"not recorded"}
    assert mixed["third_party_verification_of_your_data_and_claims"] == "for you to state"


def test_the_countries_of_the_eu_are_those_of_the_one_list() -> None:
    """The verifier knows them without the server."""
    codes = countries._codes()
    assert [name for name in codes if is_in_eu(name) != (codes[name] in EU_COUNTRIES)] == []
    assert not is_in_eu("Atlantis")


def test_a_rating_is_old_after_24_months() -> None:
    dates = ("2024-03-01", "2024-02-29", "2024-02-01", "2023-01-31", "2026-03-01")
    assert [old_months(each, "2026-03-01T09:00:00Z") for each in dates] == [0, 24, 25, 37, 0]
