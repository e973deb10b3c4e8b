"""The command `tonne retirement`: the work list, its export, and importing confirmations."""

import csv
import io
import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.command import output_of, refusal_of, tonne
from tonne.platform.values.context import utc_now
from tonne.supply.retirements.confirmations.work_list import EXPORT_COLUMNS

HEADS = ["parcel_id", "serial", "retired_on", "retirement_url"]
Line = dict[str, str]


class Operator:
    """Runs commands for one mode, with files in a folder."""

    def __init__(self, shop: Shop, folder: Path) -> None:
        self.shop = shop
        self.folder = folder
        self._count = 0

    def does(self, *words: str) -> str:
        return output_of(
            "retirement", *words, "--mode", self.shop.mode.value, database_url=self.shop.services.database._url
        )

    def is_refused(self, *words: str) -> str:
        return refusal_of(
            "retirement", *words, "--mode", self.shop.mode.value, database_url=self.shop.services.database._url
        )

    def export(self) -> list[Line]:
        self._count += 1
        file = self.folder / f"list {self._count}.csv"
        self.does("export", "-o", str(file))
        return list(csv.DictReader(io.StringIO(file.read_bytes().decode("utf-8-sig"))))

    def write(self, *lines: Line, name: str = "done.csv", separator: str = ",") -> str:
        """Write a file of confirmations. Without lines it contains only the header."""
        heads = list(lines[0]) if lines else HEADS
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, heads, delimiter=separator)
        writer.writeheader()
        writer.writerows(lines)
        (self.folder / name).write_bytes(text.getvalue().encode())
        return str(self.folder / name)

    def errors(self, *lines: Line) -> list[str]:
        """The errors of an import, without the file name; nothing is imported."""
        file = self.write(*lines)
        done = tonne(
            "retirement", "import", file, "--mode", self.shop.mode.value, database_url=self.shop.services.database._url
        )
        assert (done.returncode, done.stdout) == (1, "")
        *errors, summary = done.stderr.splitlines()
        count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
        assert summary == f"Error: Nothing was imported: {count}."
        return [error.removeprefix("done.csv, ") for error in errors]


def retired(line: Line, **changes: str) -> Line:
    """An exported line with its confirmation."""
    confirmed = {head: line.get(head, "") for head in HEADS}
    facts = {"retired_on": utc_now().date().isoformat(), "retirement_url": page_of(line)}
    return {**confirmed, **facts, **changes}


def page_of(line: Line) -> str:
    return f"https://registry.verra.org/{line['parcel_id']}"


@pytest.fixture
def operator(live: Shop, tmp_path: Path) -> Operator:
    return Operator(live, tmp_path)


async def orders_of(shop: Shop, *tonnes: int) -> list[Any]:
    """A held lot, and an order for each number of tonnes, allocated."""
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, sum(tonnes) + 5)
    names = ("Ada", "Berta", "Carla")
    orders = [
        await shop.buy(await shop.account(name), each * TONNE, "wind")
        for name, each in zip(names, tonnes, strict=False)
    ]
    await shop.work()
    return orders


async def test_confirmed_parcels_complete_their_orders(operator: Operator) -> None:
    shop = operator.shop
    assert operator.does("list") == "Nothing to retire in live mode."
    first, second = await orders_of(shop, 2, 1)
    heads, *rows = operator.does("list").splitlines()
    assert heads.split("  ")[0] == "parcel"
    assert [row.split()[1:] for row in rows] == [
        ["Our", "Registry", "A", "2", "2026-03-01", "09:00", "live-A-1", "101–102", "“Ada”"],
        ["Our", "Registry", "A", "1", "2026-03-01", "09:00", "live-A-1", "103", "“Berta”"],
    ]
    lines = operator.export()
    assert tuple(lines[0]) == EXPORT_COLUMNS
    assert {head: lines[0][head] for head in EXPORT_COLUMNS[1:]} == {
        "registry": "Our Registry",
        "registry_project_id": "A",
        "project_name": "Project A",
        "vintage": "2020",
        "serial": "live-A-1 101–102",
        "serials": "101 to 102",
        "quantity": "2",
        "parcels": "1",
        "beneficiary": "Ada",
        "opened_at": "2026-03-01T09:00:00.002Z",
        "retired_on": "",
        "retirement_url": "",
        "retired_serials": "",
        "exported_at": "",
        "exported_by": "",
    }
    # Confirm the first parcel.
    done = operator.write(retired(lines[0]))
    assert operator.does("import", done) == "1 parcel of 2 t confirmed. Their orders complete automatically."
    shop.clock.now = utc_now()
    await shop.work()
    assert await shop.statuses(first, second) == ["complete", "retiring"]
    assert lines[0]["parcel_id"] not in operator.does("list")
    # Importing the same file again changes nothing, also next to a new line.
    before = await everything(shop)
    assert operator.does("import", done).splitlines() == [
        "No changes.",
        "1 parcel had already been confirmed.",
    ]
    assert await everything(shop) == before
    both = operator.write(*(retired(line) for line in lines))
    assert "1 parcel of 1 t confirmed" in operator.does("import", both)
    shop.clock.now = utc_now()
    await shop.work()
    assert await shop.statuses(second) == ["complete"]
    await shop.check_invariants()


async def everything(shop: Shop) -> list[Any]:
    async with shop.services.database.connection() as connection:
        statement = "SELECT parcels::text FROM parcels UNION ALL SELECT orders::text FROM orders ORDER BY 1"
        return [tuple(row) for row in await connection.fetch(statement)]


async def test_people_e_the_exported_file_is_filled_in_and_imported(operator: Operator) -> None:
    (order,) = await orders_of(operator.shop, 3)
    (line,) = operator.export()
    confirmed = {**line, "retired_on": "2026-03-02", "retirement_url": "https://registry.verra.org/7"}
    # Spreadsheets in many languages separate cells by semicolons.
    operator.does("import", operator.write(confirmed, separator=";"))
    operator.shop.clock.now = utc_now()
    await operator.shop.work()
    assert await operator.shop.statuses(order) == ["complete"]


@pytest.mark.parametrize(
    ("changes", "column", "says"),
    [
        ({"parcel_id": "par_unknown"}, "parcel_id", "there is no parcel “par_unknown” in live mode: copy the id"),
        ({"parcel_id": ""}, "parcel_id", "the cell is empty"),
        (
            {"serial": "other 101–102"},
            "serial",
            "holds the serials “live-A-1 101–102”, and those of the line are not on the work list",
        ),
        ({"serial": "live-A-1 103–102"}, "serial", "the last number 102 is below the first number 103"),
        ({"serial": "live-A-1 101–103"}, "serial", "holds the serials “live-A-1 101–102”"),
        ({"serial": "live-A-1"}, "serial", "is not a block with numbers"),
        ({"retired_on": "31.12.2025"}, "retired_on", "write it as 2026-01-31"),
        ({"retired_on": ""}, "retired_on", "the cell is empty: fill it in, or delete the line until"),
        ({"retired_on": "2019-12-31"}, "retired_on", "is before the vintage 2020"),
        (
            {"retired_on": "2026-02-27"},
            "retired_on",
            "is before 2026-03-01, when the order was placed: enter the day of the retirement.",
        ),
        (
            {"retirement_url": "https://registry.goldstandard.org/7"},
            "retirement_url",
            "the page is one of the registry GOLDSTANDARD, not of Our Registry: enter that of the retirement there.",
        ),
        ({"retirement_url": ""}, "retirement_url", "the cell is empty: fill it in"),
        ({"retirement_url": "http://registry.verra.org/7"}, "retirement_url", "does not begin with https://"),
        ({"retirement_url": "javascript:alert(1)"}, "retirement_url", "is not a web address"),
        ({"retirement_url": "https://user:pass@registry.verra.org"}, "retirement_url", "is not a web address"),
    ],
    ids=lambda value: " ".join(map("=".join, value.items())) if isinstance(value, dict) else "",
)
async def test_an_error_is_reported_and_nothing_is_imported(
    operator: Operator, changes: Line, column: str, says: str
) -> None:
    await orders_of(operator.shop, 2, 1)
    first, second = operator.export()
    before = await everything(operator.shop)
    (error,) = operator.errors(retired(second), retired(first, **changes))
    assert error.startswith(f"line 3, column {column}: ")
    assert says in error
    assert await everything(operator.shop) == before


async def test_a_future_date_is_refused_unless_a_time_zone_has_reached_it(operator: Operator) -> None:
    await orders_of(operator.shop, 2)
    (line,) = operator.export()
    later = (utc_now() + timedelta(days=2)).date().isoformat()
    (error,) = operator.errors(retired(line, retired_on=later))
    assert "line 2, column retired_on: the date is in the future" in error
    tomorrow = (utc_now() + timedelta(hours=13)).date().isoformat()
    operator.does("import", operator.write(retired(line, retired_on=tomorrow)))


async def test_every_error_of_a_file_is_reported_in_line_order(operator: Operator) -> None:
    await orders_of(operator.shop, 2, 1)
    first, second = operator.export()
    errors = operator.errors(
        retired(first, serial="live-A-1 7–102"),
        retired(second, retirement_url="ftp://x", retired_on="soon"),
        retired(second),
        retired(first, parcel_id="par_x"),
    )
    assert [error.partition(":")[0] for error in errors] == [
        "line 2, column serial",
        "line 3, column retired_on",
        "line 3, column retirement_url",
        "line 4, column parcel_id",
        "line 5, column parcel_id",
    ]
    assert "line 3 has the same serial and parcel_id: keep one of the two." in errors[3]


async def test_parcels_that_are_not_on_the_list_are_refused(operator: Operator) -> None:
    """An open unit, one that was retired with other facts, and one of the other mode."""
    shop = operator.shop
    await orders_of(shop, 2)
    ada = await shop.account("Berta")
    await shop.buy(ada, 400_000, "wind")
    await shop.work()
    (line,) = operator.export()
    operator.does("import", operator.write(retired(line)))
    async with shop.services.database.connection() as connection:
        open_id = await connection.fetchval("SELECT id FROM parcels WHERE status = 'open'")
    (error,) = operator.errors(retired(line, parcel_id=open_id, serial="live-A-1 103"))
    assert "the parcel still takes fractions: delete the line" in error
    shop.clock.now = utc_now()
    await shop.work()
    (error,) = operator.errors(retired(line, retirement_url="https://registry.verra.org/8"))
    assert "was confirmed as retired on" in error
    number = await shop.fetchval("SELECT number FROM certificates")
    assert error.endswith(f"and certificate {number} says so: delete the line.")
    url = shop.services.database._url
    done = tonne("retirement", "import", operator.write(retired(line)), "--mode", "test", database_url=url)
    assert done.returncode == 1
    assert "in test mode: copy the id from `tonne retirement export --mode test`" in done.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b"parcel_id,retired_on\n", "the column serial is missing"),
        (b"parcel_id;serial\n", "the column retired_on is missing"),
        (",".join([*HEADS, "note"]).encode(), "the column “note” is unknown"),
        (",".join(HEADS).encode() + b"\npar_1,x\n", "the line has 2 cells instead of 4"),
        (",".join(HEADS).encode() + b"\n\xff", "is not UTF-8"),
        (b"PK\x03\x04" + bytes(1000), "is a workbook or an archive, not CSV"),
    ],
)
def test_an_unreadable_file_is_refused(operator: Operator, content: bytes, says: str) -> None:
    file = operator.folder / "done.csv"
    file.write_bytes(content)
    url = operator.shop.services.database._url
    done = tonne("retirement", "import", str(file), "--mode", "live", database_url=url)
    assert done.returncode == 1
    assert says in done.stderr


def test_a_file_without_lines_changes_nothing(operator: Operator) -> None:
    assert operator.does("import", operator.write()) == "No changes."


async def test_an_export_never_overwrites_a_file(operator: Operator) -> None:
    """It may be an earlier list that is partly filled in."""
    await orders_of(operator.shop, 2)
    file = operator.folder / "mine.csv"
    file.write_text("notes")
    assert "already exists: choose another name" in operator.is_refused("export", "-o", str(file))
    assert file.read_text() == "notes"
    assert "Cannot write" in operator.is_refused("export", "-o", str(operator.folder / "no" / "such.csv"))


async def test_cells_that_look_like_formulas_are_escaped_and_still_match(
    operator: Operator,
) -> None:
    shop = operator.shop
    await shop.sell("wind", {"A": 1})
    lot = shop.lot_file("A", 2020, 9)
    await shop.import_files({kind: [line.replace(",live-A-1,", ",@SUM(A1),") for line in lot[kind]] for kind in lot})
    names = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@x", "＝1", 'Łódź, “quoted” "twice"')
    orders = [await shop.buy(await shop.account(name), TONNE, "wind") for name in names]
    await shop.work()
    lines = operator.export()
    assert sorted(line["beneficiary"] for line in lines) == sorted([*(f"'{name}" for name in names[:-1]), names[-1]])
    assert {line["serial"].partition(" ")[0] for line in lines} == {"'@SUM(A1)"}
    # Escaped as exported, and as the registry writes it.
    second = retired(lines[1], serial=lines[1]["serial"].removeprefix("'"))
    operator.does("import", operator.write(retired(lines[0]), second, *(retired(line) for line in lines[2:])))
    shop.clock.now = utc_now()
    await shop.work()
    assert await shop.statuses(*orders) == ["complete"] * len(orders)


async def test_a_shared_unit_names_ten_beneficiaries(operator: Operator) -> None:
    shop = operator.shop
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, 1)
    await shop.buy(await shop.account("Berta 00"), 1_000, "wind")
    await shop.work()
    shop.clock.turn_to(4, 1)
    await shop.work()
    for number in range(1, 13):
        await shop.buy(await shop.account(f"Berta {number:02}"), 1_000, "wind")
    await shop.work()
    (line,) = operator.export()
    assert line["beneficiary"].startswith("Tonne, on behalf of Berta 00; Berta 01; ")
    assert line["beneficiary"].endswith("; Berta 09; and 3 others")


async def test_a_long_list_is_truncated(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    await orders_of(operator.shop, 1, 1, 1)
    monkeypatch.setattr("tonne.apps.cli.supply.retirements.SHOWN", 2)
    _, *rows, rest = operator.does("list").splitlines()
    assert len(rows) == 2
    assert rest == "... and 1 more: `tonne retirement export` writes them all to a file."


async def test_each_organisation_has_the_confirmation_in_its_audit_log(operator: Operator) -> None:
    shop = operator.shop
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, 9)
    ours, theirs = await shop.account("Ada"), await shop.account("Berta", of=shop.world.theirs_test.scope)
    for scope, grams in ((ours, TONNE), (await shop.account("Carla"), 2 * TONNE), (theirs, TONNE)):
        await shop.buy(scope, grams, "wind")
    await shop.work()
    lines = operator.export()
    operator.does("import", operator.write(*(retired(line) for line in lines)))
    operator.does("import", operator.write(*(retired(line) for line in lines)))
    async with shop.services.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT organisation_id, actor, subject_id, after FROM audit_log WHERE action = 'retirement.confirmed'"
        )
    assert Counter(row["organisation_id"] for row in rows) == {ours.organisation_id: 2, theirs.organisation_id: 1}
    assert {row["subject_id"] for row in rows} == {line["parcel_id"] for line in lines}
    assert {json.loads(row["after"])["status"] for row in rows} == {"retired"}
    assert all(row["actor"].startswith("cli:") for row in rows)
