"""Parcels of one beneficiary are one line of the work list, and one line of the confirmation."""

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.world import TESTER
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import RegistryPage, SettingsError
from tonne.supply.retirements.confirmations.confirm_lines import ConfirmationReport, import_confirmations
from tonne.supply.retirements.confirmations.work_list import Task, export_tasks
from tonne.supply.stock.lots.registries import RegistryPages
from tonne.supply.stock.serial_runs import format_runs, join_runs, parse_runs

PAGE = "https://registry.verra.org/retirements/7"


async def interleaved(shop: Shop, count: int) -> None:
    """Orders of 1 t of two beneficiaries in turn: neither has consecutive serials."""
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, 100)
    ada, berta = await shop.account("Ada"), await shop.account("Berta")
    for _ in range(count):
        await shop.buy(ada, TONNE, "wind")
        await shop.buy(berta, TONNE, "wind")
    await shop.work()


def exported(tasks: list[Task]) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(export_tasks(tasks).decode("utf-8-sig"))))


async def imported(shop: Shop, *lines: dict[str, Any], pages: tuple[RegistryPage, ...] = ()) -> ConfirmationReport:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]))
    writer.writeheader()
    writer.writerows(lines)
    file = SheetFile("done.csv", text.getvalue().encode())
    async with shop.database.transaction() as tx:
        return await import_confirmations(tx, shop.mode, file, by=TESTER.at(shop.clock.now), pages=pages)


def filled(line: dict[str, Any], **changes: str) -> dict[str, Any]:
    return {**line, "retired_on": "2026-03-01", "retirement_url": PAGE, **changes}


async def errors_of(shop: Shop, *lines: dict[str, Any]) -> list[str]:
    with pytest.raises(SheetInvalid) as raised:
        await imported(shop, *lines)
    return [str(error).partition(": ")[2] for error in raised.value.errors]


async def test_people_e_one_line_per_beneficiary_with_its_serial_runs(live: Shop) -> None:
    await interleaved(live, 3)
    tasks = await live.work_list()
    assert [(task.named, task.serials, task.quantity_grams) for task in tasks] == [
        ("Ada", "live-A-1 101; live-A-1 103; live-A-1 105", 3 * TONNE),
        ("Berta", "live-A-1 102; live-A-1 104; live-A-1 106", 3 * TONNE),
    ]
    (line, _) = exported(tasks)
    assert (line["serials"], line["quantity"], line["parcels"]) == ("101; 103; 105", "3", "3")
    assert (line["retired_on"], line["retirement_url"], line["retired_serials"]) == ("", "", "")


async def test_people_e_the_exported_file_is_filled_in_and_confirms_all_parcels(live: Shop) -> None:
    await interleaved(live, 3)
    lines = exported(await live.work_list())
    done = [filled(line, retirement_url=f"{PAGE}{n}") for n, line in enumerate(lines)]
    report = await imported(live, *done)
    assert (report.confirmed_count, report.confirmed_grams, report.details) == (6, 6 * TONNE, [])
    assert await live.work_list() == []
    # Once more changes nothing.
    again = await imported(live, *done)
    assert (again.confirmed_count, again.corrected_count, again.known_count) == (0, 0, 6)
    await live.work()
    assert await live.fetchval("SELECT count(*) FROM orders WHERE status = 'complete'") == 6
    await live.check_supply()


async def test_a_part_of_a_line_confirms_its_first_parcels(live: Shop) -> None:
    await interleaved(live, 3)
    ada, _ = exported(await live.work_list())
    report = await imported(live, filled(ada, retired_serials="101; 103"))
    assert report.confirmed_count == 2
    left = {task.serials for task in await live.work_list()}
    assert left == {"live-A-1 105", "live-A-1 102; live-A-1 104; live-A-1 106"}
    await live.check_supply()


async def test_edited_numbers_count_instead_of_the_exported_runs(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    ada = await live.account("Ada")
    for _ in range(4):
        await live.buy(ada, TONNE, "wind")
    await live.work()
    (line,) = exported(await live.work_list())
    assert (line["serial"], line["serials"]) == ("live-A-1 101–104", "101 to 104")
    assert (await imported(live, filled(line, serial="live-A-1 101–103"))).confirmed_count == 3
    assert [task.serials for task in await live.work_list()] == ["live-A-1 104"]


async def test_other_serials_than_proposed_are_exchanged(live: Shop) -> None:
    await interleaved(live, 3)
    ada, berta = exported(await live.work_list())
    # The registry retired the first three for Ada. Berta gets what Ada had.
    report = await imported(live, filled(ada, retired_serials="101 - 103"))
    assert report.confirmed_count == 3
    (rest,) = await live.work_list()
    assert (rest.named, rest.serials) == ("Berta", "live-A-1 104–106")
    assert berta["serials"] == "102; 104; 106"
    await live.check_supply()


async def test_a_line_with_more_tonnes_than_its_parcels_is_refused(live: Shop) -> None:
    await interleaved(live, 2)
    ada, _ = exported(await live.work_list())
    (message,) = await errors_of(live, filled(ada, retired_serials="101 to 104"))
    assert "2 units more than its beneficiary has on the work list" in message


@pytest.mark.parametrize("cell", ["7 to 3", "101 to 105; 103", "101..103", "live-A-1 101 to 103; live-A-1 102"])
async def test_serials_that_cannot_be_read_are_refused(live: Shop, cell: str) -> None:
    await interleaved(live, 1)
    ada, _ = exported(await live.work_list())
    (message,) = await errors_of(live, filled(ada, retired_serials=cell))
    assert "are not numbers of units" in message or "occur twice" in message


async def test_people_e_one_address_describes_one_retirement(live: Shop) -> None:
    await interleaved(live, 2)
    ada, berta = exported(await live.work_list())
    (message,) = set(await errors_of(live, filled(ada), filled(berta)))
    assert message == "line 2 has this address for another beneficiary: enter the page of this retirement."
    await imported(live, filled(ada))
    (message,) = set(await errors_of(live, filled(berta)))
    assert message.startswith("an earlier confirmation has this address for another beneficiary")
    # Two lots of one project and beneficiary may be one retirement.
    await imported(live, filled(berta, retirement_url=f"{PAGE}1"))
    await live.supply("A", 2021, 10)
    account = await live.account("Ada")
    await live.buy(account, 97 * TONNE, "wind")
    await live.work()
    lines = exported(await live.work_list())
    assert len(lines) == 2
    assert (await imported(live, *(filled(line, retirement_url=f"{PAGE}2") for line in lines))).confirmed_count == 2


async def test_people_e_the_page_of_another_registry_is_refused(live: Shop) -> None:
    await interleaved(live, 1)
    ada, _ = exported(await live.work_list())
    (message,) = await errors_of(live, filled(ada, retirement_url="https://registry.goldstandard.org/7"))
    assert message.startswith("the page is one of the registry GOLDSTANDARD, not of Our Registry")
    own = (RegistryPage("our registry", "https://mirror.example/retired/"),)
    with pytest.raises(SheetInvalid):
        await imported(live, filled(ada, retirement_url="https://mirror.example/other/7"), pages=own)
    url = "https://mirror.example/retired/7"
    assert (await imported(live, filled(ada, retirement_url=url), pages=own)).confirmed_count == 1


def test_the_page_of_a_known_registry_is_none_of_an_unknown_one() -> None:
    pages = RegistryPages({"MINE": ("https://mine.example/r/",)})
    assert pages.refusal("Other", "OTHER", None, "https://other.example/7") is None
    assert "the registry VERRA" in (pages.refusal("Other", "OTHER", None, "https://registry.verra.org/7") or "")
    assert "the registry MINE" in (pages.refusal("Other", "OTHER", None, "https://mine.example/r/7") or "")
    assert pages.refusal("Mine", "MINE", None, "https://mine.example/r/7") is None
    assert "https://mine.example/r/" in (pages.refusal("Mine", "MINE", None, "https://mine.example/s/7") or "")


def test_registry_pages_are_settings() -> None:
    text = "Mine=https://mine.example/r/, Verra = https://mirror.example/"
    pages = load_settings({"TONNE_REGISTRY_PAGES": text}).retirement_pages
    assert pages == (RegistryPage("Mine", "https://mine.example/r/"), RegistryPage("Verra", "https://mirror.example/"))
    for wrong in ("mine.example", "Mine=http://mine.example/", "=https://mine.example/"):
        with pytest.raises(SettingsError, match="TONNE_REGISTRY_PAGES"):
            load_settings({"TONNE_REGISTRY_PAGES": wrong})


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 50)), min_size=1, max_size=40))
def test_runs_are_read_as_they_are_written(starts: list[tuple[int, int]]) -> None:
    numbers = [(first, first + more) for first, more in starts]
    joined = join_runs(numbers)
    assert parse_runs(format_runs(joined)) == joined
    assert {n for first, last in joined for n in range(first, last + 1)} == {
        n for first, last in numbers for n in range(first, last + 1)
    }
