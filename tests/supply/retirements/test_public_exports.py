"""Public exports of registries: recognised by their columns, and nothing is guessed. The files are made up."""

import csv
import io
import json
from datetime import date
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.support.command import Operator
from tests.support.scene import Scene
from tonne.apps.wiring.app import Services
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.supply.stock.lots.export_facts import FACT_COLUMNS
from tonne.supply.stock.lots.public_exports import (
    KNOWN,
    Columns,
    ColumnsUnknown,
    ExportDates,
    ExportRequest,
    convert_export,
    recognise,
)

PAGE = "https://registry.verra.org/app/projectDetail/VCS/191"
VERRA = (
    "Issuance Date,Sustainable Development Goals,Vintage Start,Vintage End,ID,Name,Country/Area,Project Type,"
    "Methodology,Total Vintage Quantity,Quantity Issued,Serial Number,Additional Certifications,"
    "Retirement/Cancellation Date,Retirement Beneficiary,Retirement Reason,Retirement Details"
)
GOLD_STANDARD = (
    "Vintage,Credit Status,Quantity,GSID,Project Name,Project Developer,Country,Product Type,Project Type,Methodology,"
    "Programme of Activities,POA GSID,Issuance Date,{date}Monitoring Period Start,Monitoring Period End,Serial Number,"
    "Note,Label,Article Six Authorization"
)
ACR = (
    "fiid,Credit Serial Numbers,Date Issued (GMT),Vintage,Vintage Assignment Period Start Date,Vintage Assignment"
    " Period End Date,Quantity of Credits,Account Holder,Status Effective (GMT),Retired on Behalf of,Retirement "
    "Reason,Purpose of Retirement,Project ID,Project Name,Project Type,Project "
    "Methodology/Protocol,Methodology/Protocol Version,Project Site Location,Project Site State,Project Site "
    "Country,ARB Eligible,Ecology Eligible,CORSIA Eligible,Eligible for CORSIA 2021-2023 Compliance Period (Pilot"
    " Phase),Eligible for CORSIA 2024-2026 Compliance Period (First Phase),CCP Approved,Verified "
    "Removal,Sustainable Development Goal(s),Project Website,Documents,Numberoffiles"
)
CAR = (
    "Vintage,Offset Credit Serial Numbers,Quantity of Offset Credits,Status Effective,Project ID,Project "
    "Name,Project Type,Reduction/Removal,Reversible/Non-Reversible,Protocol and Version,Project Site "
    "Location,Project Site State,Project Site Country,Activity Area Type,Additional Certification(s),Eligible for"
    " CORSIA 2021-2023 Compliance Period,Eligible for CORSIA 2024-2026 Compliance Period,Corresponding "
    "Adjustment,CCP Approved,Account Holder,Retirement Reason,Retirement Reason Details"
)
PROJECTS = [("Verra", "VCS191"), ("VCS", "0934"), ("Gold Standard", "GS11236"), ("ACR", "1129"), ("CAR", "CAR1335")]


DAY = date(2026, 6, 1)
stated = partial(ExportRequest, exported_on=DAY)


def export(header: str, *rows: dict[str, str]) -> SheetFile:
    names, text = header.split(","), io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(names)
    writer.writerows([row.get(name, "") for name in names] for row in rows)
    return SheetFile("export.csv", text.getvalue().encode())


def verra(**cells: str) -> dict[str, str]:
    return {
        "ID": "191",
        "Vintage Start": "2008-01-01",
        "Quantity Issued": "100",
        "Serial Number": "12082-384723093-384723192-VCS-VCU-304-VER-CN-1-191-01012008-31122008-0",
        **cells,
    }


RETIRED = verra(**{"Retirement/Cancellation Date": "2025-03-01"})


def lines_of(file: SheetFile, request: ExportRequest) -> list[list[str]]:
    text = convert_export(file, request, PROJECTS).file.content.decode()
    return [row for row in csv.reader(io.StringIO(text)) if row][1:]


def errors_of(file: SheetFile, request: ExportRequest) -> list[str]:
    with pytest.raises(SheetInvalid) as raised:
        convert_export(file, request, PROJECTS)
    return [str(error) for error in raised.value.errors]


def test_each_export_is_recognised_by_its_own_columns_alone() -> None:
    gold = [GOLD_STANDARD.format(date=date) for date in ("Retirement Date,", "")]
    found = [recognise(header.split(",")) for header in (VERRA, *gold, ACR, CAR)]
    assert [(each.registry, each.name) for each in found if each] == [
        ("Verra", "transactions"),
        ("Gold Standard", "retirements"),
        ("Gold Standard", "issuances"),
        ("ACR", "retirements"),
        ("CAR", "retirements"),
    ]
    for known in KNOWN:
        assert recognise([sign.upper() for sign in known.signs]) is not None
    assert recognise(["id", "name", "Status", "Vintage"]) is None


def test_retirements_are_pre_retired_lots_of_the_page_that_the_operator_names() -> None:
    request = stated(retirement_url=PAGE)
    other = verra(ID="77", **{"Retirement/Cancellation Date": "2025-03-01"})
    assert lines_of(export(VERRA, other, RETIRED), request) == [
        ["Verra", "VCS191", "2008", RETIRED["Serial Number"], "100", "pre_retired", PAGE, "2025-03-01"]
    ]
    done = convert_export(export(VERRA, other, RETIRED, verra()), request, PROJECTS)
    assert (done.other_projects, done.not_held) == (1, 1)
    # Errors of the import name the line of the export.
    assert done.file.content.decode().splitlines()[1] == ""
    assert "say which page" in errors_of(export(VERRA, RETIRED), stated())[0]


def test_an_issuance_is_held_only_if_the_operator_says_so() -> None:
    row = {
        "GSID": "11236",
        "Vintage": "2024",
        "Quantity": "19,149",
        "Serial Number": "GS1-1-UG-GS11236-16-2024-30307-1-19149",
    }
    file = export(GOLD_STANDARD.format(date=""), row)
    assert "nobody said that you hold" in errors_of(file, stated())[1]
    [line] = lines_of(file, stated(holds_issued=True))
    assert line == ["Gold Standard", "GS11236", "2024", row["Serial Number"], "19149", "held", "", ""]


def test_planned_reductions_are_no_credits() -> None:
    planned = {"GSID": "11236", "Vintage": "2029", "Quantity": "10", "Product Type": "PER"}
    file = export(GOLD_STANDARD.format(date=""), planned, {**planned, "Product Type": "Planned Emissions Reduction"})
    [_, error] = errors_of(file, stated(holds_issued=True))
    assert "Lines left out, of planned reductions, which are no credits yet: 2." in error


def test_the_retirements_of_others_are_not_imported() -> None:
    """The page that the operator names cannot show those of everybody as theirs."""
    request = stated(retirement_url=PAGE)
    ours, others = ({**RETIRED, "Retirement Beneficiary": name} for name in ("Our Shop", "Another Ltd"))
    [error] = errors_of(export(VERRA, ours, others), request)
    assert "it lists retirements of 2, such as “Another Ltd”, “Our Shop”: leave only your lines in the file." in error
    done = convert_export(export(VERRA, ours, {**others, "ID": "77"}), request, PROJECTS)
    assert "All retirements are those of “Our Shop”." in done.notes


def test_acr_and_car_retirements() -> None:
    acr = {
        "Credit Serial Numbers": "ACR-FR-1129-2025-2917-30932 to 35143",
        "Vintage": "2025",
        "Quantity of Credits": "4212",
        "Status Effective (GMT)": "6/14/2026",
        "Project ID": "ACR1129",
    }
    [line] = lines_of(export(ACR, acr), stated(retirement_url=PAGE, dates=ExportDates.MONTH_FIRST))
    assert (line[1], line[-1]) == ("1129", "2026-06-14")
    assert "day or month may come first" in errors_of(export(ACR, acr), stated(retirement_url=PAGE))[0]
    car = {
        "Offset Credit Serial Numbers": "CAR-1-US-1335-31-983-KS-2025-9205-1 to 5000",
        "Vintage": "2025",
        "Quantity of Offset Credits": "5000",
        "Status Effective": "2026-06-14",
        "Project ID": "CAR1335",
    }
    [line] = lines_of(export(CAR, car), stated(retirement_url=PAGE))
    assert line[:2] == ["CAR", "CAR1335"]


def facts_of(header: str, row: dict[str, str]) -> dict[str, str]:
    done = convert_export(export(header, row), stated(retirement_url=PAGE, holds_issued=True), PROJECTS)
    [line] = [row for row in csv.DictReader(io.StringIO(done.file.content.decode())) if row["serial"]]
    return {name: cell for name, cell in line.items() if name in FACT_COLUMNS} | {"notes": done.notes[-1]}


def test_labels_and_article_6_are_those_of_the_registry_of_the_day_of_the_export() -> None:
    """The spellings are those of the exports of 2026."""
    labels = (
        "Article 6 Authorized – Intl mitigation purposes; Article 6 Authorized – NDC Use; CORSIA - First Phase, "
        "2024-2026 Scope; CCB-No Distinction; Carbon Dioxide Removals"
    )
    source = "Verra registry, export of transactions"
    expected = {
        "mechanism": "removal",
        "facts_source": source,
        "facts_as_of": "2026-06-01",
        "labels": f"corsia_first_scope ; {source} ; 2026-06-01 | ccb_no_distinction ; {source} ; 2026-06-01",
        "article_6": "authorised",
        "article_6_uses": "international | ndc",
        "article_6_source": source,
        "article_6_date": "2026-06-01",
        "notes": "Read as the export transactions of Verra.",
    }
    assert facts_of(VERRA, verra(**{"Additional Certifications": labels})) == expected
    adjusted = labels + "; Article 6 Correspondingly Adjusted"
    assert facts_of(VERRA, verra(**{"Additional Certifications": adjusted})) == {**expected, "article_6": "adjusted"}


def test_each_registry_states_facts_in_its_own_columns() -> None:
    gold = {"GSID": "11236", "Vintage": "2024", "Quantity": "9", "Serial Number": "GS1-1-UG-GS11236-16-2024-30307-1-9"}
    gold |= {"Label": "ICVCM CCP, Emission Reduction", "Article Six Authorization": "Not Applicable"}
    found = facts_of(GOLD_STANDARD.format(date=""), gold)
    assert (found["mechanism"], found["labels"].split(" ;")[0], "article_6" in found) == (
        "avoidance",
        "icvcm_ccp",
        False,
    )
    acr = {"Credit Serial Numbers": "ACR-FR-1129-2025-2917-1 to 2", "Vintage": "2025", "Quantity of Credits": "2"}
    acr |= {"Project ID": "ACR1129", "CCP Approved": "No", "Verified Removal": "Yes"}
    assert facts_of(ACR, acr)["mechanism"] == "removal"
    assert "labels" not in facts_of(ACR, acr)
    first = "Eligible for CORSIA 2024-2026 Compliance Period (First Phase)"
    assert facts_of(ACR, {**acr, first: "Yes"})["labels"].startswith("corsia_first_eligible ; ACR")
    car = {"Offset Credit Serial Numbers": "CAR-1-US-1335-31-983-KS-2025-9205-1 to 5", "Vintage": "2025"}
    car |= {"Quantity of Offset Credits": "5", "Project ID": "CAR1335", "Corresponding Adjustment": "No"}
    found = facts_of(CAR, {**car, "Reduction/Removal": "Reduction", "CCP Approved": "Yes"})
    assert (found["mechanism"], found["labels"].split(" ;")[0], "article_6" in found) == (
        "avoidance",
        "icvcm_ccp",
        False,
    )
    assert facts_of(CAR, {**car, "Corresponding Adjustment": "Yes"})["article_6"] == "adjusted"


@pytest.mark.parametrize(
    ("header", "column", "text"),
    [
        (VERRA, "Additional Certifications", "CORSIA"),
        (VERRA, "Additional Certifications", "Article 6 under review"),
        (f"{VERRA},Label", "Label", "Removal"),
        (GOLD_STANDARD.format(date=""), "Article Six Authorization", "Not authorised"),
        (CAR, "Reduction/Removal", "Both"),
    ],
)
def test_words_with_another_meaning_state_nothing(header: str, column: str, text: str) -> None:
    rows = {
        VERRA: verra(),
        CAR: {
            "Offset Credit Serial Numbers": "CAR-1-US-1335-31-983-KS-2025-9205-1 to 5",
            "Vintage": "2025",
            "Quantity of Offset Credits": "5",
            "Project ID": "CAR1335",
        },
    }
    gold = {"GSID": "11236", "Vintage": "2024", "Quantity": "9", "Serial Number": "GS1-1-UG-GS11236-16-2024-30307-1-9"}
    found = facts_of(header, {**rows.get(header, {**gold, **verra()}), column: text})
    assert found.keys() == {"notes"}
    is_named = f"Not read, because their meaning is not known: “{text}”." == found["notes"]
    assert is_named or column == "Label"


def test_what_is_no_supply_is_refused() -> None:
    cancelled = export("Credit Serial Numbers,Cancellation Type,Vintage,Quantity of Credits,Project ID")
    issued = export("Total Credits Issued,Project VVB,Project ID,Vintage")
    assert "cancellations" in errors_of(cancelled, stated(holds_issued=True))[0]
    assert "no serial numbers" in errors_of(issued, stated(holds_issued=True))[0]
    two_years = verra(**{"Vintage Start": "2008 to 2009"})
    assert "one year" in errors_of(export(VERRA, two_years), stated(holds_issued=True))[0]


def test_an_unknown_file_needs_its_columns_to_be_chosen() -> None:
    file = export(
        "No,Code,Period,Tonnes", {"No": RETIRED["Serial Number"], "Code": "191", "Period": "2008", "Tonnes": "100"}
    )
    with pytest.raises(ColumnsUnknown) as raised:
        convert_export(file, stated(holds_issued=True), PROJECTS)
    assert raised.value.header == ("No", "Code", "Period", "Tonnes")
    chosen = stated(holds_issued=True, registry="Verra", columns=Columns("No", "Code", "Period", "Tonnes"))
    wrong = msgspec.structs.replace(chosen, columns=Columns("Number", "Code", "Period", "Tonnes"))
    assert "no column “Number”" in errors_of(file, wrong)[0]
    [line] = lines_of(file, chosen)
    assert line[:6] == ["Verra", "VCS191", "2008", RETIRED["Serial Number"], "100", "held"]


PROJECT = (
    "registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams,registry_url\n"
    f"Verra,VCS191,Wind of Inner Mongolia,China,Wind,ACM2,avoidance,1000000,{PAGE}\n"
)


async def test_the_command_imports_what_it_read(services: Services, operator: Operator, tmp_path: Path) -> None:
    scene = Scene(services)
    (tmp_path / "projects.csv").write_text(PROJECT)
    labelled = {**RETIRED, "Additional Certifications": "CCB-Gold"}
    (tmp_path / "export.csv").write_bytes(export(VERRA, labelled).content)
    operator.does("catalogue", "import", "--mode", "live", f"{tmp_path}/projects.csv")
    options = ("--mode", "live", "--retirement-url", PAGE, "--exported-on", "2026-06-01")
    result = operator.does("catalogue", "import-lots", *options, f"{tmp_path}/export.csv")
    assert "Read as the export transactions of Verra." in result
    [lot] = await scene.fetch("SELECT status, vintage, quantity_grams, facts FROM lots WHERE serial LIKE '12082-%'")
    assert tuple(lot)[:3] == ("pre_retired", 2008, 100_000_000)
    [label] = json.loads(lot["facts"])["labels"]
    assert label == {
        "code": "ccb_gold",
        "source": "Verra registry, export of transactions",
        "as_of": "2026-06-01",
    }
