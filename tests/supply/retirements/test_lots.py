"""Lots: serial blocks in any spelling, corrections and withdrawal."""

import csv
import io
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tests.support.clock import MARCH
from tests.support.command import Operator
from tests.support.world import TESTER
from tonne.platform.db.database import Database
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.demo import demo_files
from tonne.selling.catalogue.imports.import_catalogue import ImportReport
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.supply.stock.lots.import_lots import import_files

HEADS = (
    *("lot_id", "registry", "registry_project_id", "vintage", "serial", "serial_block", "first_number", "last_number"),
    *("quantity", "country"),
    *("status", "retirement_url", "retired_on"),
)
BLOCK = "9731-VCS-VCU"


async def import_lots(shop: Shop, *lines: dict[str, Any]) -> ImportReport:
    text = io.StringIO()
    writer = csv.DictWriter(text, HEADS)
    writer.writeheader()
    writer.writerows(lines)
    files = {FileKind.LOTS: SheetFile("lots.csv", text.getvalue().encode())}
    async with shop.database.transaction() as tx:
        return await import_files(tx, shop.mode, files, by=TESTER.at(shop.clock.now))


async def errors_of(shop: Shop, *lines: dict[str, Any]) -> list[str]:
    with pytest.raises(SheetInvalid) as raised:
        await import_lots(shop, *lines)
    return [str(error) for error in raised.value.errors]


def lot(**changes: Any) -> dict[str, Any]:
    facts = {"registry": "Our Registry", "registry_project_id": "A", "vintage": 2020, "serial_block": BLOCK}
    return {**facts, "first_number": 1, "last_number": 1000, "status": "held"} | changes


async def lot_id(shop: Shop) -> str:
    return str(await shop.fetchval("SELECT id FROM lots ORDER BY id LIMIT 1"))


@pytest.fixture
async def shop(live: Shop) -> Shop:
    """Without the lots of the demo."""
    await live.execute("DELETE FROM lots")
    await live.execute("DELETE FROM serial_blocks")
    await live.sell("mix", {"A": 1})
    return live


@pytest.mark.parametrize(
    "spelling",
    [BLOCK, "9731-vcs-vcu", "9731 VCS VCU", "9731-VCS-VCU-", "9731VCSVCU", "9731–VCS‑VCU", "９７３１/vcs.vcu"],
)
async def test_money_9_serials_are_compared_in_canonical_spelling(shop: Shop, spelling: str) -> None:
    await import_lots(shop, lot())
    (error,) = await errors_of(shop, lot(serial_block=spelling, first_number=1000, last_number=2000))
    assert error.startswith("lots.csv, line 2, column serial: the lot overlaps “9731-VCS-VCU 1–1000” of the live")
    assert f"enter {await lot_id(shop)} in the column lot_id" in error
    await import_lots(shop, lot(serial_block=spelling, first_number=1001, last_number=2000))
    assert await shop.fetchval("SELECT count(*) FROM serial_blocks") == 1
    # Both are printed as in their files.
    rows = await shop.fetch("SELECT serial FROM lots ORDER BY first_number")
    assert [row["serial"] for row in rows] == [f"{BLOCK} 1–1000", f"{spelling} 1001–2000"]
    await shop.check_invariants()


def verra(**changes: Any) -> dict[str, Any]:
    """A lot of a real serial. The project is in China."""
    facts = {"registry": "Verra", "registry_project_id": "VCS191", "vintage": 2008, "status": "held"}
    serial = "12082-384723093-384723192-VCS-VCU-304-VER-CN-1-191-01012008-31122008-0"
    return {**facts, "serial": serial, "quantity": 100} | changes


async def add_project(shop: Shop, registry: str, id_: str, country: str, *, granularity: int = TONNE) -> None:
    heads = "registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams"
    line = f"{registry},{id_},{registry} {id_},{country},Wind,,avoidance,{granularity}"
    await shop.import_files({FileKind.PROJECTS: [heads, line]})


@pytest.mark.parametrize("registry", ["verra", "VERRA", "Verra VCS", "VCS"])
async def test_money_9_registries_are_compared_by_id(shop: Shop, registry: str) -> None:
    await add_project(shop, "Verra", "VCS191", "China")
    await add_project(shop, registry, "191", "China")
    await import_lots(shop, verra())
    other = verra(registry=registry, registry_project_id="191")
    (error,) = await errors_of(shop, {**other, "serial": verra()["serial"].replace("093-", "094-"), "quantity": 99})
    assert "the lot overlaps “12082-384723093-384723192-VCS" in error
    # The same units are the same lot, which moves to the other project.
    report = await import_lots(shop, other)
    assert [(len(each.new), len(each.changed)) for each in report.files] == [(0, 1)]
    await shop.check_invariants()


async def test_proof_1_kilograms_are_not_sold_as_tonnes(shop: Shop) -> None:
    """3,001 kg were imported as 3,001 t."""
    await add_project(shop, "Isometric", "F5X7", "United Kingdom", granularity=KILOGRAM)
    serial = "ISO-1-BSTORE-GBR-F5X7-2024-78177-81177"
    facts = lot(registry="Isometric", registry_project_id="F5X7", vintage=2024, serial=serial)
    facts |= dict.fromkeys(("serial_block", "first_number", "last_number"), "")
    (error,) = await errors_of(shop, facts)
    assert "column quantity: the cell is empty: enter the tonnes" in error
    (error,) = await errors_of(shop, facts | {"quantity": "3001"})
    assert "column quantity: the serial has 3.001 t, the line 3001 t" in error
    await import_lots(shop, facts | {"quantity": "3.001"})
    assert await shop.fetchval("SELECT quantity_grams FROM lots") == 3_001_000
    # The registry may not count the last number.
    await shop.execute("DELETE FROM lots")
    await import_lots(shop, facts | {"quantity": "3"})
    (row,) = await shop.fetch("SELECT serial, quantity_grams FROM lots")
    assert tuple(row) == ("ISO-1-BSTORE-GBR-F5X7-2024-78177-81176", 3_000_000)
    # A project in tonnes cannot have such credits.
    await add_project(shop, "Isometric", "G5X7", "United Kingdom")
    other = {"registry_project_id": "G5X7", "serial": serial.replace("F5X7", "G5X7"), "quantity": "3.001"}
    (error,) = await errors_of(shop, facts | other)
    assert "a unit of the serial is 1000 g, granularity_grams of the project 1000000: correct the project." in error
    await shop.check_invariants()


async def test_proof_2_the_same_units_are_not_imported_twice_nor_for_another_project(shop: Shop) -> None:
    """A block with and without its end became 2 x 100 t, of a project in another country."""
    await add_project(shop, "Verra", "VCS191", "China")
    await import_lots(shop, verra())
    parts = {"serial": "", "quantity": "", "first_number": 384723093, "last_number": 384723192}
    (error,) = await errors_of(shop, verra(**parts, serial_block="12082"))
    assert "column serial_block: “12082-384723093-384723192” is not a serial of Verra" in error
    whole = verra(**parts, serial_block="12082-VCS-VCU-304-VER-CN-1-191-01012008-31122008-0")
    assert not (await import_lots(shop, whole)).changed
    # The scope is no identity.
    unscoped = verra()["serial"].replace("CN-1-191", "CN-191").replace("192-", "193-")
    (error,) = await errors_of(shop, verra(serial=unscoped, quantity=""))
    assert "column serial: the lot overlaps “12082-384723093-384723192-VCS" in error
    await add_project(shop, "Verra", "VCS1340", "Ethiopia")
    serial = verra()["serial"].replace("12082-", "12083-")
    errors = [
        *await errors_of(shop, verra(serial=serial, registry_project_id="VCS1340")),
        *await errors_of(shop, verra(serial=serial.replace("-191-", "-1340-"), registry_project_id="VCS1340")),
        *await errors_of(shop, verra(serial=serial, vintage=2021)),
        *await errors_of(shop, verra(serial=serial, quantity=101)),
        *await errors_of(shop, verra(serial=serial, country="Peru")),
    ]
    assert [error.partition(": ")[2].partition(": correct")[0].partition(", or enter")[0] for error in errors] == [
        "the serial is of project 191, the line of VCS1340",
        "the serial is of the country CN, the lot of “Ethiopia”",
        "the serial is of 2008, the line of 2021",
        "the serial has 100 t, the line 101 t",
        "the serial is of the country CN, the lot of “Peru”",
    ]
    await shop.check_invariants()


async def test_a_line_has_the_whole_serial_or_its_parts(shop: Shop) -> None:
    for changes, says in (
        ({"serial": "X 1–2"}, "column serial_block: the line has the whole serial: leave the cell empty"),
        ({"first_number": ""}, "column first_number: the cell is empty: enter a value, or the serial"),
        (dict.fromkeys(("serial_block", "first_number", "last_number"), ""), "column serial: the cell is empty"),
        ({"last_number": 0}, "column serial_block: the last number 0 is below the first number 1"),
        ({"last_number": 10**9 + 1}, "the lot has more than 1,000,000,000 units: split it into smaller lots"),
        ({"serial_block": "--"}, "column serial_block: “-- 1–1000” is not a block with numbers"),
    ):
        (error,) = await errors_of(shop, lot(**changes))
        assert says in error


async def test_made_up_serials_of_a_known_registry_are_for_test_mode(shop: Shop, trial: Shop) -> None:
    await add_project(shop, "Verra", "VCS191", "China")
    for serial in ("TEST-VCS191 1–100", f"TEST-{verra()['serial']}"):
        (error,) = await errors_of(shop, verra(serial=serial))
        assert f"column serial: “{serial[:20]}" in error
        assert "” is made up, and no serial of Verra: enter the real one." in error
    await add_project(trial, "Verra", "VCS191", "China")
    await import_lots(trial, verra(serial="TEST-VCS191 1–100"), verra(serial=f"TEST-{verra()['serial']}"))


async def test_units_of_a_known_registry_are_not_imported_under_another_name(shop: Shop) -> None:
    """They would be other units, perhaps of another size."""
    isometric = "ISO-1-BSTORE-GBR-F5X7-2024-78177-81177"
    for registry, project, serial, name in (
        ("VCS Program", "VCS191", verra()["serial"], "VERRA"),
        ("Isometric Inc", "F5X7", isometric, "ISOMETRIC"),
        ("The ACR", "1129", "ACR-FR-1129-2025-2917-30932 to 35143", "ACR"),
        ("Executive Board", "CN-1", "RW-5-1463953-2-2-0-7014 - RW-5-1467609-2-2-0-7014", "CDM"),
    ):
        await add_project(shop, registry, project, "China")
        facts = verra(registry=registry, registry_project_id=project, serial=serial, quantity="")
        (error,) = await errors_of(shop, facts)
        assert f"“{serial}” is a serial of {name}: enter that as the registry." in error
    block = "12082-VCS-VCU-304-VER-CN-1-191-01012008-31122008-0"
    parts = {"serial": "", "quantity": "", "first_number": 384723093, "last_number": 384723192, "serial_block": block}
    (error,) = await errors_of(shop, verra(registry="VCS Program", **parts))
    assert "is a serial of VERRA" in error


async def test_money_9_two_lines_of_a_file_may_spell_a_block_differently(shop: Shop) -> None:
    (error,) = await errors_of(shop, lot(), lot(serial_block=BLOCK.lower()))
    assert error.startswith("lots.csv, line 3, column serial: the lot overlaps “9731-VCS-VCU 1–1000” of line 2")
    report = await import_lots(shop, lot(), lot(serial_block=BLOCK.lower(), first_number=1001, last_number=1002))
    assert [len(each.new) for each in report.files] == [2]


async def test_money_9_the_database_refuses_an_overlap_in_another_spelling(shop: Shop) -> None:
    await import_lots(shop, lot())
    with pytest.raises(asyncpg.UniqueViolationError, match="serial_blocks_namespace_key"):
        await shop.execute("INSERT INTO serial_blocks (namespace) VALUES ('OURREGISTRY 9731VCSVCU')")
    with pytest.raises(asyncpg.ExclusionViolationError, match="lots_never_overlap"):
        await shop.execute(
            "INSERT INTO lots (mode, id, project_id, vintage, serial, serial_block, first_number, last_number,"
            " unit_grams, quantity_grams, country, status, created_at) SELECT 'live', 'lot_x', project_id, 2021,"
            " serial, serial_block, 1000, 1001, unit_grams, 2000000, country, status, now() FROM lots"
        )


async def test_money_9_a_block_in_test_mode_is_the_same_as_in_live_mode(shop: Shop, trial: Shop) -> None:
    await import_lots(shop, lot())
    await trial.sell("mix", {"A": 1})
    (error,) = await errors_of(trial, lot(serial_block="9731 vcs vcu", first_number=5, last_number=5))
    assert "the lot overlaps “9731-VCS-VCU 1–1000” of the live catalogue" in error
    assert "lot_id" not in error


async def test_money_9_an_untouched_lot_is_corrected_by_its_id(shop: Shop) -> None:
    await import_lots(shop, lot())
    id_ = await lot_id(shop)
    changed = lot(lot_id=id_, last_number=900, vintage=2021, serial_block="9732-VCS-VCU")
    report = await import_lots(shop, changed)
    assert [(len(each.new), len(each.changed)) for each in report.files] == [(0, 1)]
    assert report.details == (f"{id_}: vintage 2020 → 2021, serial “9731-VCS-VCU 1–1000” → “9732-VCS-VCU 1–900”",)
    (row,) = await shop.fetch("SELECT id, vintage, first_number, last_number, quantity_grams FROM lots")
    assert tuple(row) == (id_, 2021, 1, 900, 900 * TONNE)
    assert not (await import_lots(shop, changed)).changed
    # Without the id, the same serial numbers are the same lot.
    assert not (await import_lots(shop, {**changed, "lot_id": ""})).changed
    await shop.check_invariants()


async def test_money_9_one_import_moves_the_border_between_two_lots(shop: Shop) -> None:
    await import_lots(shop, lot(), lot(first_number=1001, last_number=2000))
    rows = await shop.fetch("SELECT id FROM lots ORDER BY first_number")
    first, second = (row["id"] for row in rows)
    await import_lots(
        shop,
        lot(lot_id=first, last_number=1500),
        lot(lot_id=second, first_number=1501, last_number=2000),
    )
    rows = await shop.fetch("SELECT last_number FROM lots ORDER BY first_number")
    assert [row["last_number"] for row in rows] == [1500, 2000]


async def test_the_lot_id_must_exist_in_the_mode_and_only_once(shop: Shop, trial: Shop) -> None:
    await import_lots(shop, lot())
    id_ = await lot_id(shop)
    unknown, twice = await errors_of(
        shop,
        lot(lot_id="lot_nope", serial_block="X"),
        lot(lot_id=id_, last_number=10),
        lot(lot_id=id_, first_number=11, last_number=20),
    )
    assert "line 2, column lot_id: there is no lot “lot_nope” in live mode: copy the id from `tonne lot list" in unknown
    assert "line 4, column lot_id: line 3 corrects the same lot" in twice
    await trial.sell("mix", {"A": 1})
    (error,) = await errors_of(trial, lot(lot_id=id_, serial_block="X"))
    assert "in test mode" in error


async def test_money_9_a_lot_in_use_is_refused_with_the_orders_that_hold_it(shop: Shop) -> None:
    await import_lots(shop, lot())
    orders = [await shop.buy(await shop.account(name), 2 * TONNE, "mix") for name in ("Ada", "Berta")]
    await shop.work()
    id_ = await lot_id(shop)
    (error,) = await errors_of(shop, lot(lot_id=id_, last_number=900))
    ids = ", ".join(sorted(order.id for order in orders))
    assert error == (
        f"lots.csv, line 2: tonnes of this lot are allocated to orders {ids}, so it cannot change: restore the line as "
        "it was imported."
    )
    operator = Operator(shop.database._url)
    assert operator.is_refused("lot", "withdraw", id_, "--reason", "x") == (
        f"4 t of lot {id_} are allocated to orders {ids}, so it cannot be withdrawn. `tonne lot show {id_}` lists them."
    )
    shown = operator.does("lot", "show", id_)
    assert all(order.id in shown for order in orders)


async def test_money_9_an_untouched_lot_is_withdrawn(shop: Shop) -> None:
    await import_lots(shop, lot())
    id_, operator = await lot_id(shop), Operator(shop.database._url)
    assert operator.is_refused("lot", "withdraw", "lot_nope", "--reason", "x").startswith("There is no lot lot_nope")
    assert operator.does("lot", "withdraw", id_, "--reason", "Imported twice") == (
        f"Lot {id_} (9731-VCS-VCU 1–1000, 1,000 t) is withdrawn."
    )
    _, line = operator.does("lot", "list", "--mode", "live").splitlines()
    assert line.split()[:1] == [id_]
    assert ": Imported twice  9731-VCS-VCU 1–1000" in line
    assert " 1,000     0  withdrawn on " in line
    order = await shop.buy(await shop.account("Ada"), TONNE, "mix")
    await shop.work()
    assert await shop.statuses(order) == ["paid"]
    assert operator.is_refused("lot", "withdraw", id_, "--reason", "x").startswith(
        f"Lot {id_} was already withdrawn on "
    )
    shown = operator.facts("lot", "show", id_)
    assert shown["status"].endswith(": Imported twice")
    assert shown["free"] == "0"
    # Its serial numbers may be imported again, as a new lot.
    await import_lots(shop, lot(last_number=900))
    await shop.work()
    assert await shop.statuses(order) == ["retiring"]
    assert len(operator.does("lot", "list", "--mode", "live").splitlines()) == 3


async def test_lots_are_exported_corrected_and_imported(shop: Shop, tmp_path: Path) -> None:
    await import_lots(shop, lot(serial_block="-9731"), lot(serial_block="in use", last_number=2, vintage=2019))
    await shop.buy(await shop.account("Ada"), TONNE, "mix")
    await shop.work()
    operator, file = Operator(shop.database._url), tmp_path / "lots.csv"
    assert operator.does("lot", "export", "--mode", "live", "-o", str(file)) == f"{file}: 1 lot that can be corrected."
    assert "already exists" in operator.is_refused("lot", "export", "--mode", "live", "-o", str(file))
    imported = operator.does("catalogue", "import-lots", "--mode", "live", str(file))
    assert imported.startswith("No changes")
    file.write_text(file.read_text(encoding="utf-8-sig").replace("1–1000,1000,", "1–900,900,"), encoding="utf-8")
    imported = operator.does("catalogue", "import-lots", "--mode", "live", str(file))
    assert imported.splitlines()[-1].endswith(": serial “-9731 1–1000” → “'-9731 1–900”")


async def test_there_are_no_lots_yet(shop: Shop) -> None:
    operator = Operator(shop.database._url)
    assert operator.does("lot", "list", "--mode", "test").startswith("There are no lots in test mode")


async def test_the_same_numbers_in_another_batch_of_verra_are_a_warning(shop: Shop) -> None:
    await add_project(shop, "Verra", "VCS191", "China")
    first, other = verra(), verra(serial=verra()["serial"].replace("12082-", "12083-"))
    assert (await import_lots(shop, first)).details == ()
    # Another registrar numbers its units on its own.
    assert (await import_lots(shop, verra(serial=verra()["serial"].replace("-VER-", "-MER-")))).details == ()
    (warning,) = (await import_lots(shop, other)).details
    assert (
        warning == f"Line 2: {first['serial']} has some of its numbers in another batch. Check that these are two runs."
    )
    assert await shop.fetchval("SELECT count(*) FROM lots") == 3


async def test_credits_that_are_not_issued_are_no_lots_and_mixed_with_none(shop: Shop) -> None:
    heads = "registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams,offset_delivery"

    async def deliver(delivery: str) -> None:
        line = f"Our Registry,F,Forest of 2030,Kenya,Forest,,removal,{TONNE},{delivery}"
        await shop.import_files({FileKind.PROJECTS: [heads, line]})

    await deliver("ex_ante")
    (error,) = await errors_of(shop, lot(registry_project_id="F"))
    assert "its offset_delivery is ex_ante: credits that are not issued yet are no lots" in error
    weights = ["bundle_slug,registry,registry_project_id,weight", "mix,Our Registry,A,1", "mix,Our Registry,F,1"]
    with pytest.raises(SheetInvalid, match="mixes projects whose credits are issued"):
        await shop.import_files({FileKind.BUNDLE_PROJECTS: weights})
    await deliver("ex_post")
    await import_lots(shop, lot(registry_project_id="F", serial_block="F"))
    with pytest.raises(SheetInvalid, match="column offset_delivery: the project has lots"):
        await deliver("pre_purchase")


async def test_live_lots_with_made_up_serials_are_for_demos(db: Database) -> None:
    with pytest.raises(SheetInvalid) as raised:
        async with db.transaction() as tx:
            await import_files(tx, Mode.LIVE, demo_files(Mode.LIVE), currency="EUR", by=TESTER.at(MARCH))
    assert {error.column for error in raised.value.errors} == {"serial"}
    assert "is made up, and no serial of" in raised.value.errors[0].message
