"""Of two people, and of a person and a gateway, one retires a line of the work list."""

import asyncio
import csv
from pathlib import Path

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.command import Operator
from tests.support.world import TESTER
from tonne.supply.retirements.confirmations.work_list import (
    Task,
    list_tasks_any_account,
    put_back_tasks_any_account,
    take_tasks_any_account,
)

TO_GATEWAY = "UPDATE lots SET registry_account = 'sim-key', holding_id = id WHERE mode = 'test'"
TO_DESK = "UPDATE lots SET registry_account = NULL, holding_id = NULL WHERE mode = 'test'"


async def sold(shop: Shop, *buyers: str) -> None:
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, 20)
    for buyer in buyers:
        await shop.buy(await shop.account(buyer), TONNE, "wind")
    await shop.execute(TO_DESK)
    await shop.services.allocate_orders.run_once()


async def take(shop: Shop) -> list[Task]:
    return await shop.database.commit(take_tasks_any_account, shop.mode, by=TESTER.at(shop.clock()))


async def test_every_line_is_in_one_file(live: Shop) -> None:
    await sold(live, *(f"Buyer {number}" for number in range(12)))
    meet = asyncio.Barrier(4)

    async def person() -> list[Task]:
        await meet.wait()
        return await take(live)

    files = await asyncio.gather(*(person() for _ in range(4)))
    files.append(await take(live))
    ids = [id_ for file in files for task in file for id_ in task.parcel_ids]
    assert (len(ids), len(set(ids))) == (12, 12)
    assert len(await live.work_list()) == 12, "they are still to be confirmed"


async def test_what_a_person_has_in_a_file_is_not_asked_for(trial: Shop) -> None:
    """The lot gets a gateway after the export."""
    await sold(trial, "Ada")
    [task] = await take(trial)
    await trial.execute(TO_GATEWAY)
    await trial.work()
    assert await trial.fetch("SELECT * FROM registry_instructions") == []
    [listed] = await trial.work_list()
    assert (listed.exported_at, listed.exported_by) == (trial.clock.now, str(TESTER))
    assert await take(trial) == []
    by = TESTER.at(trial.clock.now)
    returned = await trial.database.commit(put_back_tasks_any_account, trial.mode, [task.parcel_id], by=by)
    assert [each.parcel_id for each in returned] == [task.parcel_id]
    await trial.work()
    assert await trial.fetchval("SELECT state FROM registry_instructions") == "retired"
    assert await trial.database.commit(put_back_tasks_any_account, trial.mode, [task.parcel_id], by=by) == []


async def test_lines_of_a_file_and_new_ones_are_different_lines(live: Shop) -> None:
    await sold(live, "Ada")
    [old] = await take(live)
    ada = await live.account("Ada")
    await live.buy(ada, 2 * TONNE, "wind")
    await live.work()
    async with live.database.connection() as connection:
        lines = await list_tasks_any_account(connection, live.mode)
    assert [(each.parcel_id == old.parcel_id, each.quantity_grams) for each in lines] == [
        (True, TONNE),
        (False, 2 * TONNE),
    ]
    await live.confirm(old)
    [new] = await take(live)
    assert new.quantity_grams == 2 * TONNE
    await live.confirm(new)
    await live.work()
    assert await live.work_list() == []
    await live.check_supply()


async def test_commands(live: Shop, operator: Operator, tmp_path: Path) -> None:
    await sold(live, "Ada", "Berta")

    def lines(name: str, *options: str) -> list[dict[str, str]]:
        done = operator.runs("retirement", "export", "--mode", "live", "-o", str(tmp_path / name), *options)
        assert done.returncode == 0, done.stderr
        return list(csv.DictReader((tmp_path / name).read_text(encoding="utf-8-sig").splitlines()))

    first = lines("first.csv")
    assert (len(first), lines("second.csv")) == (2, [])
    again = lines("all.csv", "--all")
    assert [each["exported_by"][:4] for each in again] == ["cli:"] * 2
    id_ = first[0]["parcel_id"]
    back = operator.runs("retirement", "put-back", "--mode", "live", id_)
    assert "1 parcel of 1 t are on the work list again." in back.stdout
    assert [each["parcel_id"] for each in lines("third.csv")] == [id_]
    wrong = operator.runs("retirement", "put-back", "--mode", "live", "par_x")
    assert (wrong.returncode, "not lines of an exported file: par_x" in wrong.stderr) == (1, True)
