"""Accounts at registries without an API are compared with statements that a person uploads."""

from pathlib import Path

import pytest

from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tests.support.command import Operator
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.supply.registries.upload_statement import read_statement
from tonne.supply.registries.waiting import WAITING
from tonne.supply.retirements.confirmations.work_list import Task
from tonne_verify.serials.units import UnitRange

REGISTRY = "Our Registry"


@pytest.fixture
async def tasks(live: Shop) -> list[Task]:
    """Two orders of 2 t are on the work list. The account has 10 t of each lot, 101 to 110."""
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    await live.supply("A", 2021, 10)
    for name in ("Ada", "Berta"):
        await live.buy(await live.account(name), 2 * TONNE, "wind")
    await live.work()
    return await live.work_list()


class Desk:
    registry = REGISTRY

    def __init__(self, operator: Operator, folder: Path) -> None:
        self.operator, self.file = operator, folder / "active.csv"

    def upload(self, *serials: str, answer: str = "--yes", on: str = "2040-01-01") -> str:
        self.file.write_text("\n".join(["Serial Number,Vintage", *(f"{serial},2020" for serial in serials)]))
        words = ("registry", "upload", "--registry", self.registry, "--on", on, answer, str(self.file))
        done = self.operator.runs(*(word for word in words if word))
        return done.stdout + done.stderr


@pytest.fixture
def desk(operator: Operator, tmp_path: Path) -> Desk:
    return Desk(operator, tmp_path)


async def paused(shop: Shop) -> list[str]:
    return [
        row["pause_reason"] for row in await shop.fetch("SELECT pause_reason FROM lots WHERE paused_at IS NOT NULL")
    ]


@pytest.mark.parametrize("first", [101, 103, 105])
async def test_units_of_the_work_list_may_be_retired_already(
    live: Shop, tasks: list[Task], desk: Desk, first: int
) -> None:
    assert len(tasks) == 2
    said = desk.upload(f"live-A-1 {first}–110", "live-A-2 101–110")
    assert f"desk-ourregistry: {121 - first} units are active, it agrees with the books." in said
    assert await paused(live) == []
    [account] = await live.fetch("SELECT * FROM registry_accounts WHERE id = 'desk-ourregistry'")
    assert (account["mode"], account["adapter"], account["here_grams"]) == ("live", "desk", 20 * TONNE)
    assert account["there_grams"] == (121 - first) * TONNE
    assert "desk-ourregistry" in desk.operator.runs("registry", "list").stdout
    assert "registry_statement.uploaded" in desk.operator.runs("audit").stdout


async def test_a_lot_that_differs_is_paused_after_a_question(live: Shop, tasks: list[Task], desk: Desk) -> None:
    statement = ("live-A-1 106–110", "live-A-2 101–110")
    asked = desk.upload(*statement, answer="")
    assert "5 units are only in the books." in asked
    assert "Pause 1 lot?" in asked
    assert await paused(live) == [], "nobody has answered"
    desk.upload(*statement)
    assert await paused(live) == ["desk-ourregistry has 5 units fewer than the books."]
    [drift] = await live.fetch("SELECT id FROM registry_drifts")
    desk.operator.runs("registry", "settle", drift["id"], "--explained", "--reason", "Given to a partner")
    assert "it agrees with the books" in desk.upload(*statement)
    await live.confirm(tasks[0])
    day = live.clock.now.date().isoformat()
    assert "it agrees" in desk.upload(*statement, on=day), "the statement may be of before the confirmation"


@pytest.mark.usefixtures("tasks")
async def test_what_no_lot_has_is_listed(live: Shop, desk: Desk) -> None:
    lots = ("live-A-1 101–110", "live-A-2 101–110")
    said = desk.upload(*lots, "live-A-2 99–112", "other 1–5")
    assert [line for line in said.splitlines() if "only at" in line] == [
        "live-A-2 99–100: 2 units are only at the registry.",
        "live-A-2 111–112: 2 units are only at the registry.",
        "other 1–5: 5 units are only at the registry.",
    ]
    assert await paused(live) == []
    assert await live.fetchval("SELECT count(*) FROM registry_drifts WHERE cause = 'surplus'") == 3
    desk.upload(*lots)
    assert await live.fetchval("SELECT count(*) FROM registry_drifts") == 0


def test_a_file_without_serials_is_refused() -> None:
    with pytest.raises(SheetInvalid, match="no column with serials"):
        read_statement(SheetFile("a.csv", b"Number,Quantity\nx,1\n"), "Verra")
    with pytest.raises(SheetInvalid, match="is not a serial of Verra"):
        read_statement(SheetFile("a.csv", b"Number,Quantity\nx,1\n"), "Verra", "number")


async def test_units_of_a_kilogram_count_as_kilograms(live: Shop, desk: Desk) -> None:
    await live.sell("oil", {"B": 1}, granularity=KILOGRAM)
    await live.supply("B", 2020, 1)
    desk.registry = "Kilogram Registry"
    assert "1000 units are active, it agrees with the books." in desk.upload("live-B-1 101–1100")
    assert "only at the registry" in desk.upload("live-B-1 101–1100", "live-B-1 2001–2005")
    [account] = await live.fetch("SELECT here_grams, there_grams FROM registry_accounts WHERE adapter = 'desk'")
    assert tuple(account) == (TONNE, TONNE + 5 * KILOGRAM)
    [drift] = await live.fetch("SELECT units, unit_grams FROM registry_drifts")
    assert tuple(drift) == (-5, KILOGRAM)


def test_the_quantity_of_a_line_must_be_that_of_its_serial() -> None:
    def read(registry: str, line: str, **sizes: int) -> UnitRange:
        file = SheetFile("a.csv", f"Serial Number,Quantity Issued\n{line}\n".encode())
        [units] = read_statement(file, registry, sizes=sizes)
        return units

    assert read("Gold Standard", 'GS1-1-UG-GS11236-16-2024-30307-1-19149,"19,149"').last == 19149
    with pytest.raises(SheetInvalid, match="the serial has 19149 t, the line 19148 t"):
        read("Gold Standard", "GS1-1-UG-GS11236-16-2024-30307-1-19149,19148")
    with pytest.raises(SheetInvalid, match="“many” is not a quantity in tonnes"):
        read("Gold Standard", "GS1-1-UG-GS11236-16-2024-30307-1-19149,many")
    assert read("Kilogram Registry", "A 1–500,0.5", **{"KILOGRAMREGISTRY A": KILOGRAM}).unit_grams == KILOGRAM
    with pytest.raises(SheetInvalid, match=r"the serial has 500 t, the line 0\.5 t"):
        read("Kilogram Registry", "A 1–500,0.5")


def test_the_quantity_says_whether_the_last_number_at_isometric_counts() -> None:
    def read(content: str) -> UnitRange:
        [units] = read_statement(SheetFile("a.csv", content.encode()), "Isometric")
        return units

    head, serial = "Serial Number,Quantity", "ISO-1-BSTORE-GBR-F5X7-2024-78177-81177"
    assert (read(f"{head}\n{serial},3.001").last, read(f"{head}\n{serial},3").last) == (81177, 81176)
    with pytest.raises(SheetInvalid, match=r"the serial has 3\.001 t, the line 2 t"):
        read(f"{head}\n{serial},2")
    with pytest.raises(SheetInvalid, match="does not say if its last number counts"):
        read(f"Serial Number\n{serial}")


async def test_the_doctor_warns_of_an_account_that_nobody_compares(live: Shop, desk: Desk) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    await live.execute("UPDATE projects SET registry = 'The Reserve' WHERE mode = 'live' AND registry = 'CAR'")
    [check] = [each for each in WAITING if each.name.startswith("accounts without an API")]

    async def found() -> list[str]:
        rows = await live.fetch(check.sql, *check.parameters(live.settings, live.clock.now))
        return [row["where"] for row in rows]

    live.clock.advance(days=7)
    assert await found() == []
    live.clock.advance(seconds=1)
    assert await found() == ["Our Registry: never"], "lots of demos are at no registry"
    desk.upload("live-A-1 101–110")
    await live.execute("UPDATE registry_accounts SET looked_at = $1", live.clock.now)
    assert await found() == []
    live.clock.advance(days=8)
    assert await found() == ["Our Registry: not since 2026-03-08"]
    await live.execute("UPDATE lots SET serial = 'CAR-1' WHERE registry_account IS NULL AND serial LIKE '%CAR-%'")
    await live.execute("UPDATE registry_accounts SET id = 'desk-car'")
    assert set(await found()) == {"The Reserve: not since 2026-03-08", "Our Registry: never"}, "as uploads name it"
