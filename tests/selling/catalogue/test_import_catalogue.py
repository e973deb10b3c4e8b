"""Importing catalogue files and lots: all or nothing, repeatable, one import at a time."""

import asyncio
import json
from datetime import UTC, datetime
from decimal import Decimal

import asyncpg
import pytest

from tests.support.world import TESTER
from tonne.platform.db.database import Database
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.bundle_store import switch_bundle
from tonne.selling.catalogue.demo import demo_files
from tonne.selling.catalogue.imports.import_catalogue import CatalogueError, ImportReport
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.selling.catalogue.imports.rate_changes import PER_EURO
from tonne.supply.stock.lots.import_lots import import_files

NOW = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
TABLES = ("catalogues", "projects", "bundles", "bundle_projects", "exchange_rates", "serial_blocks", "lots")
PROJECTS = """registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams
Our Registry,VCS1,Old forest,Peru,Forest,VM1,avoidance,1000000
Our Registry,VCS2,Wind farm,Chile,Wind,,avoidance,1000000
"""
BUNDLES = """slug,name,description,primary_image,unit_price,enabled,position
forest,Forest,Trees.,/images/forest.svg,12.65,true,1
wind,Wind,,,6.90,true,2
closed,Closed,,,1.00,false,3
"""
LOT_HEADER = (
    "registry,registry_project_id,vintage,serial_block,first_number,last_number,status,retirement_url,retired_on\n"
)


def lots(*lines: str) -> dict[FileKind, str]:
    return {FileKind.LOTS: LOT_HEADER + "".join(f"Our Registry,VCS1,2021,{line},held,,\n" for line in lines)}


def bundle_projects(*lines: str) -> dict[FileKind, str]:
    return {FileKind.BUNDLE_PROJECTS: "bundle_slug,registry,registry_project_id,weight\n" + "\n".join(lines)}


def defaults(*lines: str) -> dict[FileKind, str]:
    return {FileKind.DEFAULTS: "bundle_slug,percentage\n" + "\n".join(lines)}


async def run(
    db: Database,
    texts: dict[FileKind, str],
    mode: Mode = Mode.TEST,
    currency: str | None = None,
    max_rate_change: Decimal | None = None,
) -> ImportReport:
    files = {kind: SheetFile(kind, text.encode()) for kind, text in texts.items()}
    async with db.transaction() as tx:
        return await import_files(
            tx, mode, files, currency=currency, by=TESTER.at(NOW), max_rate_change=max_rate_change
        )


async def import_basics(db: Database, mode: Mode = Mode.TEST) -> None:
    await run(db, {FileKind.PROJECTS: PROJECTS, FileKind.BUNDLES: BUNDLES}, mode, currency="EUR")


async def refused(db: Database, texts: dict[FileKind, str], mode: Mode = Mode.TEST) -> list[str]:
    """The errors of an import, which must not change anything."""
    before = await contents(db)
    with pytest.raises(SheetInvalid) as raised:
        await run(db, texts, mode)
    assert await contents(db) == before
    return [str(error) for error in raised.value.errors]


async def contents(db: Database) -> dict[str, list[asyncpg.Record]]:
    async with db.connection() as connection:
        return {
            table: await connection.fetch(f"SELECT * FROM {table} ORDER BY {table}::text")  # noqa: S608 - our own names
            for table in TABLES
        }


def counts(report: ImportReport) -> dict[str, tuple[int, int, int, int]]:
    return {
        file.file: (len(file.new), len(file.changed), file.unchanged_count, len(file.removed)) for file in report.files
    }


async def test_importing_the_demo_catalogue_again_changes_nothing(db: Database) -> None:
    for mode in Mode:
        async with db.transaction() as tx:
            first = await import_files(tx, mode, demo_files(mode), currency="EUR", by=TESTER.at(NOW), is_demo=True)
        assert (first.version, first.changed) == (1, True)
        assert counts(first)["projects.csv"] == (14, 0, 0, 0)
    before = await contents(db)
    for mode in Mode:
        async with db.transaction() as tx:
            again = await import_files(tx, mode, demo_files(mode), by=TESTER.at(NOW))
        assert (again.version, again.changed) == (1, False)
        assert all(not file and file.unchanged_count for file in again.files)
    assert await contents(db) == before


async def test_the_demo_catalogue_offers_what_the_documentation_says(db: Database) -> None:
    async with db.transaction() as tx:
        await import_files(tx, Mode.LIVE, demo_files(Mode.LIVE), currency="EUR", by=TESTER.at(NOW), is_demo=True)
        bundles = await tx.fetch("SELECT id, unit_price_minor, enabled FROM bundles")
        selection = json.loads(await tx.fetchval("SELECT default_bundle_selection FROM catalogues"))
        rates = await tx.fetch("SELECT quote FROM exchange_rates WHERE base = 'EUR' AND as_of < $1", NOW)
        blocks = await tx.fetch("SELECT serial FROM lots")
    assert len(bundles) >= 6
    assert [bundle["enabled"] for bundle in bundles].count(False) == 1
    assert {690, 1265, 25000} <= {bundle["unit_price_minor"] for bundle in bundles}
    assert {choice["bundle_id"] for choice in selection} < {bundle["id"] for bundle in bundles if bundle["enabled"]}
    assert [choice["percentage"] for choice in selection] == ["60", "40"]
    assert {row["quote"] for row in rates} == {"USD", "GBP", "JPY", "CHF", "KWD", "SEK", "ISK"}
    assert all(row["serial"].startswith("TEST-LIVE-") for row in blocks)


async def test_one_error_prevents_the_import_and_all_are_reported_in_order(db: Database) -> None:
    await import_basics(db)
    report = await refused(
        db,
        {
            FileKind.PROJECTS: PROJECTS
            + "Our Registry,VCS3,,Peru,Forest,,removal,1000\nOur Registry,VCS4,New,Peru,Forest,,removal,1000\n",
            FileKind.BUNDLES: BUNDLES.replace("6.90", "6.905"),
            # The reference to VCS3 is not an error: only its own line is invalid.
            **bundle_projects(
                "forest,Our Registry,VCS3,1", "forest,Our Registry,VCS9,1", "nothing,Our Registry,VCS1,1"
            ),
        },
    )
    assert [line.split(":")[0] for line in report] == [
        "projects.csv, line 4, column name",
        "bundles.csv, line 3, column unit_price",
        "bundle_projects.csv, line 3, column registry_project_id",
        "bundle_projects.csv, line 4, column bundle_slug",
    ]


async def test_errors_of_lots_and_of_the_catalogue_are_reported_together(db: Database) -> None:
    await import_basics(db)
    report = await refused(
        db,
        {
            **lots("A,1,10", "A,5,20"),
            FileKind.PROJECTS: PROJECTS + "Our Registry,VCS3,,Peru,Forest,,removal,1000\n",
        },
    )
    assert [line.split(":")[0] for line in report] == [
        "lots.csv, line 3, column serial",
        "projects.csv, line 4, column name",
    ]
    # A lot may refer to a project of the same import, and to an invalid line without a second error.
    new_project = PROJECTS + "Our Registry,VCS3,New,Peru,Forest,,removal,1000\n"
    new_lot = lots("A,1,10")[FileKind.LOTS].replace("VCS1", "VCS3")
    (error,) = await refused(db, {FileKind.PROJECTS: new_project.replace("New", ""), FileKind.LOTS: new_lot})
    assert error.startswith("projects.csv, line 4, column name")
    (error,) = await refused(db, {FileKind.LOTS: new_lot})
    assert error.startswith("lots.csv, line 2, column registry_project_id: there is no project “VCS3”")
    imported = await run(db, {FileKind.LOTS: new_lot, FileKind.PROJECTS: new_project})
    assert counts(imported) == {"projects.csv": (1, 0, 2, 0), "lots.csv": (1, 0, 0, 0)}


async def test_the_first_import_needs_a_currency_and_a_later_one_cannot_change_it(db: Database) -> None:
    for currency in (None, "XXX", "eur"):
        with pytest.raises(CatalogueError):
            await run(db, {FileKind.PROJECTS: PROJECTS}, currency=currency)
    await import_basics(db)
    with pytest.raises(CatalogueError, match="priced in EUR"):
        await run(db, {FileKind.PROJECTS: PROJECTS}, currency="USD")
    assert (await run(db, {FileKind.PROJECTS: PROJECTS}, currency="EUR")).changed is False


async def test_a_changed_row_keeps_its_id_and_raises_the_version_by_one(db: Database) -> None:
    await import_basics(db)
    before = await contents(db)
    report = await run(db, {FileKind.BUNDLES: BUNDLES.replace("12.65", "13.00")})
    assert (report.version, counts(report)) == (2, {"bundles.csv": (0, 1, 2, 0)})
    after = await contents(db)
    assert [row["id"] for row in after["bundles"]] == [row["id"] for row in before["bundles"]]
    assert {row["unit_price_minor"] for row in after["bundles"]} == {1300, 690, 100}


async def test_a_project_without_a_slug_gets_a_free_one_and_keeps_it(db: Database) -> None:
    header, *rows = PROJECTS.splitlines()
    same_name = "Our Registry,VCS3,Old forest!,Peru,Forest,,removal,1000"
    await run(db, {FileKind.PROJECTS: "\n".join((header, *rows, same_name))}, currency="EUR")
    renamed = "Our Registry,VCS3,Young forest,Peru,Forest,,removal,1000"
    await run(db, {FileKind.PROJECTS: f"{header}\n{renamed}"})
    slugs = {row["registry_project_id"]: row["slug"] for row in (await contents(db))["projects"]}
    assert slugs == {"VCS1": "old-forest", "VCS2": "wind-farm", "VCS3": "old-forest-2"}
    (error,) = await refused(db, {FileKind.PROJECTS: f"{header},slug\n{rows[1]},old-forest\n"})
    assert error.startswith("projects.csv, line 2, column slug: “old-forest” is already the slug of Our Registry VCS1")


async def test_bundle_projects_replace_those_of_the_bundles_named(db: Database) -> None:
    await import_basics(db)
    lines = ("forest,Our Registry,VCS1,3", "forest,Our Registry,VCS2,1", "wind,Our Registry,VCS2,1")
    await run(db, bundle_projects(*lines))
    report = await run(db, bundle_projects("forest,Our Registry,VCS2,1"))
    assert (report.version, counts(report)) == (3, {"bundle_projects.csv": (0, 1, 0, 1)})
    async with db.connection() as connection:
        rows = await connection.fetch(
            "SELECT slug, weight, bundle_projects.position FROM bundle_projects JOIN bundles ON id = bundle_id"
            " ORDER BY slug"
        )
    assert [tuple(row) for row in rows] == [("forest", 1, 0), ("wind", 1, 0)]


async def test_rates_of_several_times_are_kept(db: Database) -> None:
    await import_basics(db)
    header = "base,quote,rate,source,as_of\n"
    await run(db, {FileKind.EXCHANGE_RATES: f"{header}EUR,USD,1.08,bank,2026-01-31\n"})
    later = f"{header}EUR,USD,1.08000,bank,2026-01-31T01:00:00+01:00\nEUR,USD,1.10,bank,2026-02-01T12:00:00.5Z\n"
    assert counts(await run(db, {FileKind.EXCHANGE_RATES: later})) == {"exchange_rates.csv": (1, 0, 1, 0)}


async def import_rates(db: Database, *lines: str, factor: str | None = "2") -> list[str]:
    """The errors of an import of these rates: base,quote,rate,as_of."""
    cells = [line.split(",") for line in lines]
    text = "base,quote,rate,source,as_of\n" + "\n".join(f"{b},{q},{rate},bank,{at}" for b, q, rate, at in cells)
    try:
        limit = None if factor is None else Decimal(factor)
        await run(db, {FileKind.EXCHANGE_RATES: text}, max_rate_change=limit)
    except SheetInvalid as error:
        return [str(each) for each in error.errors]
    return []


async def test_money_11_a_rate_that_changes_too_much_is_refused(db: Database) -> None:
    await import_basics(db)
    assert await import_rates(db, "EUR,KWD,0.334,2026-10-01") == []
    [error] = await import_rates(db, "EUR,KWD,0.0000334,2026-10-02")
    assert "line 2, column rate: 0.0000334 differs from the rate of 2026-10-01, 0.334, by more than a factor" in error
    assert error.endswith("correct it, or accept it if it is right. To accept it, use --allow-large-change.")
    assert len(await import_rates(db, "EUR,KWD,0.669,2026-10-02", "EUR,KWD,0.1669,2026-10-03")) == 2
    assert await import_rates(db, "EUR,KWD,0.668,2026-10-02") == [], "exactly the factor"
    assert len(await import_rates(db, "EUR,KWD,0.3,2026-10-02")) == 1, "a stored rate is changed"
    assert await import_rates(db, "EUR,KWD,0.3,2026-10-02", factor=None) == [], "allowed"
    # A rate before the first one is compared with that.
    assert len(await import_rates(db, "EUR,KWD,3,2020-01-01")) == 1
    # The same file again changes nothing, whatever was imported since.
    assert await import_rates(db, "EUR,KWD,0.334,2026-10-01") == []


async def test_money_11_each_rate_of_a_file_is_compared_with_the_one_before(db: Database) -> None:
    await import_basics(db)
    years = ["EUR,TRY,6.7,2020-01-01", "EUR,TRY,13,2022-01-01", "EUR,TRY,24,2024-01-01", "EUR,TRY,44,2026-01-01"]
    assert len(await import_rates(db, years[0], years[3])) == 2, "far from what is typical, then from the first"
    assert await import_rates(db, *years[1:]) == []
    assert await import_rates(db, *years) == [], "older rates may follow"


async def test_money_11_a_first_rate_far_from_the_typical_one_is_refused(db: Database) -> None:
    await import_basics(db)
    for line in ("EUR,KWD,3.34,2026-10-01", "EUR,JPY,0.006,2026-10-01", "USD,IDR,16.7,2026-10-01"):
        [error] = await import_rates(db, line)
        assert "is far from a typical rate" in error, line
    assert await import_rates(db, "EUR,KWD,0.35,2026-10-01", "EUR,JPY,170,2026-10-01") == []


def test_money_11_a_typical_rate_is_known_for_every_currency() -> None:
    assert set(PER_EURO) == set(DECIMALS)


async def test_a_default_selection_sums_to_100_or_has_no_percentages(db: Database) -> None:
    await import_basics(db)
    assert (
        "line 3, column percentage: the percentages sum to 99.99"
        in (await refused(db, defaults("forest,66.66", "wind,33.33")))[0]
    )
    assert "line 3, column percentage: the cell is empty" in (await refused(db, defaults("forest,100", "wind,")))[0]
    assert (
        "line 2, column bundle_slug: the bundle “closed” is not enabled"
        in (await refused(db, defaults("closed,100")))[0]
    )
    assert "names no bundle" in (await refused(db, defaults()))[0]
    await run(db, defaults("forest,66.67", "wind,33.33"))
    assert (await run(db, defaults("forest,66.67", "wind,33.330"))).changed is False
    report = await run(db, defaults("wind,"))
    assert (report.version, counts(report)) == (3, {"defaults.csv": (0, 1, 0, 1)})
    (catalogue,) = (await contents(db))["catalogues"]
    assert [list(choice) for choice in json.loads(catalogue["default_bundle_selection"])] == [["bundle_id"]]


async def test_lots_of_one_file_never_overlap(db: Database) -> None:
    await import_basics(db)
    report = await refused(db, lots("A,1,100", "B,1,100", "A,101,200", "A,150,160", "A,100,100", "A,1,100"))
    assert [line.split(":")[0] for line in report] == [
        "lots.csv, line 5, column serial",
        "lots.csv, line 6, column serial",
        "lots.csv, line 7, column last_number",
    ]
    assert "“A 101–200” of line 4" in report[0]


async def test_lots_never_overlap_what_is_stored_in_either_mode(db: Database) -> None:
    await import_basics(db)
    await import_basics(db, Mode.LIVE)
    await run(db, lots("A,100,199", "A,300,399"))
    assert counts(await run(db, lots("A,100,199", "A,200,299"))) == {"lots.csv": (1, 0, 1, 0)}
    for numbers in ("A,99,100", "A,399,500", "A,1,1000", "A,150,160"):
        (error,) = await refused(db, lots("A,1000,1001" if numbers != "A,1,1000" else "C,1,2", numbers))
        assert error.startswith("lots.csv, line 3, column serial: the lot overlaps")
    (error,) = await refused(db, lots("A,100,199"), Mode.LIVE)
    assert "the lot overlaps “A 100–199” of the test catalogue" in error
    await run(db, lots("B,100,199"), Mode.LIVE)


async def test_a_lot_takes_country_and_methodology_from_its_project(db: Database) -> None:
    await import_basics(db)
    text = f"{LOT_HEADER.strip()},country,methodology\n"
    text += "Our Registry,VCS1,2021,A,1,9,held,,,,\nOur Registry,VCS1,2021,A,10,19,held,,,Bolivia,VM9\n"
    await run(db, {FileKind.LOTS: text})
    await run(db, {FileKind.PROJECTS: PROJECTS.replace("VM1", "VM2")})
    # A lot keeps its values when its project changes.
    assert (await run(db, {FileKind.LOTS: text})).changed is False
    stored = [(row["country"], row["methodology"]) for row in (await contents(db))["lots"]]
    assert sorted(stored) == [("Bolivia", "VM9"), ("Peru", "VM1")]


async def test_a_lot_changes_until_its_tonnes_are_allocated(db: Database) -> None:
    await import_basics(db)
    await run(db, lots("A,1,10", "A,11,20"))
    retired = f"{LOT_HEADER}Our Registry,VCS2,2020,A,1,10,pre_retired,https://example.org/r,2024-05-06\n"
    assert counts(await run(db, {FileKind.LOTS: retired})) == {"lots.csv": (0, 1, 0, 0)}
    async with db.transaction() as tx:
        await tx.execute("UPDATE lots SET allocated_grams = 1")
    (error,) = await refused(db, lots("A,1,10", "A,11,20"))
    assert error.startswith("lots.csv, line 2: tonnes of this lot are allocated")


async def test_an_import_does_not_wait_for_a_lot_that_is_being_allocated(db: Database) -> None:
    await import_basics(db)
    await run(db, lots("A,1,10"))
    async with db.transaction() as worker:
        await worker.execute("SELECT id FROM lots FOR UPDATE")
        (error,) = await refused(db, {FileKind.LOTS: lots("A,1,10")[FileKind.LOTS].replace("2021", "2020")})
    assert "is using this lot right now: import again in a moment" in error


async def test_a_bundle_can_be_disabled_and_enabled(db: Database) -> None:
    await import_basics(db)
    bundle_id = next(row["id"] for row in (await contents(db))["bundles"] if row["slug"] == "forest")
    for enabled, version in ((False, 2), (False, 2), (True, 3)):
        async with db.transaction() as tx:
            await switch_bundle(tx, bundle_id, enabled=enabled, by=TESTER.now())
        stored = await contents(db)
        assert stored["catalogues"][0]["version"] == version
        assert next(row["enabled"] for row in stored["bundles"] if row["id"] == bundle_id) is enabled


async def wait_until_blocked(db: Database, count: int) -> None:
    """Return when `count` statements of this database wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(10), db.connection() as connection:
        while await connection.fetchval(query) < count:
            pass


async def test_concurrent_imports_run_one_after_the_other(db: Database) -> None:
    await import_basics(db)
    files = {kind: SheetFile(kind, text.encode()) for kind, text in lots("A,1,10").items()}
    async with db.transaction() as tx:
        first = await import_files(tx, Mode.TEST, files, by=TESTER.at(NOW))
        second = asyncio.create_task(run(db, lots("A,1,10", "A,11,20")))
        await wait_until_blocked(db, 1)
    assert (first.version, counts(first)) == (2, {"lots.csv": (1, 0, 0, 0)})
    report = await second
    assert (report.version, counts(report)) == (3, {"lots.csv": (1, 0, 1, 0)})


async def test_concurrent_imports_of_the_same_files_import_them_once(db: Database) -> None:
    reports = await asyncio.gather(
        *(run(db, {FileKind.PROJECTS: PROJECTS, **lots("A,1,10")}, currency="EUR") for _ in range(8))
    )
    assert sorted(report.changed for report in reports) == [False] * 7 + [True]
    assert {report.version for report in reports} == {1}


async def test_a_lot_inserted_without_the_import_lock_is_an_error(db: Database) -> None:
    await import_basics(db)
    await run(db, lots("A,1,10"))
    async with db.transaction() as intruder:
        await intruder.execute(
            "INSERT INTO lots (mode, id, project_id, vintage, serial, serial_block, first_number, last_number,"
            " unit_grams, quantity_grams, country, status, created_at) SELECT mode, 'lot_x', project_id, vintage,"
            " serial, serial_block, 15, 15, unit_grams, unit_grams, country, status, created_at FROM lots"
        )
        late = asyncio.create_task(run(db, lots("A,11,20")))
        await wait_until_blocked(db, 1)
    with pytest.raises(SheetInvalid, match="lots_never_overlap: import again"):
        await late
