"""Lots: serial blocks in any spelling, corrections and withdrawal."""

import csv
import io
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.command import Operator
from tests.support.world import TESTER
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.selling.catalogue.imports.import_catalogue import ImportReport
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.supply.stock.lots.import_lots import import_files

HEADS = (
    *("lot_id", "registry", "registry_project_id", "vintage", "serial_block", "first_number", "last_number"),
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
    facts = {"registry": "Verra", "registry_project_id": "A", "vintage": 2020, "serial_block": BLOCK}
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
    assert error.startswith("lots.csv, line 2, column first_number: the lot overlaps 1 to 1000, which the live")
    assert f"enter {await lot_id(shop)} in the column lot_id" in error
    await import_lots(shop, lot(serial_block=spelling, first_number=1001, last_number=2000))
    assert await shop.fetchval("SELECT count(*) FROM serial_blocks") == 1
    # Both are printed as in their files.
    rows = await shop.fetch("SELECT block_spelling FROM lots ORDER BY first_number")
    assert [row["block_spelling"] for row in rows] == [BLOCK, spelling]
    await shop.check_invariants()


@pytest.mark.parametrize("registry", ["verra", "VERRA", "Verra VCS", "VCS"])
async def test_money_9_registries_are_compared_by_id(shop: Shop, registry: str) -> None:
    project = "registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams"
    await shop.import_files({FileKind.PROJECTS: [project, f"{registry},B,B,Kenya,Wind,,avoidance,1000000"]})
    await import_lots(shop, lot())
    other = lot(registry=registry, registry_project_id="B")
    (error,) = await errors_of(shop, {**other, "first_number": 2})
    assert "the lot overlaps 1 to 1000" in error
    # The same numbers are the same lot, which moves to the other project.
    report = await import_lots(shop, other)
    assert [(len(each.new), len(each.changed)) for each in report.files] == [(0, 1)]


async def test_money_9_two_lines_of_a_file_may_spell_a_block_differently(shop: Shop) -> None:
    (error,) = await errors_of(shop, lot(), lot(serial_block=BLOCK.lower()))
    assert error.startswith("lots.csv, line 3, column first_number: the lot overlaps 1 to 1000 of line 2")
    report = await import_lots(shop, lot(), lot(serial_block=BLOCK.lower(), first_number=1001, last_number=1002))
    assert [len(each.new) for each in report.files] == [2]


async def test_money_9_the_database_refuses_an_overlap_in_another_spelling(shop: Shop) -> None:
    await import_lots(shop, lot())
    with pytest.raises(asyncpg.UniqueViolationError, match="serial_blocks_canonical_key"):
        await shop.execute("INSERT INTO serial_blocks (registry, block) VALUES ('verra', '9731 vcs vcu')")
    with pytest.raises(asyncpg.ExclusionViolationError, match="lots_never_overlap"):
        await shop.execute(
            "INSERT INTO lots (mode, id, project_id, vintage, serial_block, first_number, last_number, country, status,"
            " created_at) SELECT 'live', 'lot_x', project_id, 2021, serial_block, 1000, 1001, country, status, now()"
            " FROM lots"
        )


async def test_money_9_a_block_in_test_mode_is_the_same_as_in_live_mode(shop: Shop, trial: Shop) -> None:
    await import_lots(shop, lot())
    await trial.sell("mix", {"A": 1})
    (error,) = await errors_of(trial, lot(serial_block="9731 vcs vcu", first_number=5, last_number=5))
    assert "which the live catalogue holds in block “9731-VCS-VCU”" in error
    assert "lot_id" not in error


async def test_a_block_needs_a_letter_or_a_digit(shop: Shop) -> None:
    (error,) = await errors_of(shop, lot(serial_block="--"))
    assert "column serial_block: it has no letter and no digit" in error


async def test_money_9_an_untouched_lot_is_corrected_by_its_id(shop: Shop) -> None:
    await import_lots(shop, lot())
    id_ = await lot_id(shop)
    changed = lot(lot_id=id_, last_number=900, vintage=2021, serial_block="9732-VCS-VCU")
    report = await import_lots(shop, changed)
    assert [(len(each.new), len(each.changed)) for each in report.files] == [(0, 1)]
    assert report.details == (
        f"{id_}: vintage 2020 → 2021, serial_block “9731-VCS-VCU” → “9732-VCS-VCU”, last_number 1000 → 900",
    )
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
    file.write_text(file.read_text(encoding="utf-8-sig").replace(",1000,", ",900,"), encoding="utf-8")
    imported = operator.does("catalogue", "import-lots", "--mode", "live", str(file))
    assert imported.splitlines()[-1].endswith(": last_number 1000 → 900")


async def test_there_are_no_lots_yet(shop: Shop) -> None:
    operator = Operator(shop.database._url)
    assert operator.does("lot", "list", "--mode", "test").startswith("There are no lots in test mode")
