"""What is known of credits is fixed when an order gets them: later edits of the catalogue change nothing."""

import json
import re
from typing import Any

import httpx
import msgspec
import pytest

from tests.channels.public_pages.certificates import show_page
from tests.supply.retirements.shop import TONNE, Shop
from tests.verify.test_pack_tables import ABOUT
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.selling.orders.model import Order
from tonne.supply.certificates.proofs.statement_source import read_stated_rows
from tonne.supply.certificates.record import CertificateRecord
from tonne.supply.certificates.store import find_certificate
from tonne.supply.transparency.statements import WaitingStatement
from tonne_verify.canonical import canonical_json
from tonne_verify.openings import StatementKind
from tonne_verify.pack import is_in_eu
from tonne_verify.pack_tables import PackTables

PROJECT = (
    "registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams,registry_url,"
    "methodology_version,sink,durability_years,reversible,buffer,ratings,verifying_body,verified_on,facts_source,facts_as_of"
)
FIRST = (
    "2.1,biogenic,100,true,true,Example Ratings ; AA ; 2024-01-31 ; https://ratings.example/a,Example Audit,2025-12-01,"
    "Project description,2026-01-02"
)
LOT = (
    "registry,registry_project_id,vintage,serial,status,retirement_url,retired_on,labels,article_6,article_6_uses,"
    "article_6_source,article_6_date,removal_percent,facts_source"
)
LABELS = "icvcm_ccp ; Registry ; 2026-02-03 | corsia_first_scope ; ICAO ; 2026-02-04"
STATED: dict[str, Any] = {
    "mechanism": {"value": "mixed", "source": "Monitoring report"},
    "removal_percent": {"value": 40, "source": "Monitoring report"},
    "sink": {"value": "biogenic", "source": "Project description", "as_of": "2026-01-02"},
    "methodology": {"value": "ACM2", "source": "Project description", "as_of": "2026-01-02"},
    "methodology_version": {"value": "2.1", "source": "Project description", "as_of": "2026-01-02"},
    "durability_years": {"value": 100, "source": "Project description", "as_of": "2026-01-02"},
    "reversible": {"value": True, "source": "Project description", "as_of": "2026-01-02"},
    "buffer": {"value": True, "source": "Project description", "as_of": "2026-01-02"},
    "labels": [
        {"code": "icvcm_ccp", "source": "Registry", "as_of": "2026-02-03"},
        {"code": "corsia_first_scope", "source": "ICAO", "as_of": "2026-02-04"},
    ],
    "article_6": {"value": "authorised", "uses": ["international", "other"], "source": "Letter", "as_of": "2026-02-05"},
    "ratings": [
        {"agency": "Example Ratings", "grade": "AA", "as_of": "2024-01-31", "url": "https://ratings.example/a"}
    ],
    "verifier": {"value": "Example Audit", "source": "Project description", "as_of": "2025-12-01"},
}


def project(facts: str) -> dict[FileKind, list[str]]:
    values = "Our Registry,A,Project A,Kenya,Wind,ACM2,avoidance,1000000,https://registry.verra.org"
    return {FileKind.PROJECTS: [PROJECT, f"{values},{facts}"]}


def lot(
    labels: str = LABELS, article_6: str = "authorised,international | other,Letter,2026-02-05", percent: str = "40"
) -> Any:
    return {FileKind.LOTS: [LOT, f"Our Registry,A,2020,X 1–10,held,,,{labels},{article_6},{percent},Monitoring report"]}


async def stock(shop: Shop) -> None:
    await shop.sell("wind", {"A": 1})
    await shop.import_files(project(FIRST))
    await shop.import_files(lot())


async def record_of(shop: Shop, order: Order) -> CertificateRecord:
    async with shop.database.connection() as connection:
        record = await find_certificate(connection, order.scope, order.id)
    assert record is not None
    return record


def facts_of(record: CertificateRecord) -> Any:
    (line,) = record.lines
    return msgspec.to_builtins(line.facts)


async def edit(shop: Shop) -> None:
    """Everything changes, and a label is removed."""
    await shop.import_files(project(",technological,9,false,false,,,,,"))
    await shop.import_files(lot("icvcm_ccp ; Registry ; 2026-02-03", "none,,Letter,2026-02-06", ""))


async def test_facts_are_those_of_the_allocation_byte_for_byte(live: Shop) -> None:
    await stock(live)
    ada = await live.account("Ada")
    first = await live.buy(ada, 2 * TONNE, "wind")
    await live.work()
    # Orders hold credits of the lot: only its facts may change.
    await edit(live)
    with pytest.raises(SheetInvalid, match="tonnes of this lot are allocated"):
        await live.import_files(
            {FileKind.LOTS: [lot()[FileKind.LOTS][0], lot()[FileKind.LOTS][1].replace(",2020,", ",2021,")]}
        )
    second = await live.buy(ada, TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    record = await record_of(live, first)
    assert facts_of(record) == STATED
    digest = await live.fetchval("SELECT document FROM credit_facts WHERE document LIKE '%Monitoring report%'")
    assert canonical_json(facts_of(record)).decode() == digest
    assert facts_of(await record_of(live, second)) == {
        "mechanism": {"value": "avoidance"},
        "sink": {"value": "technological"},
        "methodology": {"value": "ACM2"},
        "durability_years": {"value": 9},
        "reversible": {"value": False},
        "buffer": {"value": False},
        "labels": STATED["labels"][:1],
        "article_6": {"value": "none", "source": "Letter", "as_of": "2026-02-06"},
    }
    await live.check_invariants()


async def everything(shop: Shop, browser: httpx.AsyncClient, order: Order) -> dict[str, bytes]:
    """All that leaves the service about a certificate."""
    services, record = shop.services, await record_of(shop, order)
    # Pages say whether a file was made.
    pdf = await services.render_certificate.render(record)
    parcels = await shop.fetch("SELECT parcel_id FROM shares WHERE order_id = $1", order.id)
    subjects = [(StatementKind.RETIREMENT, row["parcel_id"]) for row in parcels]
    waiting = [
        WaitingStatement(1, shop.mode, kind, subject, 1, shop.clock.now, None)
        for kind, subject in (*subjects, (StatementKind.ISSUED, record.number))
    ]
    async with shop.database.connection() as connection:
        stated = await read_stated_rows(connection, shop.mode, waiting)
    tables = PackTables(is_in_eu)
    tables.add(msgspec.to_builtins(record))
    pages = [f"/certificates/{record.number}", f"/certificates/{record.number}.json", f"/verify/{record.number}"]
    answers = [await browser.get(each) for each in pages]
    assert [each.status_code for each in answers] == [200, 200, 200]
    return {
        "pdf": pdf,
        "credential": await services.issue_credential.issue(record),
        "statements": repr(stated).encode(),
        **tables.files(ABOUT, []),
        **{page: answer.content for page, answer in zip(pages, answers, strict=True)},
    }


NEW_NAMES = "Our Registry,A,Renamed,Chile,Solar,AMS-I.D,removal,1000000,https://registry.verra.org/renamed"
LATER_FACTS = (
    "3,technological,9,false,false,Others ; C ; 2026-03-01 ; https://ratings.example/c,Nobody,2026-02-01,Us,2026-03-02"
)
EDITS: list[dict[FileKind, list[str]]] = [
    {FileKind.PROJECTS: [PROJECT, f"{NEW_NAMES},{LATER_FACTS}"]},
    {
        FileKind.PROJECTS: [
            f"{PROJECT},slug,description,region",
            ",".join([NEW_NAMES, *[""] * 10, "other", "Text", "South"]),
        ]
    },
    lot("ccb ; Us ; 2026-03-03", "adjusted,,Us,2026-03-04", "90"),
    lot("", ",,,", ""),
    {FileKind.LOTS: [f"{LOT},mechanism,verifying_body", f"{lot('')[FileKind.LOTS][1]},removal,Us"]},
    {
        FileKind.BUNDLES: [
            "slug,name,description,primary_image,unit_price,enabled,position",
            "wind,Other,New,,99,true,7",
        ],
        FileKind.BUNDLE_PROJECTS: ["bundle_slug,registry,registry_project_id,weight", "wind,Our Registry,A,3"],
    },
]


async def test_no_edit_of_the_catalogue_changes_what_leaves_the_service(live: Shop, browser: httpx.AsyncClient) -> None:
    """Also an edit between the allocation and the certificate."""
    await stock(live)
    ada = await live.account("Ada")
    await show_page(live.services, ada)
    order = await live.buy(ada, 2 * TONNE, "wind")
    await live.work()
    await live.import_files(EDITS[0])
    await live.confirm(*await live.work_list())
    await live.work()
    [line] = (await record_of(live, order)).lines
    assert (line.project_name, line.project_type, line.country, line.methodology) == (
        *("Project A", "Wind"),
        *("Kenya", "ACM2"),
    )
    assert facts_of(await record_of(live, order)) == STATED
    before = await everything(live, browser, order)
    assert STATED["labels"][1]["code"].encode() in before["credential"] + before["serial-numbers.csv"]
    [page] = [content for name, content in before.items() if name.startswith("/certificates/") and b"<html" in content]
    assert b"25 months old when the certificate was issued" in page
    assert b"(2024-01-31, 25 months old at the issue, https://ratings.example/a)" in before["serial-numbers.csv"]
    for edit in EDITS:
        await live.import_files(edit)
        after = await everything(live, browser, order)
        assert [name for name in before if before[name] != after[name]] == []
    assert b"Renamed" not in b"".join(before.values())
    # The link to the page of the project, which follows the catalogue, is the same, and leads to its new address.
    [link] = re.findall(rb'href="(/projects/[^"]+)"', page)
    moved = await browser.get(link.decode())
    assert (moved.status_code, moved.headers["location"]) == (303, "/projects/other")
    shown = await browser.get(moved.headers["location"])
    assert (shown.status_code, b">Renamed</h1>" in shown.content) == (200, True)


async def test_a_lot_of_an_earlier_methodology_has_not_the_version_of_the_new_one(live: Shop) -> None:
    await stock(live)
    (_, line) = project(FIRST)[FileKind.PROJECTS]
    await live.import_files({FileKind.PROJECTS: [PROJECT, line.replace("ACM2", "AMS-I.D").replace("2.1", "18")]})
    (kept,) = await live.fetch(
        "SELECT facts.document FROM lots JOIN credit_facts facts ON facts.digest = lots.facts_digest"
        " WHERE facts.document LIKE '%Monitoring report%'"
    )
    facts = json.loads(kept["document"])
    assert facts["methodology"]["value"] == "ACM2"
    assert "methodology_version" not in facts


async def test_files_without_the_columns_change_no_facts_and_unknown_stays_unknown(live: Shop) -> None:
    await stock(live)
    columns = LOT.split(",labels", maxsplit=1)[0]
    await live.import_files({FileKind.LOTS: [columns, "Our Registry,A,2020,X 1–10,held,,"]})
    await live.sell("wind", {"A": 1})
    order = await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    assert facts_of(await record_of(live, order)) == STATED
    await live.sell("sun", {"B": 1})
    await live.supply("B", 2020, 5, retired=True)
    plain = await live.buy(await live.account("Ada"), TONNE, "sun")
    await live.work()
    assert facts_of(await record_of(live, plain)) == {
        "mechanism": {"value": "avoidance"},
        "methodology": {"value": "ACM2"},
    }
    await live.check_invariants()


@pytest.mark.parametrize("is_edited", [False, True])
async def test_a_parcel_that_gets_units_of_another_lot_gets_their_facts(live: Shop, is_edited: bool) -> None:
    """Those that were fixed when the units were allocated."""
    await stock(live)
    await live.import_files({FileKind.LOTS: [LOT.split(",labels", maxsplit=1)[0], "Our Registry,A,2020,Y 1–2,held,,"]})
    ada, berta = await live.account("Ada"), await live.account("Berta")
    orders = [await live.buy(each, grams, "wind") for each, grams in ((ada, 10 * TONNE), (berta, 2 * TONNE))]
    await live.work()
    of_x, of_y = await live.work_list()
    assert (of_x.serials, of_y.serials) == ("X 1–10", "Y 1–2")
    if is_edited:
        await live.import_files(lot(""))
        labelled_y = [LOT, "Our Registry,A,2020,Y 1–2,held,,," + LABELS + ",,,,,,"]
        await live.import_files({FileKind.LOTS: labelled_y})
    heads = "parcel_id,serial,retired_on,retirement_url"
    page, day = "https://registry.verra.org", live.clock.now.date()
    lines = [f"{of_y.parcel_id},X 1–2,{day},{page}/1"]
    await live.confirm_file([heads, *lines])
    await live.confirm(*await live.work_list())
    await live.work()
    labelled = {
        line.serial_range: bool(line.facts and line.facts.labels)
        for order in orders
        for line in (await record_of(live, order)).lines
    }
    assert labelled == {"X 1–2": True, "X 3–10": True, "Y 1–2": False}
    await live.check_invariants()


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (lot("corsia ; ICAO ; 2026-01-01"), "column labels: “corsia” is not a label"),
        (lot("ccb"), "column labels: “ccb” does not have the form `code ; source ; date`"),
        (lot(LABELS, "authorised,other,,"), "column article_6_source: the cell is empty: enter who says"),
        (lot(LABELS, ",,Letter,"), "column article_6_source: article_6 is empty: fill both, or clear both"),
        (lot(LABELS, "authorised,anything,Letter,2026-01-01"), "column article_6_uses: “anything” is"),
        (lot(percent="100"), "column removal_percent"),
        (project("2.1,wooden,,,,,,,,"), "column sink"),
        (project("2.1,,,,,Example Ratings ; AA,,,,"), "column ratings: “Example Ratings ; AA” does not have the form"),
    ],
)
async def test_facts_without_source_or_date_are_refused(live: Shop, lines: Any, says: str) -> None:
    await live.sell("wind", {"A": 1})
    with pytest.raises(SheetInvalid) as raised:
        await live.import_files(lines)
    assert says in "\n".join(map(str, raised.value.errors))
