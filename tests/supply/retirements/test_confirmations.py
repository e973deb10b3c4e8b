"""Confirmations that are corrected, and registries that retired a part of a parcel or other serials."""

import asyncio
import csv
import io
import json
from typing import Any

import pytest

from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tests.support.world import TESTER
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.selling.orders.model import Order
from tonne.supply.retirements.confirmations.confirm_lines import ConfirmationReport, import_confirmations
from tonne.supply.retirements.confirmations.work_list import Task
from tonne.supply.stock.lots.registries import hosts_of, is_on, what_opens

HEADS = ("parcel_id", "serial", "retired_on", "retirement_url")
PAGE = "https://registry.verra.org"


def line(task: Task, **changes: Any) -> dict[str, Any]:
    block, first = changes.pop("block", "live-A-1"), changes.pop("first_number", task.first_number)
    serial = f"{block} {first}–{changes.pop('last_number', task.last_number)}"
    page = f"{PAGE}/1" if task.beneficiary == "B0" else f"{PAGE}/{task.beneficiary}"
    facts = {"parcel_id": task.parcel_id, "retired_on": "2026-03-05", "retirement_url": page}
    return {**facts, "serial": serial, **changes}


async def confirm(shop: Shop, *lines: dict[str, Any]) -> ConfirmationReport:
    text = io.StringIO()
    writer = csv.DictWriter(text, HEADS)
    writer.writeheader()
    writer.writerows(lines)
    file = SheetFile("done.csv", text.getvalue().encode())
    async with shop.database.transaction() as tx:
        return await import_confirmations(tx, shop.mode, file, by=TESTER.at(shop.clock.now))


async def errors_of(shop: Shop, *lines: dict[str, Any]) -> list[str]:
    with pytest.raises(SheetInvalid) as raised:
        await confirm(shop, *lines)
    return [str(error) for error in raised.value.errors]


async def orders_of(shop: Shop, *tonnes: int) -> list[Order]:
    """An order for each number of tonnes, allocated on 1 March from one lot with 5 t to spare; then it is 6 March."""
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, sum(tonnes) + 5)
    orders = [await shop.buy(await shop.account(f"B{i}"), each * TONNE, "wind") for i, each in enumerate(tonnes)]
    await shop.work()
    shop.clock.turn_to(3, 6)
    return orders


async def stated(shop: Shop, order: Order) -> list[tuple[str, str, str]]:
    """The retirements on the certificate of the order."""
    await shop.work()
    assert await shop.statuses(order) == ["complete"]
    lines = (await shop.certificate(order))["lines"]
    return [
        (each["serial_range"].removeprefix("live-A-1 "), each["quantity"], each["retirement_url"]) for each in lines
    ]


async def test_money_14_a_confirmation_is_corrected_until_a_certificate_exists(live: Shop) -> None:
    (order,) = await orders_of(live, 2)
    (task,) = await live.work_list()
    await confirm(live, line(task, retirement_url=f"{PAGE}/wrong", retired_on="2026-03-04"))
    report = await confirm(live, line(task))
    assert (report.confirmed_count, report.corrected_count, report.known_count) == (0, 1, 0)
    report = await confirm(live, line(task))
    assert (report.confirmed_count, report.corrected_count, report.known_count) == (0, 0, 1)
    assert await stated(live, order) == [("101–102", "2", f"{PAGE}/1")]
    (error,) = await errors_of(live, line(task, retirement_url=f"{PAGE}/2"))
    number = (await live.certificate(order))["number"]
    assert f"the parcel was confirmed as retired on 2026-03-05 ({PAGE}/1), and certificate {number} says so" in error
    rows = await live.fetch("SELECT action, before FROM audit_log WHERE action LIKE 'retirement.%' ORDER BY id")
    assert [row["action"] for row in rows] == ["retirement.confirmed", "retirement.corrected"]
    assert json.loads(rows[1]["before"])["retirement_url"] == f"{PAGE}/wrong"
    await live.check_invariants()


async def test_money_14_a_correction_waits_for_a_worker_that_issues_the_certificate(live: Shop) -> None:
    (order,) = await orders_of(live, 2)
    (task,) = await live.work_list()
    await confirm(live, line(task))
    (error,) = await live.look_at_while(order, errors_of(live, line(task, retirement_url=f"{PAGE}/2")))
    assert "and certificate " in error
    assert await stated(live, order) == [("101–102", "2", f"{PAGE}/1")]
    await live.check_invariants()


async def test_money_14_a_retirement_is_not_dated_before_the_order(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 5)
    live.clock.turn_to(3, 4)
    await live.buy(await live.account("Ada"), 2 * TONNE, "wind")
    await live.work()
    (task,) = await live.work_list()
    for day in ("2020-01-01", "2026-03-01"):
        (error,) = await errors_of(live, line(task, retired_on=day))
        assert error == (
            "done.csv, line 2, column retired_on: the date is before 2026-03-04, when the order was placed: enter the "
            "day of the retirement."
        )
    # It may be the day before in the west.
    await confirm(live, line(task, retired_on="2026-03-03"))


@pytest.mark.parametrize(
    ("registry_id", "url", "fits"),
    [
        ("VERRA", "https://registry.verra.org/app/x", True),
        ("ACR", "https://greentrace.ice.com/acr/projects/registry/ACR_REGISTRY/project/ab12", True),
        ("ACR", "https://acr2.apx.com/myModule/rpt/myrpt.asp?r=206", True),
        ("VERRA", "https://registry.goldstandard.org/x", False),
        ("VERRA", "https://notverra.org/x", False),
        ("GOLDSTANDARD", "https://registry.goldstandard.org/x", True),
        ("PURO", "https://new-home.example/x", True),
    ],
)
def test_people_e_the_page_belongs_to_the_registry(registry_id: str, url: str, fits: bool) -> None:
    assert (
        is_on(hosts_of(registry_id, "https://new-home.example/project/1" if registry_id == "PURO" else None), url)
        is fits
    )


@pytest.mark.parametrize(
    ("url", "opens"),
    [
        ("https://to.isometric.com/ret_1HZS", "retirement"),
        ("https://retirements.puro.earth/retirement-statement/12ab", "retirement"),
        ("https://registry.puro.earth/retirements", "list"),
        ("https://registry.goldstandard.org/credit-blocks/details/123", "retirement"),
        ("https://public-api.goldstandard.org/credits?query=GS1-1", "list"),
        ("https://registry.verra.org/myModule/rpt/myrpt.asp?r=206&h=99", "retirement"),
        ("https://registry.verra.org/app/projectDetail/VCS/1340", "project"),
        ("https://greentrace.ice.com/acr/projects/registry/ACR_REGISTRY/project/ab12", "project"),
        ("https://acr2.apx.com/myModule/rpt/myrpt.asp?r=206", "list"),
        ("https://thereserve2.apx.com/mymodule/reg/prjView.asp?id1=1335", "project"),
        ("https://registry.spglobal.com/pvclimate/public/pv/projects/17", "project"),
        ("https://registry.example/7", None),
    ],
)
def test_a_link_says_what_it_opens(url: str, opens: str | None) -> None:
    assert what_opens(url) == opens


def test_the_pages_of_other_registries_are_not_known() -> None:
    assert hosts_of("SOMEBODY", "https://registry.example/1") == ()


async def test_money_14_a_part_of_a_parcel_is_recorded(live: Shop) -> None:
    (order,) = await orders_of(live, 10)
    (task,) = await live.work_list()
    part = line(task, first_number=104, last_number=106)
    report = await confirm(live, part)
    assert (report.confirmed_count, report.confirmed_grams) == (1, 3 * TONNE)
    assert len(report.details) == 3
    assert await live.statuses(order) == ["retiring"]
    rest = await live.work_list()
    assert [(each.serials, each.beneficiary) for each in rest] == [("live-A-1 101–103; live-A-1 107–110", "B0")]
    await live.check_invariants()
    assert (await confirm(live, part)).known_count == 1
    # The rest, by the id of the first list and by the new one.
    again = line(task, first_number=101, last_number=103, retirement_url=f"{PAGE}/2")
    last = line(rest[0], first_number=107, last_number=110, retirement_url=f"{PAGE}/3")
    await confirm(live, part, again, last)
    assert await stated(live, order) == [
        ("101–103", "3", f"{PAGE}/2"),
        ("104–106", "3", f"{PAGE}/1"),
        ("107–110", "4", f"{PAGE}/3"),
    ]
    assert (await confirm(live, part, again)).known_count == 2
    await live.check_invariants()


async def test_money_14_a_registry_retires_a_parcel_in_two_parts(live: Shop) -> None:
    (order,) = await orders_of(live, 3)
    (task,) = await live.work_list()
    lines = [
        line(task, first_number=101, last_number=101),
        line(task, first_number=102, last_number=103, retirement_url=f"{PAGE}/2"),
    ]
    assert (await confirm(live, *lines)).confirmed_count == 2
    assert (await confirm(live, *lines)).known_count == 2
    assert await stated(live, order) == [("101", "1", f"{PAGE}/1"), ("102–103", "2", f"{PAGE}/2")]
    await live.check_invariants()


async def test_money_14_other_serials_of_the_work_list_are_recorded(live: Shop) -> None:
    """The registry retires its oldest serials first, whichever order is retired first."""
    large, small = await orders_of(live, 5, 2)
    first, second = await live.work_list()
    # 106 and 107 were to be retired for the small order.
    picked = line(second, first_number=101, last_number=102)
    report = await confirm(live, picked)
    assert report.confirmed_count == 1
    assert await stated(live, small) == [("101–102", "2", f"{PAGE}/B1")]
    await live.check_invariants()
    tasks = await live.work_list()
    assert [(each.first_number, each.last_number, each.beneficiary) for each in tasks] == [(103, 107, "B0")]
    (error,) = await errors_of(live, line(first, first_number=102, last_number=103))
    assert "101–102” are recorded as retired" in error
    await confirm(live, *(line(each, retirement_url=f"{PAGE}/2") for each in tasks))
    assert await stated(live, large) == [("103–105", "3", f"{PAGE}/2"), ("106–107", "2", f"{PAGE}/2")]
    assert (await confirm(live, picked)).known_count == 1
    await live.check_invariants()


async def test_money_14_two_orders_exchange_their_serials_in_one_file(live: Shop) -> None:
    one, two = await orders_of(live, 2, 2)
    first, second = await live.work_list()
    lines = [
        line(first, first_number=103, last_number=104),
        line(second, first_number=101, last_number=102, retirement_url=f"{PAGE}/2"),
    ]
    assert (await confirm(live, *lines)).confirmed_count == 2
    assert (await confirm(live, *lines)).known_count == 2
    assert await stated(live, one) == [("103–104", "2", f"{PAGE}/1")]
    assert await stated(live, two) == [("101–102", "2", f"{PAGE}/2")]
    await live.check_invariants()


async def test_money_14_serials_that_overlap_the_parcel_are_recorded(live: Shop) -> None:
    one, two = await orders_of(live, 4, 4)
    first, second = await live.work_list()
    await confirm(live, line(first, first_number=103, last_number=106), line(second, first_number=107, last_number=108))
    assert await stated(live, one) == [("103–106", "4", f"{PAGE}/1")]
    (task,) = await live.work_list()
    assert (task.first_number, task.last_number, task.beneficiary) == (101, 102, "B1")
    await confirm(live, line(task))
    assert [serials for serials, *_ in await stated(live, two)] == ["101–102", "107–108"]
    await live.check_invariants()


async def test_money_14_wrong_serials_are_corrected(live: Shop) -> None:
    one, two = await orders_of(live, 2, 2)
    first, second = await live.work_list()
    await confirm(live, line(first))
    report = await confirm(live, line(first, first_number=103, last_number=104))
    assert (report.confirmed_count, report.corrected_count, report.known_count) == (0, 1, 0)
    assert len(report.details) == 2
    assert await stated(live, one) == [("103–104", "2", f"{PAGE}/1")]
    await confirm(live, line(second, first_number=101, last_number=102))
    assert await stated(live, two) == [("101–102", "2", f"{PAGE}/B1")]
    (error,) = await errors_of(live, line(first, first_number=101, last_number=102))
    assert "holds the serials “live-A-1 103–104”" in error
    await live.check_invariants()


@pytest.mark.parametrize(
    ("first", "last", "says"),
    [
        (103, 105, "holds the serials “live-A-1 101–102”: retire these"),
        (105, 106, "not on the work list"),
        (104, 105, "not on the work list"),
        (100, 101, "not on the work list"),
    ],
)
async def test_money_14_serials_that_are_not_on_the_list_are_refused(
    live: Shop, first: int, last: int, says: str
) -> None:
    """101 to 102 and 103 are allocated; 104 is a unit that several may share; 105 to 110 are free."""
    await orders_of(live, 2, 1)
    ada = await live.account("Ada")
    await live.buy(ada, 300_000, "wind")
    await live.buy(ada, 300_000, "wind")
    await live.work()
    task = (await live.work_list())[0]
    (error,) = await errors_of(live, line(task, first_number=first, last_number=last))
    assert says in error


async def test_money_14_a_whole_unit_that_several_share_is_exchanged(live: Shop) -> None:
    (order,) = await orders_of(live, 1)
    for name in ("Ada", "Berta"):
        await live.buy(await live.account(name), 300_000, "wind")
    await live.work()
    task = (await live.work_list())[0]
    await confirm(live, line(task, first_number=102, last_number=102))
    assert await stated(live, order) == [("102", "1", f"{PAGE}/1")]
    units = await live.fetch(
        "SELECT start_grams, allocated_grams, status FROM parcels WHERE status = 'open' ORDER BY 1"
    )
    assert [tuple(row) for row in units] == [(0, 300_000, "open"), (2 * TONNE, 300_000, "open")]
    await live.check_invariants()


async def test_serials_of_another_vintage_or_project_are_refused(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 2)
    await live.supply("A", 2021, 2)
    await live.buy(await live.account("Ada"), 4 * TONNE, "wind")
    await live.work()
    live.clock.turn_to(3, 6)
    older, newer = await live.work_list()
    (error,) = await errors_of(live, line(older, block="live-A-2"))
    assert "not on the work list of its project and vintage" in error
    exchanged = [line(older, block="live-A-2"), line(newer, block="live-A-1")]
    errors = await errors_of(live, *exchanged)
    assert len(errors) == 2, "also if the file names both parcels"
    assert all("not on the work list of its project and vintage" in error for error in errors)


async def test_a_line_does_not_replace_what_another_line_of_the_file_confirms(live: Shop) -> None:
    """The registry retired 101 to 104, but the parcel has only two tonnes: one of the lines names the wrong parcel."""
    await orders_of(live, 2, 2)
    first, _ = await live.work_list()
    (error,) = await errors_of(live, line(first), line(first, first_number=103, last_number=104))
    assert "line 3" in error
    assert "other lines of the file confirm all of the parcel" in error


async def test_serials_are_confirmed_once_per_file(live: Shop) -> None:
    await orders_of(live, 2)
    (task,) = await live.work_list()
    await confirm(live, line(task, first_number=101, last_number=101))
    (rest,) = await live.work_list()
    (error,) = await errors_of(live, line(rest), line(rest, parcel_id=task.parcel_id, retirement_url=f"{PAGE}/2"))
    assert "line 2 confirms the same serials: keep one of the two" in error


async def test_kilograms_are_confirmed_as_exported(live: Shop) -> None:
    await live.sell("air", {"K": 1}, granularity=KILOGRAM)
    await live.supply("K", 2020, 5)
    orders = [await live.buy(await live.account(name), 3 * KILOGRAM, "air") for name in ("Ada", "Berta")]
    await live.work()
    live.clock.turn_to(3, 6)
    tasks = await live.work_list()
    page = "https://registry.isometric.com/1"
    (error,) = await errors_of(live, line(tasks[0], block="live-K-1", last_number=107, retirement_url=page))
    assert "retire these, or correct the line" in error
    done = [line(task, block="live-K-1", retirement_url=f"{page}/{task.beneficiary}") for task in tasks]
    assert [each["serial"] for each in done] == ["live-K-1 101–103", "live-K-1 104–106"]
    await confirm(live, *done)
    await live.work()
    assert await live.statuses(*orders) == ["complete", "complete"]


async def test_two_imports_of_the_same_exchange_at_once(live: Shop) -> None:
    one, _ = await orders_of(live, 2, 2)
    first, second = await live.work_list()
    lines = (line(first, first_number=103, last_number=104), line(second, first_number=101, last_number=102))
    reports = await asyncio.gather(confirm(live, *lines), confirm(live, *reversed(lines)))
    assert sorted(report.confirmed_count for report in reports) == [0, 2]
    assert await stated(live, one) == [("103–104", "2", f"{PAGE}/1")]
    await live.check_invariants()
